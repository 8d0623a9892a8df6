"""GPT-2 replies grounded in Wikipedia knowledge, with human labels (Santhanam et al. 2021, Conv-FEVER)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.core.types import Case, Example, Judgement, Source, Turn
from veridical.datasets import Info, OnBad
from veridical.datasets.files import split_files
from veridical.datasets.reading import Row, csv_rows, group, read_rows

__all__ = ["INFO", "read"]

INFO = Info(
    name="conv_fever",
    title="Conv-FEVER, human annotations",
    licence="CC BY-SA 4.0",
    citation="Santhanam et al. 2021, Rome was built in 1776: A Case Study on Factual Correctness in Knowledge-Grounded "
    "Response Generation",
    levels=("response",),
    splits=("gt", "knn", "dpr"),
    document="the conversation (conv_index)",
    notes=(
        "The splits say where the knowledge came from. Replies that the annotators held not to be verifiable have no "
        "label: they are kept, with nothing judged and a note. Some rows have an empty knowledge: kept, with a note."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """The replies of the files that are there, or of one."""
    root = path / "crowd" if (path / "crowd").is_dir() else path
    for part, file in split_files(INFO, root, split, {name: f"{name}.csv" for name in INFO.splits}):
        yield from read_rows(csv_rows(file, on_bad), partial(_example, part), on_bad)


def _example(part: str, row: Row) -> list[Example]:
    source = Source("knowledge", row.text("knowledge", blank=True))
    notes = () if source.text.strip() else ("the knowledge is empty in the published file",)
    case = Case(f"{part}/{row.number}", row.text("response"), (source,), history=_turns(row.text("context")))
    score = row.choice("Hallucination", {"Yes": 1.0, "No": 0.0, "": -1.0})
    if score < 0:
        gold = Judgement(case.id, "human:crowd", judged=(), notes=("not verifiable, so not labelled", *notes))
    else:
        gold = Judgement(case.id, "human:crowd", score, notes=notes)
    groups = group(knowledge=part, model=row.text("model_type"), decoding=row.text("decoding"))
    return [Example(case, gold, row.text("conv_index"), groups)]


def _turns(context: str) -> tuple[Turn, ...]:
    """The turns of "A: … <br>B: … <br>"; a piece without a speaker belongs to the turn before it."""
    turns: list[Turn] = []
    for piece in re.split(r"\s*<br\s*/?>\s*", context):
        match = re.match(r"([AB]):\s*(.*)", piece, re.DOTALL)
        if match:
            turns.append(Turn(match[1], match[2]))
        elif piece.strip():
            last = turns.pop() if turns else Turn("", "")
            turns.append(Turn(last.speaker, f"{last.text} {piece}".strip()))
    return tuple(turns)
