// The open cases and the decisions about them, kept by the browser for this tab: they survive a reload and end with the tab.
// Each opening of cases is a run with a name of its own, so that Back can return to the cases before.

import { Review } from "./review.js";

const caseKey = (run, i) => `${run}/case/${i}`;
const reviewKey = (run, i) => `${run}/review/${i}`;

/** A name for a run. */
export const newRun = () => `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;

/** Keep all cases of a run; gives back whether there was room. */
export function keepCases(run, rows) {
  return rows.every((row, i) => keepCase(run, i, row) && keepReview(run, i, row));
}

/** Keep a case with its result, without the decisions; or without the result, which can be had again, where room is short. */
export function keepCase(run, i, { review, label, ...row }) {
  return put(run, caseKey(run, i), row) || put(run, caseKey(run, i), { ...row, document: null });
}

/** Keep the decisions about a case, and the version that they have in the history. */
export function keepReview(run, i, { review = null, label = null, stored = null }) {
  return put(run, reviewKey(run, i), { label, review: review && { ...review }, stored });
}

/** The cases of a run with the decisions about them; none where it was not kept. */
export function keptCases(run) {
  const rows = [];
  for (let row = get(caseKey(run, 0)); row; row = get(caseKey(run, rows.length))) {
    const { label, review, stored } = get(reviewKey(run, rows.length)) ?? {};
    if (stored && stored.run === row.stored?.run) row.stored = stored; // with the version of the decisions
    rows.push({ ...row, label, review: review && new Review(review.response, review.resolutions, review.changed) });
  }
  return rows;
}

function get(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null; // a browser that stores nothing
  }
}

/** Other runs make room where there is none. */
function put(run, key, value) {
  const text = JSON.stringify(value);
  for (const last of [false, true]) {
    try {
      sessionStorage.setItem(key, text);
      return true;
    } catch {
      const others = last ? [] : Object.keys(sessionStorage).filter((name) => !name.startsWith(`${run}/`));
      for (const name of others) sessionStorage.removeItem(name);
    }
  }
  return false;
}
