// The labels and other fields of a row that was opened: its gold as decisions, and what an example keeps beside case and gold.

import { placing } from "./checked.js";
import { REST, Review } from "./review.js";
import { places } from "./text.js";

const USED = ["veridical", "gold", "id", "response", "sources", "question", "history", "prompt", "spans", "document", "group"]; // of a case or label
const CONVERSATION = ["messages", "system", "assistant", "tools"];
export const OTHER_NAMES = { sources: ["retrieved_contexts", "contexts", "context"], response: ["answer"], question: ["user_input"] }; // RAGAS, Hugging Face
const POSITIVE = 0.5; // the lowest gold score that means wrong

/** The fields of an example beside its case and gold. Fields of a row that no case has become groups, by their names. */
export function exampleIn(row) {
  const { document, group, annotations } = row;
  if (row.veridical === "example/1") return present({ document, group, annotations });
  const known = new Set([...USED, ...Object.values(OTHER_NAMES).flat(), ...(Array.isArray(row.messages) ? CONVERSATION : [])]);
  const others = Object.entries(row).filter(([name]) => !known.has(name));
  const flat = others.flatMap(([name, value]) => (name === "metadata" && isObject(value) ? Object.entries(value).map(([key, one]) => [`metadata.${key}`, one]) : [[name, value]]));
  const pairs = [...flat, ["group", group]].filter(([, value]) => value != null).map(([name, value]) => [name, text(value)]);
  pairs.sort(([a], [b]) => (a < b ? -1 : Number(a > b)));
  return present({ document: document == null ? null : text(document), group: pairs.length ? pairs : null });
}

/**
 * The labels of an example, or of a row with a column `spans`, as decisions on its content; null where there are none.
 * Throws an Error where they are no spans of its texts.
 */
export function reviewIn({ gold, spans }, content) {
  if (gold) return new Review(content.response, decisionsOf(content, gold));
  if (!Array.isArray(spans)) return null;
  const place = placing(places(content.response));
  const pairs = spans.map((span) => (Array.isArray(span) ? { start: span[0], end: span[1] } : span));
  return new Review(content.response, [...pairs.map((span) => ({ ...place(span), source: null, action: "wrong", missed: true })), REST]);
}

function decisionsOf({ response, sources }, gold) {
  const place = placing(places(response));
  const verdicts = (gold.verdicts ?? []).map(({ span, score, label, kind, reason, correction }) => ({
    ...place(span), source: null, label, error: kind, reason, missed: score >= POSITIVE,
    ...(score < POSITIVE ? { action: "keep" } : correction == null ? { action: "wrong" } : { action: "replace", text: correction }),
  }));
  const texts = new Map(sources.map((source) => [source.id, placing(places(source.text))]));
  const omissions = (gold.omissions ?? []).map(({ source_id: source, span, score }) => ({
    ...texts.get(source)(span), source, action: score < POSITIVE ? "keep" : "wrong",
  }));
  return [...verdicts, ...omissions, ...(gold.judged || !(gold.verdicts?.length || gold.hallucination === 0) ? [] : [REST])];
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const present = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null));
