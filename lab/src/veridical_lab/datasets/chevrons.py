"""Responses in which annotators put < and > around unsupported spans (CH-Wang et al. 2024, appendix A)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows, text_id
from veridical.records.errors import InputError
from veridical.records.spans import Span, union_across_space
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.consensus import majority
from veridical_lab.datasets.files import check_split
from veridical_lab.datasets.reading import group

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
    """Read the annotated responses in the order of the file."""
    check_split(INFO, split)
    return read_rows(jsonl_rows(path, on_bad), _example, on_bad)


def _example(row: Row) -> list[Example]:
    sources = tuple(Source(str(i), text) for i, text in enumerate(row.texts("sources"), 1))
    question = row.text("question") if row.optional("question") else None
    case = Case(row.name("id"), row.text("response"), sources, question)
    marked = row.row("annotations")
    if not marked.values:
        raise row.bad("'annotations' is empty", hint="an object of annotator to marked text")
    people: list[Judgement] = []
    for name in marked.values:
        try:
            spans, end = parse_chevrons(case.response, marked.text(name))
        except InputError as error:
            raise marked.bad(f"{name}: {error.message}") from None
        verdicts = tuple(Verdict(span, 1.0) for span in spans)
        judged = (Span(0, end),) if case.response[end:].strip() else None
        notes = () if judged is None else (f"only the first {end} characters were annotated",)
        person = f"human:{name}"
        people.append(Judgement(case.id, person, float(bool(spans)), verdicts=verdicts, judged=judged, notes=notes))
    document = row.optional("document") or (text_id(sources[0].text) if sources else None)
    return [Example(case, majority(people, case), document, group(task=row.optional("task")), tuple(people))]


def parse_chevrons(response: str, marked: str) -> tuple[list[Span], int]:
    """Parse a copy of a response in which spans stand in < and >, and return the spans and where the copy ends.

    The copy may contain only the beginning of the response. White space may differ. If the response itself has a < or
    >, the copy must have it, too. Spans that touch or have only white space between them are joined, and white space at
    the ends of spans is dropped.

    Raises:
        InputError: The copy differs from the response, or a mark is left open.

    >>> parse_chevrons("He won more than twice.", "He won <more than>twice.")
    ([Span(start=7, end=16)], 23)
    """
    spans: list[Span] = []
    end, open_start = 0, -1
    for i, character in enumerate(marked):
        if character.isspace():
            continue
        following = end
        while following < len(response) and response[following].isspace():
            following += 1
        if response[following : following + 1] == character:
            end = following + 1
        elif character == "<" and open_start < 0:
            open_start = following
        elif character == ">" and open_start >= 0:
            if open_start < end:
                spans.append(Span(open_start, end))
            open_start = -1
        else:
            raise InputError(f"the marked text differs from the response at its character {i} ({character!r})")
    if open_start >= 0:
        raise InputError("a < is never closed")
    return union_across_space(spans, response), end
