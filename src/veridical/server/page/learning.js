// Learning from decisions: a random sample to review, what fitting gains, and the versions that checks may use.

import * as api from "./api.js";
import { h, replace } from "./dom.js";
import { table } from "./run_comparison.js";
import { count, number, visible } from "./text.js";

const VERDICTS = { "too few decisions": "Not enough decisions yet", "no gain": "No clear gain", gain: "A clear gain" };

/** What opens to learn from the decisions about a run; `review()` shows the cases of the random sample. */
export function learningPanel(run, { role, busy, announce, review }) {
  const box = h("div", {});
  const details = h("details", { id: "learn" }, h("summary", {}, "Learn from decisions"), box);
  const show = () => busy("Counting the decisions …", async (signal) => {
    const [counts, versions] = await Promise.all([api.getDecisions(run.id, signal), api.getCalibrations(signal)]);
    replace(box, ...contents(counts, versions));
  });
  details.addEventListener("toggle", () => {
    if (details.open && !box.childElementCount) show();
  });
  const draw = () => busy("Drawing sentences …", async (signal) => {
    const { drawn } = await api.drawSample(run.id, signal);
    announce(drawn ? `${count(drawn, "sentence")} drawn` : "Every sentence is drawn or flagged");
    review();
  });
  const fit = (name, outcome) => busy("Fitting …", async (signal) => {
    const learning = await api.learn(run.id, name, signal);
    if (learning.version) await show();
    replace(box.querySelector("#learned") ?? outcome, result(learning));
    announce(VERDICTS[learning.verdict]);
  });
  const use = (name, active) => busy("Changing what checks use …", async (signal) => {
    await api.activate(name, active, signal);
    await show();
    announce(active ? `Checks use ${name}` : `Checks no longer use ${name}`);
  });

  function contents(counts, { versions, in_use: used }) {
    const outcome = h("div", { id: "learned", role: "status" });
    const input = h("input", { type: "text", name: "version", id: "version-name", required: true, pattern: "[\\w.\\-]+", maxlength: 100, value: `${(run.name || "check").replace(/[^\w.-]+/g, "-").slice(0, 60)}-${versions.length + 1}` });
    const form = h(
      "form",
      {
        class: "actions",
        onsubmit: (event) => {
          event.preventDefault();
          fit(input.value, outcome);
        },
      },
      h("label", { for: "version-name" }, "Name of the version"), input,
      h("button", { class: "quiet small", id: "fit", disabled: counts.missing !== null }, "Fit threshold and probabilities"),
    );
    return [
      h("p", {}, `${counts.flagged} of ${count(counts.all_flagged, "flagged sentence")} and ${counts.random} of ${counts.sampled} drawn at random are decided.`),
      h("p", { class: "actions" }, h("button", { type: "button", class: "quiet small", id: "draw", onclick: draw }, "Review a random sample"), h("span", { class: "soft" }, "Findings alone say nothing about errors that were not found.")),
      counts.missing === null ? null : h("p", { class: "soft", id: "missing" }, `${counts.missing}.`),
      form,
      outcome,
      versions.length ? table("Versions", ["Version", "Detector", "Threshold", "Scores", ""].map((name) => h("th", { scope: "col" }, name)), versions.map((version) => row(version, used))) : null,
    ];
  }

  function row(version, used) {
    const button = h("button", { type: "button", class: "quiet small", onclick: () => use(version.name, !version.active) }, version.active ? "Stop using it" : "Use it");
    const state = version.active && used[version.detector] !== version.name ? "not used: another model" : version.active ? "in use" : "";
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "id" }, visible(version.name)),
      h("td", {}, visible(version.detector)),
      h("td", { class: "number" }, number(version.threshold)),
      h("td", {}, version.calibrated ? "calibrated" : "as they were"),
      h("td", {}, role === "admin" ? button : null, " ", state),
    );
  }

  return details;
}

function result({ verdict, reason, threshold, probabilities, version }) {
  const figures = [threshold, probabilities].filter(Boolean).map(({ metric, before, after, gain, low, high }) => h("li", {}, `${metric}: ${before.toFixed(3)} before, ${after.toFixed(3)} after; gain ${gain.toFixed(3)} (95% interval ${low.toFixed(3)} to ${high.toFixed(3)})`));
  return [h("p", {}, h("b", {}, `${VERDICTS[verdict]}. `), visible(reason), version ? `. Kept as ${version}; checks do not use it yet.` : "."), figures.length ? h("ul", {}, figures) : null].filter(Boolean);
}
