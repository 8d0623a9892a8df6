// Elements from plain values. Children become text nodes or elements, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element; `onclick` and the like are listeners, true and false set or leave out an attribute, null is skipped. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Put `children` in place of what is in `element`. */
export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

/** An icon drawn in the ink of its text; decoration, so hidden from screen readers. */
export function icon(name) {
  const shapes = ICONS[name].map((d) => svg("path", { d }));
  return svg("svg", { class: `icon icon-${name}`, viewBox: "0 0 24 24", "aria-hidden": "true" }, shapes);
}

const ICONS = {
  flagged: ["M5 21V4", "M5 4h13l-3.5 4.5L18 13H5"],
  clear: ["M4 12.5l5.5 5.5L20 6.5"],
  no_claim: ["M6 12h12"],
  unjudged: ["M8.5 9a3.5 3.5 0 1 1 5 3.2c-1 .5-1.5 1.2-1.5 2.3", "M12 18.5v.3"],
  remove: ["M6 6l12 12", "M18 6L6 18"],
  next: ["M6 9.5l6 6 6-6"],
  previous: ["M6 14.5l6-6 6 6"],
};
