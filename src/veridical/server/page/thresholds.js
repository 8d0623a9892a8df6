// A slider for each level that a judgement scores. Moving one decides again from the scores that are there.

import { h, svg } from "./dom.js";
import { number } from "./text.js";

const BINS = 50;
const NAMES = {
  span: ["Words and passages", "Flag what scores at least this"],
  response: ["Response as a whole", "Flag it if its one score is at least this"],
  source: ["Left-out passages", "Report what scores at least this as left out"],
  coverage: ["Coverage as a whole", "Flag it if its one score is at least this"],
};

/** The sliders; `moved(level, value)` is called while one is dragged. */
export function thresholdSliders(judgement, thresholds, own, moved) {
  const scores = {
    span: judgement.verdicts.map((verdict) => verdict.score),
    response: judgement.hallucination === null ? [] : [judgement.hallucination],
    source: judgement.omissions.map((omission) => omission.score),
    coverage: judgement.omission === null ? [] : [judgement.omission],
  };
  const rows = Object.keys(NAMES).filter((level) => scores[level].length);
  return rows.map((level) => slider(level, scores[level], thresholds[level], own[level], (value) => moved(level, value)));
}

function slider(level, scores, value, own, moved) {
  const [name, help] = NAMES[level];
  const output = h("output", { for: `threshold-${level}`, class: "number" }, number(value));
  const reset = h("button", { type: "button", class: "quiet small", hidden: value === own }, `Back to ${number(own)}`);
  const input = h("input", {
    type: "range", min: 0, max: 1, step: "any", id: `threshold-${level}`, value, "aria-describedby": `threshold-${level}-help`,
  });
  const distribution = histogram(scores, value, own);
  const set = (threshold) => {
    output.textContent = number(threshold);
    reset.hidden = threshold === own;
    input.setAttribute("aria-valuetext", number(threshold));
    distribution.querySelectorAll("rect, circle").forEach((shape) => {
      shape.classList.toggle("over", Number(shape.dataset.high) >= threshold);
    });
    moved(threshold);
  };
  input.addEventListener("input", () => set(Number(input.value)));
  input.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 0.01, ArrowUp: 0.01, ArrowLeft: -0.01, ArrowDown: -0.01 }[event.key];
    if (!step) return;
    event.preventDefault();
    input.value = Math.min(1, Math.max(0, Math.round((Number(input.value) + step) * 100) / 100));
    set(Number(input.value));
  });
  reset.addEventListener("click", () => {
    input.value = own;
    set(own);
    input.focus();
  });
  input.setAttribute("aria-valuetext", number(value));
  return h(
    "div",
    { class: "threshold" },
    h("label", { for: `threshold-${level}` }, name),
    h("div", { class: "track" }, distribution, input),
    h("div", { class: "value" }, output, reset),
    h("p", { class: "hidden", id: `threshold-${level}-help` }, `${help}. The detector's own threshold is ${number(own)}.`),
  );
}

/** How the scores lie between 0 and 1: a bar per fiftieth, or a dot where there is only one score. */
function histogram(scores, threshold, own) {
  const box = svg("svg", { class: "histogram", viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" });
  box.append(svg("line", { class: "own", x1: own * 100, x2: own * 100, y1: 0, y2: 20 }));
  const bins = Array.from({ length: BINS }, () => ({ n: 0, high: 0 }));
  for (const score of scores) {
    const bin = bins[Math.min(BINS - 1, Math.floor(score * BINS))];
    bin.n += 1;
    bin.high = Math.max(bin.high, score);
  }
  const most = Math.max(...bins.map((bin) => bin.n));
  bins.forEach(({ n, high }, i) => {
    if (!n) return;
    const height = 3 + (17 * Math.log1p(n)) / Math.log1p(most);
    const place = { x: (i * 100) / BINS + 0.2, width: 100 / BINS - 0.4, y: 20 - height, height };
    box.append(svg("rect", { ...place, "data-high": high, class: high >= threshold ? "over" : "" }));
  });
  return box;
}
