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

/** The detectors of the server; whether it keeps a history, and the role of the key. */
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

/** A page of the runs of the history. */
export async function getRuns(query, signal) {
  return (await request(`v1/runs?${query}`, { signal })).json();
}

/** A run with its numbers of cases by outcome. */
export async function getRun(run, signal) {
  return (await request(path(run), { signal })).json();
}

/** The values to filter the cases of a run by. */
export async function getFacets(run, signal) {
  return (await request(`${path(run)}/facets`, { signal })).json();
}

/** The decided cases of a run as a Blob, in the form "examples", "csv" or "label-studio". */
export async function getExamples(run, form, signal) {
  return (await request(`${path(run)}/examples?form=${form}`, { signal })).blob();
}

/** Draw unflagged sentences of a run at random; gives back how many. */
export async function drawSample(run, signal) {
  return (await request(`${path(run)}/sample`, { method: "POST", signal })).json();
}

/** How many sentences of a run are decided, and what is missing to learn from them. */
export async function getDecisions(run, signal) {
  return (await request(`${path(run)}/decisions`, { signal })).json();
}

/** Fit the detector of a run by the decisions about it, as the version `name`; gives back what that gains. */
export async function learn(run, name, signal) {
  return (await request(`${path(run)}/calibrations?name=${encodeURIComponent(name)}`, { method: "POST", signal })).json();
}

/** The versions of fitted thresholds and probabilities, and which ones checks use. */
export async function getCalibrations(signal) {
  return (await request("v1/calibrations", { signal })).json();
}

/** Let checks use a version, or stop using it. */
export async function activate(name, active, signal) {
  await request(`v1/calibrations/${encodeURIComponent(name)}?active=${active}`, { method: "PUT", signal });
}

/** Delete a run. */
export async function deleteRun(run, signal) {
  await request(path(run), { method: "DELETE", signal });
}

/** How two runs over the same cases differ; `offset` cases that differ are left out. */
export async function getComparison(run, other, offset, signal) {
  return (await request(`${path(run)}/compare/${encodeURIComponent(other)}?offset=${offset}`, { signal })).json();
}

/** The shares of flagged cases in runs of the same name, oldest first. */
export async function getTrend(run, signal) {
  return (await request(`${path(run)}/trend`, { signal })).json();
}

/** A page of the cases of a run. */
export async function getCases(run, query, signal) {
  return (await request(`${path(run)}/cases?${query}`, { signal })).json();
}

/** A case of a run with its texts and decisions. */
export async function getCase(run, number, signal) {
  return (await request(`${path(run)}/cases/${number}`, { signal })).json();
}

/** Store the decisions about a case; gives back their version. */
export async function putDecisions(run, number, body, signal) {
  return (await request(`${path(run)}/cases/${number}/decisions`, { method: "PUT", body, signal })).json();
}

/** Delete a case. */
export async function deleteCase(run, number, signal) {
  await request(`${path(run)}/cases/${number}`, { method: "DELETE", signal });
}

/** Import a file of rows; gives back its run. */
export async function importFile(file, { detector, explain }, signal) {
  const query = new URLSearchParams([["name", file.name], ["explain", String(explain)], ...detector.map((name) => ["detector", name])]);
  return (await request(`v1/runs?${query}`, { file, signal })).json();
}

const path = (run) => `v1/runs/${encodeURIComponent(run)}`;

async function request(path, { method, body, form, file, signal } = {}) {
  const headers = {};
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  if (file) headers["Content-Type"] = "application/octet-stream";
  let response;
  try {
    response = await fetch(path, { method: method ?? (body || form || file ? "POST" : "GET"), headers, body: form ?? file ?? (body && JSON.stringify(body)), signal });
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
