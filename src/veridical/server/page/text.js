// Texts as people read them: places, words, hidden characters, numbers.

const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const BLANK = new RegExp(`^[${SPACE}]*$`);
const HIDDEN =
  /\r(?=\n)|[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060\u2066-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;
const UNSPACED = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3005-\\u3007\\u3040-\\u30ff\\u31f0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff";
const LETTER = `(?:(?![${UNSPACED}])[\\p{L}\\p{N}][\\p{M}\\u200c\\u200d]*)`;
const NUMBER = `\\p{Nd}+(?:[.,]\\p{Nd}+)*${LETTER}*(?:['’](?!\\p{Nd})${LETTER}+)?`;
const WORD = new RegExp(`${NUMBER}|${LETTER}+(?:['’]${LETTER}+)*|[${UNSPACED}][\\p{M}\\u200c\\u200d]*`, "gu");

/** For the offsets of JSON, which count code points: the place in a JavaScript string, which counts UTF-16 units, and back. */
export function places(text) {
  if (!/[\ud800-\udfff]/.test(text)) return { length: text.length, of: (offset) => offset, offset: (place) => place };
  const starts = new Uint32Array(text.length + 1);
  let length = 0;
  for (let i = 0; i < text.length; i += text.codePointAt(i) > 0xffff ? 2 : 1) starts[length++] = i;
  starts[length] = text.length;
  const used = starts.subarray(0, length + 1);
  return { length, of: (offset) => starts[offset], offset: (place) => firstFrom(used, place) };
}

/** The index of the first number of an ascending list that is at least `least`. */
export function firstFrom(numbers, least) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] >= least) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Whether there is nothing but white space in `text`. */
export const blank = (text) => BLANK.test(text);

/** The words of `text` as [start, end]; scripts without spaces give one word per character. */
export function words(text) {
  return Array.from(text.matchAll(WORD), (match) => [match.index, match.index + match[0].length]);
}

/** The number of words of a text, without their places. */
export function countWords(text) {
  let count = 0;
  for (const _ of text.matchAll(WORD)) count += 1;
  return count;
}

/** A part of `text`, every character in it that could act instead of being read (controls, changes of direction) a sign. */
export function visible(text, start = 0, end = text.length) {
  const stop = text.startsWith("\r\n", end - 1) && end > start ? end - 1 : end; // one line break, in the next part
  return text.slice(start, stop).replace(HIDDEN, (character, at, whole) => {
    if (character === "\r" && whole[at + 1] === "\n") return "";
    const code = character.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** `text` on one line, its middle replaced by … where it is longer than `limit`. */
export function shorten(text, limit) {
  const part = text.length > 4 * limit ? `${text.slice(0, 2 * limit)} ${text.slice(-2 * limit)}` : text;
  const line = visible(part.split(/\s+/).filter(Boolean).join(" "));
  if (line.length <= limit) return line;
  const head = line.slice(0, Math.floor((limit * 2) / 3)).replace(/\s+\S*$/, "");
  return `${head} … ${line.slice(-Math.floor(limit / 3)).replace(/^\S*\s+/, "")}`;
}

/** A score with two decimals, or more where rounding would hide on which side of `threshold` it is. */
export function number(score, threshold = null) {
  for (const digits of [2, 3, 4]) {
    const rounded = score.toFixed(digits);
    if (threshold === null || Number(rounded) >= threshold === score >= threshold) return rounded;
  }
  return String(score);
}

/** "1 source", "1,200 sources". */
export function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}
