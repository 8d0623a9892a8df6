// What the page says of one judgement: findings in order, marks for the texts, and the outcome in words.

import { coverageUnknown, flaggedRuns, unjudged, unjudgedOf } from "./decide.js";
import { count, number, shorten } from "./text.js";

const PASSAGE = 20; // characters

/** "Flagged", "Clear", "Not fully judged". */
export const OUTCOMES = { flagged: "Flagged", clear: "Clear", no_claim: "No claim", unjudged: "Not fully judged" };

const DONE = { replace: "Corrected", remove: "Removed", wrong: "Wrong", keep: "Kept", add: "Added" };

/** What a reader decided about a finding, in a word; null where nothing was. */
export const decidedOn = (finding) => DONE[finding.resolution?.action] ?? null;

/**
 * The findings of a judgement as it is decided: flagged spans of the response in order, then omissions by source.
 * `others` are verdicts below the threshold that cite a source or state a claim.
 */
export function findingsOf(content, judgement, decision) {
  const { span, source } = decision.thresholds;
  const flagged = flaggedRuns(content, judgement, decision).map((run, i) => ({
    key: `f${i}`,
    kind: "flag",
    start: run.start,
    end: run.end,
    score: Math.max(...run.verdicts.map((verdict) => verdict.score)),
    threshold: span,
    words: shorten(content.response.slice(run.start, run.end), 300) || "(a place)",
    label: run.verdicts[0].label,
    error: run.verdicts[0].error,
    reason: run.verdicts[0].reason,
    correction: run.verdicts[0].correction,
    claim: run.verdicts[0].claim,
    evidence: merged(run.verdicts.flatMap((verdict) => verdict.evidence)),
  }));
  const order = new Map(content.sources.map((item, i) => [item.id, { i, text: item.text }]));
  const omissions = decision.omissions
    .map((i) => judgement.omissions[i])
    .sort((a, b) => order.get(a.source).i - order.get(b.source).i || a.start - b.start)
    .map((omission, i) => ({
      key: `o${i}`,
      kind: "omit",
      ...omission,
      threshold: source,
      words: shorten(order.get(omission.source).text.slice(omission.start, omission.end), 300),
      evidence: [],
    }));
  const isFlagged = new Set(decision.verdicts);
  const others = judgement.verdicts
    .filter((verdict, i) => !isFlagged.has(i) && (verdict.claim || verdict.evidence.length))
    .map((verdict, i) => ({
      key: `b${i}`,
      kind: "backed",
      ...verdict,
      evidence: merged(verdict.evidence),
      threshold: span,
      words: shorten(content.response.slice(verdict.start, verdict.end), 300),
    }));
  [...flagged, ...omissions].forEach((finding, i) => (finding.number = i + 1));
  return { flagged, omissions, others, all: [...flagged, ...omissions] };
}

/** Each place once, with its highest weight; passages come before single words, which say less. */
function merged(evidence) {
  const best = new Map();
  for (const piece of evidence) {
    const key = placeKey(piece);
    if (!best.has(key) || best.get(key).weight < piece.weight) best.set(key, piece);
  }
  const isWord = ({ start, end }) => end - start < PASSAGE;
  return [...best.values()].sort((a, b) => isWord(a) - isWord(b) || b.weight - a.weight);
}

/** The key of a place in a source, the same for all that cite it. */
export function placeKey({ source, start, end }) {
  return `e${encodeURIComponent(source)}:${start}-${end}`;
}

/** Marks for the response, and for the edits that the reader decided on where `findings` has them. */
export function responseMarks(content, judgement, { flagged, others, missed = [], samples = [], edits = [] }) {
  const marks = [...flagged, ...missed, ...samples, ...others].map((finding) => ({
    start: finding.start,
    end: finding.end,
    key: finding.key,
    kind: [finding.kind, finding.start === finding.end && "place", finding.resolution?.action].filter(Boolean).join(" "),
    href: `#${finding.key}`,
    label: [{ flag: `flagged, ${number(finding.score ?? 0, finding.threshold)}`, missed: "reported", sample: "drawn at random" }[finding.kind] ?? "has evidence"].concat(decidedOn(finding)?.toLowerCase() ?? []).join(", "),
  }));
  marks.push(...editMarks(edits));
  const gaps = unjudged(content, judgement).map((gap, i) => ({ ...gap, key: `u${i}`, kind: "unjudged", label: "not judged" }));
  return [...marks, ...gaps];
}

/** Marks for edits of a text. */
export function editMarks(edits) {
  return edits.map(({ start, end, replacement }, i) => ({ start, end, key: `c${i}`, kind: "gone", label: start < end ? "taken out" : null, insert: replacement }));
}

/** Marks for the sources by id, and which keys belong together: a finding and the places that it cites. */
export function sourceMarks(content, judgement, { omissions, flagged, others }) {
  const marks = new Map(content.sources.map((source) => [source.id, []]));
  const related = new Map();
  const relate = (a, b) => {
    if (!related.has(a)) related.set(a, new Set());
    related.get(a).add(b);
  };
  for (const omission of omissions) {
    const label = `left out, ${number(omission.score, omission.threshold)}`;
    const { start, end, key } = omission;
    marks.get(omission.source).push({ start, end, key, kind: "omit", href: `#${key}`, label });
  }
  for (const finding of [...flagged, ...others]) {
    for (const piece of finding.evidence) {
      const key = placeKey(piece);
      if (!related.has(key)) {
        const { start, end } = piece;
        marks.get(piece.source).push({ start, end, key, kind: "evidence", href: `#${finding.key}`, label: "cited" });
      }
      relate(finding.key, key);
      relate(key, finding.key);
    }
  }
  for (const source of content.sources) {
    const gaps = unjudgedOf(source, judgement);
    marks.get(source.id).push(...gaps.map((gap, i) => ({ ...gap, key: `g${i}`, kind: "unjudged", label: "not judged" })));
  }
  return { marks, related };
}

/** The outcome of a judgement in a sentence or two; "not judged" is always said. */
export function summary(content, judgement, decision, { flagged, omissions }) {
  const parts = [];
  if (flagged.length) parts.push(`${count(flagged.length, "passage")} of the response ${flagged.length === 1 ? "is" : "are"} not backed${content.sources.length ? " by the sources" : ""}.`);
  else if (decision.hallucination) parts.push("The response as a whole is flagged, though no passage of it is.");
  if (omissions.length) parts.push(`${count(omissions.length, "passage")} of the sources ${omissions.length === 1 ? "is" : "are"} left out.`);
  else if (decision.omission) parts.push("As a whole, the sources that must be covered are not.");
  parts.push(...notJudged(content, judgement));
  if (!parts.length && decision.outcome === "clear") parts.push("All of it was judged, and nothing reaches the threshold.");
  if (decision.outcome === "unjudged") parts.push("Nothing is flagged, but that is not the same as clear.");
  return parts.join(" ");
}

/** What was not judged, one sentence each. */
function notJudged(content, judgement) {
  const gaps = unjudged(content, judgement);
  const characters = gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0);
  const parts = [];
  if (judgement.noClaim) return ["The response makes no claim, so there is nothing to judge."];
  const nothing = judgement.hallucination === null && judgement.verdicts.length === 0;
  if (nothing && judgement.omission === null && judgement.omissions.length === 0) parts.push("This detector gave no score.");
  else if (characters) parts.push(`${count(characters, "character")} of the response were not judged.`);
  if (coverageUnknown(content, judgement)) parts.push("Whether the sources are covered was not judged.");
  return parts;
}
