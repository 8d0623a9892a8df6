"""Claims that models made about documents, collected from eleven sets (Tang et al. 2024, LLM-AggreFact)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows, text_id
from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical.records.types import Case, Claim, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import check_split
from veridical_lab.datasets.reading import csv_rows, group

INFO = Info(
    name="aggrefact",
    title="LLM-AggreFact",
    licence="CC BY-ND 4.0 (each part has its own)",
    citation="Tang et al. 2024, MiniCheck: Efficient Fact-Checking of LLMs on Grounding Documents",
    levels=(Level.RESPONSE,),
    splits=("dev", "test"),
    document="the document (by its hash)",
    notes="SPLIT.jsonl or SPLIT.csv with dataset, doc, claim, label (1 = supported). One verdict on the whole claim.",
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the claims of all splits in `path`, or of one split."""
    check_split(INFO, split)
    pairs = [(path / f"{part}.jsonl", path / f"{part}.csv") for part in ((split,) if split else INFO.splits)]
    files = [path] if path.is_file() else [file for pair in pairs for file in [f for f in pair if f.is_file()][:1]]
    if not files:
        raise DataError("no dev or test file in it", path=path, hint=INFO.notes)
    for file in files:
        rows = csv_rows(file, on_bad) if file.suffix == ".csv" else jsonl_rows(file, on_bad)
        yield from read_rows(rows, partial(_example, split or file.stem), on_bad)


def _example(part: str, row: Row) -> list[Example]:
    text, claim = row.text("doc"), row.text("claim")
    case = Case(f"{part}/{row.number}", claim, (Source("document", text),))
    score = row.choice("label", {1: 0.0, "1": 0.0, 0: 1.0, "0": 1.0})
    whole = Span(0, len(claim))
    verdict = Verdict(whole, score, claim=Claim(claim, (whole,)))
    gold = Judgement(case.id, "human:aggrefact", score, verdicts=(verdict,))
    return [Example(case, gold, text_id(text), group(data=row.text("dataset"), part=part))]
