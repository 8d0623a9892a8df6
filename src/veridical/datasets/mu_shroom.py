"""Answers of language models in many languages with each annotator's spans (SemEval-2025 task 3, Mu-SHROOM)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.core.errors import DataError
from veridical.core.spans import Span, union
from veridical.core.types import Case, Example, Judgement, Level, Verdict
from veridical.datasets import Info, OnBad
from veridical.datasets.files import check_split
from veridical.datasets.reading import Row, group, jsonl_rows, read_rows

__all__ = ["INFO", "read", "read_soft"]

LANGUAGES = ("ar", "ca", "cs", "de", "en", "es", "eu", "fa", "fi", "fr", "hi", "it", "sv", "zh")
INFO = Info(
    name="mu_shroom",
    title="Mu-SHROOM",
    licence="CC BY 4.0",
    citation="Vázquez et al. 2025, SemEval-2025 Task 3: Mu-SHROOM",
    levels=(Level.RESPONSE, Level.SPAN),
    splits=LANGUAGES,
    languages=LANGUAGES,
    document="the Wikipedia page asked about",
    notes=(
        "The splits are the languages. Reference-free. Gold spans are the publisher's hard labels (marked by more "
        "than half of the annotators after the publisher's own cleaning); annotations hold each annotator's spans, "
        "clipped to the text, empty ones left out. `mu_shroom.read_soft` gives the publisher's soft labels."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """The answers of every language file under `path`, or of one language."""
    return read_rows(_rows(path, split, on_bad), _example, on_bad)


def read_soft(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Judgement]:
    """The publisher's soft labels, as judgements whose verdict scores are the share of annotators in (0, 1]."""
    for row in _rows(path, split, on_bad):
        response = row.text("model_output_text")
        verdicts = tuple(
            Verdict(
                _span(item, [item.get("start"), item.get("end")], response), item.numeric("prob", low=0.0, high=1.0)
            )
            for item in row.rows("soft_labels")
        )
        yield Judgement(row.text("id"), "human:soft-labels", verdicts=verdicts)


def _rows(path: Path, split: str | None, on_bad: OnBad) -> Iterator[Row]:
    check_split(INFO, split)
    files = [path] if path.is_file() else sorted(path.rglob(f"mushroom.{split or '*'}-*.jsonl"))
    if not files:
        raise DataError("no mushroom.LANGUAGE-*.jsonl file in it", path=path)
    for file in files:
        yield from jsonl_rows(file, on_bad)


def _example(row: Row) -> list[Example]:
    response = row.text("model_output_text")
    case = Case(row.text("id"), response, question=row.text("model_input"))
    hard = union(_span(row, pair, response) for pair in row.items("hard_labels"))
    verdicts = tuple(Verdict(span, 1.0) for span in hard)
    gold = Judgement(case.id, "human:hard-labels", float(bool(hard)), verdicts=verdicts)
    spans = row.values.get("annotations") or {}
    if not isinstance(spans, dict):
        raise row.bad("'annotations' is not an object of annotators")
    people: list[Judgement] = []
    for name, pairs in spans.items():
        if not isinstance(pairs, list):
            raise row.bad(f"the spans of {name!r} are not a list")
        marked = union(_span(row, pair, response, clip=True) for pair in pairs)
        verdicts = tuple(Verdict(span, 1.0) for span in marked)
        people.append(Judgement(case.id, f"human:{name}", float(bool(marked)), verdicts=verdicts))
    document = row.optional("wikipedia_url") or case.question
    groups = group(language=row.text("lang").lower(), model=row.text("model_id"))
    return [Example(case, gold, document, groups, tuple(people))]


def _span(row: Row, pair: object, text: str, *, clip: bool = False) -> Span:
    """The span [start, end); with `clip` one that runs a character past the text ends with it."""
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(n, int) for n in pair):
        raise row.bad(f"{pair!r} is not a pair of characters")
    start, end = pair
    if clip and end == len(text) + 1:
        end = len(text)
    if not 0 <= start <= end <= len(text):
        raise row.bad(f"the label [{start}, {end}) is not inside the text of {len(text)} characters")
    return Span(start, end)
