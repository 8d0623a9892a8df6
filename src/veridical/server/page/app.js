// The page: fields in, one request, the result. Everything else is in the modules that this one joins.

import { addressOf, readAddress } from "./addresses.js";
import * as api from "./api.js";
import { conversationsIn, readRows } from "./cases.js";
import { readCase, readChecked } from "./checked.js";
import { Desk } from "./desk.js";
import { h, replace } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { exampleLines } from "./exports.js";
import { Form, dropTarget } from "./form.js";
import { keepCase, keepCases, keepReview, keptCases, newRun } from "./kept.js";
import { labelLines } from "./labels.js";
import { Result } from "./result.js";
import { Review } from "./review.js";
import { showRevision } from "./revision.js";
import { decisionsOf, storedReview } from "./stored.js";
import { visible } from "./text.js";
import { themeButton } from "./theme.js";

const $ = (selector) => document.querySelector(selector);
const announce = (text) => {
  $("#status").textContent = visible(text);
};
let running = null;
let offered = []; // the detectors of the server
let rows = []; // the cases and results of the files that were opened together
let at = 0; // which of them is shown
let run = newRun(); // the name by which the rows are kept
let saved = ""; // the lines of the labels that are in a file already
let filled = ""; // what was in the form before anything was typed into it
let reviews = false; // whether decisions go to the history of the server
let saving = Promise.resolve(); // the decisions that are on their way to it
let kept = true; // whether the browser keeps all of the rows
let exported = ""; // the lines of the decisions that are in a file already
const unsavedLabels = () => ![saved, ""].includes(labelLines(rows));
const unsavedDecisions = () => rows.some((row) => row.review?.changed) && exampleLines(rows) !== exported;
const mayLeave = () => !(unsavedLabels() || unsavedDecisions()) || confirm("Labels or decisions are not saved. Go on without them?");

themeButton($("#theme"));
const form = new Form($("#form"), { read: readFile, fail, submit: check, open });
const result = new Result($("#result"), { announce, revise, map, own: { use, save: saveRevision, saveExamples }, reviewed: keepDecisions, selected: noteFinding });
const desk = new Desk($("#desk"), { form, announce, busy, fail, save });
desk.onGo = () => go();
dropTarget($("#desk"), (files) => desk.take(files));
$("#edit").addEventListener("click", edit);
$("#share").addEventListener("click", share);
$("#save").addEventListener("click", () => save("veridical.json", new Blob([JSON.stringify(result.document, null, 1)], { type: "application/json" })));
$("#previous").addEventListener("click", () => result.step(-1));
$("#next").addEventListener("click", () => result.step(1));
$("#previous-row").addEventListener("click", () => stepRow(-1));
$("#next-row").addEventListener("click", () => stepRow(1));
$("#label-wrong").addEventListener("click", () => labelRow(true));
$("#label-right").addEventListener("click", () => labelRow(false));
$("#save-labels").addEventListener("click", () => {
  saved = labelLines(rows);
  save("labels.jsonl", new Blob([saved], { type: "application/json" }));
});
window.addEventListener("pagehide", keepForm);
window.addEventListener("popstate", () => {
  keepForm();
  go();
});
window.addEventListener("beforeunload", (event) => {
  if (unsavedLabels() || (!kept && unsavedDecisions())) event.preventDefault();
});
$("#stop").addEventListener("click", () => running?.abort());
$("#key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useKey($("#key").value);
  $("#key-form").hidden = true;
  clear();
  detectors().then(go);
});
replace(
  $("#examples"),
  EXAMPLES.map((example) =>
    h("button", { type: "button", class: "example", onclick: () => tryExample(example) }, h("b", {}, example.name), h("span", { class: "soft" }, example.about)),
  ),
);
detectors().then(go);

/** Offer what the server has, and look again while a detector is being loaded. */
async function detectors(looks = 30) {
  try {
    const { detectors: found, history: keeps, role } = await api.getDetectors();
    offered = found;
    form.offer(offered);
    desk.role = role;
    reviews = keeps && role !== "check";
    $("#to-history").hidden = !reviews;
    $("#to-check").hidden = !reviews;
    if (looks && offered.some((detector) => detector.problem)) setTimeout(() => detectors(looks - 1), 2000);
  } catch (error) {
    fail(error.message, error.status);
  }
}

function tryExample(example) {
  if (!mayLeave()) return;
  openRows([]);
  sayRow();
  edit();
  form.fill(readCase(example.case));
  $("#form").requestSubmit();
}

async function check() {
  clear();
  const conversations = conversationsIn(form.response.value);
  let body;
  try {
    const { sources } = form.case;
    const cases = conversations.map((each) => ({ ...each, sources: [each.sources ?? [], sources].flat() }));
    body = { cases: cases.length ? cases : [form.case], detector: form.detectors, explain: form.explain.checked, include: ["sources"] };
    if (!body.detector.length) throw new Error("No detector is ticked: choose at least one.");
  } catch (error) {
    fail(error.message);
    return;
  }
  await busy("Checking …", async (signal) => {
    const answer = await api.check(body, signal);
    if (conversations.length) {
      showTurns(answer, body.detector);
      return;
    }
    const [document] = answer.results;
    rows[at] = { where: "", ...rows[at], document, content: null, names: body.detector, view: "result", ...storedAs(answer.run, 1) };
    show(rows[at]);
    said(keepCase(run, at, rows[at]));
  });
}

/** Show the result of a row; `names` are the detectors that were asked, by default whoever judged. */
function show(row) {
  const { document, names = document.judgements.map((judgement) => judgement.by) } = row;
  const checked = readChecked(document);
  const { response } = checked.content;
  if (row.review?.response !== response) Object.assign(row, { review: new Review(response), gold: null, example: { ...row.example, annotations: undefined } }); // they are about another text
  $("#compose").hidden = true;
  $("#intro").hidden = true;
  row.view = "result";
  visit("result");
  result.show(checked, names.map((name) => offered.find((detector) => detector.name === name) ?? null), row.review);
}

function saveRevision(form) {
  save(form.file, new Blob([form.write(rows[at])], { type: "text/plain" }));
}

/** Save the labels of all cases that are open. */
function saveExamples() {
  exported = exampleLines(rows);
  save("examples.jsonl", new Blob([exported], { type: "application/json" }));
}

/** Put a row for each turn of the assistant in the place of the conversations, and show the first. */
function showTurns({ results, run: stored }, names) {
  const { where: place, example } = rows[at] ?? {};
  const turns = results.map((document, i) => {
    const where = [place, document.case.id].filter(Boolean).join(", ");
    return { where, document, content: null, names, example, view: "result", ...storedAs(stored, i + 1) };
  });
  const first = rows.length ? at : 0;
  openRows(rows.toSpliced(first, 1, ...turns));
  showRow(first);
}

function edit() {
  visit("form");
  $("#compose").hidden = false;
  $("#result").hidden = true;
  form.response.focus();
}

async function revise(box, judge) {
  const { document: checked, thresholds } = result.checked;
  await busy("Revising …", async (signal) => {
    const detector = result.detectors[judge].name;
    const answer = await api.revise({ cases: [checked.case], detector, threshold: thresholds[judge] }, signal);
    const [document] = answer.results;
    showRevision(box, document, use);
    announce(`${document.revision.edits?.length ?? 0} edits. ${document.reason}`);
  });
}

/** Check a revised text in the place of the response. */
function use(text) {
  form.fill({ ...result.checked.content, response: text });
  check();
}

/** The salience map of a judgement, null where there is none. */
async function map(judge) {
  let found = null;
  await busy("Asking for the map …", async (signal) => {
    const body = { cases: [result.checked.document.case], detector: [result.detectors[judge].name] };
    found = (await api.salience(body, signal)).maps[0][0];
  });
  return found;
}

async function share() {
  await busy("Writing the page …", async () => {
    save("veridical-report.html", await api.report({ results: [result.document], heat: true }));
    announce("The report was saved as veridical-report.html");
  });
}

/** Take texts of files of JSON, as [name, text]; gives back the names of those that hold neither cases nor results. */
function open(files) {
  const read = files.map(([name, text]) => [name, readRows(name, text)]);
  const found = read.map(([, one]) => one).filter(Boolean);
  if (found.length && mayLeave()) {
    running?.abort(); // its result is about the texts before
    openRows(found.flatMap((one) => one.rows));
    saved = labelLines(rows);
    const problems = found.flatMap((one) => one.problems);
    showRow(0);
    if (problems.length) fail(`${problems.length} of ${rows.length + problems.length} rows were not opened: ${problems.slice(0, 3).join("; ")}`);
  }
  return read.filter(([, one]) => !one).map(([name]) => name);
}

/** Take `given` in the place of the cases that are open. */
function openRows(given) {
  keepForm();
  rows = given;
  at = 0;
  run = newRun();
  kept = true;
  said(keepCases(run, rows));
}

/** The number of the case before or after in the list of its run, or the index of the row; undefined where there is none. */
function neighbour(by) {
  const { stored } = rows[at];
  if (!stored || rows.length > 1) return rows[at + by] && { index: at + by };
  const i = desk.run?.id === stored.run ? desk.listed.indexOf(stored.number) : -1;
  const number = i < 0 ? undefined : desk.listed[i + by];
  return number && { number };
}

/** Show a case or result of the files that are open; what was typed into the one before is kept. */
function stepRow(by) {
  const { number } = neighbour(by);
  if (number) {
    location.hash = addressOf({ ...rows[at].stored, number });
    return;
  }
  running?.abort();
  keepForm();
  if (!$("#compose").hidden) rows[at].view = "form";
  clear();
  showRow(at + by);
}

/** Show a row as it was left, or in another view. */
function showRow(index, view = rows[index].view) {
  at = index;
  const { where, document, content } = rows[at];
  sayRow();
  try {
    form.fill(content ?? readChecked(document).content);
    if (document && view !== "form") show(rows[at]);
    else edit();
  } catch (error) {
    edit();
    fail(`${where}: ${error.message}`);
  }
}

function sayRow() {
  const { stored, label, where } = rows[at] ?? {};
  const ofRun = stored && rows.length === 1;
  $("#rows").hidden = rows.length < 2 && !label && !ofRun;
  if ($("#rows").hidden) return;
  $("#row").textContent = ofRun ? `Case ${stored.number}` : visible(`Case ${at + 1} of ${rows.length} (${where})`);
  $("#previous-row").disabled = !neighbour(-1);
  $("#next-row").disabled = !neighbour(1);
  $("#to-run").hidden = !stored;
  if (stored) $("#to-run").href = addressOf({ run: stored.run, query: desk.run?.id === stored.run ? desk.query : null });
  $("#label").hidden = !label;
  $("#label-wrong").setAttribute("aria-pressed", String(label?.wrong === true));
  $("#label-right").setAttribute("aria-pressed", String(label?.wrong === false));
  announce($("#row").textContent);
}

/** Keep what is typed into the form, so that it is there again after a reload. */
function keepForm() {
  if ($("#compose").hidden || JSON.stringify(form.content) === filled) return;
  rows[at] = { where: "", ...rows[at], content: form.content, view: "form" };
  said(keepCase(run, at, rows[at]));
}

function keepDecisions() {
  const [row, of, i] = [rows[at], run, at];
  said(keepReview(of, i, row));
  if (!row.stored || !row.review) return;
  row.review.changed = true;
  saving = saving.then(() => storeDecisions(row, of, i));
}

/** Store the decisions about a row in the history, in place of those that were stored before; this tab keeps their version. */
async function storeDecisions(row, of, i) {
  const { stored, review, document } = row;
  try {
    const decisions = decisionsOf(readChecked(document).content, review);
    const { version } = await api.putDecisions(stored.run, stored.number, { decisions, version: stored.version });
    stored.version = version;
    review.changed = false;
    const fits = keepReview(of, i, row);
    if (row === rows[at]) said(fits);
  } catch (error) {
    fail(error.status === 409 ? "Somebody else decided about this case meanwhile: reload the page to see it. Your last decision is not saved." : error.message, error.status);
  }
}

/** Where a result is in the history. */
function storedAs(run, number) {
  return { stored: run && reviews ? { run, number, version: 0 } : null };
}

/** Put the finding that is looked at into the address. */
function noteFinding(finding) {
  const { stored } = rows[at] ?? {};
  if (stored && readAddress(location.hash)) history.replaceState(history.state, "", addressOf({ ...stored, finding }));
}

/** Show what the address names: a part of the history, or else what this tab keeps. */
async function go() {
  running?.abort();
  const address = readAddress(location.hash);
  if (address === null) {
    desk.hide();
    restore(history.state);
  } else if (address.number === null) {
    for (const part of ["#compose", "#result", "#intro", "#rows"]) $(part).hidden = true;
    await desk.show(address);
  } else await showStored(address);
}

/** Show a case of the history. */
async function showStored({ run: of, number, finding }) {
  await busy("Reading the case …", async (signal) => {
    const { document, decisions, version, fields, sampled, row: about } = await api.getCase(of, number, signal);
    desk.hide();
    if (document?.veridical !== "check/2") throw new Error(about.problem || "This case is not judged yet.");
    const { content } = readChecked(document);
    const { document: named, group } = fields;
    const example = { ...(named == null ? {} : { document: String(named) }), ...(group == null ? {} : { group: [["group", String(group)]] }) };
    const row = { where: `case ${number}`, document, content: null, view: "result", example, review: storedReview(content, decisions, sampled), stored: { run: of, number, version } };
    rows = [row];
    at = 0;
    run = newRun();
    kept = true;
    form.fill(content);
    sayRow();
    show(row);
    said(true);
    if (finding) result.select(finding);
  });
}

/** Say where texts and decisions are, and whether they survive a reload. */
function said(fits) {
  kept &&= fits;
  if (rows[at]?.stored) $("#kept").textContent = rows[at].review?.changed ? "Saving …" : "Decisions are saved in the history of this server.";
  else $("#kept").textContent = kept
    ? "Texts and decisions stay in this tab until you close it."
    : "These texts do not survive a reload here: save your decisions.";
}

/** Note what is shown, so that Back and a reload return to it. */
function visit(view) {
  filled = JSON.stringify(form.content);
  const { state } = history;
  const here = readAddress(location.hash);
  const { stored } = (view === "result" && rows.length === 1 && rows[0]) || {};
  if (stored && here?.run === stored.run && here.number === stored.number) return; // the address says it
  if (!here && state?.run === run && state.at === at && state.view === view) return;
  history[state || here ? "pushState" : "replaceState"]({ run, at, view }, "", stored ? addressOf(stored) : location.pathname);
}

/** Return to what was shown. */
function restore(state) {
  if (!state) {
    if (rows[at]?.stored) openRows([]);
    for (const part of ["#compose", "#intro"]) $(part).hidden = false;
    $("#result").hidden = true;
    sayRow();
    visit("form");
    return;
  }
  running?.abort();
  clear();
  if (state.run !== run) [rows, run] = [keptCases(state.run), state.run];
  if (rows[state.at]) {
    showRow(state.at, state.view);
    return;
  }
  rows = [];
  at = 0;
  sayRow();
  edit();
}

/** Label the answer that is shown; the same label again takes it back. */
function labelRow(wrong) {
  const { label } = rows[at];
  label.wrong = label.wrong === wrong ? null : wrong;
  keepDecisions();
  sayRow();
}

async function readFile(file) {
  return api.readDocument(file);
}

/** Run `work` while the page says so; an error becomes one line, and nothing of what is shown is lost. */
async function busy(text, work) {
  running?.abort();
  const own = new AbortController();
  running = own;
  clear();
  document.body.classList.add("busy");
  $("#busy-text").textContent = text;
  $("#busy").hidden = false;
  announce(text);
  try {
    await work(own.signal);
  } catch (error) {
    if (error.name !== "AbortError") fail(error.message, error.status);
    else if (running === own) announce("Stopped");
  }
  if (running !== own) return;
  running = null;
  document.body.classList.remove("busy");
  $("#busy").hidden = true;
}

function fail(line, status = 0) {
  $("#error-text").textContent = visible(line);
  $("#error").hidden = false;
  $("#key-form").hidden = status !== 401;
  if (status === 401) $("#key").focus();
}

function clear() {
  $("#error").hidden = true;
}

$("#dismiss").addEventListener("click", clear);

function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
