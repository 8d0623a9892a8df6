// One small note next to what the pointer or the keyboard is on.

import { h, replace } from "./dom.js";

const box = h("div", { id: "tip", role: "tooltip", hidden: true });
let described = null;

/** Show `lines` next to `element`; they also describe it to screen readers. */
export function showTip(element, lines) {
  if (!box.isConnected) document.body.append(box);
  hideTip();
  replace(box, lines.filter(Boolean).map((line) => h("p", { dir: "auto" }, line)));
  box.hidden = false;
  const place = element.getClientRects()[0] ?? element.getBoundingClientRect();
  const size = box.getBoundingClientRect();
  const left = Math.min(Math.max(8, place.left), document.documentElement.clientWidth - size.width - 8);
  const above = place.top - size.height - 8;
  box.style.left = `${left}px`;
  box.style.top = `${above > 8 ? above : place.bottom + 8}px`;
  described = element;
  element.setAttribute("aria-describedby", "tip");
}

/** Take it away. */
export function hideTip() {
  box.hidden = true;
  described?.removeAttribute("aria-describedby");
  described = null;
}
