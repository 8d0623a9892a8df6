// Decisions as the history keeps them, whose offsets count code points, and as the page works with them.

import { placing } from "./checked.js";
import { Review } from "./review.js";
import { places } from "./text.js";

const NAMES = ["action", "source", "text", "reason", "label", "error", "missed"];

/** The review of a stored case; `sampled` are sentences that were drawn at random for review. */
export function storedReview({ response, sources }, decisions, sampled = []) {
  const place = placing(places(response));
  const inSource = new Map(sources.map(({ id, text }) => [id, placing(places(text))]));
  const resolutions = decisions.map(({ start, end, cut, ...decision }) => ({
    ...decision,
    ...(start === null ? { start: null, end: null } : (decision.source === null ? place : inSource.get(decision.source))({ start, end })),
    ...(cut ? { cut: place({ start: cut[0], end: cut[1] }) } : {}),
  }));
  const review = new Review(response, resolutions);
  review.sampled = sampled.map(([start, end]) => place({ start, end }));
  return review;
}

/** The decisions of a review, for the history. */
export function decisionsOf({ response, sources }, { resolutions }) {
  const at = new Map([[null, places(response)], ...sources.map(({ id, text }) => [id, places(text)])]);
  return resolutions.map((resolution) => {
    const { start, end, source = null, cut } = resolution;
    const { offset } = at.get(source);
    const decision = Object.fromEntries(NAMES.filter((name) => resolution[name] != null).map((name) => [name, resolution[name]]));
    if (start !== null) Object.assign(decision, { start: offset(start), end: offset(end) });
    if (cut) decision.cut = [at.get(null).offset(cut.start), at.get(null).offset(cut.end)];
    return decision;
  });
}
