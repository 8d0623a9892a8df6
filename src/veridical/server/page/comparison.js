// Two or more detectors on the same response, next to each other.

import { h, replace } from "./dom.js";
import { OUTCOMES, findingsOf, responseMarks, summary } from "./findings.js";
import { wordScores } from "./heat.js";
import { showText } from "./marked_text.js";
import { count, number, visible } from "./text.js";

/** Fill `box` with a column per judgement; gives back the note of a mark by its key. */
export function showComparison(box, { content, judgements }, decisions) {
  const notes = new Map();
  const columns = judgements.map((judgement, i) => {
    const findings = findingsOf(content, judgement, decisions[i]);
    for (const { key, score, threshold, reason } of findings.flagged) notes.set(`${i}-${key}`, [number(score, threshold), reason]);
    const text = h("div", { class: "text response" });
    const marks = responseMarks(content, judgement, findings).filter((mark) => !mark.kind.startsWith("backed"));
    showText(text, content.response, marks.map((mark) => ({ ...mark, href: null, key: `${i}-${mark.key}` })));
    return h(
      "section",
      { "aria-label": visible(judgement.by) },
      h("h2", {}, h("bdi", {}, visible(judgement.by)), " ", h("span", { class: `chip ${decisions[i].outcome}` }, OUTCOMES[decisions[i].outcome])),
      h("p", { class: "soft" }, summary(content, judgement, decisions[i], findings)),
      text,
    );
  });
  replace(box, h("p", { class: "lead" }, agreement(content, judgements, decisions)), h("div", { class: "columns" }, columns));
  return (key) => notes.get(key) ?? null;
}

/** How many words all of them flag, and how many only some do. */
function agreement(content, judgements, decisions) {
  const flags = judgements.map((judgement, i) => {
    const verdicts = decisions[i].verdicts.map((k) => judgement.verdicts[k]);
    return wordScores(content, { judged: [], verdicts }).map((word) => word.score !== null);
  });
  const votes = flags[0].map((_, word) => flags.filter((of) => of[word]).length);
  const all = votes.filter((n) => n === judgements.length).length;
  const some = votes.filter((n) => n > 0 && n < judgements.length).length;
  if (!all && !some) return "None of them flags a word of the response.";
  return `${judgements.length === 2 ? "Both" : "All"} flag ${count(all, "word")}; ${count(some, "more", "more")} ${some === 1 ? "is" : "are"} flagged by only ${judgements.length === 2 ? "one" : "some"} of them.`;
}
