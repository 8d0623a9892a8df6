"""Cut a text into segments where marks begin and end, and choose the passages of a long text to display.

A mark is a span of the text with any value, such as the name of a style. This module knows nothing about verdicts or
colours. The time grows linearly with the size of the text and the number of marks, times the number of marks that
overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from veridical.records.errors import SpanError
from veridical.records.spans import Span, union_across_space
from veridical.text.segment import sentences

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Segment(Generic[T]):
    """A part of a text that has the same marks throughout.

    Attributes:
        start: The offset of the first character.
        end: The offset after the last character. Equal to `start` for an empty mark.
        marks: The values of the marks, in the order in which they were given to `segment`.
    """

    start: int
    end: int
    marks: tuple[T, ...]


def segment(size: int, marks: Sequence[tuple[Span, T]], *, cuts: Iterable[int] = ()) -> list[Segment[T]]:
    """Cut a text of `size` characters into segments, wherever a mark begins or ends.

    A mark is a pair of a span and any value, such as the name of a style. A mark with an empty span becomes an empty
    segment of its own. To cut at further offsets, pass them as `cuts`. All segments are returned, in order.

    Raises:
        SpanError: A mark runs past the end of the text.

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
    for start, end in zip(edges, [*edges[1:], size], strict=True):
        active.difference_update(closes[start])
        if empty[start]:
            result.append(Segment(start, start, tuple(marks[i][1] for i in empty[start])))
        active.update(opens[start])
        if end > start:
            result.append(Segment(start, end, tuple(marks[i][1] for i in sorted(active))))
    return result


def within(text: str, segments: Sequence[Segment[T]], windows: Sequence[Span]) -> Iterator[Segment[T] | None]:
    """Yield only the segments of `text` inside some windows, to display a long text in part.

    A window is a span of the text to display. None is yielded wherever text that is not just white space is omitted
    before, between or after the windows. The windows must be sorted and must not overlap, and the segments must be cut
    at the edges of the windows.
    """
    i = end = 0  # index of the next segment, end of the last window
    for window in windows:
        if text[end : window.start].strip():
            yield None
        while i < len(segments) and segments[i].start < window.start:
            i += 1
        while i < len(segments) and segments[i].end <= window.end:
            yield segments[i]
            i += 1
        end = window.end
    if text[end:].strip():
        yield None


def passages(text: str, spans: Sequence[Span], *, around: int = 200) -> list[Span]:
    """Choose the passages of a long text to display around some spans: the sentences that contain the spans.

    A passage has at most `around` characters on either side of a span. Passages are sorted and do not overlap. If there
    is only white space between two passages, they are joined.

    >>> text = "One is here. Two is there. Three is gone."
    >>> [p.of(text) for p in passages(text, [Span(13, 16)])]
    ['Two is there.']
    """
    in_text = sentences(text)
    starts = [sentence.start for sentence in in_text]
    windows: list[Span] = []
    for span in spans:
        first, last = (bisect_right(starts, span.start) - 1, bisect_right(starts, max(span.start, span.end - 1)) - 1)
        start = min(in_text[first].start if first >= 0 else 0, span.start)
        end = max(in_text[last].end if last >= 0 else 0, span.end)
        if span.start - start > around:  # cut at the beginning of a word if one is near
            start = span.start - around
            start = max(start, text.find(" ", start, min(start + 30, span.start)) + 1)
        if end - span.end > around:
            end = span.end + around
            space = text.rfind(" ", max(end - 30, span.end), end)
            end = end if space < 0 else space
        windows.append(Span(start, end))
    return union_across_space(windows, text)
