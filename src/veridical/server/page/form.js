// What is checked: a response, its sources, the detectors. Knows the fields, not what is done with them.

import { readCase } from "./checked.js";
import { h, icon, replace } from "./dom.js";
import { blank, count, countWords, shorten, visible } from "./text.js";

const LARGE = 20000; // characters; a longer source is shown by its beginning until it is edited, and no words are counted in a longer text
const BEGINNING = 700;

/** The form of index.html; `read(file)` gives a promise of the text, pages and notes of a file, `fail(line)` shows what went wrong. */
export class Form {
  constructor(root, { read, fail, submit, open }) {
    this.root = root;
    this.read = read;
    this.fail = fail;
    this.open = open;
    this.response = root.querySelector("#response");
    this.question = root.querySelector("#question");
    this.explain = root.querySelector("#explain");
    this.list = root.querySelector("#sources");
    this.cards = [];
    this.add();
    root.addEventListener("submit", (event) => {
      event.preventDefault();
      submit();
    });
    root.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) root.requestSubmit();
    });
    this.response.addEventListener("input", () => this.#counted());
    this.offered = [];
    root.querySelector("#detectors").addEventListener("change", () => this.#saidWithoutSources());
    root.querySelector("#add-source").addEventListener("click", () => this.add().focus());
    const picker = root.querySelector("#files");
    root.querySelector("#add-files").addEventListener("click", () => picker.click());
    picker.addEventListener("change", () => this.addFiles([...picker.files]).then(() => (picker.value = "")));
    const responsePicker = root.querySelector("#response-file");
    root.querySelector("#add-response").addEventListener("click", () => responsePicker.click());
    responsePicker.addEventListener("change", () => this.#responseFile(responsePicker.files[0]).then(() => (responsePicker.value = "")));
    dropTarget(root.querySelector("#response-box"), (files) => this.#responseFile(...files));
    dropTarget(root.querySelector("#sources-box"), (files) => this.addFiles(files));
  }

  /** Fill the form with a case of checked.js. */
  fill({ response, question, sources, kept }) {
    this.kept = kept;
    this.response.value = response;
    this.question.value = question ?? "";
    this.cards = [];
    replace(this.list);
    for (const source of sources) this.add(source);
    if (!sources.length) this.add();
    this.#counted();
  }

  /** What is in the fields, as `fill` takes it. */
  get content() {
    return readCase({ ...this.kept, response: this.response.value, question: this.question.value, sources: this.cards.map((card) => card.value) });
  }

  /** The case as JSON; throws an Error with one line where something is missing. */
  get case() {
    const response = this.response.value;
    if (blank(response)) throw new Error("The response is empty: paste the text to check.");
    const sources = this.cards.map((card) => card.value).filter((source) => !blank(source.text));
    const seen = new Set();
    for (const source of sources) {
      if (seen.has(source.id)) throw new Error(`Two sources are called "${source.id}": give each its own name.`);
      seen.add(source.id);
    }
    const question = this.question.value;
    return { ...this.kept, response, sources, ...(blank(question) ? {} : { question }) };
  }

  /** The detectors that are ticked. */
  get detectors() {
    return [...this.root.querySelectorAll('input[name="detector"]:checked')].map((box) => box.value);
  }

  /** Offer the detectors of the server; the first is ticked, or those that were ticked before. */
  offer(detectors) {
    const box = this.root.querySelector("#detectors");
    const ticked = box.childElementCount ? this.detectors : detectors.slice(0, 1).map((detector) => detector.name);
    const rows = detectors.map((detector) => {
      const about = [detector.about.replaceAll("`", ""), detector.needs_sources ? "Needs sources." : "Works without sources.", detector.problem];
      return h(
        "label",
        { class: "detector" },
        h("input", { type: "checkbox", name: "detector", value: detector.name, checked: ticked.includes(detector.name) }),
        h("span", { class: "name" }, visible(detector.name)),
        h("span", { class: "soft" }, visible(about.filter(Boolean).join(" "))),
      );
    });
    replace(box, rows);
    this.offered = detectors;
    this.#saidWithoutSources();
  }

  #saidWithoutSources() {
    const ticked = this.offered.filter((detector) => this.detectors.includes(detector.name));
    const able = ticked.filter((detector) => !detector.needs_sources);
    const said = able.length === ticked.length ? "the response is judged by itself" : able.length ? `only ${able.map((detector) => detector.name).join(", ")} can judge` : "nothing can be judged";
    this.root.querySelector("#without-sources").textContent = ticked.length ? `without any, ${visible(said)}` : "";
  }

  /** A further source; gives back its card. */
  add(source = {}) {
    const card = new SourceCard({ id: this.#freeId(), text: "", mustCover: false, ...source }, () => {
      this.cards = this.cards.filter((other) => other !== card);
      card.element.remove();
      if (!this.cards.length) this.add();
      this.root.querySelector("#add-source").focus();
    });
    this.cards.push(card);
    this.list.append(card.element);
    return card;
  }

  /** Sources from files; one that cannot be read is named with the reason, the others are taken. */
  async addFiles(files) {
    for (const file of await this.#unopened(files)) {
      const busy = h("li", { class: "card busy" }, `Reading ${visible(file.name)} …`);
      this.list.append(busy);
      try {
        const { text, pages, notes } = await this.read(file);
        const unused = this.cards.filter((card) => blank(card.value.text));
        for (const card of unused) card.element.remove();
        this.cards = this.cards.filter((card) => !unused.includes(card));
        this.add({ id: this.#freeId(file.name), text, pages });
        notes.forEach((note) => this.fail(note));
      } catch (error) {
        this.fail(`${file.name}: ${error.message.replace(`${file.name}: `, "")}`);
      }
      busy.remove();
    }
  }

  async #responseFile(...files) {
    const [file, ...others] = await this.#unopened(files);
    if (!file) return;
    if (others.length) {
      this.fail(`${files.length} files: a response is one file. Drop sources on the sources.`);
      return;
    }
    try {
      this.response.value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      this.#counted();
    } catch {
      this.fail(`${file.name}: not a text in UTF-8. A response is checked as it is; a source may be a PDF.`);
    }
  }

  /** Open the files of cases and results, all at once; gives back the others. */
  async #unopened(files) {
    const json = files.filter((file) => file && /\.(json|jsonl|ndjson)$/i.test(file.name));
    if (!json.length) return files.filter(Boolean);
    const others = this.open(await Promise.all(json.map(async (file) => [file.name, await file.text()])));
    return files.filter((file) => !json.includes(file) || others.includes(file.name));
  }

  #freeId(wanted) {
    const taken = new Set(this.cards.map((card) => card.value.id));
    const names = wanted ? [wanted] : [];
    for (let i = wanted ? 2 : this.cards.length + 1; ; i += 1) {
      names.push(wanted ? `${wanted} (${i})` : `source ${i}`);
      const free = names.find((name) => !taken.has(name));
      if (free) return free;
    }
  }

  #counted() {
    const { value } = this.response;
    this.root.querySelector("#response-count").textContent = value.length > LARGE ? count(value.length, "character") : value ? count(countWords(value), "word") : "";
  }
}

class SourceCard {
  constructor({ id, text, mustCover, pages, ...others }, remove) {
    const { perspective, citation, metadata } = others;
    this.rest = Object.fromEntries(Object.entries({ perspective, citation, metadata, pages: pages?.length ? pages : null }).filter(([, value]) => value));
    this.text = text;
    this.id = h("input", { type: "text", class: "id", value: id, "aria-label": "Name of the source", spellcheck: "false" });
    this.must = h("input", { type: "checkbox", checked: mustCover });
    this.body = h("div", { class: "body" });
    this.size = h("span", { class: "soft size" });
    this.element = h(
      "li",
      { class: "card" },
      h(
        "div",
        { class: "card-head" },
        this.id,
        this.size,
        h("label", { class: "switch" }, this.must, h("span", {}, "must be covered")),
        h("button", { type: "button", class: "round", "aria-label": "Remove this source", title: "Remove this source", onclick: remove }, icon("remove")),
      ),
      this.body,
    );
    if (text.length > LARGE) this.#preview();
    else this.#area();
  }

  /** The source as JSON. */
  get value() {
    return { id: this.id.value.trim() || "source", text: this.text, ...(this.must.checked ? { must_cover: true } : {}), ...this.rest };
  }

  focus() {
    this.body.querySelector("textarea, button")?.focus();
  }

  #area() {
    const area = h("textarea", { rows: 5, placeholder: "Paste a source, or drop a file", "aria-label": "Text of the source", dir: "auto" });
    area.value = this.text;
    area.addEventListener("input", () => {
      this.text = area.value;
      delete this.rest.pages; // they begin elsewhere now
      this.#sized();
    });
    replace(this.body, area);
    this.#sized();
  }

  #preview() {
    const edit = () => {
      this.#area();
      this.focus();
    };
    replace(
      this.body,
      h("p", { class: "preview", dir: "auto" }, `${shorten(this.text.slice(0, BEGINNING), BEGINNING)} …`),
      h("button", { type: "button", class: "quiet small", onclick: edit }, "Edit the text"),
    );
    this.#sized();
  }

  #sized() {
    this.size.textContent = this.text ? count(this.text.length, "character") : "";
  }
}

/** Take files that are dropped on an element. */
export function dropTarget(element, drop) {
  const files = (event) => event.dataTransfer?.types.includes("Files");
  for (const type of ["dragenter", "dragover"]) {
    element.addEventListener(type, (event) => {
      if (!files(event)) return;
      event.preventDefault();
      element.classList.add("over");
    });
  }
  element.addEventListener("dragleave", (event) => {
    if (!element.contains(event.relatedTarget)) element.classList.remove("over");
  });
  element.addEventListener("drop", (event) => {
    element.classList.remove("over");
    if (!files(event)) return;
    event.preventDefault();
    drop([...event.dataTransfer.files]);
  });
}
