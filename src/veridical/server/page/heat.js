// The response word by word, each shaded by the highest score of the verdicts that reach into it.

import { h, replace } from "./dom.js";
import { showText } from "./marked_text.js";
import { goTo } from "./sources.js";
import { count, firstFrom, number, shorten, words } from "./text.js";

const SHADES = 10;
const HIGHEST = 12;

/** Each word with its score, null where it was not judged; linear in the words and in what verdicts reach. */
export function wordScores(content, judgement) {
  const spans = words(content.response);
  const ends = spans.map(([, end]) => end);
  const scores = new Array(spans.length).fill(null);
  const reach = ({ start, end }, score) => {
    for (let i = firstFrom(ends, start + 1); i < spans.length && spans[i][0] < end; i += 1) {
      scores[i] = Math.max(scores[i] ?? 0, score);
    }
  };
  for (const span of judgement.judged ?? [{ start: 0, end: content.response.length }]) reach(span, 0);
  for (const verdict of judgement.verdicts) if (verdict.end > verdict.start) reach(verdict, verdict.score);
  return spans.map(([start, end], i) => ({ start, end, score: scores[i] }));
}

const shadeOf = (score) => Math.min(SHADES - 1, Math.floor(score * SHADES));

/** Fill `box` with the shaded response; gives back the note of a word by its key. */
export function showHeat(box, content, judgement, threshold) {
  if (!judgement.verdicts.length) {
    const why = "This detector scores no words or passages of this response, so there is nothing to shade.";
    replace(box, h("p", { class: "empty" }, why));
    return () => null;
  }
  const scored = wordScores(content, judgement);
  const marks = scored.map(({ start, end, score }, i) => ({
    start,
    end,
    key: `w${i}`,
    kind: score === null ? "unjudged" : score >= threshold ? "word over" : "word",
    shade: score === null ? null : `shade-${shadeOf(score)}`,
  }));
  const text = h("div", { class: "text response heat" });
  const shown = showText(text, content.response, marks);
  const ranked = scored.map((word, i) => ({ ...word, i })).filter((word) => word.score !== null);
  ranked.sort((a, b) => b.score - a.score || a.i - b.i);
  const list = ranked.slice(0, HIGHEST).map(({ start, end, score, i }) => {
    const go = () => {
      const [element] = shown.reveal(`w${i}`);
      goTo(element);
      element?.classList.remove("pulse");
      requestAnimationFrame(() => element?.classList.add("pulse"));
    };
    const word = shorten(content.response.slice(start, end), 40);
    const swatch = h("span", { class: `swatch shade-${shadeOf(score)}` }, number(score, threshold));
    return h("li", {}, h("button", { type: "button", class: "row", onclick: go }, swatch, h("bdi", {}, word)));
  });
  const missing = scored.filter((word) => word.score === null).length;
  replace(
    box,
    legend(),
    text,
    missing ? h("p", { class: "warn" }, `${count(missing, "word")} ${missing === 1 ? "was" : "were"} not judged.`) : null,
    h("h2", {}, "Highest scores"),
    h("ol", { class: "highest" }, list),
  );
  return (key) => {
    const word = /^w\d+$/.test(key) ? scored[Number(key.slice(1))] : null;
    return word && [word.score === null ? "not judged" : `score ${number(word.score, threshold)}`];
  };
}

function legend() {
  const shades = Array.from({ length: SHADES }, (_, i) => h("span", { class: `swatch shade-${i}` }, `.${i}`));
  return h(
    "p",
    { class: "legend" },
    h("span", {}, "Score of each word, 1 = hallucinated"),
    h("span", { class: "scale", role: "img", "aria-label": "ten shades from light, 0, to dark, 1" }, shades),
    h("span", { class: "mark word over" }, "underlined: flagged"),
  );
}
