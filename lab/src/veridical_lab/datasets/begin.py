"""Replies based on knowledge, labelled by whether the knowledge supports them (Dziri et al. 2022, BEGIN)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows, text_id
from veridical.records.types import Case, Example, Judgement, Level, Source, Turn
from veridical_lab.datasets.files import matching_files
from veridical_lab.datasets.reading import csv_rows, group

INFO = Info(
    name="begin",
    title="BEGIN",
    licence="CC BY 4.0",
    citation="Dziri et al. 2022, Evaluating Attribution in Dialogue Systems: The BEGIN Benchmark",
    levels=(Level.RESPONSE,),
    splits=("dev", "test"),
    document="the knowledge (by its hash)",
    notes="A reply labelled Generic claims nothing: it is kept, with nothing judged and a note.",
)
_LABELS = {"Fully attributable": 0.0, "Not fully attributable": 1.0, "Generic": -1.0}


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the replies in every begin_SPLIT_*.tsv under `path`, or only in those of one split."""
    for file in matching_files(INFO, path, split, f"**/begin_{split or '*'}_*.tsv", "begin_SPLIT_NAME.tsv"):
        rows = csv_rows(file, on_bad, delimiter="\t", quoted=False)
        yield from read_rows(rows, partial(_example, file.stem.removeprefix("begin_")), on_bad)


def _example(name: str, row: Row) -> list[Example]:
    knowledge = row.text("knowledge")
    history = (Turn("user", row.text("message")),) if row.text("message", blank=True).strip() else ()
    case = Case(f"{name}/{row.number}", row.text("response"), (Source("knowledge", knowledge),), history=history)
    score = row.choice("begin_label", _LABELS)
    if score < 0:
        gold = Judgement(case.id, "human:begin", judged=(), notes=("generic: claims nothing to be attributed",))
    else:
        gold = Judgement(case.id, "human:begin", score)
    groups = group(model=row.text("model_name"), data=row.text("data_source"), label=row.text("begin_label"))
    return [Example(case, gold, text_id(knowledge), groups)]
