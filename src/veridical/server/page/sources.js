// The sources of a case in a pane of their own: marked, with a rail beside them that shows where the marks are.

import { h, replace } from "./dom.js";
import { showText } from "./marked_text.js";
import { count, visible } from "./text.js";

const SHOWN = 100; // sources without a mark; the others follow on request
const TICKS = 400;

/** Fill `pane` with the sources and their marks (by source id); gives back {elements(key), go(key)}. */
export function showSources(pane, rail, sources, marks) {
  const texts = [];
  const homes = new Map();
  let plain = 0;
  const rest = [];
  const sections = sources.flatMap((source, i) => {
    const inside = marks.get(source.id) ?? [];
    if (!inside.length && ++plain > SHOWN) {
      rest.push(source);
      return [];
    }
    const [section, shown] = sourceSection(source, inside, i);
    texts.push(shown);
    for (const mark of inside) if (!homes.has(mark.key)) homes.set(mark.key, shown);
    return [section];
  });
  if (rest.length) sections.push(moreButton(rest, sources.length));
  replace(pane, sections.length ? sections : h("p", { class: "empty" }, "No sources were given."));
  replace(rail, ...ticks(sources, marks));
  return {
    elements: (key) => homes.get(key)?.elements(key) ?? [],
    go: (key, page = true) => goTo(homes.get(key)?.reveal(key)[0], page),
  };
}

function sourceSection(source, marks, i) {
  const omitted = new Set(marks.filter((mark) => mark.kind === "omit").map((mark) => mark.key)).size;
  const cited = new Set(marks.filter((mark) => mark.kind === "evidence").map((mark) => mark.key)).size;
  const unjudged = marks.some((mark) => mark.kind === "unjudged");
  const text = h("div", { class: "text" });
  const shown = showText(text, source.text, marks);
  const header = h(
    "header",
    {},
    h("h2", { id: `source-${i}` }, h("span", { class: "soft" }, "Source "), h("bdi", {}, visible(source.id))),
    source.perspective !== null && h("span", { class: "chip" }, "perspective ", h("bdi", {}, visible(source.perspective))),
    source.mustCover && h("span", { class: "chip must" }, "must be covered"),
    omitted > 0 && h("span", { class: "chip out" }, `${omitted} left out`),
    cited > 0 && h("span", { class: "chip" }, `${count(cited, "passage")} cited`),
    unjudged && h("span", { class: "chip unjudged" }, "partly not judged"),
  );
  return [h("section", { class: "source", "aria-labelledby": `source-${i}` }, header, text), shown];
}

function moreButton(rest, first) {
  const button = h("button", { class: "quiet", type: "button" }, `Show ${count(rest.length, "further source")}, none of them marked`);
  button.addEventListener("click", () => button.replaceWith(...rest.map((source, i) => sourceSection(source, [], first + i)[0])));
  return button;
}

function ticks(sources, marks) {
  const total = sources.reduce((sum, source) => sum + source.text.length + 1, 0);
  const seen = new Map();
  let before = 0;
  for (const source of sources) {
    for (const mark of marks.get(source.id) ?? []) {
      const place = Math.round(((before + mark.start) / total) * TICKS);
      if (!seen.has(place) || mark.kind === "omit") seen.set(place, mark);
    }
    before += source.text.length + 1;
  }
  return Array.from(seen, ([place, mark]) => {
    const tick = h("span", { class: `tick ${mark.kind}`, "data-go": mark.key });
    tick.style.top = `${(place / TICKS) * 100}%`;
    return tick;
  });
}

/**
 * Bring an element into view, in the pane of the sources alone unless the `page` may move, too. Twice, for what lies above
 * it gets its true height only when it is laid out.
 */
export function goTo(element, page = true) {
  if (!element) return;
  const scroll = () => {
    const pane = element.closest(".sources");
    if (pane) {
      const place = element.getBoundingClientRect();
      const frame = pane.getBoundingClientRect();
      pane.scrollTop += place.top - frame.top - Math.max(48, (frame.height - place.height) / 3);
    }
    if (page) element.scrollIntoView({ block: pane ? "nearest" : "center", behavior: "instant" });
  };
  scroll();
  requestAnimationFrame(() => requestAnimationFrame(scroll));
}
