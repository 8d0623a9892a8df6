// The finding that is looked at: its words, its score, why, what the source has instead, and the passages behind it.

import { h, icon, replace } from "./dom.js";
import { placeKey } from "./findings.js";
import { count, number, shorten, visible } from "./text.js";

const SHOWN = 5; // passages
const KINDS = { flag: "Not backed", omit: "Left out", backed: "Below the threshold", missed: "Reported error", sample: "Drawn at random: is it right?" };
const LABELS = new Map([["contradiction", "a source says otherwise"], ["absence", "no source speaks of it"]]);

/** Fill `box` with a finding; `go(key)` shows a passage of a source, `back()` returns to the text, `step(n)` goes on; `actions` are the buttons to decide with. */
export function showFinding(box, content, finding, total, { go, back, step, actions }) {
  const texts = new Map(content.sources.map((source) => [source.id, source.text]));
  const title = finding.number ? `${KINDS[finding.kind]} · ${finding.number} of ${total}` : KINDS[finding.kind];
  const further = finding.evidence.length - SHOWN;
  const evidence = finding.evidence.slice(0, SHOWN).map((piece) =>
    h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "quote", onclick: () => go(placeKey(piece)) },
        h("span", { class: "soft" }, h("bdi", {}, visible(piece.source)), piece.page ? `, page ${piece.page}` : "", piece.weight < 1 ? ` · weight ${number(piece.weight)}` : ""),
        h("q", { dir: "auto" }, shorten(texts.get(piece.source).slice(piece.start, piece.end), 220)),
      ),
    ),
  );
  replace(
    box,
    h(
      "header",
      {},
      h("h2", { id: "finding-title" }, title),
      h(
        "div",
        { class: "steps" },
        stepButton("previous", "Previous finding", () => step(-1), total < 2 && finding.number),
        stepButton("next", "Next finding", () => step(1), total < 2 && finding.number),
        stepButton("remove", "Close, back to the text", back),
      ),
    ),
    h("blockquote", { dir: "auto", class: finding.kind }, finding.words),
    h("div", { class: "meter-row" }, finding.score == null ? null : meter(finding), finding.label ? h("span", { class: "chip" }, visible(LABELS.get(finding.label) ?? finding.label)) : null, finding.error ? h("span", { class: "chip" }, visible(finding.error)) : null),
    finding.claim ? row("Claim", finding.claim.text) : null,
    finding.correction !== null && finding.correction !== undefined ? row("The source has", h("ins", {}, visible(finding.correction) || "nothing there")) : null,
    finding.reason ? row("Why", finding.reason) : null,
    actions,
    evidence.length ? [h("h3", {}, finding.kind === "flag" ? "Closest passages" : "Passages behind it"), h("ul", { class: "evidence-list" }, evidence), further > 0 ? h("p", { class: "soft" }, `and ${count(further, "further place")}, marked in the sources`) : null] : null,
    finding.kind === "omit" ? h("p", {}, h("button", { type: "button", class: "quiet", onclick: () => go(finding.key) }, "Show it in its source")) : null,
    finding.kind === "flag" && !evidence.length && content.sources.length ? h("p", { class: "soft" }, "No passage of a source is given for it.") : null,
  );
  box.hidden = false;
}

function stepButton(name, label, onclick, disabled = false) {
  return h("button", { type: "button", class: "round", "aria-label": label, title: label, onclick, disabled: Boolean(disabled) }, icon(name));
}

function row(name, value) {
  return h("p", { class: "fact" }, h("span", { class: "soft" }, name), h("span", { dir: "auto" }, typeof value === "string" ? visible(value) : value));
}

/** A score as a bar with the threshold on it, and in digits. */
export function meter({ score, threshold, kind }) {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${score * 100}%`;
  const limit = h("span", { class: "limit" });
  limit.style.left = `${threshold * 100}%`;
  return h(
    "span",
    { class: `meter ${kind}` },
    h("span", { class: "bar", "aria-hidden": "true" }, fill, limit),
    h("span", { class: "number" }, h("span", { class: "hidden" }, "score "), number(score, threshold), h("span", { class: "soft" }, ` ${score >= threshold ? "≥" : "<"} ${number(threshold)}`)),
  );
}
