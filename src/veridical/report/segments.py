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

    An empty mark becomes an empty segment of its own; `cuts` are further offsets to cut at.

    >>> [(s.start, s.end, s.marks) for s in segment(6, [(Span(0, 4), "a"), (Span(2, 6), "b")])]
    [(0, 2, ('a',)), (2, 4, ('a', 'b')), (4, 6, ('b',))]
    """
    opens: defaultdict[int, list[int]] = defaultdict(list)
    closes: defaultdict[int, list[int]] = defaultdict(list)
    empty: defaultdict[int, list[int]] = defaultdict(list)
    for i, (span, _) in enumerate(marks):
        if span.end > size:
            raise SpanError(f"a mark [{span.start}, {span.end}) runs past its text of {size} characters")
        if span.start == span.end:
            empty[span.start].append(i)
        else:
            opens[span.start].append(i)
            closes[span.end].append(i)
    edges = sorted({0, size, *opens, *closes, *empty, *(c for c in cuts if 0 <= c <= size)})
    result: list[Segment[T]] = []
    active: set[int] = set()
    for at, following in zip(edges, [*edges[1:], size], strict=True):
        active.difference_update(closes[at])
        if empty[at]:
            result.append(Segment(at, at, tuple(marks[i][1] for i in empty[at])))
        active.update(opens[at])
        if following > at:
            result.append(Segment(at, following, tuple(marks[i][1] for i in sorted(active))))
    return result


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
    in_text = sentences(text)
    starts = [sentence.start for sentence in in_text]
    shown: list[Span] = []
    for span in spans:
        first, last = (
            bisect_right(starts, span.start) - 1,
            bisect_right(starts, max(span.start, span.end - 1)) - 1,
        )
        start = min(in_text[first].start if first >= 0 else 0, span.start)
        end = max(in_text[last].end if last >= 0 else 0, span.end)
        if span.start - start > around:  # cut, at the beginning of a word if one is near
            start = span.start - around
            start = max(start, text.find(" ", start, min(start + 30, span.start)) + 1)
        if end - span.end > around:
            end = span.end + around
            space = text.rfind(" ", max(end - 30, span.end), end)
            end = end if space < 0 else space
        shown.append(Span(start, end))
    joined: list[Span] = []
    for span in union(shown):
        if joined and not text[joined[-1].end : span.start].strip():
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined
