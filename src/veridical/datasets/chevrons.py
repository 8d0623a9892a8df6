"""Responses in which annotators put < and > around what is not backed by the source (D, appendix A)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.core.errors import InputError
from veridical.core.spans import Span, union
from veridical.core.types import Case, Example, Judgement, Level, Source, Verdict
from veridical.datasets import Info, OnBad
from veridical.datasets.consensus import majority
from veridical.datasets.files import check_split
from veridical.datasets.reading import Row, group, jsonl_rows, read_rows, text_id

__all__ = ["INFO", "parse_chevrons", "read"]

INFO = Info(
    name="chevrons",
    title="Chevron annotations",
    licence="yours",
    citation="CH-Wang et al. 2024, Do Androids Know They're Only Dreaming of Electric Sheep? (appendix A)",
    levels=(Level.RESPONSE, Level.SPAN),
    document="`document`, else the first source (by its hash)",
    notes=(
        "JSON Lines: id, response, sources (texts), annotations (annotator to marked text); question, task, document "
        "if wanted. An annotator copies the response, or its beginning, with < and > around spans; what they did not "
        "copy is not judged. A character is hallucinated where more than half of the annotators mark it (two of three)."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """The annotated responses in the file's order."""
    check_split(INFO, split)
    return read_rows(jsonl_rows(path, on_bad), _example, on_bad)


def _example(row: Row) -> list[Example]:
    sources = tuple(Source(str(i), text) for i, text in enumerate(row.texts("sources"), 1))
    question = row.text("question") if row.optional("question") else None
    case = Case(row.name("id"), row.text("response"), sources, question)
    told = row.get("annotations")
    if not isinstance(told, dict) or not told:
        raise row.bad("'annotations' is not an object of annotator to marked text")
    marked = Row(row.path, row.line, told)
    people = tuple(_annotator(marked, who, case) for who in told)
    document = row.optional("document") or (text_id(sources[0].text) if sources else None)
    return [Example(case, majority(people, case), document, group(task=row.optional("task")), people)]


def _annotator(row: Row, who: str, case: Case) -> Judgement:
    try:
        spans, end = parse_chevrons(case.response, row.text(who))
    except InputError as error:
        raise row.bad(f"{who}: {error.message}") from None
    verdicts = tuple(Verdict(span, 1.0) for span in spans)
    judged = (Span(0, end),) if case.response[end:].strip() else None
    notes = () if judged is None else (f"only the first {end} characters were annotated",)
    return Judgement(case.id, f"human:{who}", float(bool(spans)), verdicts=verdicts, judged=judged, notes=notes)


def parse_chevrons(response: str, marked: str) -> tuple[list[Span], int]:
    """The spans of `response` that `marked`, a copy of its beginning, puts between < and >, and where the copy ends.

    White space may differ; a < or > of the response itself is copied as it is. Spans that touch or are parted by
    white space alone are one, without white space at their ends. Raises `InputError` where the copy departs
    from the response or a mark is left open.

    >>> parse_chevrons("He won more than twice.", "He won <more than>twice.")
    ([Span(start=7, end=16)], 23)
    """
    spans: list[Span] = []
    at, begun = 0, -1
    for i, character in enumerate(marked):
        if character.isspace():
            continue
        place = _next_visible(response, at)
        if place < len(response) and response[place] == character:
            at = place + 1
        elif character == "<" and begun < 0:
            begun = place
        elif character == ">" and begun >= 0:
            if begun < at:
                spans.append(Span(begun, at))
            begun = -1
        else:
            raise InputError(f"the marked text departs from the response at its character {i} ({character!r})")
    if begun >= 0:
        raise InputError("a < is never closed")
    joined: list[Span] = []
    for span in union(spans):
        if joined and not response[joined[-1].end : span.start].strip():
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined, at


def _next_visible(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
