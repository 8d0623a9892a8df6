// The history: the list of runs, the cases of a run with filters and pages, and files that are imported.

import { addressOf } from "./addresses.js";
import * as api from "./api.js";
import { decided, readChecked } from "./checked.js";
import { h, replace } from "./dom.js";
import { OUTCOMES, findingsOf } from "./findings.js";
import { learningPanel } from "./learning.js";
import { comparisonCases, comparisonFigures, table, trendChart } from "./run_comparison.js";
import { decisionsOf, storedReview } from "./stored.js";
import { count, number, shorten, visible } from "./text.js";

const STATES = { ...OUTCOMES, waiting: "Waiting", failed: "Failed" };
const ORIGINS = { check: "Check", import: "File", proxy: "Chat" };
const COLUMNS = { number: "No.", outcome: "Outcome", score: "Score", flagged: "Findings", decided: "Decided", cause: "Cause", name: "Id" };
const FACETS = { kind: "Kind of error", cause: "Cause", source: "Source", label: "Label", detector: "Flagged by" };
const EXPORTS = [
  ["examples", "Save labelled examples", "examples.jsonl"],
  ["csv", "Save decisions as CSV", "decisions.csv"],
  ["label-studio", "Save for Label Studio", "label-studio.json"],
];
const POLL = 1000; // milliseconds between two looks at an import
const TITLE = "Veridical";

/** Shows the history in `root`; `form` has the detectors for imports, `busy`, `fail`, `save` and `announce` are those of the page. */
export class Desk {
  #shown = 0; // counts what was shown, so that a late answer is not shown over a newer one
  #before = new Map(); // the address of the page before, by address

  constructor(root, { form, announce, busy, fail, save }) {
    this.root = root;
    this.form = form;
    this.announce = announce;
    this.busy = busy;
    this.fail = fail;
    this.save = save;
    this.role = "check";
    this.listed = []; // the numbers of the cases on the page of a run that was shown last, for the steps between cases
  }

  /** Hide it; what is still to come is not shown any more. */
  hide() {
    this.#shown += 1;
    this.root.hidden = true;
    document.title = TITLE;
  }

  /** Show what an address names; a promise. */
  async show({ run, query }) {
    this.#shown += 1;
    await this.busy("Reading the history …", (signal) => {
      if (run !== null) return this.#showRun(run, query, signal);
      return query.has("compare") ? this.#showComparison(query, signal) : this.#showRuns(query, signal);
    });
  }

  #draw(title, ...children) {
    document.title = `${title} – ${TITLE}`;
    const focused = this.root.contains(document.activeElement) ? document.activeElement.id : "";
    replace(this.root, h("h1", { id: "desk-title", tabindex: "-1" }, title), ...children);
    this.root.hidden = false;
    const again = focused ? this.root.querySelector(`[id="${focused}"]`) : null;
    again?.focus();
    if (document.activeElement !== again) this.root.querySelector("h1").focus({ preventScroll: true });
  }

  async #showRuns(query, signal) {
    const page = await api.getRuns(query, signal);
    const picker = h("input", { type: "file", multiple: true, hidden: true, onchange: () => this.take([...picker.files]) });
    const rows = page.runs.map((run) =>
      h(
        "tr",
        {},
        h("td", {}, h("input", { type: "checkbox", "data-run": run.id, "aria-label": `Compare ${nameOf(run)}`, onchange: () => this.#chosenRuns() })),
        h("th", { scope: "row" }, h("a", { href: addressOf({ run: run.id }) }, nameOf(run))),
        h("td", {}, when(run.created)),
        h("td", { class: "number" }, count(total(run), "case")),
        h("td", {}, counts(run)),
        h("td", { class: "soft wide" }, visible(run.about.detectors.map((one) => one.name).join(", "))),
      ),
    );
    this.#draw(
      "History",
      h("p", { class: "actions" },
        h("button", { type: "button", class: "quiet", id: "import", onclick: () => picker.click() }, "Import a file"), picker,
        h("span", { class: "soft" }, "or drop it here: CSV, Excel, JSON, JSON Lines, Parquet"),
        h("button", { type: "button", class: "quiet", id: "compare", disabled: true, onclick: () => this.#compare() }, "Compare two runs")),
      page.runs.length ? table("Runs", [h("td", {}), ...["Run", "Begun", "Cases", "Outcomes", "Detectors"].map((name) => h("th", { scope: "col", class: name === "Detectors" ? "wide" : null }, name))], rows) : h("p", { class: "empty" }, "Nothing is kept yet."),
      this.#pages(page.next, query, {}),
    );
    this.announce(count(page.runs.length, "run"));
  }

  /** The boxes of the runs that are chosen. */
  #chosenBoxes() {
    return [...this.root.querySelectorAll("input[data-run]")].filter((box) => box.checked);
  }

  #chosenRuns() {
    this.root.querySelector("[id=compare]").disabled = this.#chosenBoxes().length !== 2;
  }

  /** Compare the two chosen runs, the older one first. */
  #compare() {
    const [second, first] = this.#chosenBoxes().map((box) => box.dataset.run);
    this.#go(addressOf({ query: new URLSearchParams({ compare: `${first},${second}` }) }));
  }

  async #showComparison(query, signal) {
    const [first, second] = query.get("compare").split(",");
    const offset = Number(query.get("offset") ?? 0);
    const [found, ...runs] = await Promise.all([api.getComparison(first, second, offset, signal), api.getRun(first, signal), api.getRun(second, signal)]);
    const names = runs.map((run) => `${nameOf(run)}, ${when(run.created)}`);
    const links = runs.map((run, i) => h("a", { href: addressOf({ run: run.id }) }, names[i]));
    const shown = offset + found.cases.length;
    const more = (text, from) => h("a", { href: addressOf({ query: new URLSearchParams({ compare: `${first},${second}`, offset: String(from) }) }) }, text);
    this.#draw(
      "Two runs",
      h("p", { class: "soft" }, h("a", { href: addressOf() }, "All runs"), " · first: ", links[0], " · second: ", links[1]),
      comparisonFigures(found, ["First run", "Second run"], STATES),
      h("h2", {}, count(found.changed, "case with another outcome", "cases with another outcome")),
      found.cases.length ? comparisonCases(found, ["First run", "Second run"], STATES) : null,
      h("nav", { class: "actions", "aria-label": "Pages" }, offset ? more("First page", 0) : null, shown < found.changed ? more("Next page", shown) : null),
    );
    this.announce(`${count(found.changed, "case")} changed`);
  }

  /** What opens to show runs of the same name over time. */
  #trend(run) {
    const box = h("div", {});
    const details = h("details", { id: "trend" }, h("summary", {}, "Over time"), box);
    details.addEventListener("toggle", async () => {
      if (!details.open || box.childElementCount) return;
      await this.busy("Reading the runs …", async (signal) => replace(box, trendChart((await api.getTrend(run.id, signal)).points, run.id)));
    });
    return details;
  }

  async #showRun(id, query, signal) {
    const shown = this.#shown;
    const [run, page, facets] = await Promise.all([api.getRun(id, signal), api.getCases(id, query, signal), api.getFacets(id, signal)]);
    if (shown !== this.#shown) return;
    this.run = run;
    this.listed = page.cases.map((one) => one.number);
    this.query = query;
    const title = nameOf(run);
    const progress = h("p", { id: "import-progress" });
    const rows = page.cases.map((one) => this.#caseRow(id, one));
    this.#draw(
      title,
      h("p", { class: "soft" }, h("a", { href: addressOf() }, "All runs"), ` · ${when(run.created)}`, run.by && ` · ${visible(run.by)}`, " · ", visible(run.about.detectors.map((one) => one.name).join(", "))),
      progress,
      run.name ? this.#trend(run) : null,
      learningPanel(run, { role: this.role, busy: this.busy, announce: this.announce, review: () => this.#go(addressOf({ run: id, query: new URLSearchParams({ sampled: "true" }) })) }),
      this.#filters(id, query, facets),
      h("p", { class: "actions" }, h("b", { id: "total" }, count(page.total, "case")), this.#bulk()),
      table(`Cases of ${title}`, [h("td", {}, this.#all()), ...Object.entries(COLUMNS).map(([name, text]) => this.#column(id, query, name, text)), h("th", { scope: "col", class: "wide" }, "Response")], rows),
      this.#pages(page.next, query, { run: id }),
      h(
        "p",
        { class: "actions" },
        EXPORTS.map(([form, text, file]) => h("button", { type: "button", class: "quiet", id: `save-${form}`, onclick: () => this.#saveExamples(form, file) }, text)),
        this.role === "admin" ? h("button", { type: "button", class: "quiet", id: "delete-run", onclick: () => this.#deleteRun() }, "Delete this run") : null,
      ),
    );
    this.#selected();
    this.announce(`${title}: ${count(page.total, "case")}`);
    this.#follow(run, progress, shown);
  }

  #caseRow(id, one) {
    const box = h("input", { type: "checkbox", "data-number": one.number, "aria-label": `Select case ${one.number}`, onchange: () => this.#selected() });
    return h(
      "tr",
      {},
      h("td", {}, box),
      h("th", { scope: "row", class: "number" }, h("a", { href: addressOf({ run: id, number: one.number }) }, String(one.number))),
      h("td", {}, h("span", { class: `chip ${one.outcome}` }, STATES[one.outcome])),
      h("td", { class: "number" }, one.score === null ? "–" : number(one.score)),
      h("td", { class: "number" }, String(one.flagged)),
      h("td", { class: "number" }, String(one.decided)),
      h("td", {}, one.cause),
      h("td", { class: "id" }, visible(one.name)),
      h("td", { class: "wide", dir: "auto" }, visible(one.problem || one.beginning)),
    );
  }

  /** The head of a column; a press sorts by it, another the other way. */
  #column(id, query, name, text) {
    const isSorted = (query.get("sort") ?? "number") === name;
    const descending = query.get("descending") === "true";
    const next = new URLSearchParams(query);
    next.delete("cursor");
    next.set("sort", name);
    next.set("descending", String(isSorted ? !descending : ["score", "flagged", "decided"].includes(name)));
    const sort = isSorted ? (descending ? "descending" : "ascending") : null;
    return h("th", { scope: "col", "aria-sort": sort }, h("a", { id: `sort-${name}`, href: addressOf({ run: id, query: next }) }, text, sort && h("span", { "aria-hidden": "true" }, descending ? " ↓" : " ↑")));
  }

  #filters(id, query, facets) {
    const choice = (name, text, options) =>
      h("label", {}, text, h("select", { name, id: `filter-${name}` }, h("option", { value: "" }, "any"), options.map(([value, shown]) => h("option", { value, selected: query.get(name) === value }, shown))));
    const has = Object.entries(FACETS).filter(([kind]) => Object.keys(facets[kind]).length);
    const send = () => {
      const next = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
      for (const kept of ["sort", "descending"]) if (query.has(kept)) next.set(kept, query.get(kept));
      this.#go(addressOf({ run: id, query: next }));
    };
    const form = h(
      "form",
      {
        class: "filters", role: "search", "aria-label": "Filter the cases", novalidate: true,
        onsubmit: (event) => {
          event.preventDefault();
          send();
        },
        onchange: send,
      },
      h("label", {}, "Words", h("input", { type: "text", name: "search", id: "filter-search", value: query.get("search") ?? "", dir: "auto" })),
      choice("outcome", "Outcome", Object.entries(STATES)),
      choice("score_min", "Score from", ["0.25", "0.5", "0.75", "0.9"].map((value) => [value, value])),
      choice("decided", "Decided", [["true", "yes"], ["false", "no"]]),
      choice("sampled", "Drawn at random", [["true", "yes"], ["false", "no"]]),
      has.map(([kind, text]) => choice(kind, text, Object.entries(facets[kind]).map(([value, n]) => [value, `${shorten(value, 60)} (${n})`]))),
      h("button", { class: "quiet small" }, "Find"),
    );
    return form;
  }

  #pages(next, query, place) {
    const here = addressOf({ ...place, query });
    const links = [];
    if (query.has("cursor")) {
      const first = new URLSearchParams(query);
      first.delete("cursor");
      links.push(h("a", { href: addressOf({ ...place, query: first }) }, "First page"));
      if (this.#before.has(here)) links.push(h("a", { href: this.#before.get(here) }, "Previous page"));
    }
    if (next !== null) {
      const following = new URLSearchParams(query);
      following.set("cursor", next);
      const address = addressOf({ ...place, query: following });
      this.#before.set(address, here);
      links.push(h("a", { href: address, id: "next-page" }, "Next page"));
    }
    return links.length ? h("nav", { class: "actions", "aria-label": "Pages" }, links) : null;
  }

  #all() {
    const all = h("input", { type: "checkbox", id: "select-all", "aria-label": "Select all cases on this page" });
    all.addEventListener("change", () => {
      for (const box of this.#boxes()) box.checked = all.checked;
      this.#selected();
    });
    return all;
  }

  #boxes() {
    return [...this.root.querySelectorAll("input[data-number]")];
  }

  #bulk() {
    const button = (id, text, work) => h("button", { type: "button", class: "quiet small", id, disabled: true, onclick: work }, text);
    return h(
      "span",
      { class: "actions", id: "bulk", role: "group", "aria-label": "Selected cases" },
      button("bulk-keep", "Keep all findings", () => this.#decideAll("keep")),
      button("bulk-wrong", "All findings are wrong", () => this.#decideAll("wrong")),
      button("bulk-undecide", "Take decisions back", () => this.#decideAll(null)),
      this.role === "admin" ? button("bulk-delete", "Delete", () => this.#deleteAll()) : null,
      (this.chosen = h("span", { class: "soft" })),
    );
  }

  #selected() {
    const n = this.#boxes().filter((box) => box.checked).length;
    for (const button of this.root.querySelectorAll("#bulk button")) button.disabled = !n;
    this.chosen.textContent = n ? `${n} selected` : "";
  }

  async #eachSelected(text, work) {
    const numbers = this.#boxes().filter((box) => box.checked).map((box) => Number(box.dataset.number));
    await this.busy(text, async (signal) => {
      for (const one of numbers) await work(one, signal);
      await this.#showRun(this.run.id, this.query, signal);
      this.announce(`${count(numbers.length, "case")} done`);
    });
  }

  /** Decide about every finding of the selected cases that nobody decided about, or take all decisions back. */
  async #decideAll(action) {
    await this.#eachSelected("Saving decisions …", async (one, signal) => {
      const stored = await api.getCase(this.run.id, one, signal);
      if (stored.document?.veridical !== "check/2") return;
      const checked = readChecked(stored.document);
      const review = storedReview(checked.content, action ? stored.decisions : []);
      const { decisions } = decided(checked);
      const findings = action ? checked.judgements.flatMap((judgement, i) => findingsOf(checked.content, judgement, decisions[i]).all) : [];
      for (const { start, end, source = null, reason = null, label = null, error = null } of findings) {
        if (!review.of({ start, end, source })) review.resolve({ start, end, source, reason, label, error, action });
      }
      await api.putDecisions(this.run.id, one, { decisions: decisionsOf(checked.content, review), version: stored.version }, signal);
    });
  }

  async #deleteAll() {
    const n = this.#boxes().filter((box) => box.checked).length;
    if (!confirm(`Delete ${count(n, "case")} for good?`)) return;
    await this.#eachSelected("Deleting …", (one, signal) => api.deleteCase(this.run.id, one, signal));
  }

  async #saveExamples(form, file) {
    await this.busy("Writing the decisions …", async (signal) => this.save(file, await api.getExamples(this.run.id, form, signal)));
  }

  async #deleteRun() {
    if (!confirm(`Delete ${nameOf(this.run)} with ${count(total(this.run), "case")} for good?`)) return;
    await this.busy("Deleting …", async (signal) => {
      await api.deleteRun(this.run.id, signal);
      this.#go(addressOf());
    });
  }

  /** Import files, and show the run of the last. */
  async take(files) {
    await this.busy("Sending the file …", async (signal) => {
      let run = null;
      for (const file of files) run = await api.importFile(file, { detector: this.form.detectors, explain: this.form.explain.checked }, signal);
      if (run) this.#go(addressOf({ run: run.id }));
    });
  }

  #go(address) {
    if (location.hash === address) this.onGo();
    else location.hash = address;
  }

  /** Say how far an import is, until it is done. */
  async #follow(run, progress, shown) {
    for (let current = run; shown === this.#shown; ) {
      const waiting = current.cases.waiting ?? 0;
      const all = total(current);
      progress.hidden = current.state === "done" && !current.problem;
      const state = { reading: "Reading the file …", paused: "Paused", judging: `${all - waiting} of ${count(all, "case")} judged`, done: "" }[current.state];
      replace(progress, h("progress", { max: all || 1, value: all - waiting, "aria-label": "Judged cases", hidden: current.state === "done" }), " ", visible([state, current.problem].filter(Boolean).join(": ")));
      if (current.state === "done") {
        if (current !== run) await this.show({ run: run.id, query: this.query });
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, POLL));
      if (shown !== this.#shown) return;
      try {
        current = await api.getRun(run.id);
      } catch (error) {
        this.fail(error.message, error.status);
        return;
      }
    }
  }
}

const nameOf = (run) => visible(run.name) || `${ORIGINS[run.origin]} ${run.id.slice(0, 6)}`;

const total = (run) => Object.values(run.cases).reduce((sum, n) => sum + n, 0);

const when = (text) => new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });

/** The numbers of cases by outcome, worst first. */
function counts(run) {
  const order = ["flagged", "unjudged", "clear", "no_claim", "failed", "waiting"];
  return order.filter((name) => run.cases[name]).map((name) => [h("span", { class: `chip ${name}` }, `${run.cases[name]} ${STATES[name].toLowerCase()}`), " "]);
}
