// What a reader decides about places of one response and its sources, with undo and redo, and the edits that follow.
// A resolution is {start, end, source, action, text, cut, reason, missed}: `source` is null in the response, `text` is what
// a replacement or addition puts in, `cut` is the sentence that a removal takes out.

import { blank } from "./text.js";

const NEAR = 5000; // characters; a sentence is looked for no further from its words
const OWN_REASON = "decided by a reader";

/** The resolution that everything else in the response is right. */
export const REST = { start: null, end: null, source: null, action: "rest" };

const alike = (one, other) => one.start === other.start && one.end === other.end && (one.source ?? null) === (other.source ?? null);
const overlap = (one, other) => one.start < Math.max(other.end, other.start + 1) && other.start < Math.max(one.end, one.start + 1);

export class Review {
  #past = [];
  #future = [];

  /** The review of a `response`, with what was decided before. */
  constructor(response, resolutions = [], changed = false) {
    this.response = response;
    this.resolutions = resolutions;
    this.sampled = []; // sentences that were drawn at random: {start, end}
    this.changed = changed; // whether something was decided here, and not only opened
  }

  /** The resolution of a place or finding, null where there is none. */
  of(place) {
    return this.resolutions.find((one) => alike(one, place)) ?? null;
  }

  /** Decide about a place. Of two replacements that overlap, the later one stays. */
  resolve(resolution) {
    const replaces = (one) => one.action === "replace" && resolution.action === "replace" && overlap(one, resolution);
    this.#become([...this.resolutions.filter((one) => !alike(one, resolution) && !replaces(one)), resolution]);
  }

  /** Take back what was decided about a place. */
  withdraw(place) {
    this.#become(this.resolutions.filter((one) => !alike(one, place)));
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  get canRedo() {
    return this.#future.length > 0;
  }

  undo() {
    this.#future.push(this.resolutions);
    this.resolutions = this.#past.pop();
  }

  redo() {
    this.#past.push(this.resolutions);
    this.resolutions = this.#future.pop();
  }

  #become(resolutions) {
    this.#past.push(this.resolutions);
    this.#future = [];
    this.changed = true;
    this.resolutions = resolutions;
  }
}

/** The edits that resolutions make to a response, in order and apart: {start, end, replacement, because}. */
export function editsOf(response, resolutions) {
  const because = (one) => one.reason || OWN_REASON;
  const edits = [];
  const removed = resolutions.filter((one) => one.action === "remove").sort((a, b) => a.cut.start - b.cut.start);
  for (const one of removed) {
    const last = edits.at(-1);
    if (last && one.cut.start <= last.end) {
      last.end = Math.max(last.end, one.cut.end);
      last.because = [...new Set([last.because, because(one)])].join("; ");
    } else edits.push({ ...one.cut, replacement: "", because: because(one) });
  }
  const cuts = [...edits];
  const replaced = resolutions.filter((one) => one.action === "replace" && !cuts.some((cut) => overlap(cut, one)));
  edits.push(...replaced.map((one) => ({ start: one.start, end: one.end, replacement: one.text, because: because(one) })));
  edits.sort((a, b) => a.start - b.start || a.end - b.end);
  const added = resolutions.filter((one) => one.action === "add");
  if (!added.length) return edits;
  const [end, texts] = [response.length, added.map((one) => one.text).join(" ")];
  const reason = [...new Set(added.map(because))].join("; ");
  if (edits.at(-1)?.end !== end) edits.push({ start: end, end, replacement: "", because: reason });
  const before = applied(response, edits);
  edits.at(-1).replacement += blank(before) || /\s$/.test(before) ? texts : ` ${texts}`;
  return edits;
}

/** A text after its edits. */
export function applied(text, edits) {
  let at = 0;
  const parts = [];
  for (const { start, end, replacement } of edits) {
    parts.push(text.slice(at, start), replacement);
    at = end;
  }
  return parts.join("") + text.slice(at);
}

/**
 * The sentences around a span, with the white space that is superfluous without them. `judged` are those of a detector,
 * which may leave out the full stop.
 */
export function sentenceAround(text, judged, span) {
  const known = widened(span, judged);
  const { start, end } = widened(known, sentencesNear(text, known));
  const before = text.slice(0, start);
  const after = text.slice(end);
  const preceding = before.slice(before.trimEnd().length);
  const following = after.slice(0, after.length - after.trimStart().length);
  const breaks = following.includes("\n") && preceding && !preceding.includes("\n");
  if (blank(after) || breaks) return { start: start - preceding.length, end };
  return { start, end: end + following.length };
}

function widened(span, sentences) {
  const around = sentences.filter((sentence) => overlap(sentence, span));
  return { start: Math.min(span.start, ...around.map((one) => one.start)), end: Math.max(span.end, ...around.map((one) => one.end)) };
}

function sentencesNear(text, span) {
  const from = Math.max(span.start && text.lastIndexOf("\n", span.start - 1) + 1, span.start - NEAR);
  const line = text.indexOf("\n", span.end);
  const to = Math.min(line < 0 ? text.length : line, span.end + NEAR);
  const segments = new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text.slice(from, to));
  return Array.from(segments, ({ index, segment }) => ({ start: from + index, end: from + index + segment.trimEnd().length }));
}
