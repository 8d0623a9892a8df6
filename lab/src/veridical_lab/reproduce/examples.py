"""Choose examples from labelled data, for the example tables of papers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from veridical.datasets import read
from veridical.datasets.split import split_by_document
from veridical.records.errors import UnknownNameError
from veridical.records.spans import Span, cut, union
from veridical.records.strings import shorten
from veridical.records.types import GOLD_THRESHOLD, Example, Judgement
from veridical_lab.corrupt.argument_responses import composed
from veridical_lab.datasets.topics import read_topics

KINDS = ("marked", "changed", "annotators", "topics")
"""Responses with marked spans, changed sources, marks of single annotators, and topics by part of the split."""

_MOST = 6
_LENGTH = 240


@dataclass(frozen=True, slots=True)
class Shown:
    """One example with its title and its text. In the text, < and > surround hallucinated spans."""

    about: str
    text: str


def examples_of(spec: str) -> Iterator[Shown]:
    """Yield examples of a kind from data sets, given as "KIND SET:PATH …".

    Raises:
        UnknownNameError: `KINDS` has no such kind.
    """
    kind, *sets = spec.split()
    if kind not in KINDS:
        raise UnknownNameError("kind of examples", kind, KINDS)
    for data in sets:
        if kind == "topics":
            yield from _topics(data)
            continue
        usable = (example for example in read(data) if _usable(example, kind))
        for example in islice(usable, max(1, _MOST // len(sets))):
            yield from _shown(example, kind)


def _usable(example: Example, kind: str) -> bool:
    if kind == "annotators":
        marks = {tuple(_spans(person)) for person in example.annotations}
        return len(marks) > 1
    return bool(_spans(example.gold)) and len(example.case.response) <= 2 * _LENGTH


def _spans(judgement: Judgement) -> list[Span]:
    return union([verdict.span for verdict in judgement.verdicts if verdict.score >= GOLD_THRESHOLD])


def _shown(example: Example, kind: str) -> Iterator[Shown]:
    response = example.case.response
    if kind == "annotators":
        for person in example.annotations:
            yield Shown(f"{example.case.id}, {person.by}", _marked(response, _spans(person)))
        return
    labels = ", ".join(sorted({v.label for v in example.gold.verdicts if v.label and v.score >= GOLD_THRESHOLD}))
    reasons = "; ".join(dict.fromkeys(v.reason for v in example.gold.verdicts if v.reason)) if kind == "changed" else ""
    about = ", ".join(filter(None, (example.case.id, labels, reasons)))
    source = shorten(" ".join(example.case.sources[0].text.split()), _LENGTH) if example.case.sources else "–"
    yield Shown(about, f"{source} → {_marked(response, _spans(example.gold))}")


def _marked(text: str, spans: list[Span]) -> str:
    return " ".join("".join(f"<{piece}>" if inside else piece for piece, inside in cut(text, spans)).split())


def _topics(data: str) -> Iterator[Shown]:
    topics = {topic.id: topic.text for topic in read_topics(data)}
    parts = split_by_document(composed(read_topics(data), wording="same", per_topic=1))
    for name, part in parts.items():
        texts = [topics[dict(example.group)["topic"]] for example in part]
        yield Shown(f"{name}, {len(texts)} topics", shorten("; ".join(texts), 3 * _LENGTH))
