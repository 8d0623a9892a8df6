"""Research questions with eight paper abstracts each, unlabelled (George and Stuhlmüller 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.core.errors import DataError, InputError
from veridical.core.types import Case, Example, Source
from veridical.datasets import Info, OnBad
from veridical.datasets.files import one_file
from veridical.datasets.reading import Row, json_rows, refuse

__all__ = ["INFO", "read", "read_questions"]

INFO = Info(
    name="fave",
    title="Factored Verification questions",
    licence="MIT",
    citation="George and Stuhlmüller 2023, Factored Verification: Detecting and Reducing Hallucination in Summaries of "
    "Academic Papers",
    levels=(),
    document="the question",
    notes="No summaries and no labels: `fave.read_questions` gives cases without a response.",
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Never an example: raises `InputError`, for the set has no labels."""
    raise InputError("fave has no labels", hint="veridical.datasets.fave.read_questions gives its questions")


def read_questions(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Case]:
    """A case without a response for each question: its abstracts as sources, each cited by first author and year.

    A few abstracts are blank in the published file; they are kept as they are.
    """
    for row in json_rows(one_file(INFO, path, split, "paper_dataset.json"), on_bad):
        try:
            yield _case(row)
        except DataError as error:
            refuse(error, on_bad)


def _case(row: Row) -> Case:
    sources = []
    for paper in row.rows("papers"):
        told = paper.values.get("metadata")
        year = told.get("year") if isinstance(told, dict) else None
        title = paper.text("title")
        authors = paper.texts("authors") if isinstance(paper.values.get("authors"), list) else []
        who = f"{authors[0]} et al." if len(authors) > 1 else authors[0] if authors else title
        citation = f"{who}, {year}" if year else who
        sources.append(Source(paper.name("id"), paper.text("summary", blank=True), citation=citation))
    return Case(f"fave/{row.number}", "", tuple(sources), question=row.text("query"))
