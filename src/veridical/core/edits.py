"""Apply and compose edits of a text, and move spans through them.

An edit replaces the characters of its span; an empty span is a place to insert at. The edits of a text must be sorted,
must not overlap or insert twice at one place, and must lie inside the text (`check_edits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from veridical.core.errors import SpanError
from veridical.core.spans import Span
from veridical.core.types import Edit

__all__ = ["apply", "carry", "check_edits", "compose"]


def check_edits(text: str, edits: Sequence[Edit]) -> None:
    """Raise `SpanError` unless `edits` are sorted, do not overlap, and lie inside `text`."""
    for edit in edits:
        edit.span.check(text)
    for one, other in pairwise(edits):
        if other.span.start < one.span.end or other.span == one.span:
            raise SpanError(
                f"the edits of [{one.span.start}, {one.span.end}) and [{other.span.start}, {other.span.end}) "
                "overlap or are out of order",
                hint="sort the edits, and let none change a character or place of another",
            )


def apply(text: str, edits: Sequence[Edit]) -> str:
    """Return `text` with `edits` applied; their spans refer to the unedited text. Raises what `check_edits` raises.

    >>> apply("It is 300 m tall.", [Edit(Span(6, 9), "330", "the source says 330")])
    'It is 330 m tall.'
    """
    check_edits(text, edits)
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += [text[position : edit.span.start], edit.replacement]
        position = edit.span.end
    return "".join(parts) + text[position:]


def carry(span: Span, edits: Sequence[Edit]) -> Span:
    """Return the span that `span` becomes after `edits`: its remaining characters and their replacements.

    Text inserted inside the span belongs to it; text inserted at its edges does not. The result is empty if all of the
    span was deleted.

    >>> carry(Span(6, 9), [Edit(Span(0, 2), "That", "clearer"), Edit(Span(6, 9), "330", "wrong")])
    Span(start=8, end=11)
    """
    start, end = span.start, span.end
    for edit in edits:
        grown = len(edit.replacement) - len(edit.span)
        if edit.span.end <= span.start:
            start += grown
            end += grown
        elif edit.span.start < span.end:
            start -= max(0, span.start - edit.span.start)
            end += grown + max(0, edit.span.end - span.end)
    return Span(start, end)


def compose(text: str, first: Sequence[Edit], second: Sequence[Edit]) -> tuple[Edit, ...]:
    """Combine two lists of edits into one for `text`; the spans of `second` refer to the text after `first`.

    Edits that overlap or touch become one, with both reasons.

    >>> compose("a b", [Edit(Span(0, 1), "x", "one")], [Edit(Span(2, 3), "y", "two")])[1]
    Edit(span=Span(start=2, end=3), replacement='y', because='two')
    """
    between = apply(text, first)
    check_edits(between, second)
    composed: list[Edit] = []
    shift = 0  # add to a position in `text` to get the same position in `between`
    placed: list[tuple[Span, Edit]] = []
    for edit in first:
        start = edit.span.start + shift
        placed.append((Span(start, start + len(edit.replacement)), edit))
        shift += len(edit.replacement) - len(edit.span)
    shift = 0
    for place, old, new in _clusters(placed, [(edit.span, edit) for edit in second]):
        start = place.start - shift
        shift += sum(len(edit.replacement) - len(edit.span) for edit in old)
        shifted = [Edit(e.span.shift(-place.start), e.replacement, e.because) for e in new]
        reasons = dict.fromkeys(edit.because for edit in (*old, *new))
        composed.append(Edit(Span(start, place.end - shift), apply(place.of(between), shifted), "; ".join(reasons)))
    return tuple(edit for edit in composed if edit.replacement != edit.span.of(text))


def _clusters(
    old: Sequence[tuple[Span, Edit]], new: Sequence[tuple[Span, Edit]]
) -> Iterator[tuple[Span, list[Edit], list[Edit]]]:
    """Group the edits of both lists whose spans touch; yield the joint span, the old edits and the new ones."""
    both = sorted([(*item, 0) for item in old] + [(*item, 1) for item in new], key=lambda item: (item[0], item[2]))
    place: Span | None = None
    members: tuple[list[Edit], list[Edit]] = ([], [])
    for span, edit, side in both:
        if place is not None and span.start > place.end:
            yield place, *members
            place, members = None, ([], [])
        place = span if place is None else Span(place.start, max(place.end, span.end))
        members[side].append(edit)
    if place is not None:
        yield place, *members
