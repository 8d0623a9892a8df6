"""Statements and answers that were written about passages, with every error marked. Four data sets have this format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from veridical.datasets import Info
from veridical.datasets.reading import Row, jsonl_rows
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import FileSet
from veridical_lab.datasets.reading import group

_LABELS = {"S": "entailment", "C": "contradiction", "N": "neutral"}
# a question's answers over retrieved passages: three right ones, three wrong ones
_FORMS = ("close", "free", "short", "edit", "fresh", "addition")


def _statements(part: str, passage: Row) -> Iterator[Example]:
    for item in passage.rows("statements"):
        item.choice("label", dict.fromkeys(_LABELS, 0.0))
        groups = {"kind": passage.text("kind"), "tag": item.text("tag")}
        yield _example(passage, item, str(item.number), _LABELS[item.get("label")], groups)


def _pairs(part: str, passage: Row) -> Iterator[Example]:
    for item in passage.rows("statements"):
        item.choice("label", dict.fromkeys(_LABELS, 0.0))
        number, version = item.name("pair"), "right" if item.get("label") == "S" else "wrong"
        groups = {"tag": item.text("tag"), "pair": f"{passage.text('id')}/{number}", "version": version}
        yield _example(passage, item, f"{number}/{version}", _LABELS[item.get("label")], groups)


def _answers(part: str, passage: Row, forms: tuple[str, ...] = ()) -> Iterator[Example]:
    items = passage.rows("answers")
    for i, item in enumerate(items):
        item.choice("right", {True: 0.0, False: 1.0})
        label = "entailment"
        if not item.get("right"):
            kinds = {"neutral" if span.get("correction") is None else "contradiction" for span in item.rows("spans")}
            label = kinds.pop() if len(kinds) == 1 else "not entailed"
        groups = {"kind": passage.text("kind"), "answer": "right" if item.get("right") else "wrong"}
        if len(items) == len(forms):
            groups["form"] = forms[i]
        yield _example(passage, item, str(item.number), label, groups)


def _example(passage: Row, item: Row, name: str, label: str, groups: Mapping[str, str]) -> Example:
    """Make the example of a statement or an answer. The title of the passage is the first line of the first source."""
    title = "" if passage.get("title") is None else passage.text("title", blank=True)
    texts = passage.texts("sources")
    sources = [f"{title}\n{text}" if title and not i else text for i, text in enumerate(texts)]
    response, document = item.text("text"), passage.text("id")
    if language := passage.optional("language"):
        groups = {**groups, "language": language}
    verdicts = sorted((_verdict(span, response) for span in item.rows("spans")), key=lambda verdict: verdict.span)
    if bool(verdicts) == (label == "entailment"):
        raise item.bad(f"{len(verdicts)} spans are marked in a text labelled {label!r}")
    case = Case(
        f"{document}/{name}",
        response,
        tuple(Source(str(i), text) for i, text in enumerate(sources, 1)),
        question=passage.optional("question"),
    )
    gold = Judgement(case.id, "human:written", float(bool(verdicts)), verdicts=tuple(verdicts))
    return Example(case, gold, document, group(label=label, **groups))


def _verdict(mark: Row, text: str) -> Verdict:
    start, end = (int(mark.numeric(key, low=0, high=len(text))) for key in ("start", "end"))
    correction = None if mark.get("correction") is None else mark.text("correction", blank=True)
    return Verdict(Span(start, end), 1.0, "absence" if correction is None else "contradiction", correction=correction)


_FORMAT = (
    "A marked span has a correction if the passage says something else (verdict label contradiction), and none if it "
    "says nothing about it (absence). A title is on a line of its own before the first source. If the file gives the "
    "language of a passage, this is a group, too."
)


def _set(name: str, title: str, file: str, make: Callable[[str, Row], Iterator[Example]], notes: str) -> FileSet:
    info = Info(
        name=name,
        title=title,
        licence="Apache-2.0 (real passages: Wikipedia CC BY-SA 4.0; GUM and MASC by genre)",
        citation="",
        levels=(Level.RESPONSE, Level.SPAN),
        pairs=name == "written_pairs",
        splits=("train", "dev"),
        document="the passage (id)",
        notes=f"{notes} {_FORMAT}",
    )
    return FileSet(info, {split: file.format(split) for split in info.splits}, jsonl_rows, make)


WRITTEN = _set(
    "written",
    "Written statements about passages",
    "{}.jsonl",
    _statements,
    "Groups: label, tag (how it is supported or wrong), kind (genre). The label shows in part without the passage.",
)
WRITTEN_PAIRS = _set(
    "written_pairs",
    "Written pairs of statements",
    "pairs_{}.jsonl",
    _pairs,
    "A right statement and the same made wrong by the smallest change: ID/PAIR/right and ID/PAIR/wrong. Groups: tag "
    "(the kind of change), pair, label.",
)
WRITTEN_ANSWERS = _set(
    "written_answers",
    "Written answers about passages",
    "{}.jsonl",
    _answers,
    "One answer per passage. Groups: answer (right or wrong), kind (genre), label.",
)
WRITTEN_RAG = _set(
    "written_rag",
    "Written answers over retrieved passages",
    "rag_{}.jsonl",
    partial(_answers, forms=_FORMS),
    "Six answers per question. Groups: answer (right or wrong), label, form: close, free and short are right; edit (of "
    "the close one), fresh and addition are wrong.",
)
