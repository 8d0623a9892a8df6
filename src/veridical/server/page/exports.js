// What a reader decided, as files: the revised text, a revision ("revision/1"), and labelled examples ("example/1").

import { REST, applied, editsOf } from "./review.js";
import { places } from "./text.js";

const BY = "human:page";

/** The files of one row, each with the text of its button. */
export const FORMS = [
  { name: "Save the text", file: "revision.txt", write: ({ review }) => applied(review.response, editsOf(review.response, review.resolutions)) },
  { name: "Save as Markdown", file: "revision.md", write: markdown },
  { name: "Save the edits as JSON", file: "revision.json", write: (row) => `${JSON.stringify(revisionOf(row), null, 1)}\n` },
];

/** The labelled examples of all rows that have decisions or came with a label, as JSON Lines. */
export function exampleLines(rows) {
  const labelled = rows.filter((row) => row.document && (row.review?.resolutions.length || row.gold));
  const taken = new Set();
  return labelled.map((row) => `${JSON.stringify(exampleOf(row, free(idOf(row), taken)))}\n`).join("");
}

/** The revised text, and under it a list of the changes. */
function markdown({ review }) {
  const { response, resolutions } = review;
  const edits = editsOf(response, resolutions);
  const plain = (text) => text.trim().replace(/\s+/g, " ").replace(/[\\`*_~[\]<>#|]/g, "\\$&");
  const changes = edits.map(({ start, end, replacement, because }) => {
    const [old, given] = [plain(response.slice(start, end)), plain(replacement)];
    return `- ${[old && `~~${old}~~`, given && `**${given}**`].filter(Boolean).join(" → ")} (${plain(because)})\n`;
  });
  return `${applied(response, edits)}\n${changes.length ? `\n## Changes\n\n${changes.join("")}` : ""}`;
}

function revisionOf(row) {
  const { response, resolutions } = row.review;
  const edits = editsOf(response, resolutions);
  const span = spanner(response);
  const written = edits.map((edit) => ({ span: span(edit), replacement: edit.replacement, because: edit.because }));
  return { veridical: "revision/1", case_id: idOf(row), edits: written, text: applied(response, edits) };
}

/** The case with gold verdicts from the decisions. Unless nothing else is wrong, only decided places count as judged. */
function exampleOf(row, id) {
  const { review } = row;
  const annotations = row.example?.annotations?.map((one) => ({ ...one, case_id: id }));
  const example = { ...row.example, annotations };
  const document = { ...row.document.case, id };
  if (!review.resolutions.length) return { veridical: "example/1", case: document, gold: { ...row.gold, case_id: id }, ...example };
  const all = review.of(REST) !== null;
  const resolved = review.resolutions.filter((one) => one.start !== null).sort((a, b) => a.start - b.start || a.end - b.end);
  const inResponse = resolved.filter((one) => one.source == null);
  const inSources = resolved.filter((one) => one.source != null);
  const spans = new Map((row.document.case.sources ?? []).map((source) => [source.id, spanner(source.text)]));
  const span = spanner(review.response);
  const isWrong = (one) => one.action !== "keep";
  const verdicts = inResponse.map((one) => ({ span: span(one), score: Number(isWrong(one)), ...(isWrong(one) ? detailsOf(one) : {}) }));
  const omissions = inSources.map((one) => ({ source_id: one.source, span: spans.get(one.source)(one), score: Number(isWrong(one)) }));
  const gold = {
    case_id: id, by: BY, verdicts, omissions,
    ...given(row, "hallucination"),
    ...given(row, "omission"),
    ...scored("hallucination", inResponse.some(isWrong), all),
    ...(omissions.length || row.document.case.sources?.some((source) => source.must_cover) ? scored("omission", inSources.some(isWrong), all) : {}),
    ...(all ? {} : { judged: [...(row.gold?.judged ?? []), ...inResponse.filter((one) => one.end > one.start).map(span)], judged_sources: [...(row.gold?.judged_sources ?? []), ...omissions.map(({ source_id, span: place }) => ({ source_id, span: place }))] }),
  };
  return { veridical: "example/1", case: document, gold, ...example };
}

const given = ({ gold }, name) => (gold?.[name] == null ? {} : { [name]: gold[name] });

const scored = (name, wrong, all) => (wrong || all ? { [name]: Number(wrong) } : {});

function detailsOf({ action, text, reason, label, error }) {
  const details = { label, kind: error, reason, correction: action === "replace" ? text : null };
  return Object.fromEntries(Object.entries(details).filter(([, value]) => value != null));
}

/** The id of a row's case; one that the file did not name is called by its place there. */
function idOf({ document, where, unnamed }) {
  return unnamed && where ? where : document.case.id;
}

/** `id`, with a number where a case before has it. */
function free(id, taken) {
  let name = id;
  for (let i = 2; taken.has(name); i += 1) name = `${id} (${i})`;
  taken.add(name);
  return name;
}

function spanner(text) {
  const { offset } = places(text);
  return ({ start, end }) => ({ start: offset(start), end: offset(end) });
}
