// Deciding about findings: the buttons and keys for one finding, the form for an error that no detector found, undo and redo.

import { h, replace } from "./dom.js";
import { decidedOn } from "./findings.js";
import { selectedSpan } from "./marked_text.js";
import { editsOf, sentenceAround } from "./review.js";
import { count, shorten } from "./text.js";

const KEYS = { a: "use", e: "edit", r: "remove", w: "wrong", k: "keep" };

/** The findings with what was decided about each, the errors that the reader reported, sentences of a random sample, and the edits that follow. */
export function reviewed(findings, content, review) {
  for (const finding of [...findings.all, ...findings.others]) finding.resolution = review.of(finding);
  const missed = review.resolutions.filter((one) => one.missed && !findings.flagged.some(({ resolution }) => resolution === one));
  missed.sort((a, b) => a.start - b.start);
  findings.missed = missed.map((one, i) => ({
    ...one, key: `m${i}`, kind: "missed", number: findings.all.length + i + 1, correction: null, evidence: [],
    words: shorten(content.response.slice(one.start, one.end), 300), resolution: one,
  }));
  findings.all.push(...findings.missed);
  findings.samples = review.sampled.map(({ start, end }, i) => ({
    start, end, source: null, key: `s${i}`, kind: "sample", number: findings.all.length + i + 1, correction: null, evidence: [],
    words: shorten(content.response.slice(start, end), 300), resolution: review.of({ start, end }),
  }));
  findings.all.push(...findings.samples);
  findings.edits = editsOf(content.response, review.resolutions);
  return findings;
}

/** `root` is the result; `changed()` is called after each decision, `selected()` gives the finding that is looked at. */
export class Reviewing {
  constructor(root, { announce, changed, selected }) {
    this.root = root;
    this.announce = announce;
    this.changed = changed;
    this.selected = selected;
    this.part = (name) => root.querySelector(`[data-part="${name}"]`);
    this.part("undo").addEventListener("click", () => this.#undo());
    this.part("redo").addEventListener("click", () => this.#redo());
    this.part("report-error").addEventListener("pointerdown", (event) => event.preventDefault()); // keeps what is selected
    this.part("report-error").addEventListener("click", () => this.report());
    this.part("missed").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add();
    });
    this.part("missed").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#closeReport();
    });
    this.part("missed-cancel").addEventListener("click", () => this.#closeReport());
  }

  /** Work on the review of a checked case. */
  show(checked, review) {
    this.content = checked.content;
    this.review = review;
    this.part("missed").hidden = true;
  }

  /** Say how much is decided. */
  update(findings, judgement) {
    this.judgement = judgement;
    const done = findings.all.filter((finding) => finding.resolution).length;
    this.part("progress").textContent = findings.all.length ? `${done} of ${count(findings.all.length, "finding")} decided` : "";
    this.part("undo").disabled = !this.review.canUndo;
    this.part("redo").disabled = !this.review.canRedo;
  }

  /** Handle a key; gives back whether it is one of these. */
  key(event) {
    const finding = this.selected();
    if (event.key === "u") this.#undo();
    else if (event.key === "U") this.#redo();
    else if (event.key === "m") this.report();
    else if (KEYS[event.key] && finding) this.part("inspector").querySelector(`[data-action="${KEYS[event.key]}"]`)?.click();
    else return false;
    event.preventDefault(); // the letter would be typed into the field that opens
    return true;
  }

  /** The buttons for a finding. */
  actions(finding) {
    const { resolution, correction } = finding;
    const omitted = finding.kind === "omit";
    const box = h("div", { class: "resolve", role: "group", "aria-label": "Your decision" });
    const known = correction !== null && correction !== undefined && !omitted;
    const button = (action, text, key, pressed, decide) =>
      h(
        "button",
        {
          type: "button", class: "quiet small", "data-action": action, "aria-pressed": action === "edit" ? null : String(pressed), "aria-keyshortcuts": key,
          onclick: () => (pressed && action !== "edit" ? this.#withdraw(finding) : decide()),
        },
        text, " ", h("kbd", { "aria-hidden": "true" }, key),
      );
    const is = (action) => resolution?.action === action;
    const used = is("replace") && resolution.text === correction;
    const edit = () => this.#edit(box, finding, omitted ? "add" : "replace", resolution?.text ?? correction);
    replace(
      box,
      known ? button("use", correction ? `Use “${shorten(correction, 40)}”` : "Take these words out", "a", used, () => this.#resolve(finding, "replace", { text: correction })) : null,
      button("edit", omitted ? "Add to the response" : "Edit", "e", false, edit),
      omitted ? null : button("remove", "Remove the sentence", "r", is("remove"), () => this.#resolve(finding, "remove", { cut: sentenceAround(this.content.response, this.judgement.sentences, finding) })),
      button("wrong", omitted ? "Left out, no change" : "Wrong, no change", "w", is("wrong"), () => this.#resolve(finding, "wrong")),
      finding.kind === "missed"
        ? button("keep", "Withdraw", "k", false, () => this.#withdraw(finding))
        : button("keep", omitted ? "Not needed" : finding.kind === "sample" ? "It is right" : "Keep as it is", "k", is("keep"), () => this.#resolve(finding, "keep")),
    );
    return box;
  }

  /** Open the form for an error that was not found, with the words that are selected. */
  report() {
    const span = selectedSpan(this.part("view"), this.content.response);
    const form = this.part("missed");
    this.span = span;
    form.hidden = false;
    const words = this.part("missed-words");
    words.value = span ? this.content.response.slice(span.start, span.end) : "";
    this.part("missed-reason").value = "";
    this.part("missed-text").value = "";
    this.part("missed-problem").textContent = "";
    (span ? this.part("missed-reason") : words).focus();
  }

  #add() {
    const words = this.part("missed-words").value;
    const { response } = this.content;
    let { span } = this;
    if (!span || response.slice(span.start, span.end) !== words) {
      const start = words.trim() ? response.indexOf(words) : -1;
      span = start < 0 ? null : { start, end: start + words.length };
    }
    if (!span) {
      this.part("missed-problem").textContent = words.trim() ? "These words are not in the response: copy them from it." : "Select or type the words that are wrong.";
      this.part("missed-words").focus();
      return;
    }
    const text = this.part("missed-text").value;
    this.review.resolve({
      ...span, source: null, missed: true, reason: this.part("missed-reason").value.trim() || null,
      ...(text ? { action: "replace", text } : { action: "wrong" }),
    });
    this.part("missed").hidden = true;
    this.changed(span);
    this.announce(`Error added: ${shorten(words, 80)}`);
  }

  #closeReport() {
    this.part("missed").hidden = true;
    this.part("report-error").focus();
  }

  #edit(box, finding, action, text) {
    const area = h("textarea", { rows: 3, dir: "auto", "aria-label": action === "add" ? "Text to add at the end of the response" : "Text in the place of these words" });
    area.value = text ?? this.#words(finding);
    const form = h(
      "form",
      {
        class: "edit-finding",
        onsubmit: (event) => {
          event.preventDefault();
          this.#resolve(finding, action, { text: area.value });
        },
        onkeydown: (event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            this.changed(finding);
          } else if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            form.requestSubmit();
          }
        },
      },
      area,
      h("p", { class: "actions" }, h("button", { class: "primary small" }, "Use this text"), h("button", { type: "button", class: "quiet small", onclick: () => this.changed(finding) }, "Cancel")),
    );
    replace(box, form);
    area.focus();
    area.select();
  }

  #words({ source, start, end }) {
    const text = source != null ? this.content.sources.find((one) => one.id === source).text : this.content.response;
    return text.slice(start, end);
  }

  #resolve(finding, action, details = {}) {
    const { start, end, source = null, reason = null, label = null, error = null, missed } = finding;
    this.review.resolve({ start, end, source, reason, label, error, missed, action, ...details });
    this.changed(finding);
    this.announce(`${decidedOn({ resolution: { action } })}: ${shorten(finding.words, 80)}`);
  }

  #withdraw(finding) {
    this.review.withdraw(finding);
    this.changed(finding);
    this.announce(`Taken back: ${shorten(finding.words, 80)}`);
  }

  #undo() {
    if (!this.review.canUndo) return this.announce("There is nothing to undo");
    this.review.undo();
    this.changed();
    return this.announce(`Undone. ${this.part("progress").textContent}`);
  }

  #redo() {
    if (!this.review.canRedo) return this.announce("There is nothing to do again");
    this.review.redo();
    this.changed();
    return this.announce(`Done again. ${this.part("progress").textContent}`);
  }
}
