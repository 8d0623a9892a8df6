// Files of cases and of results: every row of them is kept, and the one that is shown says which it is.

import { readCase } from "./checked.js";
import { labelOf } from "./labels.js";

/**
 * The cases and results in a file of JSON or JSON Lines, in order, and a line for each row that is neither; null where no row
 * is one, so that the file is an ordinary text.
 */
export function readRows(name, text) {
  const rows = [];
  const problems = [];
  for (const [place, document] of documents(text)) {
    const where = place === null ? name : `${name}:${place}`;
    if (document?.veridical === "check/2") rows.push({ where, document, content: null });
    else if (isCase(document)) rows.push({ where, document: null, content: contentOf(document), label: labelOf(document) });
    else problems.push(`${where}: neither a case nor a result`);
  }
  return rows.length ? { rows, problems } : null;
}

function documents(text) {
  const whole = parsed(text);
  if (Array.isArray(whole)) return whole.map((document, i) => [i + 1, document]);
  if (whole !== null) return [[null, whole]];
  const lines = text.split("\n").map((line, i) => [i + 1, line]);
  return lines.filter(([, line]) => line.trim()).map(([number, line]) => [number, parsed(line)]);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isCase(document) {
  return typeof document?.response === "string" || document?.response === null;
}

/** A case as a person may write it: texts may be null, sources bare texts and without ids. */
function contentOf(document) {
  const sources = [document.sources ?? []].flat().map((source, i) => ({ id: String(i + 1), ...(typeof source === "object" ? source : { text: source }) }));
  return readCase({ ...document, response: document.response ?? "", sources: sources.map((source) => ({ ...source, text: source.text ?? "" })) });
}
