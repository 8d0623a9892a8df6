"""Read sets of sentence pairs that are labelled by whether the premise entails the hypothesis. Each has its reader."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, text_id
from veridical.io.files import read_text
from veridical.io.jsonl import json_error, refuse
from veridical.records.errors import DataError
from veridical.records.types import Case, Example, Judgement, Level, Source, Turn
from veridical_lab.datasets.files import FileSet, found_file
from veridical_lab.datasets.linking import linked
from veridical_lab.datasets.reading import csv_rows, group, json_rows

_SCORES = {"entailment": 0.0, "neutral": 1.0, "contradiction": 1.0, "not entailed": 1.0, "partial": 1.0}
NAMED = {name: name for name in ("entailment", "neutral", "contradiction")}
SUPPORT = {"supports": "entailment", "refutes": "contradiction", "not enough info": "neutral"}


@dataclass(frozen=True, slots=True)
class Pair:
    """One source with one statement about it.

    Attributes:
        source: The premise, passage or knowledge.
        response: The hypothesis, claim or reply.
        label: A key of `_SCORES`. None if the pair has no label.
        document: The name of the document. Default: the source text.
        version: What the case's id ends with, so that the pairs of one row have different ids.
        history: The turns before the response.
        groups: The groups of the example, in addition to the label.
        note: Why the pair has no label.
    """

    source: str
    response: str
    label: str | None
    document: str | None = None
    version: str | None = None
    history: tuple[Turn, ...] = ()
    groups: Mapping[str, object] = field(default_factory=dict)
    note: str = "no label"


@dataclass(frozen=True)
class PairSet:
    """Reads one set of labelled pairs.

    Attributes:
        INFO: The description of the set.
        files: The file of each split.
        rows: A function that reads the rows of one file.
        pairs: A function that makes the pairs of one row.
        linked: Whether pairs that share a premise or a hypothesis, directly or through other pairs, belong to the same
            document. If so, all rows are held in memory, and the name of a document depends on which splits you read.
    """

    INFO: Info
    files: Mapping[str, str]
    rows: Callable[[Path, OnBad], Iterable[Row]]
    pairs: Callable[[Row], Iterable[Pair]]
    linked: bool = False

    def read(self, path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
        """Read the labelled pairs in all files in `path`, or only those of one split.

        `on_bad` is also called for the rows that are left out.
        """
        examples = FileSet(self.INFO, self.files, self.rows, self._make).read(path, split, on_bad=on_bad)
        return _link(examples) if self.linked else examples

    def _make(self, part: str, row: Row) -> Iterator[Example]:
        for pair in self.pairs(row):
            id = f"{part}/{row.number}" + (f"/{pair.version}" if pair.version else "")
            case = Case(id, pair.response, (Source("source", pair.source),), history=pair.history)
            by = f"human:{self.INFO.name}"
            if pair.label is None:
                gold = Judgement(id, by, judged=(), notes=(pair.note,))
            else:
                gold = Judgement(id, by, _SCORES[pair.label])
            groups = group(label=pair.label, version=pair.version, **pair.groups)
            yield Example(case, gold, pair.document or text_id(pair.source), groups)


def _link(examples: Iterable[Example]) -> Iterator[Example]:
    """Give one document to all examples that share a source text or a response, directly or through others."""
    examples = list(examples)
    names = linked((example.case.response, example.case.sources[0].text) for example in examples)
    for example in examples:
        yield replace(example, document=text_id(names[example.case.response]))


# Rows


_table = partial(csv_rows, delimiter="\t")
_tsv = partial(_table, quoted=False)


def _lists(path: Path, on_bad: OnBad) -> Iterator[Row]:
    """Read the rows of a JSON array. The two texts in `sentence`, each after "NAME: ", become `first` and `second`."""
    form = re.compile(r"(?:sentence 1|question): (.*)\n(?:sentence 2|passage): (.*)", re.DOTALL)
    for row in json_rows(path, on_bad):
        parts = form.fullmatch(str(row.values.get("sentence")))
        if parts is None:
            refuse(row.bad("'sentence' does not hold two texts", hint="such as 'sentence 1: …', newline, …"), on_bad)
        else:
            yield Row(path, row.line, {**row.values, "first": parts[1], "second": parts[2]}, row.number)


def _aligned(path: Path, on_bad: OnBad) -> Iterator[Row]:
    """Join the lines of three files with the same number of lines: `labels.PART`, `s1.PART` and `s2.PART`."""
    columns: dict[str, list[str]] = {}
    part = path.name.removesuffix(".gz").partition(".")[2]
    for name in ("labels", "s1", "s2"):
        file = path.with_name(f"{name}.{part}")
        columns[name] = read_text(found_file(file) or file).removesuffix("\n").split("\n")
        if len(columns[name]) != len(columns["labels"]):
            raise DataError(f"{len(columns[name])} lines, where {path.name} has {len(columns['labels'])}", path=file)
    for number, texts in enumerate(zip(*columns.values(), strict=True), 1):
        values = {name: text.strip() for name, text in zip(columns, texts, strict=True)}
        yield Row(path, number, values, number)


def _zipped(path: Path, on_bad: OnBad) -> Iterator[Row]:
    """Read the rows of all JSON Lines files in a ZIP archive, or of a single JSON Lines file."""
    if path.suffix != ".zip":
        yield from jsonl_rows(path, on_bad)
        return
    try:
        with ZipFile(path) as archive:
            for name in (name for name in archive.namelist() if name.endswith(".jsonl")):
                for number, line in enumerate(archive.read(name).decode().splitlines(), 1):
                    try:
                        value = json.loads(line)
                    except (ValueError, RecursionError) as error:
                        refuse(json_error(error, path / name, number), on_bad)
                        continue
                    yield Row(path / name, number, value if isinstance(value, dict) else {}, number)
    except (BadZipFile, UnicodeDecodeError) as error:
        raise DataError(f"not a ZIP archive of text: {error}", path=path) from None


# Pairs


@dataclass(frozen=True)
class PairColumns:
    """Builds a pair of premise and hypothesis from a row that has each in a column.

    Attributes:
        premise: The column of the premise.
        hypothesis: The column of the hypothesis.
        label: The column of the label.
        labels: Maps the labels of the set to ours.
        groups: Maps columns to the names of the groups that they become.
        unlabelled: Whether to keep rows without the column of the label. Their pairs have no label.
    """

    premise: str = "premise"
    hypothesis: str = "hypothesis"
    label: str = "label"
    labels: Mapping[str, str] = field(default_factory=lambda: NAMED)
    groups: Mapping[str, str] = field(default_factory=dict)
    unlabelled: bool = False

    def __call__(self, row: Row) -> list[Pair]:
        """Build the pair of a row. The result is a list of one pair."""
        label = None
        if not self.unlabelled or self.label in row.values:
            row.choice(self.label, dict.fromkeys(self.labels, 0.0))
            label = self.labels[row.get(self.label)]
        groups = {name: row.optional(column) for column, name in self.groups.items()}
        return [Pair(row.text(self.premise), row.text(self.hypothesis), label, groups=groups)]


def _pawsx(row: Row) -> list[Pair]:
    (pair,) = PairColumns(labels={"1": "entailment", "0": "not entailed"})(row)
    return [replace(pair, document=str(row.number))]


def _taxinli(row: Row) -> list[Pair]:
    (pair,) = PairColumns("prem", "hyp")(row)
    kinds = [k for k in row.values if re.search(r"_(linguistic|logic|reasoning|knowledge)$", k) and row.text(k) == "1"]
    reasoning = "+".join(kind.rpartition("_")[0] for kind in kinds) or None
    annotated, genre = row.text("annotated_label"), row.text("genre")
    return [replace(pair, groups={"genre": genre, "annotated": annotated, "reasoning": reasoning})]


def _hans(row: Row) -> list[Pair]:
    (pair,) = PairColumns(labels={"0": "entailment", "1": "not entailed"})(row)
    part = f" {pair.response.lower()} " in f" {pair.source.lower()} "
    return [replace(pair, groups={"heuristic": "subsequence" if part else "lexical overlap"})]


def _vitaminc(row: Row) -> list[Pair]:
    (pair,) = PairColumns("evidence", "claim", labels=SUPPORT)(row)
    return [replace(pair, document=row.text("id").rpartition("_")[0])]


def _answers(question: str, passage: str, labels: Mapping[str, str], **more: Any) -> list[Pair]:
    """Make two statements about a yes/no question, one for each answer, with the labels in `labels`."""
    ask = question.strip().removesuffix("?")
    return [
        Pair(passage, f'The answer to "{ask}?" is {answer}.', labels[answer], version=answer, **more)
        for answer in ("yes", "no")
    ]


ANSWERS = {
    "YES": {"yes": "entailment", "no": "contradiction"},
    "NO": {"yes": "contradiction", "no": "entailment"},
    "DON'T KNOW": {"yes": "neutral", "no": "neutral"},
}


def _boolq(row: Row) -> list[Pair]:
    row.choice("label", {"True": 1.0, "False": 0.0})
    return _answers(row.text("first"), row.text("second"), ANSWERS["YES" if row.get("label") == "True" else "NO"])


def _condaqa(row: Row) -> list[Pair]:
    edit = {"0": "original", "1": "paraphrase", "2": "scope", "3": "affirmative"}.get(row.name("PassageEditID"))
    document, passage = row.name("PassageID"), row.text("sentence1")
    labels = ANSWERS.get(row.text("label"))
    if labels is None:
        raise row.unfit("the answer is a span of the passage, not yes or no")
    return _answers(row.text("sentence2"), passage, labels, document=document, groups={"edit": edit})


def _bamboo(row: Row) -> list[Pair]:
    title, answer = row.text("title"), row.get("answer")
    if not isinstance(answer, bool):
        raise row.bad("'answer' is not true or false")
    label = "entailment" if answer else "not entailed"
    return [Pair(row.text("content").strip(), row.text("hypothesis").strip(), label, title)]


def _wow(row: Row) -> Iterator[Pair]:
    history = (Turn("user", row.text("message")),) if row.optional("message") else ()
    groups = {"topic": row.optional("topic")}
    for model in ("dodeca", "memnet"):
        row.choice(f"{model}_label", {"0": 0.0, "1": 1.0})
        label = "entailment" if row.get(f"{model}_label") == "0" else "not entailed"
        response, knowledge = row.text(f"{model}_response"), row.text("knowledge")
        yield Pair(knowledge, response, label, version=model, history=history, groups=groups)


_MODELS = ("ctrl", "doha", "gpt2")


def _faithdial(row: Row) -> list[Pair]:
    """Make the pair of one reply, by a model (in the column with the model's name) or by a person (`response`)."""
    model = next((name for name in _MODELS if name in row.values), "response")
    raw = row.text("BEGIN" if model == "response" else "begin_label", blank=True)
    kinds = set(re.split(r"\W+", raw.lower())) - {""}
    if unknown := kinds - {"entailment", "hallucination", "hallucinated", "partial", "generic", "uncooperative"}:
        raise row.bad(f"the label is {raw!r}", hint=f"unknown: {', '.join(sorted(unknown))}")
    label, note = None, f"labelled {raw.lower()}: says nothing of the knowledge" if kinds else "no label"
    if kinds & {"hallucination", "hallucinated"}:
        label = "partial" if kinds & {"partial", "entailment"} else "not entailed"
    elif "entailment" in kinds:
        label = "entailment"
    knowledge, reply = row.optional("evidence" if model == "response" else "knowledge"), row.optional(model)
    if knowledge is None or reply is None:
        raise row.unfit("a line without knowledge or reply")
    history = (Turn("user", row.text("history")),) if row.optional("history") else ()
    groups = {"model": "human" if model == "response" else model}
    return [Pair(knowledge, reply, label, history=history, groups=groups, note=note)]


def _filled(path: Path, on_bad: OnBad) -> Iterator[Row]:
    """Read a CSV file without its empty rows."""
    return (row for row in csv_rows(path, on_bad) if any(str(value).strip() for value in row.values.values()))


# The sets

_PREMISE = "the premise (by its hash)"
_LINKED = "pairs that share a sentence (by its hash)"


def _info(name: str, title: str, licence: str, citation: str, notes: str, **more: Any) -> Info:
    return Info(name, title, licence, citation, (Level.RESPONSE,), notes=notes, **{"document": _PREMISE, **more})


_TRAIN_DEV_TEST = ("train", "dev", "test")
_PAWSX_LANGUAGES = ("de", "es", "fr", "ja", "ko", "zh")

SNLI = PairSet(
    _info(
        *("snli", "SNLI", "CC BY-SA 4.0"),
        "Bowman et al. 2015, A large annotated corpus for learning natural language inference",
        "Line-aligned files s1.SPLIT, s2.SPLIT and labels.SPLIT, as e-SNLI publishes them. Tokenised image captions.",
        splits=("dev", "test"),
    ),
    {"dev": "labels.dev", "test": "labels.test"},
    _aligned,
    PairColumns("s1", "s2", "labels"),
)
_MNLI = (
    "OANC licence; fiction CC BY 3.0, CC BY-SA 3.0 or public domain",
    "Williams et al. 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding through Inference",
)
MNLI_DEV = PairSet(
    _info("mnli_dev", "MultiNLI, matched development pairs", *_MNLI, "Three hypotheses per premise; five genres."),
    {"all": "data/mnli/dev.jsonl"},
    jsonl_rows,
    PairColumns(),
)
MNLI_OLORA = PairSet(
    _info("mnli_olora", "MultiNLI, 3,000 training pairs", *_MNLI, "As the O-LoRA benchmark publishes them."),
    {"all": "train.json"},
    _lists,
    PairColumns("first", "second"),
)
TAXINLI = PairSet(
    _info(
        *("taxinli", "TaxiNLI", "C-UDA 1.0 (text: MultiNLI)"),
        "Joshi et al. 2020, TaxiNLI: Taking a Ride up the NLU Hill",
        "The label is MultiNLI's; the annotators of this set agree in 92 % (group annotated). Group reasoning: the "
        "kinds of reasoning that a pair takes.",
    ),
    {"all": "taxinli10k.tsv"},
    _tsv,
    _taxinli,
)
CAD_NLI = PairSet(
    _info(
        *("cad_nli", "Counterfactually augmented SNLI", "Apache-2.0 (seed text: SNLI, CC BY-SA 4.0)"),
        "Kaushik et al. 2020, Learning the Difference that Makes a Difference with Counterfactually-Augmented Data",
        "NLI/all_combined is read: the original pairs and their edits. About 40 pairs occur with two labels.",
        document=_LINKED,
        splits=_TRAIN_DEV_TEST,
    ),
    {split: f"NLI/all_combined/{split}.tsv" for split in _TRAIN_DEV_TEST},
    _table,
    PairColumns("sentence1", "sentence2", "gold_label"),
    linked=True,
)
BREAKING_NLI = PairSet(
    _info(
        *("breaking_nli", "Breaking NLI", "CC BY-SA 4.0"),
        "Glockner et al. 2018, Breaking NLI Systems with Sentences that Require Simple Lexical Inferences",
        "An SNLI premise with one word replaced, read from the published ZIP archive. The group category nearly gives "
        "the label away.",
    ),
    {"all": "breaking_nli_dataset.zip"},
    _zipped,
    PairColumns("sentence1", "sentence2", "gold_label", groups={"category": "category"}),
)
HANS_EVAL = PairSet(
    _info(
        *("hans_eval", "HANS, evaluation pairs", "MIT"),
        "McCoy et al. 2019, Right for the Wrong Reasons: Diagnosing Syntactic Heuristics in Natural Language Inference",
        "Made from about a hundred templates: take a small share. Group heuristic: whether the hypothesis stands in "
        "the premise word for word (subsequence, constituents among them) or in other order (lexical overlap).",
    ),
    {"all": "data/sick/hans.txt"},
    partial(_tsv, names=("premise", "hypothesis", "label")),
    _hans,
)
CONJNLI = PairSet(
    _info(
        *("conjnli", "ConjNLI", "MIT (text: Wikipedia, CC BY-SA)"),
        "Saha et al. 2020, ConjNLI: Natural Language Inference Over Conjunctive Sentences",
        "The training pairs are made by rules. The test file has no labels: its pairs are kept, with nothing judged.",
        splits=_TRAIN_DEV_TEST,
    ),
    {"train": "adversarial_train_15k.tsv", "dev": "conj_dev.tsv", "test": "conj_test.tsv"},
    _tsv,
    PairColumns("Premise", "Hypothesis", "Label", unlabelled=True),
)
NEGATION_NLI = PairSet(
    _info(
        *("negation_nli", "NLI with negation", "MIT (text: MultiNLI, SNLI)"),
        "Hossain et al. 2020, An Analysis of Natural Language Inference Benchmarks through the Lens of Negation",
        "A negation added to premise, hypothesis or both; labelled again by hand. The files are Windows-1252 text.",
        document=_LINKED,
        splits=("mnli", "snli"),
    ),
    {"mnli": "MNLI.txt", "snli": "SNLI.txt"},
    partial(_tsv, encoding="cp1252"),
    PairColumns("Text", "Hypothesis", "gold_label"),
    linked=True,
)
MED = PairSet(
    _info(
        *("med", "MED", "CC BY-SA 4.0"),
        "Yanaka et al. 2019, Can Neural Networks Understand Monotonicity Reasoning?",
        "Neutral means neutral or contradiction. Holds items of FraCaS and the GLUE diagnostics.",
        document=_LINKED,
    ),
    {"all": "MED.tsv"},
    _tsv,
    PairColumns("sentence1", "sentence2", "gold_label", groups={"genre": "genre"}),
    linked=True,
)
HELP = PairSet(
    _info(
        *("help", "HELP, conjunction and disjunction", "CC BY-SA 4.0"),
        "Yanaka et al. 2019, HELP: A Dataset for Identifying Shortcomings of Neural Models in Monotonicity Reasoning",
        "Made by rules: a sentence, and the same without a conjunct, each way round.",
        document=_LINKED,
        splits=("and", "or"),
    ),
    {kind: f"output_en/leskexppmb_{kind}.tsv" for kind in ("and", "or")},
    _tsv,
    PairColumns("ori_sentence", "new_sentence", "gold_label", groups={"monotonicity": "monotonicity"}),
    linked=True,
)
PAWSX_EN = PairSet(
    _info(
        *("pawsx_en", "PAWS-X, English development pairs", "may be freely used for any purpose, naming Google"),
        "Yang et al. 2019, PAWS-X: A Cross-lingual Adversarial Dataset for Paraphrase Identification",
        "A paraphrase is entailed; a pair that is none (not entailed) does not say which sentence goes beyond which.",
        document=_LINKED,
    ),
    {"all": "dev-en.tsv"},
    partial(_tsv, names=("premise", "hypothesis", "label")),
    PairColumns(labels={"1": "entailment", "0": "not entailed"}),
    linked=True,
)
PAWSX = PairSet(
    _info(
        *("pawsx", "PAWS-X, development pairs in six languages", "may be freely used for any purpose, naming Google"),
        "Yang et al. 2019, PAWS-X: A Cross-lingual Adversarial Dataset for Paraphrase Identification",
        "The splits are the languages; row N is a translation of row N of `pawsx_en`.",
        document="the number of the row, which is the same in all languages",
        splits=_PAWSX_LANGUAGES,
        languages=_PAWSX_LANGUAGES,
    ),
    {language: f"pawsx_dev.{language}.tsv" for language in _PAWSX_LANGUAGES},
    partial(_tsv, names=("premise", "hypothesis", "label")),
    _pawsx,
)
FEVER_SYMMETRIC = PairSet(
    _info(
        *("fever_symmetric", "FEVER symmetric", "CC BY-SA 3.0 (text: Wikipedia)"),
        "Schuster et al. 2019, Towards Debiasing Fact Verification Models",
        "Version 0.2, which holds all of version 0.1. A claim stands with both labels; evidence is partly invented.",
        document=_LINKED,
        splits=("dev", "test"),
    ),
    {split: f"symmetric_v0.2/fever_symmetric_{split}.jsonl" for split in ("dev", "test")},
    jsonl_rows,
    PairColumns("evidence", "claim", "gold_label", {name.upper(): ours for name, ours in SUPPORT.items()}),
    linked=True,
)
_VITAMINC = (*(f"train_{i}" for i in range(5)), "test")
VITAMINC_SAMPLE = PairSet(
    _info(
        *("vitaminc_sample", "VitaminC, a sample", "CC BY-SA 3.0 (text: Wikipedia)"),
        "Schuster et al. 2021, Get Your Vitamin C! Robust Fact Verification with Contrastive Evidence",
        "The few-shot sample of Lifelong-ICL. Evidence holds invented revisions.",
        document="the Wikipedia revision (id)",
        splits=_VITAMINC,
    ),
    {split: f"{split}.jsonl" for split in _VITAMINC},
    jsonl_rows,
    _vitaminc,
)
_FAITHDIAL = {
    **{f"gold/{name}": f"data-audit/gold/{name}.csv" for name in ("cmu", "topical")},
    **{f"ctrl/{name}": f"data-audit/CTRL/ctrl_processed_{name}.csv" for name in ("cmu", "topicalchat")},
    **{f"doha/{name}": f"data-audit/DoHA/doha_processed_{name}.csv" for name in ("cmu", "topical")},
    **{f"gpt2/{name}": f"data-audit/GPT2/gpt2_processed_{name}.csv" for name in ("cmu", "topical")},
}
FAITHDIAL_AUDIT = PairSet(
    _info(
        *("faithdial_audit", "Audit of knowledge-grounded dialogue", "MIT (terms of the dialogue sets: see there)"),
        "Dziri et al. 2022, On the Origin of Hallucinations in Conversational Models: Is it the Datasets or the "
        "Models?",
        "Replies of people and of three models to CMU-DoG and Topical-Chat. Generic and uncooperative replies, and "
        "those without a label, have nothing judged; lines without knowledge or reply are left out.",
        document="the knowledge (by its hash)",
        splits=tuple(_FAITHDIAL),
    ),
    _FAITHDIAL,
    _filled,
    _faithdial,
)
WOW_Q2 = PairSet(
    _info(
        *("wow_q2", "Wizard of Wikipedia replies of Q²", "MIT"),
        "Honovich et al. 2021, Q²: Evaluating Factual Consistency in Knowledge-Grounded Dialogues",
        "cross_annotation.csv, whose replies the four other files repeat; two models' replies per row.",
        document="the knowledge (by its hash)",
    ),
    {"all": "cross_annotation.csv"},
    csv_rows,
    _wow,
)
BAMBOO_HALLU = PairSet(
    _info(
        *("bamboo_hallu", "BAMBOO: AbsHallu and SenHallu", "MIT (papers: CC BY 4.0)"),
        "Dong et al. 2024, BAMBOO: A Comprehensive Benchmark for Evaluating Long Text Modeling Capacities of Large "
        "Language Models",
        "A paper and its abstract, or some of its sentences, true or altered by ChatGPT. Long sources.",
        document="the paper (title)",
        splits=("abstract", "sentence"),
    ),
    {"abstract": "abshallu_4k.jsonl", "sentence": "senhallu_4k.jsonl"},
    jsonl_rows,
    _bamboo,
)
_YES_NO = 'A question becomes a pair of statements (The answer to "…?" is yes. / is no.).'
BOOLQ = PairSet(
    _info(
        *("boolq", "BoolQ", "CC BY-SA 3.0"),
        "Clark et al. 2019, BoolQ: Exploring the Surprising Difficulty of Natural Yes/No Questions",
        f"{_YES_NO} As the O-LoRA benchmark publishes it.",
        document="the passage (by its hash)",
        splits=("train", "dev"),
        pairs=True,
    ),
    {"train": "train.json", "dev": "dev.json"},
    _lists,
    _boolq,
)
CONDAQA = PairSet(
    _info(
        *("condaqa", "CondaQA", "Apache-2.0 (text: Wikipedia)"),
        "Ravichander et al. 2022, CONDAQA: A Contrastive Reading Comprehension Dataset for Reasoning about Negation",
        f"{_YES_NO} Both are neutral where the answer is not known; questions with another answer are left out.",
        document="the passage and its edits (PassageID)",
        pairs=True,
    ),
    {"all": "condaqa_dev.json"},
    jsonl_rows,
    _condaqa,
)
