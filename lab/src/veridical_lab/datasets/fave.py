"""Research questions with the abstracts of eight papers each, without labels (George and Stuhlmüller 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row
from veridical.io.jsonl import refuse
from veridical.records.errors import DataError, InputError
from veridical.records.types import Case, Example, Source
from veridical_lab.datasets.files import one_file
from veridical_lab.datasets.reading import json_rows

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
    """Raise `InputError`, because the set has no labels."""
    raise InputError("fave has no labels", hint="veridical_lab.datasets.fave.read_questions gives its questions")


def read_questions(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Case]:
    """Make a case without a response for each question. The sources are its papers, cited by author and year.

    The text of a source is the title, a blank line and the abstract, which George and Stuhlmüller 2023, App. A.3.1,
    show together. One abstract is blank in the published file, so that source is only the title. If two papers of a
    question have the same citation, a letter after the year distinguishes them. A paper without authors is cited by
    title.
    """
    for row in json_rows(one_file(INFO, path, split, "paper_dataset.json"), on_bad):
        try:
            case = _case(row)
        except DataError as error:
            refuse(error, on_bad)
        except InputError as error:
            refuse(row.bad(error.message, hint=error.hint), on_bad)
        else:
            yield case


def _case(row: Row) -> Case:
    papers = row.rows("papers")
    keys: list[tuple[str, object]] = []  # the first author's last name and the year; the id where one is missing
    for paper in papers:
        authors, year = _authors(paper), _year(paper)
        keys.append((authors[0].split()[-1].casefold(), year) if authors and year else (paper.name("id"), None))
    sources = []
    for i, paper in enumerate(papers):
        letter = chr(ord("a") + keys[:i].count(keys[i])) if keys.count(keys[i]) > 1 else ""
        title = " ".join(paper.text("title").split())
        parts = (title, paper.text("summary", blank=True))
        text = "\n\n".join(part for part in parts if part.strip())
        authors, year = _authors(paper), _year(paper)
        cited = title
        if authors:
            cited = " and ".join(authors) if len(authors) < 3 else f"{authors[0]} et al."
        citation = f"{cited}, {year}{letter}" if year else cited
        sources.append(Source(paper.name("id"), text, citation=citation))
    return Case(f"fave/{row.number}", "", tuple(sources), question=row.text("query"))


def _authors(paper: Row) -> list[str]:
    named = paper.texts("authors") if isinstance(paper.values.get("authors"), list) else []
    return [" ".join(name.split()) for name in named if name.strip()]


def _year(paper: Row) -> object:
    metadata = paper.values.get("metadata")
    return metadata.get("year") if isinstance(metadata, dict) else None
