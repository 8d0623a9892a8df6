"""Pro and con arguments on questions, and responses that must state all of them and nothing else.

See Chang et al. 2024, §4.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Omission, Source, Verdict
from veridical.text.quotes import find_quote
from veridical_lab.datasets.files import check_split
from veridical_lab.datasets.marks import locate
from veridical_lab.datasets.reading import group, refusing
from veridical_lab.datasets.topics import Topic, merged_topics

INFO = Info(
    name="procon",
    title="Arguments by perspective",
    licence="yours",
    citation="Chang et al. 2024, Detecting Hallucination and Coverage Errors in Retrieval Augmented Generation for "
    "Controversial Topics",
    levels=(Level.RESPONSE, Level.SPAN, Level.COVERAGE),
    document="`topic`, else the question",
    notes=(
        "JSON Lines: question and arguments (perspective to texts, such as pro and con); for a labelled response also "
        "id, response, hallucinated (quotes of the response) and omitted (objects with source such as 'pro-1' and, "
        "for a part of it, quote). Each argument is a source that must be covered, called PERSPECTIVE-NUMBER."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the labelled responses in the order of the file."""
    check_split(INFO, split)
    return read_rows(jsonl_rows(path, on_bad), _example, on_bad)


def read_questions(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Case]:
    """Make a case without a response for each line. The id of the case is the line's `id`, or else the line number."""
    check_split(INFO, split)
    for row in jsonl_rows(path, on_bad):
        with refusing(row, on_bad):
            id = row.name("id") if "id" in row.values else str(row.number)
            yield Case(id, "", _sources(row), question=row.text("question"))


def read_topics(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Topic]:
    """Make a topic for each different question, with the arguments of all lines that have this question."""
    check_split(INFO, split)

    def rows() -> Iterator[tuple[Row, str, dict[str, list[str]]]]:
        for row in jsonl_rows(path, on_bad):
            with refusing(row, on_bad):
                arguments = row.row("arguments")
                yield row, row.text("question").strip(), {name: arguments.texts(name) for name in arguments.values}

    return merged_topics(rows(), on_bad)


def _sources(row: Row) -> tuple[Source, ...]:
    arguments = row.row("arguments")
    if not arguments.values:
        raise row.bad("'arguments' is empty", hint="an object of perspective to texts")
    return tuple(
        Source(f"{perspective}-{i}", text, perspective, must_cover=True)
        for perspective in arguments.values
        for i, text in enumerate(arguments.texts(perspective), 1)
    )


def _example(row: Row) -> list[Example]:
    case = Case(row.name("id"), row.text("response"), _sources(row), question=row.text("question"))
    spans = locate(case.response, row.texts("hallucinated"))
    if spans is None:
        raise row.bad("a quote in 'hallucinated' is not in the response")
    omissions: list[Omission] = []
    for item in row.rows("omitted"):
        source = next((s for s in case.sources if s.id == item.text("source")), None)
        if source is None:
            raise item.bad(f"there is no argument {item.text('source')!r}", hint=", ".join(s.id for s in case.sources))
        quote = item.text("quote") if "quote" in item.values else source.text
        span = Span(0, len(source.text)) if quote == source.text else find_quote(source.text, quote)
        if span is None:
            raise item.bad(f"the quote {quote[:40]!r} is not in argument {source.id!r}")
        omissions.append(Omission(source.id, span, 1.0))
    verdicts = tuple(Verdict(span, 1.0) for span in spans)
    scores = float(bool(spans)), float(bool(omissions))
    gold = Judgement(case.id, "human:annotator", *scores, verdicts, tuple(omissions))
    document = row.optional("topic") or case.question
    return [Example(case, gold, document, group(kind=row.optional("kind")))]
