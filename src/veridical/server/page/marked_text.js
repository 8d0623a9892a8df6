// A text with marks on it, as elements: cut where marks begin and end, in chunks that the browser lays out when seen.

import { h } from "./dom.js";
import { visible } from "./text.js";

const CHUNK = 4000; // characters; a chunk ends at a line break where one is near
const AT_ONCE = 24; // chunks with their marks before the first paint, the rest when there is time
const LINE = 80; // characters, for the height of what was not laid out yet
const shown = new WeakMap(); // text nodes, to the part of a text that each shows

/**
 * Fill `box` with `text`. A mark is {start, end, key, kind, href, label, shade}: `key` names it (marks may share one),
 * `kind` is its class, `href` makes it a link, `label` is read out after it, `shade` a further class; `insert` is shown
 * after it as put in.
 *
 * Gives back {elements(key), reveal(key)}: the elements of a mark, and the same with its chunk filled by now.
 */
export function showText(box, text, marks) {
  const elements = new Map();
  const long = text.length > CHUNK;
  const chunks = cut(text, marks).map(({ start, end, inside }) => {
    const chunk = h("div", { dir: "auto" }, partOf(text, start, end));
    if (long) {
      chunk.className = "chunk";
      chunk.style.containIntrinsicSize = `auto ${(Math.ceil((end - start) / LINE) + 1) * 1.75}rem`;
    }
    return { chunk, start, end, inside, filled: inside.length === 0 };
  });
  const fillChunk = (item) => {
    if (item.filled) return;
    item.filled = true;
    item.chunk.replaceChildren(...segments(text, item, elements));
  };
  chunks.slice(0, AT_ONCE).forEach(fillChunk);
  box.replaceChildren(...chunks.map((item) => item.chunk));
  later(chunks.slice(AT_ONCE).filter((item) => !item.filled), fillChunk);
  const homes = new Map();
  for (const item of chunks) for (const mark of item.inside) if (!homes.has(mark.key)) homes.set(mark.key, item);
  return {
    elements: (key) => elements.get(key) ?? [],
    reveal: (key) => {
      if (homes.has(key)) fillChunk(homes.get(key));
      return elements.get(key) ?? [];
    },
  };
}

/** The span of `text`, shown in `box`, that the reader selected, without white space around it; null where there is none. */
export function selectedSpan(box, text) {
  const selection = getSelection();
  const range = selection.rangeCount ? selection.getRangeAt(0) : null;
  if (!range || range.collapsed || !range.intersectsNode(box)) return null;
  let start = text.length;
  let end = 0;
  const nodes = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
    const part = shown.get(node);
    if (part?.text !== text || !range.intersectsNode(node)) continue;
    start = Math.min(start, node === range.startContainer ? placeIn(part, range.startOffset) : part.start);
    end = Math.max(end, node === range.endContainer ? placeIn(part, range.endOffset) : part.end);
  }
  const words = text.slice(start, end);
  return words.trim() ? { start: end - words.trimStart().length, end: start + words.trimEnd().length } : null;
}

/** The place in the text at `offset` of a part as it is shown, where one hidden character may be several signs. */
function placeIn({ text, start, end }, offset) {
  let place = start;
  for (let seen = 0; seen < offset && place < end; ) {
    const next = place + (text.codePointAt(place) > 0xffff ? 2 : 1);
    seen += visible(text, place, next).length;
    place = next;
  }
  return place;
}

function partOf(text, start, end) {
  const node = document.createTextNode(visible(text, start, end));
  shown.set(node, { text, start, end });
  return node;
}

function later(items, fill) {
  if (items.length === 0) return;
  const next = items.splice(0, AT_ONCE);
  setTimeout(() => {
    next.forEach(fill);
    later(items, fill);
  });
}

/** The chunks of a text with the marks that reach into each; linear in the text and the marks. */
function cut(text, marks) {
  const ends = [];
  let at = 0;
  while (text.length - at > CHUNK) {
    let end = text.lastIndexOf("\n", at + CHUNK) + 1;
    if (end <= at + CHUNK / 4) end = text.lastIndexOf(" ", at + CHUNK) + 1;
    if (end <= at + CHUNK / 4) end = at + CHUNK - (/[\ud800-\udbff]/.test(text[at + CHUNK - 1]) ? 1 : 0);
    ends.push(end);
    at = end;
  }
  ends.push(text.length);
  const chunks = ends.map((end, i) => ({ start: i ? ends[i - 1] : 0, end, inside: [] }));
  let first = 0;
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    while (first < chunks.length - 1 && chunks[first].end <= mark.start) first += 1;
    for (let i = first; i < chunks.length && (i === first || chunks[i].start < mark.end); i += 1) chunks[i].inside.push(mark);
  }
  return chunks;
}

/** The elements of one chunk: plain text, and one element for each stretch under the same marks. */
function segments(text, { start, end, inside }, elements) {
  const clip = (place) => Math.min(Math.max(place, start), end);
  const opens = new Map();
  for (const mark of inside) {
    if (!opens.has(clip(mark.start))) opens.set(clip(mark.start), []);
    opens.get(clip(mark.start)).push(mark);
  }
  const edges = [...new Set([start, end, ...inside.flatMap((mark) => [clip(mark.start), clip(mark.end)])])].sort((a, b) => a - b);
  const nodes = [];
  let active = [];
  edges.forEach((edge, i) => {
    const starting = opens.get(edge) ?? [];
    active = [...active.filter((mark) => clip(mark.end) > edge), ...starting.filter((mark) => clip(mark.end) > edge)];
    for (const mark of starting) if (mark.start === mark.end) nodes.push(segment("", [mark], elements));
    for (const mark of inside) if (mark.insert && mark.end === edge && edge > start) nodes.push(inserted(mark.insert));
    if (i === edges.length - 1 || edges[i + 1] === edge) return;
    const part = partOf(text, edge, edges[i + 1]);
    nodes.push(active.length ? segment(part, active, elements) : part);
  });
  return nodes;
}

function inserted(text) {
  return h("ins", {}, h("span", { class: "hidden" }, " [put in: "), visible(text), h("span", { class: "hidden" }, "] "));
}

/** One stretch: a link where the first of its marks begins here, so that the keyboard meets each mark once. */
function segment(part, marks, elements) {
  const main = marks.find((mark) => mark.href) ?? marks[0];
  const first = !elements.has(main.key);
  const classes = ["mark", ...new Set(marks.flatMap((mark) => [mark.kind, mark.shade ?? []].flat()))].join(" ");
  const keys = [...new Set(marks.map((mark) => mark.key))].join(" ");
  const note = first && main.label ? h("span", { class: "hidden" }, ` [${main.label}] `) : null;
  const link = first && main.href;
  const gone = marks.some((mark) => mark.kind === "gone");
  const element = h(link ? "a" : gone ? "del" : "span", { class: classes, "data-keys": keys, href: link ? main.href : null }, part, note);
  if (main.target) element.dataset.target = main.target;
  for (const mark of marks) {
    if (!elements.has(mark.key)) elements.set(mark.key, []);
    elements.get(mark.key).push(element);
  }
  return element;
}
