// Files of cases, conversations and results: every row of them is kept, and the one that is shown says which it is.

import { readCase } from "./checked.js";
import { OTHER_NAMES, exampleIn, reviewIn } from "./gold.js";
import { labelOf } from "./labels.js";

/**
 * The cases, conversations and results in a file of JSON or JSON Lines, in order, and a line for each row that is none of
 * them; null where no row is one, so that the file is an ordinary text.
 */
export function readRows(name, text) {
  const rows = [];
  const problems = [];
  for (const [place, read] of documents(text)) {
    const document = renamed(read);
    const where = place === null ? name : `${name}:${place}`;
    const given = document?.veridical === "example/1" ? document.case : document;
    const row = { where, document: null, content: null, unnamed: given?.id == null };
    if (document?.veridical === "check/2") rows.push({ ...row, document, unnamed: false });
    else if (isCase(given)) {
      const content = contentOf(given);
      try {
        rows.push({ ...row, content, label: labelOf(given), gold: document.gold ?? null, example: exampleIn(document), review: reviewIn(document, content) });
      } catch {
        problems.push(`${where}: its labels are not spans of its texts`);
      }
    } else if (isConversation(document)) rows.push({ ...row, content: conversationContent(document), example: exampleIn(document) });
    else problems.push(`${where}: neither a case, a conversation nor a result`);
  }
  return rows.length ? { rows, problems } : null;
}

/** The conversations in a text that was pasted as a response, without other fields of a request; none in any other text. */
export function conversationsIn(text) {
  const found = documents(text).map(([, document]) => document);
  return found.every(isConversation) ? found.map(conversationOf) : [];
}

/** The documents of a text with their places, null for all of it; a list of messages is one conversation. */
function documents(text) {
  const whole = parsed(text);
  if (whole !== null && !Array.isArray(whole)) return [[null, whole]];
  const lines = whole?.map((document, i) => [i + 1, document]) ?? parsedLines(text);
  const messages = lines.map(([, document]) => document);
  return messages.length && messages.every(isMessage) ? [[null, { messages }]] : lines;
}

function parsedLines(text) {
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

/** A row with columns of sources by another name, with the names of a case; any other row as it is. */
function renamed(row) {
  if (!OTHER_NAMES.sources.some((name) => row?.[name])) return row;
  const values = Object.entries(OTHER_NAMES).map(([name, others]) => [name, [name, ...others].map((each) => row[each]).find((value) => value != null)]);
  return { ...row, ...Object.fromEntries(values) };
}

function isCase(document) {
  return typeof document?.response === "string" || document?.response === null;
}

function isConversation(document) {
  return Array.isArray(document?.messages) && !isCase(document);
}

/** Whether this is a message in one of the forms that the server reads. */
function isMessage(document) {
  if (Array.isArray(document)) return document.length === 2 && document.every((text) => typeof text === "string");
  return ["role", "type", "lc"].some((name) => document?.[name] !== undefined) && !isCase(document) && !isConversation(document);
}

/** A conversation is edited, and checked, as its JSON in the place of a response. */
function conversationContent(document) {
  return readCase({ response: JSON.stringify(conversationOf(document), null, 1) });
}

/** The fields of a conversation that the server reads; logged requests have others, such as the model. */
function conversationOf(document) {
  return Object.fromEntries(["id", "messages", "sources", "system", "assistant"].filter((name) => name in document).map((name) => [name, document[name]]));
}

/** A case as a person may write it: texts may be null, sources bare texts and without ids. */
function contentOf(document) {
  const sources = [document.sources ?? []].flat().map((source, i) => ({ id: String(i + 1), ...(typeof source === "object" ? source : { text: source }) }));
  return readCase({ ...document, response: document.response ?? "", sources: sources.map((source) => ({ ...source, text: source.text ?? "" })) });
}
