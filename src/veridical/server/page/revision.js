// A revised response: what was taken out and put in, why, and the scores before and after. The reader's own revision follows
// from what they decided, another is suggested by the server.

import { h, replace } from "./dom.js";
import { FORMS } from "./exports.js";
import { editMarks } from "./findings.js";
import { showText } from "./marked_text.js";
import { applied } from "./review.js";
import { count, number, places, visible } from "./text.js";

/**
 * Fill `box` with the reader's own revision: `edits` of a response, by which `use(text)` has the new text checked,
 * `save(form)` saves it in a form of exports.js, and `saveExamples()` saves the decisions as labels.
 */
export function showOwnRevision(box, { response, edits, decided, rest }, { use, save, saveExamples, toggleRest }) {
  const button = (text, onclick, attributes = {}) => h("button", { type: "button", class: "quiet small", onclick, ...attributes }, text);
  replace(
    box,
    edits.length
      ? [
          h("p", { class: "lead" }, `Your revision: ${count(edits.length, "edit")}.`),
          diff(response, edits),
          h("ol", { class: "edits" }, edits.map((edit) => editRow(response, edit))),
          taking(applied(response, edits), use),
          h("p", { class: "actions" }, FORMS.map((form) => button(form.name, () => save(form)))),
        ]
      : h("p", { class: "soft" }, "What you decide about the findings changes the text here."),
    h("h2", {}, "Labels"),
    h("p", { class: "soft" }, "Your decisions as labels measure and train detectors. Without “Nothing else is wrong”, only what you decided about counts."),
    h(
      "p",
      { class: "actions" },
      button("Nothing else is wrong", toggleRest, { "data-action": "rest", "aria-pressed": String(rest) }),
      button("Save labelled examples", saveExamples, { disabled: !decided }),
    ),
  );
}

/** Fill `box` with a "revised/1" document; `use(text)` is called when the reader takes the revision. */
export function showRevision(box, document, use) {
  const original = document.case.response;
  const { of } = places(original);
  const edits = (document.revision.edits ?? []).map((edit) => ({ ...edit, start: of(edit.span.start), end: of(edit.span.end) }));
  const text = document.revision.text;
  const after = document.after ?? null;
  const scores = [document.before.hallucination, after?.hallucination].map((score) => (score === undefined || score === null ? "not scored" : number(score)));
  replace(
    box,
    h("p", { class: "lead" }, edits.length ? `${count(edits.length, "edit")}. ` : "Nothing was changed. ", h("span", { class: "soft" }, sentence(document.reason))),
    h("dl", { class: "before-after" }, h("div", {}, h("dt", {}, "Score before"), h("dd", {}, scores[0])), h("div", {}, h("dt", {}, "after"), h("dd", {}, scores[1]))),
    diff(original, edits),
    edits.length ? h("ol", { class: "edits" }, edits.map((edit) => editRow(original, edit))) : null,
    edits.length ? taking(text, use) : null,
  );
}

function taking(text, use) {
  const copied = h("span", { class: "soft", role: "status" });
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    copied.textContent = "Copied";
  };
  return h(
    "p",
    { class: "actions" },
    h("button", { type: "button", class: "primary", onclick: () => use(text) }, "Use this text and check it"),
    h("button", { type: "button", class: "quiet", onclick: copy }, "Copy"),
    copied,
  );
}

const sentence = (line) => (line ? `${visible(line[0].toUpperCase() + line.slice(1))}.` : "");

function diff(original, edits) {
  const box = h("div", { class: "text response diff" });
  showText(box, original, editMarks(edits));
  return box;
}

function change(tag, text, spoken) {
  return text ? h(tag, {}, h("span", { class: "hidden" }, ` [${spoken}: `), visible(text), h("span", { class: "hidden" }, "] ")) : null;
}

function editRow(original, edit) {
  const taken = original.slice(edit.start, edit.end).trim();
  const given = edit.replacement.trim();
  return h(
    "li",
    {},
    taken ? change("del", taken, "taken out") : null,
    taken && given ? " → " : null,
    given ? change("ins", given, "put in") : null,
    !taken && !given ? "white space" : null,
    edit.because ? h("p", { class: "soft", dir: "auto" }, sentence(edit.because)) : null,
  );
}
