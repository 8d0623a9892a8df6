// Requests to the server that this page comes from, and nowhere else.

/** What the server refused, in one line; `status` is 0 where it was not reached. */
class ServerError extends Error {
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
export const getDetectors = () => json("v1/detectors");

/** The check document ("check/2") of one case. */
export const check = (body, signal) => json("v1/check", { body, signal });

/** The revised document ("revised/1") of one case. */
export const revise = (body, signal) => json("v1/revise", { body, signal });

/** The salience maps of one case, by detector. */
export const salience = (body, signal) => json("v1/salience", { body, signal });

/** The text of a file (PDF, Word, Excel, HTML, Markdown or plain text), where its pages begin, and notes on it. */
export function readDocument(file) {
  const form = new FormData();
  form.append("file", file);
  return json("v1/documents", { form });
}

/** The HTML page of results, as a Blob. */
export const report = (body) => blob("v1/report", { body });

/** A page of the runs of the history. */
export const getRuns = (query, signal) => json(`v1/runs?${query}`, { signal });

/** A run with its numbers of cases by outcome. */
export const getRun = (run, signal) => json(path(run), { signal });

/** The values to filter the cases of a run by. */
export const getFacets = (run, signal) => json(`${path(run)}/facets`, { signal });

/** The decided cases of a run as a Blob, in the form "examples", "csv" or "label-studio". */
export const getExamples = (run, form, signal) => blob(`${path(run)}/examples?form=${form}`, { signal });

/** Draw unflagged sentences of a run at random; gives back how many. */
export const drawSample = (run, signal) => json(`${path(run)}/sample`, { method: "POST", signal });

/** How many sentences of a run are decided, and what is missing to learn from them. */
export const getDecisions = (run, signal) => json(`${path(run)}/decisions`, { signal });

/** Fit the detector of a run by the decisions about it, as the version `name`; gives back what that gains. */
export const learn = (run, name, signal) => json(`${path(run)}/calibrations?name=${encodeURIComponent(name)}`, { method: "POST", signal });

/** The versions of fitted thresholds and probabilities, and which ones checks use. */
export const getCalibrations = (signal) => json("v1/calibrations", { signal });

/** Let checks use a version, or stop using it. */
export const activate = (name, active, signal) => request(`v1/calibrations/${encodeURIComponent(name)}?active=${active}`, { method: "PUT", signal });

/** Delete a run. */
export const deleteRun = (run, signal) => request(path(run), { method: "DELETE", signal });

/** How two runs over the same cases differ; `offset` cases that differ are left out. */
export const getComparison = (run, other, offset, signal) => json(`${path(run)}/compare/${encodeURIComponent(other)}?offset=${offset}`, { signal });

/** The shares of flagged cases in runs of the same name, oldest first. */
export const getTrend = (run, signal) => json(`${path(run)}/trend`, { signal });

/** A page of the cases of a run. */
export const getCases = (run, query, signal) => json(`${path(run)}/cases?${query}`, { signal });

/** A case of a run with its texts and decisions. */
export const getCase = (run, number, signal) => json(`${path(run)}/cases/${number}`, { signal });

/** Store the decisions about a case; gives back their version. */
export const putDecisions = (run, number, body, signal) => json(`${path(run)}/cases/${number}/decisions`, { method: "PUT", body, signal });

/** Delete a case. */
export const deleteCase = (run, number, signal) => request(`${path(run)}/cases/${number}`, { method: "DELETE", signal });

/** Import a file of rows; gives back its run. */
export function importFile(file, { detector, explain }, signal) {
  const query = new URLSearchParams([["name", file.name], ["explain", String(explain)], ...detector.map((name) => ["detector", name])]);
  return json(`v1/runs?${query}`, { file, signal });
}

const json = async (path, options) => (await request(path, options)).json();

const blob = async (path, options) => (await request(path, options)).blob();

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
