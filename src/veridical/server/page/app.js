// The page: fields in, one request, the result. Everything else is in the modules that this one joins.

import * as api from "./api.js";
import { conversationsIn, readRows } from "./cases.js";
import { readCase, readChecked } from "./checked.js";
import { h, replace } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { Form } from "./form.js";
import { labelLines } from "./labels.js";
import { Result } from "./result.js";
import { showRevision } from "./revision.js";
import { visible } from "./text.js";
import { themeButton } from "./theme.js";

const $ = (selector) => document.querySelector(selector);
const announce = (text) => {
  $("#status").textContent = text;
};
let running = null;
let offered = []; // the detectors of the server
let rows = []; // the cases and results of the files that were opened together
let at = 0; // which of them is shown
let saved = ""; // the lines of the labels that are in a file already
const unsaved = () => ![saved, ""].includes(labelLines(rows));
const mayLeave = () => !unsaved() || confirm("Labels are not saved. Go on without them?");

themeButton($("#theme"));
const form = new Form($("#form"), { read: readFile, fail, submit: check, open });
const result = new Result($("#result"), { announce, revise, map });
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
window.addEventListener("beforeunload", (event) => {
  if (unsaved()) event.preventDefault();
});
$("#stop").addEventListener("click", () => running?.abort());
$("#key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useKey($("#key").value);
  $("#key-form").hidden = true;
  clear();
  detectors();
});
replace(
  $("#examples"),
  EXAMPLES.map((example) =>
    h("button", { type: "button", class: "example", onclick: () => tryExample(example) }, h("b", {}, example.name), h("span", { class: "soft" }, example.about)),
  ),
);
detectors();

/** Offer what the server has, and look again while a detector is being loaded. */
async function detectors(looks = 30) {
  try {
    offered = (await api.getDetectors()).detectors;
    form.offer(offered);
    if (looks && offered.some((detector) => detector.problem)) setTimeout(() => detectors(looks - 1), 2000);
  } catch (error) {
    fail(error.message, error.status);
  }
}

function tryExample(example) {
  if (!mayLeave()) return;
  rows = [];
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
      showTurns(answer.results, body.detector);
      return;
    }
    show(answer.results[0], body.detector);
    if (rows.length) rows[at] = { ...rows[at], document: answer.results[0], content: null, names: body.detector };
  });
}

/** Show a result; `names` are the detectors that were asked, by default whoever judged. */
function show(document, names = document.judgements.map((judgement) => judgement.by)) {
  const checked = readChecked(document);
  $("#compose").hidden = true;
  $("#intro").hidden = true;
  result.show(checked, names.map((name) => offered.find((detector) => detector.name === name) ?? null));
}

/** Put a row for each turn of the assistant in the place of the conversations, and show the first. */
function showTurns(results, names) {
  const turns = results.map((document) => {
    const where = [rows[at]?.where, document.case.id].filter(Boolean).join(", ");
    return { where, document, content: null, names };
  });
  const first = rows.length ? at : 0;
  rows.splice(first, 1, ...turns);
  showRow(first);
}

function edit() {
  $("#compose").hidden = false;
  $("#result").hidden = true;
  form.response.focus();
}

async function revise(box, judge) {
  const { content, document: checked, thresholds } = result.checked;
  await busy("Revising …", async (signal) => {
    const detector = result.detectors[judge].name;
    const answer = await api.revise({ cases: [checked.case], detector, threshold: thresholds[judge] }, signal);
    const [document] = answer.results;
    showRevision(box, document, (text) => {
      form.fill({ ...content, response: text });
      check();
    });
    announce(`${document.revision.edits?.length ?? 0} edits. ${document.reason}`);
  });
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
    rows = found.flatMap((one) => one.rows);
    saved = labelLines(rows);
    const problems = found.flatMap((one) => one.problems);
    showRow(0);
    if (problems.length) fail(`${problems.length} of ${rows.length + problems.length} rows were not opened: ${problems.slice(0, 3).join("; ")}`);
  }
  return read.filter(([, one]) => !one).map(([name]) => name);
}

/** Show a case or result of the files that are open; what was typed into the one before is kept. */
function stepRow(by) {
  running?.abort();
  if (!$("#compose").hidden) rows[at] = { ...rows[at], document: null, content: form.content };
  clear();
  showRow(at + by);
}

function showRow(index) {
  at = index;
  const { where, document, content, names } = rows[at];
  sayRow();
  try {
    form.fill(content ?? readChecked(document).content);
    if (document) show(document, names);
    else edit();
  } catch (error) {
    edit();
    fail(`${where}: ${error.message}`);
  }
}

function sayRow() {
  $("#rows").hidden = rows.length < 2 && !rows[0]?.label;
  if ($("#rows").hidden) return;
  $("#row").textContent = visible(`Case ${at + 1} of ${rows.length} (${rows[at].where})`);
  $("#previous-row").disabled = at === 0;
  $("#next-row").disabled = at === rows.length - 1;
  const { label } = rows[at];
  $("#label").hidden = !label;
  $("#label-wrong").setAttribute("aria-pressed", String(label?.wrong === true));
  $("#label-right").setAttribute("aria-pressed", String(label?.wrong === false));
  announce($("#row").textContent);
}

/** Label the answer that is shown; the same label again takes it back. */
function labelRow(wrong) {
  const { label } = rows[at];
  label.wrong = label.wrong === wrong ? null : wrong;
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
