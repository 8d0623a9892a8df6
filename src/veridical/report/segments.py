"""Marks over a text: cutting it where marks begin and end, what of it to show, and how to show it safely.

Knows nothing of verdicts or colours. Every function is linear in the text and the marks (times how deep marks overlap).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from veridical.core.errors import SpanError
from veridical.core.segment import sentences
from veridical.core.spans import Span, union

__all__ = ["Segment", "passages", "segment", "within"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Segment(Generic[T]):
    """Characters `start` to `end` of a text under the same `marks`, in the order in which `segment` was given them."""

    start: int
    end: int
    marks: tuple[T, ...]


def segment(size: int, marks: Sequence[tuple[Span, T]], *, cuts: Iterable[int] = ()) -> list[Segment[T]]:
    """Consecutive segments that together are the text of `size` characters, cut wherever a mark begins or ends.

    An empty mark becomes an empty segment of its own; `cuts` are further places to cut at.

    >>> [(s.start, s.end, s.marks) for s in segment(6, [(Span(0, 4), "a"), (Span(2, 6), "b")])]
    [(0, 2, ('a',)), (2, 4, ('a', 'b')), (4, 6, ('b',))]
    """
    opens: defaultdict[int, list[int]] = defaultdict(list)
    closes: defaultdict[int, list[int]] = defaultdict(list)
    places: defaultdict[int, list[int]] = defaultdict(list)
    for i, (span, _) in enumerate(marks):
        if span.end > size:
            raise SpanError(f"a mark [{span.start}, {span.end}) runs past its text of {size} characters")
        if span.start == span.end:
            places[span.start].append(i)
        else:
            opens[span.start].append(i)
            closes[span.end].append(i)
    edges = sorted({0, size, *opens, *closes, *places, *(c for c in cuts if 0 <= c <= size)})
    found: list[Segment[T]] = []
    active: set[int] = set()
    for at, following in zip(edges, [*edges[1:], size], strict=True):
        active.difference_update(closes[at])
        if places[at]:
            found.append(Segment(at, at, tuple(marks[i][1] for i in places[at])))
        active.update(opens[at])
        if following > at:
            found.append(Segment(at, following, tuple(marks[i][1] for i in sorted(active))))
    return found


def within(text: str, segments: Sequence[Segment[T]], windows: Sequence[Span]) -> Iterator[Segment[T] | None]:
    """The `segments` of `text` that lie in `windows`, and None where words between or around these are left out.

    `windows` are sorted and disjoint, and the segments were cut at their edges.
    """
    i = at = 0
    for window in windows:
        if text[at : window.start].strip():
            yield None
        while i < len(segments) and segments[i].start < window.start:
            i += 1
        while i < len(segments) and segments[i].end <= window.end:
            yield segments[i]
            i += 1
        at = window.end
    if text[at:].strip():
        yield None


def passages(text: str, spans: Sequence[Span], *, around: int = 200) -> list[Span]:
    """What of `text` to show for `spans`: the sentences that they lie in, cut to `around` characters on either side.

    Sorted and disjoint; passages with only white space between them are joined.

    >>> text = "One is here. Two is there. Three is gone."
    >>> [p.of(text) for p in passages(text, [Span(13, 16)])]
    ['Two is there.']
    """
    whole = sentences(text)
    starts = [sentence.start for sentence in whole]
    shown: list[Span] = []
    for span in spans:
        first, last = (
            bisect_right(starts, span.start) - 1,
            bisect_right(starts, max(span.start, span.end - 1)) - 1,
        )
        start = min(whole[first].start if first >= 0 else 0, span.start)
        end = max(whole[last].end if last >= 0 else 0, span.end)
        shown.append(Span(_onward(text, start, span.start, around), _back(text, span.end, end, around)))
    joined: list[Span] = []
    for span in union(shown):
        if joined and not text[joined[-1].end : span.start].strip():
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined


def _onward(text: str, start: int, at: int, around: int) -> int:
    """Where to begin so that at most `around` characters come before `at`, at a word's beginning if one is near."""
    if at - start <= around:
        return start
    cut = at - around
    space = text.find(" ", cut, min(cut + 30, at))
    return cut if space < 0 else space + 1


def _back(text: str, at: int, end: int, around: int) -> int:
    if end - at <= around:
        return end
    cut = at + around
    space = text.rfind(" ", max(cut - 30, at), cut)
    return cut if space < 0 else space
