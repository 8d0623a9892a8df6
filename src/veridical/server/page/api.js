// Requests to the server that this page comes from, and nowhere else.

/** What the server refused, in one line; `status` is 0 where it was not reached. */
export class ServerError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

let key = null;

/** The API key that requests carry from now on; kept in memory only. */
export function useKey(given) {
  key = given || null;
}

/** The detectors of the server. */
export async function getDetectors() {
  return (await request("v1/detectors")).json();
}

/** The check document ("check/2") of one case. */
export async function check(body, signal) {
  return (await request("v1/check", { body, signal })).json();
}

/** The revised document ("revised/1") of one case. */
export async function revise(body, signal) {
  return (await request("v1/revise", { body, signal })).json();
}

/** The salience maps of one case, by detector. */
export async function salience(body, signal) {
  return (await request("v1/salience", { body, signal })).json();
}

/** The text of a file (PDF, Word, Excel, HTML, Markdown or plain text), where its pages begin, and notes on it. */
export async function readDocument(file) {
  const form = new FormData();
  form.append("file", file);
  return (await request("v1/documents", { form })).json();
}

/** The HTML page of results, as a Blob. */
export async function report(body) {
  return (await request("v1/report", { body })).blob();
}

async function request(path, { body, form, signal } = {}) {
  const headers = {};
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body || form ? "POST" : "GET", headers, body: form ?? (body && JSON.stringify(body)), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server was not reached. Is it still running?");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const answer = await response.json().catch(() => ({}));
  const message = typeof answer.error === "string" ? answer.error : `The server answered with status ${response.status}`;
  const line = answer.hint ? `${message} (${answer.hint})` : message;
  const wait = response.headers.get("Retry-After");
  return new ServerError(wait ? `${line} Try again in ${wait} s.` : line, response.status);
}
