// A salience map: how much each word of the response rests on words of the sources, to the model that was asked.

import { h, replace } from "./dom.js";
import { showText } from "./marked_text.js";
import { places, shorten } from "./text.js";

const SHADES = 10;

/** Fill `box` with the response; gives back the note of a word by its key. `map` is {words: [{span, attribution, strongest: [{source_id, span, text, value}]}]}. */
export function showMap(box, content, map) {
  const { of } = places(content.response);
  const most = Math.max(...map.words.map((word) => word.attribution), 1e-9);
  const words = map.words.map((word) => ({ ...word, start: of(word.span.start), end: of(word.span.end) }));
  const marks = words.map(({ start, end, attribution }, i) => ({
    start, end, key: `m${i}`, kind: "word", shade: `rest-${Math.min(SHADES - 1, Math.floor((attribution / most) * SHADES))}`, href: `#m${i}`,
  }));
  const text = h("div", { class: "text response heat" });
  showText(text, content.response, marks);
  const about = "The stronger a word's colour, the more of the model's prediction of it rests on words of the sources. Point at a word, or move to it with Tab, to see those that it rests on most. These are shares of a gradient, not probabilities.";
  replace(box, h("p", { class: "soft" }, about), text);
  return (key) => {
    const word = /^m\d+$/.test(key) ? words[Number(key.slice(1))] : null;
    if (!word) return null;
    const percent = (value) => `${(100 * value).toFixed(1)} %`;
    return [`attribution ${percent(word.attribution)}`, ...word.strongest.map((one) => `${percent(one.value)} ${shorten(one.text, 40)} (${shorten(one.source_id, 40)})`)];
  };
}
