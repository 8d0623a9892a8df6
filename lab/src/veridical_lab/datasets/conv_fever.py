"""Replies that GPT-2 wrote from Wikipedia knowledge, labelled by people (Santhanam et al. 2021, Conv-FEVER)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows, text_id
from veridical.records.types import Case, Example, Judgement, Level, Source, Turn
from veridical_lab.datasets.files import split_files
from veridical_lab.datasets.reading import csv_rows, group

CROWD = ("gt", "knn", "dpr")
CROWD_FOLDERS = ("crowd", "factual_dataset_crowd")
INFO = Info(
    name="conv_fever",
    title="Conv-FEVER, human annotations",
    licence="CC BY-SA 4.0",
    citation="Santhanam et al. 2021, Rome was built in 1776: A Case Study on Factual Correctness in Knowledge-Grounded "
    "Response Generation",
    levels=(Level.RESPONSE,),
    splits=(*CROWD, "expert"),
    document="the conversation (conv_index; in the expert file its first turn, by its hash)",
    notes=(
        "gt, knn and dpr say where the knowledge of the crowd's files came from; expert is factual_dataset_expert.csv, "
        "whose conv_index names no conversation. Replies that the annotators held not to be verifiable have no label: "
        "they are kept, with nothing judged and a note. Some rows have an empty knowledge: kept, with a note."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the replies in all files in `path`, or only those of one split."""
    folder = next((f"{name}/" for name in CROWD_FOLDERS if (path / name).is_dir()), "")
    files = {name: f"{folder}{name}.csv" for name in CROWD} | {"expert": "factual_dataset_expert.csv"}
    for part, file in split_files(INFO, path, split, files):
        yield from read_rows(csv_rows(file, on_bad), partial(_example, part), on_bad)


def _example(part: str, row: Row) -> list[Example]:
    source = Source("knowledge", row.text("knowledge", blank=True))
    notes = () if source.text.strip() else ("the knowledge is empty in the published file",)
    history: list[Turn] = []
    for piece in re.split(r"(?:(?<!\s)\s++)?+<br\s*+/?>\s*+", row.text("context")):  # "A: … <br>B: … <br>"
        match = re.match(r"([AB]):\s*(.*)", piece, re.DOTALL)
        if match:
            history.append(Turn(match[1], match[2]))
        elif piece.strip():  # a piece without a speaker belongs to the turn before it
            last = history.pop() if history else Turn("", "")
            history.append(Turn(last.speaker, f"{last.text} {piece}".strip()))
    case = Case(f"{part}/{row.number}", row.text("response"), (source,), history=tuple(history))
    annotator = "human:expert" if part == "expert" else "human:crowd"
    score = row.choice("Hallucination", {"Yes": 1.0, "No": 0.0, "": -1.0})
    if score < 0 or not row.choice("Verifiable", {"y": 1.0, "n": 0.0}):
        gold = Judgement(case.id, annotator, judged=(), notes=("not verifiable, so not labelled", *notes))
    else:
        gold = Judgement(case.id, annotator, score, notes=notes)
    groups = group(knowledge=part, model=row.text("model_type"), decoding=row.text("decoding"))
    document = row.text("conv_index") if part in CROWD else text_id(history[0].text if history else "")
    return [Example(case, gold, document, groups)]
