"""Debate arguments, labelled by whether they make a key point that experts wrote (Friedman et al. 2021, ArgKP-2021)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Omission, Source
from veridical_lab.datasets.files import split_files
from veridical_lab.datasets.reading import csv_rows, group
from veridical_lab.datasets.topics import Topic, merged_topics

INFO = Info(
    name="argkp",
    title="ArgKP-2021",
    licence="CDLA-Sharing 1.0",
    citation="Friedman et al. 2021, Overview of the 2021 Key Point Analysis Shared Task",
    levels=(Level.COVERAGE,),
    splits=("train", "dev", "test"),
    document="the debate topic",
    notes=(
        "One case per labelled pair of an argument and a key point of its topic and side: the argument is the "
        "response, the key point the source that it must cover, with an omission of score 0 (matching) or 1. Undecided "
        "pairs have no label and no case. Hallucinations are not labelled. `argkp.read_questions` gives topics with "
        "all their key points."
    ),
)
_SIDES = {"1": "pro", "-1": "con"}


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read one example per labelled pair, in the order of the labels. The ids of cases are ARGUMENT/KEY POINT."""
    for part, file in split_files(INFO, path, split, {p: f"arguments_{p}.csv" for p in INFO.splits}):
        arguments = {row.text("arg_id"): row for row in csv_rows(file, on_bad)}
        points_file = file.with_name(f"key_points_{part}.csv")
        points = {row.text("key_point_id"): row for row in csv_rows(points_file, on_bad)}
        labels = csv_rows(file.with_name(f"labels_{part}.csv"), on_bad)
        yield from read_rows(labels, partial(_example, part, arguments, points), on_bad)


def _example(part: str, arguments: dict[str, Row], points: dict[str, Row], label: Row) -> list[Example]:
    argument = arguments.get(label.text("arg_id"))
    point = points.get(label.text("key_point_id"))
    if argument is None or point is None:
        raise label.bad("a label of an argument or key point that is not in the files beside it")
    topic, side = argument.text("topic"), _side(argument)
    if (point.text("topic"), _side(point)) != (topic, side):
        raise label.bad("a label joins an argument with a key point of another topic or side")
    source = _source(point)
    case = Case(f"{argument.text('arg_id')}/{source.id}", argument.text("argument"), (source,), question=topic)
    score = label.choice("label", {"1": 0.0, "0": 1.0})
    omissions = (Omission(source.id, Span(0, len(source.text)), score),)
    notes = ("only coverage is labelled",)
    gold = Judgement(case.id, "human:argkp", None, score, (), omissions, judged=(), notes=notes)
    return [Example(case, gold, topic, group(part=part, side=side))]


def _side(row: Row) -> str:
    side = _SIDES.get(row.text("stance"))
    if side is None:
        raise row.bad(f"the stance is {row.text('stance')!r}", hint="allowed: 1, -1")
    return side


def _source(point: Row) -> Source:
    return Source(point.text("key_point_id"), point.text("key_point"), _side(point), must_cover=True)


def read_questions(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Case]:
    """Make a case without a response for each topic. The sources are the key points of the topic, pro or con."""
    for _, file in split_files(INFO, path, split, {p: f"key_points_{p}.csv" for p in INFO.splits}):
        topics: dict[str, list[Source]] = {}
        for row in csv_rows(file, on_bad):
            topics.setdefault(row.text("topic"), []).append(_source(row))
        if not topics:
            raise DataError("no key point in it", path=file)
        yield from (Case(topic, "", tuple(sources), question=topic) for topic, sources in topics.items())


def read_topics(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Topic]:
    """Read the debate topics. The arguments of a topic are its key points, pro or con."""
    for _, file in split_files(INFO, path, split, {p: f"key_points_{p}.csv" for p in INFO.splits}):
        rows = csv_rows(file, on_bad)
        yield from merged_topics(((r, r.text("topic"), {_side(r): [r.text("key_point")]}) for r in rows), on_bad)
