"""Annotate in a terminal: turn the lines that a person types into spans. Any other input and output works, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from veridical.records.errors import InputError
from veridical.records.spans import Span, cut, union
from veridical.records.strings import visible
from veridical.records.types import Example, Judgement, Verdict
from veridical.text.quotes import find_quote
from veridical_lab.annotate.items import answer, is_item, item_place
from veridical_lab.datasets.chevrons import parse_chevrons

Show = Callable[[str], None]
Ask = Callable[[str], str]

_QUOTES = re.compile(r"\s*(?:<[^<>]*>\s*)+")
_INSTRUCTIONS = (
    "Copy the line with < and > around the smallest spans that the sources do not support, or type only <these spans>. "
    "Enter: all of it is supported. s: skip this case. q: stop."
)


def typed_spans(line: str, typed: str) -> list[Span]:
    """Parse the spans that a person marked in a line.

    The person types a copy of the line with < and > around each span, or only quotes from the line in < and >. Each
    quote marks the first place in the line where its words stand and that is not marked yet. An empty input marks
    nothing.

    Raises:
        InputError: The input has another form, or a quote is not in the line.

    >>> typed_spans("He won more than twice.", "<more than>"), typed_spans("a < b", "")
    ([Span(start=7, end=16)], [])
    """
    if not typed.strip():
        return []
    if _QUOTES.fullmatch(typed):
        spans: list[Span] = []
        for quote in re.findall(r"<([^<>]*)>", typed):
            span = find_quote(line, quote.strip(), used=spans)
            if span is None:
                raise InputError(f"{quote.strip()!r} is not in the line", hint="copy it letter by letter")
            spans.append(span)
        return union(spans)
    spans, end = parse_chevrons(line, typed)
    if line[end:].strip():
        raise InputError("the copy ends before the line does", hint="copy all of it, or type only <the spans>")
    return spans


def mark_examples(examples: Sequence[Example], by: str, show: Show, ask: Ask) -> Iterator[Judgement]:
    """Ask one person about each case in turn, and yield their judgements until they stop or their input ends.

    Items (`veridical_lab.annotate.items`) are yes/no questions. For other cases, the person sees the response line by
    line and marks the unsupported spans of each line. If an answer cannot be read, the person is asked again.

    Args:
        examples: The cases.
        by: The name of the person.
        show: Prints a line.
        ask: Prints a prompt and returns the line that the person types, without the line end. If there is no more
            input, it raises `EOFError`.
    """
    show(_INSTRUCTIONS)
    for number, example in enumerate(examples, 1):
        show(f"\n[{number} of {len(examples)}] {visible(example.case.id)}")
        if example.case.question:
            show(f"question: {visible(example.case.question)}")
        for source in example.case.sources:
            show(f"source: {visible(source.text)}")
        ask_about = _ask_item if is_item(example) else _ask_spans
        try:
            judgement = ask_about(example, by, show, ask)
        except EOFError:
            return
        if judgement is not None:
            yield judgement


def _ask_item(item: Example, by: str, show: Show, ask: Ask) -> Judgement | None:
    place = item_place(item)
    text = "".join(f"<{piece}>" if inside else piece for piece, inside in cut(item.case.response, [place.span]))
    show(f"text:   {visible(text)}")
    show(f"before: {visible(place.correction or '')}")
    while True:
        typed = ask("consistent with the original? (y/n) ").strip().lower()
        if typed in ("y", "yes", "n", "no"):
            return answer(item, by, typed.startswith("n"))
        if typed == "s":
            return None
        if typed == "q":
            raise EOFError
        show("y: consistent. n: inconsistent. s: skip. q: stop.")


def _ask_spans(example: Example, by: str, show: Show, ask: Ask) -> Judgement | None:
    response = example.case.response
    spans: list[Span] = []
    line_end = 0
    for line in response.splitlines(keepends=True):
        start, line_end = line_end, line_end + len(line)
        if not line.strip():
            continue
        show(f"line:   {visible(line.rstrip())}")
        while True:
            typed = ask("marked: ")
            if typed.strip() in ("s", "q") and typed.strip() != line.strip():
                if typed.strip() == "q":
                    raise EOFError
                return None
            try:
                spans += [span.shift(start) for span in typed_spans(line, typed)]
                break
            except InputError as error:
                show(str(error))
    verdicts = tuple(Verdict(span, 1.0) for span in spans)
    return Judgement(example.case.id, f"human:{by}", float(bool(spans)), verdicts=verdicts)
