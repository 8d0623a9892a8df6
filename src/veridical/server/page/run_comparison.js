// Two runs side by side: how often they agree, what changed, and the cases in which they differ; and a run over time.

import { addressOf } from "./addresses.js";
import { h, svg } from "./dom.js";
import { count, number, visible } from "./text.js";

const [WIDTH, HEIGHT, EDGE] = [480, 120, 14];

/** The figures of a comparison; `names` are those of both runs, `states` the words for outcomes. */
export function comparisonFigures(found, names, states) {
  const cell = (...children) => h("td", { class: "number" }, ...children);
  const row = (name, ...cells) => h("tr", {}, h("th", { scope: "row" }, name), cells);
  const interval = (share) => (share ? `${percent(share.value)} (${percent(share.low)} to ${percent(share.high)})` : "–");
  const [first, second] = found.flagged ?? [null, null];
  const outcomes = Object.keys(states).filter((name) => found.outcomes[name] || Object.values(found.outcomes).some((counts) => counts[name]));
  const changes = outcomes.map((from) => row(states[from], outcomes.map((to) => cell(String(found.outcomes[from]?.[to] ?? 0)))));
  return [
    h("p", {}, verdict(found)),
    h("p", { class: "soft" }, `${count(found.pairs, "case")} in both runs; ${found.unpaired[0]} only in the first, ${found.unpaired[1]} only in the second.`),
    table("Figures", [h("td", {}), heading(names[0]), heading(names[1])], [
      row("Flagged", cell(interval(first)), cell(interval(second))),
      row("Flagged by this run only", cell(String(found.only[0])), cell(String(found.only[1]))),
    ]),
    h("p", { class: "soft" }, `Agreement ${percent(found.agreement)}, Cohen's kappa ${found.kappa === null ? "–" : number(found.kappa)}. The scores of the second run are ${signed(found.score_difference)} on average. Intervals hold 95%.`),
    table("Outcomes of the first run by row, of the second by column", [h("td", {}), ...outcomes.map((name) => heading(states[name]))], changes),
  ];
}

/** The cases of a comparison with different outcomes. */
export function comparisonCases(found, names, states) {
  const one = (item, i) => [h("a", { href: addressOf({ run: found.runs[i], number: item.numbers[i] }) }, states[item.outcomes[i]]), ` ${item.scores[i] === null ? "" : number(item.scores[i])}`];
  const rows = found.cases.map((item) => h("tr", {}, h("th", { scope: "row", class: "id" }, visible(item.name)), h("td", {}, one(item, 0)), h("td", {}, one(item, 1))));
  return table("Cases with different outcomes", [heading("Id"), heading(names[0]), heading(names[1])], rows);
}

/** A chart of the share of flagged cases over runs of one name, with a table for those who do not see it. */
export function trendChart(points, current) {
  const known = points.filter((point) => point.share);
  const top = Math.max(...known.map((point) => point.share.high), 0.01);
  const x = (i) => EDGE + (known.length < 2 ? 0 : (i * (WIDTH - 2 * EDGE)) / (known.length - 1));
  const y = (value) => HEIGHT - EDGE - (value / top) * (HEIGHT - 2 * EDGE);
  const marks = known.map((point, i) => [
    svg("line", { class: "interval", x1: x(i), x2: x(i), y1: y(point.share.low), y2: y(point.share.high) }),
    svg("circle", { class: point.run === current ? "now" : null, cx: x(i), cy: y(point.share.value), r: 4 }),
  ]);
  const line = svg("polyline", { points: known.map((point, i) => `${x(i)},${y(point.share.value)}`).join(" ") });
  const rows = known.map((point) =>
    h("tr", {}, h("th", { scope: "row" }, h("a", { href: addressOf({ run: point.run }), "aria-current": point.run === current ? "true" : null }, new Date(point.created).toLocaleString())), h("td", { class: "number" }, `${percent(point.share.value)} of ${point.judged}`), h("td", { class: "soft" }, visible(point.detectors.join(", ")))),
  );
  return [svg("svg", { class: "trend", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Share of flagged cases by run, from the oldest; the table below has the numbers" }, line, marks), table("Share of flagged cases by run", [heading("Run"), heading("Flagged"), heading("Detectors")], rows)];
}

/** A table that scrolls by itself. */
export function table(name, heads, rows) {
  return h("div", { class: "table", role: "region", "aria-label": name, tabindex: "0" }, h("table", {}, h("caption", { class: "hidden" }, name), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)));
}

function verdict({ difference, p, judged }) {
  if (!difference) return "No case is decided in both runs.";
  const share = percent(Math.abs(difference.value));
  const [low, high] = [percent(difference.low), percent(difference.high)];
  if (p >= 0.05) return `No clear difference: the second run flags ${share} ${difference.value < 0 ? "fewer" : "more"} of ${count(judged, "case")} (${low} to ${high}, p = ${number(p)}).`;
  return `The second run flags ${share} ${difference.value < 0 ? "fewer" : "more"} of ${count(judged, "case")} (${low} to ${high}, ${p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`}).`;
}

const heading = (text) => h("th", { scope: "col" }, visible(text));

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)}%`);

const signed = (share) => (share ? `${share.value < 0 ? "lower" : "higher"} by ${number(Math.abs(share.value))} (${number(share.low)} to ${number(share.high)})` : "not comparable");
