// The result of a check: outcome, thresholds, the response and its sources with everything linked both ways.

import { decided, withDecisions } from "./checked.js";
import { showComparison } from "./comparison.js";
import { h, icon, replace } from "./dom.js";
import { OUTCOMES, decidedOn, findingsOf, responseMarks, sourceMarks, summary } from "./findings.js";
import { showHeat } from "./heat.js";
import { meter, showFinding } from "./inspector.js";
import { showText } from "./marked_text.js";
import { REST } from "./review.js";
import { Reviewing, reviewed } from "./reviewing.js";
import { showOwnRevision } from "./revision.js";
import { showMap } from "./salience_map.js";
import { goTo, showSources } from "./sources.js";
import { count, number, shorten, visible } from "./text.js";
import { thresholdSliders } from "./thresholds.js";
import { hideTip, showTip } from "./tip.js";

const LISTED = 100; // findings in a list, before the reader asks for more
const WIDE = matchMedia("(min-width: 62rem)");
const VIEWS = { text: "Findings", words: "Words", claims: "Claims", map: "Salience", revision: "Revision", compare: "Side by side" };

/** Shows one checked case in `root` (the elements of index.html); `announce(text)` speaks to screen readers. */
export class Result {
  constructor(root, { announce, revise, map, own, reviewed: kept, selected }) {
    this.root = root;
    this.part = (name) => root.querySelector(`[data-part="${name}"]`);
    this.announce = announce;
    this.onRevise = revise;
    this.own = own;
    this.onMap = map;
    this.onReviewed = kept;
    this.onSelected = selected;
    this.reviewing = new Reviewing(root, { announce, changed: (place) => this.#decided(place), selected: () => this.byKey.get(this.selected) });
    this.#listen();
  }

  /** Show `checked` (checked.js) with its `review`; `detectors` are those of the server behind its judgements, null where it has none. */
  show(checked, detectors, review) {
    this.checked = checked;
    this.review = review;
    this.reviewing.show(checked, review);
    this.detectors = detectors;
    this.maps = new Map(); // by judgement, once they were asked for
    this.judge = 0;
    this.view = "text";
    this.selected = null;
    this.root.hidden = false;
    this.#showJudges();
    this.#showSliders();
    this.update();
    this.part("sources").scrollTop = 0;
    this.root.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "start" });
    this.announce(`${OUTCOMES[this.state.outcome]}. ${this.part("summary").textContent}`);
  }

  /** The document as it is decided now. */
  get document() {
    return withDecisions(this.checked, this.state);
  }

  /** Decide at the thresholds as they are, and draw again what depends on it. */
  update() {
    const { content, judgements } = this.checked;
    this.state = decided(this.checked);
    this.judgement = judgements[this.judge];
    this.decision = this.state.decisions[this.judge];
    this.#find();
    const { marks, related } = sourceMarks(content, this.judgement, this.findings);
    this.related = related;
    this.#showOutcome();
    const pane = this.part("sources");
    const top = pane.scrollTop; // a moved threshold leaves the reader where they are
    this.sources = showSources(pane, this.part("rail"), content.sources, marks);
    pane.scrollTop = top;
    this.#showTabs();
    this.#showView();
    if (this.selected && this.byKey.has(this.selected)) this.select(this.selected, { go: false, quiet: true });
    else this.close();
  }

  #find() {
    this.findings = reviewed(findingsOf(this.checked.content, this.judgement, this.decision), this.checked.content, this.review);
    this.byKey = new Map([...this.findings.all, ...this.findings.others].map((finding) => [finding.key, finding]));
    this.reviewing.update(this.findings, this.judgement);
    for (const step of ["previous", "next"]) this.part(step).disabled = !this.findings.all.length;
  }

  /** Draw again what depends on the reader's decisions, and stay at the finding of `place`. */
  #decided(place = this.byKey.get(this.selected)) {
    this.onReviewed();
    const top = scrollY;
    const { action } = document.activeElement.dataset; // the button that was pressed stays in focus
    this.#find();
    this.#showTabs();
    this.#showView();
    const finding = place && [...this.byKey.values()].find((one) => one.start === place.start && one.end === place.end && (one.source ?? null) === (place.source ?? null));
    if (finding) this.select(finding.key, { focus: true, go: false, quiet: true, still: true });
    else if (this.selected) this.back();
    if (action) this.root.querySelector(`[data-action="${action}"]`)?.focus({ preventScroll: true });
    scrollTo({ top, behavior: "instant" });
  }

  #listen() {
    const over = (event) => this.#light(event.target.closest?.(".mark"));
    this.root.addEventListener("pointerover", over);
    this.root.addEventListener("focusin", over);
    this.root.addEventListener("focusout", () => this.#light(null));
    this.root.addEventListener("click", (event) => this.#click(event));
    this.root.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("scroll", () => hideTip(), { capture: true, passive: true });
  }

  #click(event) {
    const tick = event.target.closest(".tick");
    if (tick) return this.sources.go(tick.dataset.go);
    const mark = event.target.closest(".mark");
    if (!mark) return undefined;
    if (mark.closest("a[href]")) event.preventDefault();
    if (getSelection()?.toString()) return undefined; // words are being selected, not clicked
    const keys = mark.dataset.keys.split(" ");
    const own = keys.find((key) => this.byKey.has(key));
    if (own) return this.select(own, { focus: true, go: !mark.closest('[data-part="sources"]') });
    const cited = keys.flatMap((key) => [...(this.related.get(key) ?? [])]);
    if (cited.length) {
      const at = cited.indexOf(this.selected); // several findings may cite it: each click goes to the next
      this.select(cited[(at + 1) % cited.length], { focus: true, go: false, text: true });
    }
    return undefined;
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select, [role=tablist]")) return;
    if (event.key === "Escape") {
      hideTip();
      if (this.selected) this.back();
    } else if (event.key === "n") this.step(1);
    else if (event.key === "p") this.step(-1);
    else this.reviewing.key(event);
  }

  /** Light up a mark and all that belongs to it; the note next to it says its score. */
  #light(mark) {
    for (const element of this.lit ?? []) element.classList.remove("lit");
    this.lit = [];
    hideTip();
    if (!mark || !this.root.contains(mark)) return;
    const keys = (mark.dataset.keys ?? "").split(" ");
    for (const key of keys.flatMap((one) => [one, ...(this.related.get(one) ?? [])])) {
      this.lit.push(...(this.shown?.elements(key) ?? []), ...this.sources.elements(key));
    }
    for (const element of this.lit) element.classList.add("lit");
    const note = this.#noteOf(keys);
    if (note) showTip(mark, note);
  }

  #noteOf(keys) {
    for (const key of keys) {
      const special = this.note?.(key);
      if (special) return special;
      const finding = this.byKey.get(key);
      if (finding) {
        if (finding.score == null) return [finding.kind === "sample" ? "drawn at random" : "reported", finding.reason && shorten(finding.reason, 140)];
        const limit = number(finding.threshold);
        const score = `${number(finding.score, finding.threshold)} · ${finding.kind === "omit" ? "left out" : "flagged"} from ${limit}`;
        return [score, finding.correction ? `The source has “${shorten(finding.correction, 80)}”` : finding.reason && shorten(finding.reason, 140)];
      }
      if (this.related.has(key)) return [`Cited for ${[...this.related.get(key)].map((one) => `“${shorten(this.byKey.get(one)?.words ?? "", 60)}”`).slice(0, 3).join(", ")}`];
      if (key.startsWith("u") || key.startsWith("g")) return ["Not judged: nothing is known of this part"];
    }
    return null;
  }

  /** Look at a finding: its mark is set off, the inspector explains it, its first passage comes into view. */
  select(key, { focus = false, go = true, text = false, quiet = false, still = false } = {}) {
    const finding = this.byKey.get(key);
    if (!finding) return;
    for (const element of this.chosen ?? []) element.classList.remove("chosen");
    this.selected = key;
    if (this.judge === 0) this.onSelected(key);
    const [cited] = this.related.get(key) ?? [];
    const inspector = this.part("inspector");
    showFinding(inspector, this.checked.content, finding, this.findings.all.length, {
      go: (place) => this.#toSource(place),
      back: () => this.back(),
      step: (n) => this.step(n),
      actions: this.reviewing.actions(finding),
    });
    if (go) this.sources.go(cited ?? key, WIDE.matches); // on a narrow screen the reader stays where they are
    const [mark] = this.shown?.reveal(key) ?? [];
    if (text) goTo(mark);
    else if (mark && !WIDE.matches && !still) mark.scrollIntoView({ block: "start" }); // above the inspector, which is at the foot
    this.chosen = [...(this.shown?.elements(key) ?? []), ...this.sources.elements(key), ...this.sources.elements(cited)];
    for (const element of this.chosen) element.classList.add("chosen");
    for (const row of this.root.querySelectorAll("[data-finding]")) {
      if (row.dataset.finding === key) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    if (focus) inspector.focus({ preventScroll: true });
    if (!quiet) this.announce([`Finding ${finding.number ?? ""}`, shorten(finding.words, 120), finding.score != null && `score ${number(finding.score, finding.threshold)}`, finding.reason, decidedOn(finding)].filter(Boolean).join(", "));
  }

  /** Go on by `n` findings, around the end. */
  step(n) {
    const { all } = this.findings;
    if (!all.length) return this.announce("There are no findings");
    if (this.view !== "text") this.#open("text");
    const at = all.findIndex((finding) => finding.key === this.selected);
    const next = all[(at < 0 ? (n > 0 ? 0 : all.length - 1) : at + n + all.length) % all.length];
    this.select(next.key, { focus: true });
    const [mark] = this.shown.reveal(next.key);
    if (mark) mark.scrollIntoView({ block: "nearest" });
    return undefined;
  }

  /** Close the inspector and return to the mark that it was about. */
  back() {
    const [mark] = [...(this.shown?.elements(this.selected) ?? []), ...this.sources.elements(this.selected)];
    this.close();
    (mark ?? this.root).focus({ preventScroll: !mark });
  }

  close() {
    for (const element of this.chosen ?? []) element.classList.remove("chosen");
    this.chosen = [];
    if (this.selected) this.onSelected(null);
    this.selected = null;
    this.part("inspector").hidden = true;
    for (const row of this.root.querySelectorAll('[data-finding][aria-current="true"]')) row.removeAttribute("aria-current");
  }

  #toSource(key) {
    this.sources.go(key);
    const [mark] = this.sources.elements(key);
    for (const element of this.sources.elements(key)) element.classList.add("chosen");
    mark?.focus({ preventScroll: true });
  }

  #showOutcome() {
    const { content, judgements } = this.checked;
    const { outcome, decisions } = this.state;
    const box = this.part("outcome");
    box.dataset.outcome = outcome;
    replace(this.part("outcome-icon"), icon(outcome));
    this.part("outcome-name").textContent = OUTCOMES[outcome];
    const several = judgements.length > 1;
    const sentences = judgements.map((judgement, i) => {
      const text = summary(content, judgement, decisions[i], i === this.judge ? this.findings : findingsOf(content, judgement, decisions[i]));
      return several ? `${visible(judgement.by)}: ${text}` : text;
    });
    replace(this.part("summary"), sentences.map((text) => h("span", { class: "sentence" }, text, " ")));
    const notes = judgements.flatMap((judgement) => judgement.notes.map((note) => (several ? `${judgement.by}: ${note}` : note)));
    replace(this.part("notes"), notes.map((note) => h("li", { dir: "auto" }, visible(note))));
    this.part("notes").hidden = !notes.length;
    const { judgement, decision } = this;
    const facts = [];
    if (judgement.hallucination !== null) facts.push(scored("Hallucination", judgement.hallucination, decision.thresholds.response, "flag"));
    if (judgement.omission !== null) facts.push(scored("Omission", judgement.omission, decision.thresholds.coverage, "omit"));
    if (judgement.usage) facts.push(h("span", {}, `${count(judgement.usage.calls ?? 0, "call")}, ${(judgement.usage.prompt_tokens ?? 0) + (judgement.usage.completion_tokens ?? 0)} tokens`));
    replace(this.part("scores"), facts);
  }

  #showJudges() {
    const names = this.checked.judgements.map((judgement) => judgement.by);
    const box = this.part("judges");
    box.hidden = names.length < 2;
    replace(
      box,
      names.map((name, i) =>
        h("button", { type: "button", "aria-pressed": String(i === this.judge), onclick: () => this.#chooseJudge(i) }, visible(name)),
      ),
    );
  }

  #chooseJudge(i) {
    this.judge = i;
    this.selected = null;
    if (this.view === "compare") this.view = "text";
    [...this.part("judges").children].forEach((button, k) => button.setAttribute("aria-pressed", String(k === i)));
    this.#showSliders();
    this.update();
  }

  #showSliders() {
    const { judgements, thresholds, own } = this.checked;
    let waiting = false;
    const moved = (level, value) => {
      thresholds[this.judge][level] = value;
      if (waiting) return;
      waiting = true; // a slider moves more often than the page is drawn
      requestAnimationFrame(() => {
        waiting = false;
        this.update();
        this.announce(`${OUTCOMES[this.state.outcome]}, ${count(this.findings.all.length, "finding")}`);
      });
    };
    const i = this.judge;
    const sliders = thresholdSliders(judgements[i], thresholds[i], own[i], moved);
    replace(this.part("sliders"), sliders.length ? sliders : h("p", { class: "empty" }, "This detector gave no score."));
  }

  #views() {
    const claims = this.judgement.verdicts.some((verdict) => verdict.claim);
    return Object.keys(VIEWS).filter((view) => {
      if (view === "claims") return claims;
      if (view === "map") return Boolean(this.detectors[this.judge]?.maps);
      if (view === "compare") return this.checked.judgements.length > 1;
      return true;
    });
  }

  #showTabs() {
    const views = this.#views();
    if (!views.includes(this.view)) this.view = "text";
    const tabs = this.part("tabs");
    const focused = tabs.contains(document.activeElement);
    replace(
      tabs,
      views.map((view) =>
        h(
          "button",
          {
            type: "button", role: "tab", id: `tab-${view}`, "aria-controls": "view", "aria-selected": String(view === this.view),
            tabindex: view === this.view ? 0 : -1, onclick: () => this.#open(view), onkeydown: (event) => this.#tabKey(event, views),
          },
          VIEWS[view],
          view === "text" && h("span", { class: "badge" }, String(this.findings.all.length)),
        ),
      ),
    );
    this.part("view").setAttribute("aria-labelledby", `tab-${this.view}`);
    this.root.dataset.view = this.view;
    if (focused) tabs.querySelector('[aria-selected="true"]').focus();
  }

  #tabKey(event, views) {
    const at = views.indexOf(this.view);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + views.length, Home: 0, End: views.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#open(views[next % views.length]);
  }

  #open(view) {
    this.view = view;
    this.#showTabs();
    this.#showView();
    if (this.selected) this.select(this.selected, { go: false, quiet: true });
  }

  #showView() {
    const box = this.part("view");
    const { content } = this.checked;
    this.note = null;
    this.shown = null;
    this.lit = [];
    if (this.view === "words") this.note = showHeat(box, content, this.judgement, this.decision.thresholds.span);
    else if (this.view === "claims") replace(box, this.#claims());
    else if (this.view === "map") this.#mapView(box);
    else if (this.view === "revision") this.#revisionView(box);
    else if (this.view === "compare") this.note = showComparison(box, this.checked, this.state.decisions);
    else this.#findingsView(box);
  }

  #findingsView(box) {
    const { content } = this.checked;
    const text = h("div", { class: "text response" });
    this.shown = showText(text, content.response, responseMarks(content, this.judgement, this.findings));
    const { flagged, omissions, others, missed, samples } = this.findings;
    replace(
      box,
      content.question ? h("p", { class: "question" }, h("span", { class: "soft" }, "Question "), h("span", { dir: "auto" }, visible(content.question))) : null,
      this.#history(),
      text,
      this.judgement.reason ? h("p", { class: "soft", dir: "auto" }, visible(this.judgement.reason)) : null,
      flagged.length ? [h("h2", {}, "Not backed"), this.#list(flagged)] : null,
      missed.length ? [h("h2", {}, "Reported errors"), this.#list(missed)] : null,
      samples.length ? [h("h2", {}, "Drawn at random"), this.#list(samples)] : null,
      omissions.length ? [h("h2", {}, "Left out of the response"), this.#list(omissions)] : null,
      others.length && !this.judgement.verdicts.some((verdict) => verdict.claim)
        ? h("details", {}, h("summary", {}, `Below the threshold, with evidence (${others.length})`), this.#list(others))
        : null,
    );
  }

  /** The turns before this one of a conversation, laid out when they are looked at. */
  #history() {
    const { history = [] } = this.checked.content.kept;
    if (!history.length) return null;
    const turns = h("ol", { class: "turns" });
    const show = () => {
      if (turns.childElementCount) return;
      replace(turns, history.map(({ speaker, text }) => h("li", { class: "chunk" }, h("b", {}, visible(speaker)), h("p", { dir: "auto" }, visible(text)))));
    };
    return h("details", { class: "history", ontoggle: show }, h("summary", {}, `Earlier turns (${history.length})`), turns);
  }

  #claims() {
    const verdicts = [...this.findings.flagged, ...this.findings.others].filter((finding) => finding.claim);
    verdicts.sort((a, b) => a.start - b.start || a.end - b.end);
    const high = verdicts.filter((finding) => finding.kind === "flag").length;
    const lead = `${count(verdicts.length, "claim")}: ${verdicts.length - high} below the threshold, ${high} flagged.`;
    return [h("p", { class: "lead" }, lead), this.#list(verdicts, (finding) => finding.claim.text)];
  }

  #list(findings, words = (finding) => finding.words) {
    const list = h("ol", { class: "findings" });
    const add = (from, to) => list.append(...findings.slice(from, to).map((finding) => this.#row(finding, words(finding))));
    add(0, LISTED);
    if (findings.length <= LISTED) return list;
    const more = h("button", { type: "button", class: "quiet" }, `Show ${findings.length - LISTED} more`);
    more.addEventListener("click", () => {
      more.remove();
      add(LISTED);
    });
    return [list, more];
  }

  #row(finding, words) {
    const told = finding.correction
      ? ["the source has ", h("ins", {}, shorten(finding.correction, 80))]
      : finding.reason && shorten(finding.reason, 160);
    const cited = finding.claim && finding.evidence.length ? count(finding.evidence.length, "passage") : null;
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: `finding ${finding.kind}`, "data-finding": finding.key, onclick: () => this.select(finding.key, { focus: true }) },
        h("span", { class: "index" }, finding.number ? String(finding.number) : icon("clear")),
        h("span", { class: "words", dir: "auto" }, shorten(words, 140)),
        h("span", { class: "state" }, decidedOn(finding) && h("span", { class: "chip" }, decidedOn(finding)), finding.score != null && meter(finding)),
        told || cited ? h("span", { class: "told soft", dir: "auto" }, told ?? cited) : null,
      ),
    );
  }

  /** The map is made only when it is looked at: it can cost as much as the check itself. */
  async #mapView(box) {
    const judge = this.judge;
    if (!this.maps.has(judge)) {
      replace(box, h("p", { class: "soft" }, "Asking for the map …"));
      const map = await this.onMap(judge);
      if (map) this.maps.set(judge, map);
      if (this.view !== "map" || this.judge !== judge) return;
      if (!map) return replace(box, h("p", { class: "empty" }, "There is no map of this response."));
    }
    this.note = showMap(box, this.checked.content, this.maps.get(judge));
  }

  #revisionView(box) {
    const own = h("div", {});
    const { resolutions, response } = this.review;
    const rest = this.review.of(REST) !== null;
    const toggleRest = () => {
      if (rest) this.review.withdraw(REST);
      else this.review.resolve(REST);
      this.#decided();
    };
    showOwnRevision(own, { response, edits: this.findings.edits, decided: resolutions.length > 0, rest }, { ...this.own, toggleRest });
    const suggestion = h("div", { class: "suggestion" });
    const start = h("button", { type: "button", class: "quiet", onclick: () => this.onRevise(suggestion, this.judge) }, "Suggest a revision");
    const about = "Takes out what is not backed, has the text judged again by the same detector, and keeps the change only if the text is better for it.";
    replace(suggestion, h("p", { class: "soft" }, about), h("p", {}, start));
    replace(box, own, this.detectors[this.judge] ? suggestion : null);
  }
}

function scored(name, score, threshold, kind) {
  return h("span", { class: "scored" }, h("span", { class: "soft" }, name), meter({ score, threshold, kind }));
}
