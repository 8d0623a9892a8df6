"""Debate arguments and the expert key points that each of them makes or not (Friedman et al. 2021, ArgKP-2021)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.core.errors import DataError
from veridical.core.spans import Span
from veridical.core.types import Case, Example, Judgement, Omission, Source
from veridical.datasets import Info, OnBad
from veridical.datasets.files import split_files
from veridical.datasets.reading import Row, csv_rows, group, read_rows

__all__ = ["INFO", "read", "read_questions"]

INFO = Info(
    name="argkp",
    title="ArgKP-2021",
    licence="CDLA-Sharing 1.0",
    citation="Friedman et al. 2021, Overview of the 2021 Key Point Analysis Shared Task",
    levels=("coverage",),
    splits=("train", "dev", "test"),
    document="the debate topic",
    notes=(
        "The response is an argument; the sources that it must cover are the key points of its topic and side that "
        "were labelled for it (undecided pairs have no label and are left out), with an omission of score 0 or 1. "
        "Nothing is said of hallucination. `argkp.read_questions` gives topics with all their key points."
    ),
)
SIDES = {"1": "pro", "-1": "con"}


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """One example an argument."""
    for part, arguments in split_files(INFO, path, split, {p: f"arguments_{p}.csv" for p in INFO.splits}):
        key_points = csv_rows(arguments.with_name(f"key_points_{part}.csv"), on_bad)
        points = {row.text("key_point_id"): row for row in key_points}
        known = {row.text("arg_id") for row in csv_rows(arguments, on_bad)}
        labels: dict[str, list[Row]] = {}
        for row in csv_rows(arguments.with_name(f"labels_{part}.csv"), on_bad):
            if row.text("arg_id") not in known or row.text("key_point_id") not in points:
                raise row.bad("a label of an argument or key point that is not there")
            labels.setdefault(row.text("arg_id"), []).append(row)
        reader = _Reader(part, points, labels)
        yield from read_rows(csv_rows(arguments, on_bad), reader.example, on_bad)


class _Reader:
    """What an argument's row is joined with."""

    def __init__(self, part: str, points: dict[str, Row], labels: dict[str, list[Row]]) -> None:
        self.part = part
        self.points = points
        self.labels = labels

    def example(self, row: Row) -> list[Example]:
        """The example of one argument."""
        topic, side = row.text("topic"), _side(row)
        sources: list[Source] = []
        omissions: list[Omission] = []
        for label in self.labels.get(row.text("arg_id"), ()):
            point = self.points[label.text("key_point_id")]
            if (point.text("topic"), _side(point)) != (topic, side):
                raise label.bad("a label joins an argument with a key point of another topic or side")
            source = _source(point)
            sources.append(source)
            score = label.choice("label", {"1": 0.0, "0": 1.0})
            omissions.append(Omission(source.id, Span(0, len(source.text)), score))
        case = Case(row.text("arg_id"), row.text("argument"), tuple(sources), question=topic)
        worst = max((o.score for o in omissions), default=None)
        notes = ("only coverage is labelled",)
        gold = Judgement(case.id, "human:argkp", None, worst, (), tuple(omissions), judged=(), notes=notes)
        return [Example(case, gold, topic, group(part=self.part, side=side))]


def _side(row: Row) -> str:
    side = SIDES.get(row.text("stance"))
    if side is None:
        raise row.bad(f"the stance is {row.text('stance')!r}", hint="allowed: 1, -1")
    return side


def _source(point: Row) -> Source:
    return Source(point.text("key_point_id"), point.text("key_point"), _side(point), must_cover=True)


def read_questions(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Case]:
    """A case without a response for each topic: its key points as sources with a perspective, pro or con."""
    for _, file in split_files(INFO, path, split, {p: f"key_points_{p}.csv" for p in INFO.splits}):
        topics: dict[str, list[Source]] = {}
        for row in csv_rows(file, on_bad):
            topics.setdefault(row.text("topic"), []).append(_source(row))
        if not topics:
            raise DataError("no key point in it", path=file)
        yield from (Case(topic, "", tuple(sources), question=topic) for topic, sources in topics.items())
