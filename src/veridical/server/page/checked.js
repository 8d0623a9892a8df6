// A check document of the server ("check/2") as the page works with it: defaults filled in, spans as places in strings.

import { LEVELS, decide, overall } from "./decide.js";
import { places } from "./text.js";

const NOT_SHOWN = ["id", "history", "prompt"]; // fields of a case that are checked as they were given
const DEFAULT = Object.fromEntries(LEVELS.map((level) => [level, 0.5]));

/** The content of a document; throws an Error with one line where it is not what it says. */
export function readChecked(document) {
  if (document?.veridical !== "check/2") throw new Error("This is not a result of a check that this page can read.");
  const texts = new Map((document.case.sources ?? []).map((source) => [source.id, places(source.text)]));
  const pages = new Map((document.case.sources ?? []).map((source) => [source.id, source.pages ?? []]));
  const inResponse = placing(places(document.case.response));
  const inSource = (id, span) => {
    if (!texts.has(id)) throw new Error(`The result speaks of a source "${id}" that is not there.`);
    const page = pages.get(id).filter((start) => start <= span.start).length;
    return { source: id, page, ...placing(texts.get(id))(span) };
  };
  const content = readCase(document.case);
  const judgements = document.judgements.map((given) => readJudgement(given, inResponse, inSource));
  const thresholds = document.decisions.map((decision) => ({ ...DEFAULT, ...decision.thresholds }));
  return { document, content, judgements, thresholds, own: thresholds.map((own) => ({ ...own })) };
}

/** A case of a document. */
export function readCase(given) {
  const sources = (given.sources ?? []).map((source) => ({
    id: source.id,
    text: source.text,
    perspective: source.perspective ?? null,
    mustCover: source.must_cover ?? false,
    citation: source.citation ?? null,
    metadata: source.metadata ?? null,
    pages: source.pages ?? [],
  }));
  const kept = Object.fromEntries(NOT_SHOWN.filter((name) => given[name] != null).map((name) => [name, given[name]]));
  return { id: given.id, response: given.response, question: given.question ?? null, sources, kept };
}

/** The judgements with what is decided on them at the thresholds as they are now. */
export function decided(checked) {
  const pairs = checked.judgements.map((judgement, i) => [judgement, decide(checked.content, judgement, checked.thresholds[i])]);
  return { decisions: pairs.map(([, decision]) => decision), outcome: overall(checked.content, checked.judgements, pairs.map((p) => p[1])) };
}

/** The document with the decisions as they are now: what is shared is what is seen. */
export function withDecisions({ document }, { decisions, outcome }) {
  const written = decisions.map((decision) => ({
    thresholds: Object.fromEntries(LEVELS.map((level) => [level, decision.thresholds[level]])),
    outcome: decision.outcome,
    hallucination: decision.hallucination,
    omission: decision.omission,
    verdicts: decision.verdicts,
    omissions: decision.omissions,
  }));
  return { ...document, decisions: written, outcome };
}

/** A function from spans of JSON to places in a text; it throws an Error where a span points outside of it. */
export function placing({ length, of }) {
  return ({ start, end }) => {
    if (!(0 <= start && start <= end && end <= length)) throw new Error("The result points outside of its texts.");
    return { start: of(start), end: of(end) };
  };
}

function readJudgement(given, inResponse, inSource) {
  return {
    by: given.by,
    hallucination: given.hallucination ?? null,
    omission: given.omission ?? null,
    verdicts: (given.verdicts ?? []).map((verdict) => readVerdict(verdict, inResponse, inSource)),
    sentences: (given.sentences ?? []).map((sentence) => readVerdict(sentence, inResponse, inSource)),
    omissions: (given.omissions ?? []).map((omission) => ({
      ...inSource(omission.source_id, omission.span),
      score: omission.score,
      reason: omission.reason ?? null,
    })),
    judged: given.judged?.map(inResponse) ?? null,
    noClaim: given.no_claim ?? false,
    judgedSources: given.judged_sources?.map((judged) => inSource(judged.source_id, judged.span)) ?? null,
    notes: given.notes ?? [],
    usage: given.usage ?? null,
    reason: given.reason ?? null,
  };
}

function readVerdict(verdict, inResponse, inSource) {
  const claim = verdict.claim && { text: verdict.claim.text, spans: (verdict.claim.spans ?? []).map(inResponse) };
  return {
    ...inResponse(verdict.span),
    score: verdict.score,
    label: verdict.label ?? null,
    error: verdict.kind ?? null,
    claim: claim ?? null,
    reason: verdict.reason ?? null,
    correction: verdict.correction ?? null,
    evidence: (verdict.evidence ?? [])
      .map((piece) => ({ ...inSource(piece.source_id, piece.span), weight: piece.weight ?? 1 })),
  };
}
