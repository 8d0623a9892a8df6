// From scores to decisions, as veridical.records.decide makes them, so that a threshold can be moved without asking again.
// Works on the cases and judgements of checked.js, whose spans are places in JavaScript strings.

import { blank } from "./text.js";

export const LEVELS = ["response", "span", "coverage", "source"];
const GAP = 3;
const SEPARATORS = /[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029.!?;:…。！？；：｡؟۔།॥]/;

/** What one judgement results in at `thresholds`: indices of what is flagged, and its own outcome. */
export function decide(content, judgement, thresholds) {
  const sentences = judgement.sentences.filter((sentence) => sentence.score >= thresholds.response);
  const decision = {
    thresholds,
    hallucination: judgement.hallucination === null ? null : judgement.hallucination >= thresholds.response,
    omission: judgement.omission === null ? null : judgement.omission >= thresholds.coverage,
    verdicts: judgement.sentences.length ? inside(judgement, sentences, thresholds.span) : indices(judgement.verdicts, thresholds.span),
    omissions: indices(judgement.omissions, thresholds.source),
  };
  decision.outcome = overall(content, [judgement], [decision]);
  return decision;
}

function indices(scored, threshold) {
  return scored.flatMap((item, i) => (item.score >= threshold ? [i] : []));
}

/** The verdicts that begin in one of `sentences`: from `threshold` on, else the one with the highest score. */
function inside(judgement, sentences, threshold) {
  const marked = new Set();
  for (const sentence of sentences) {
    const there = [...judgement.verdicts.keys()].filter(
      (i) => sentence.start <= judgement.verdicts[i].start && judgement.verdicts[i].start < sentence.end,
    );
    const above = there.filter((i) => judgement.verdicts[i].score >= threshold);
    const highest = there.sort((a, b) => judgement.verdicts[b].score - judgement.verdicts[a].score).slice(0, 1);
    for (const i of above.length ? above : highest) marked.add(i);
  }
  return [...marked].sort((a, b) => a - b);
}

/** The outcome of all judgements together: flagged if any is; clear only what was judged whole on every side. */
export function overall(content, judgements, decisions) {
  if (decisions.some((d) => d.hallucination || d.omission || d.verdicts.length || d.omissions.length)) return "flagged";
  let responseJudged = false;
  let sourcesJudged = false;
  let noClaim = false;
  for (const judgement of judgements) {
    const covered = coversSources(content, judgement);
    sourcesJudged ||= covered;
    noClaim ||= judgement.noClaim;
    if (judgement.noClaim) continue;
    const scored = judgement.hallucination !== null || judgement.verdicts.length > 0 || (judgement.judged ?? []).length > 0;
    const something = !blank(content.response) && !(judgement.judged && judgement.judged.length === 0);
    const complete = scored && something && unjudged(content, judgement).length === 0;
    const scoresResponse = judgement.hallucination !== null || judgement.verdicts.length > 0 || judgement.judged !== null;
    if ((scoresResponse && !complete) || !(complete || covered)) return "unjudged";
    responseJudged ||= complete;
  }
  if (!sourcesJudged || !(responseJudged || noClaim)) return "unjudged";
  return responseJudged ? "clear" : "no_claim";
}

/** The parts of the response that were not judged and hold more than white space. */
export function unjudged(content, judgement) {
  return judgement.judged === null || judgement.noClaim ? [] : left(content.response, judgement.judged);
}

/** The parts of a source that had to be covered where nothing is known of that. */
export function unjudgedOf(source, judgement) {
  if (!source.mustCover || judgement.judgedSources === null) return [];
  return left(source.text, judgement.judgedSources.filter((span) => span.source === source.id));
}

/** Whether sources had to be covered and the judgement does not say whether they are. */
export function coverageUnknown(content, judgement) {
  const required = content.sources.some((source) => source.mustCover);
  return required && judgement.omission === null && judgement.omissions.length === 0;
}

function coversSources(content, judgement) {
  if (content.sources.some((source) => unjudgedOf(source, judgement).length > 0)) return false;
  if (judgement.omission !== null) return true;
  const scored = new Set(judgement.omissions.map((omission) => omission.source));
  return content.sources.every((source) => !source.mustCover || blank(source.text) || scored.has(source.id));
}

function left(text, spans) {
  const parts = [];
  let at = 0;
  for (const { start, end } of [...sorted(spans), { start: text.length, end: text.length }]) {
    if (start > at && !blank(text.slice(at, start))) parts.push({ start: at, end: start });
    at = Math.max(at, end);
  }
  return parts;
}

const sorted = (spans) => [...spans].sort((a, b) => a.start - b.start || a.end - b.end);

/** Flagged verdicts as runs that read as one: alike in label, error, reason and correction, and next to each other. */
export function flaggedRuns(content, judgement, decision) {
  const runs = [];
  const alike = new Map();
  for (const i of decision.verdicts) {
    const verdict = judgement.verdicts[i];
    if (verdict.claim || verdict.start === verdict.end) {
      runs.push({ start: verdict.start, end: verdict.end, verdicts: [verdict] });
      continue;
    }
    const key = JSON.stringify([verdict.label, verdict.error, verdict.reason, verdict.correction]);
    if (!alike.has(key)) alike.set(key, []);
    alike.get(key).push(verdict);
  }
  for (const verdicts of alike.values()) {
    let run = null;
    for (const verdict of sorted(verdicts)) {
      if (run && (verdict.start <= run.end || joins(content.response.slice(run.end, verdict.start)))) {
        run.end = Math.max(run.end, verdict.end);
        run.verdicts.push(verdict);
      } else {
        run = { start: verdict.start, end: verdict.end, verdicts: [verdict] };
        runs.push(run);
      }
    }
  }
  return sorted(runs);
}

function joins(gap) {
  return [...gap].length <= GAP && !/[\p{L}\p{N}]/u.test(gap) && !SEPARATORS.test(gap);
}
