// A revised response: what was taken out and put in, why, and the scores before and after.

import { h, replace } from "./dom.js";
import { count, number, places, visible } from "./text.js";

/** Fill `box` with a "revised/1" document; `use(text)` is called when the reader takes the revision. */
export function showRevision(box, document, use) {
  const original = document.case.response;
  const { of } = places(original);
  const edits = (document.revision.edits ?? []).map((edit) => ({ ...edit, start: of(edit.span.start), end: of(edit.span.end) }));
  const text = document.revision.text;
  const after = document.after ?? null;
  const scores = [document.before.hallucination, after?.hallucination].map((score) => (score === undefined || score === null ? "not scored" : number(score)));
  const copied = h("span", { class: "soft", role: "status" });
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    copied.textContent = "Copied";
  };
  replace(
    box,
    h("p", { class: "lead" }, edits.length ? `${count(edits.length, "edit")}. ` : "Nothing was changed. ", h("span", { class: "soft" }, sentence(document.reason))),
    h("dl", { class: "before-after" }, h("div", {}, h("dt", {}, "Score before"), h("dd", {}, scores[0])), h("div", {}, h("dt", {}, "after"), h("dd", {}, scores[1]))),
    h("div", { class: "text response diff", dir: "auto" }, diff(original, edits)),
    edits.length ? h("ol", { class: "edits" }, edits.map((edit) => editRow(original, edit))) : null,
    edits.length
      ? h(
          "p",
          { class: "actions" },
          h("button", { type: "button", class: "primary", onclick: () => use(text) }, "Use this text and check it"),
          h("button", { type: "button", class: "quiet", onclick: copy }, "Copy"),
          copied,
        )
      : null,
  );
}

const sentence = (line) => (line ? `${visible(line[0].toUpperCase() + line.slice(1))}.` : "");

function diff(original, edits) {
  const parts = [];
  let at = 0;
  for (const edit of edits) {
    parts.push(visible(original, at, edit.start), change("del", original.slice(edit.start, edit.end), "taken out"), change("ins", edit.replacement, "put in"));
    at = edit.end;
  }
  return [...parts, visible(original, at)];
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
