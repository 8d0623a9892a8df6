"""Spans of characters, and set operations on them.

A span is a half-open range of positions, and does not hold the text. Any sequence of spans can serve as a set of
characters. `union` normalises such a sequence: it sorts the spans, joins those that overlap or touch, and drops empty
ones. The other set operations accept any sequence and return a normalised one. Each operation sorts once and otherwise
takes linear time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import total_ordering
from itertools import accumulate
from operator import index

from veridical.records.errors import SpanError


@total_ordering
@dataclass(frozen=True, slots=True)
class Span:
    """The characters of a text from `start` up to, but not including, `end`.

    Positions count Unicode code points, as Python does. An empty span (`start == end`) is a position between two
    characters, such as the position of an insertion.

    Raises:
        SpanError: `0 <= start <= end` does not hold.

    >>> Span(0, 5).of("Hello, world")
    'Hello'
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if type(self.start) is not int or type(self.end) is not int:  # such as NumPy's, which are no JSON
            self._set_whole("start")
            self._set_whole("end")
        if not 0 <= self.start <= self.end:
            raise SpanError(
                f"span [{self.start}, {self.end}) is not a span",
                hint="start must be at least 0 and end at least start",
            )

    def _set_whole(self, name: str) -> None:
        offset = getattr(self, name)
        try:
            object.__setattr__(self, name, index(offset))
        except TypeError:
            raise SpanError(f"the {name} of a span is {offset!r:.80}", hint="a whole number of characters") from None

    def __lt__(self, other: Span) -> bool:
        return (self.start, self.end) < (other.start, other.end) if isinstance(other, Span) else NotImplemented

    def __len__(self) -> int:
        return self.end - self.start

    def __bool__(self) -> bool:
        return True  # an empty span is still a span

    def of(self, text: str) -> str:
        """Return the characters of `text` that this span covers.

        Raises:
            SpanError: The span runs past the end of the text.
        """
        self.check(text)
        return text[self.start : self.end]

    def check(self, text: str, what: str = "text") -> None:
        """Check that this span lies inside `text`. Error messages call the text `what`.

        Raises:
            SpanError: The span runs past the end of the text.
        """
        if self.end > len(text):
            raise SpanError(f"span [{self.start}, {self.end}) runs past its {what} of {len(text)} characters")

    def overlaps(self, other: Span) -> bool:
        """Return whether the two spans share at least one character."""
        return max(self.start, other.start) < min(self.end, other.end)

    def contains(self, other: Span) -> bool:
        """Return whether `other` lies inside this span. An empty `other` may also stand at either edge."""
        return self.start <= other.start and other.end <= self.end

    def shift(self, by: int) -> Span:
        """Move the span by `by` characters. Positive numbers move it to the right, and negative numbers to the left."""
        return Span(self.start + by, self.end + by)


@dataclass(frozen=True, slots=True, eq=False)
class TextSpan(Span):
    """A span together with the text that it covers. Comparisons with other spans ignore the text."""

    text: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Span):
            return NotImplemented
        return (self.start, self.end) == (other.start, other.end)

    __hash__ = Span.__hash__


def union(spans: Iterable[Span]) -> list[Span]:
    """Join spans into the fewest sorted spans that cover the same characters.

    Overlapping and touching spans become one span, and empty spans are dropped.

    >>> union([Span(4, 6), Span(0, 2), Span(2, 3), Span(5, 9)])
    [Span(start=0, end=3), Span(start=4, end=9)]
    """
    joined: list[tuple[int, int]] = []
    for start, end in sorted((s.start, s.end) for s in spans if s.end > s.start):
        if joined and start <= joined[-1][1]:
            if end > joined[-1][1]:
                joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return [Span(start, end) for start, end in joined]


def intersection(a: Iterable[Span], b: Iterable[Span]) -> list[Span]:
    """Return the characters that both sets of spans cover.

    >>> intersection([Span(0, 5)], [Span(3, 4), Span(4, 9)])
    [Span(start=3, end=5)]
    """
    left, right = union(a), union(b)
    shared: list[Span] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start = max(left[i].start, right[j].start)
        end = min(left[i].end, right[j].end)
        if start < end:
            shared.append(Span(start, end))
        if left[i].end < right[j].end:
            i += 1
        else:
            j += 1
    return shared


def overlapping(disjoint: Sequence[Span], span: Span) -> Sequence[Span]:
    """Find the spans in `disjoint` that share a character with `span`.

    `disjoint` must be sorted and have no overlaps, like the result of `union`, because the spans are found by
    bisection.

    >>> overlapping([Span(0, 2), Span(3, 5), Span(8, 9)], Span(2, 8))
    [Span(start=3, end=5)]
    """
    first = bisect_right(disjoint, span.start, key=lambda other: other.end)
    return disjoint[first : bisect_left(disjoint, span.end, lo=first, key=lambda other: other.start)]


def furthest_end(spans: Iterable[Span]) -> Callable[[int], int]:
    """Build a function that returns the highest end of all spans that start before a position.

    If no span starts before the position, the function returns 0. Each call takes logarithmic time. Use it to compare
    many spans with the same set of spans. If none in the set is empty, two rules hold:

    - One of them overlaps `span` exactly if `end_before(span.end) > span.start`.
    - One of them contains `span` exactly if `end_before(span.start + 1) >= span.end`.

    >>> end_before = furthest_end([Span(4, 6), Span(0, 9), Span(1, 2)])
    >>> end_before(0), end_before(5)
    (0, 9)
    """
    ordered = sorted(spans)
    ends = list(accumulate((span.end for span in ordered), max, initial=0))
    return lambda position: ends[bisect_left(ordered, position, key=lambda span: span.start)]


def complement(spans: Iterable[Span], size: int) -> list[Span]:
    """Return the characters that no span covers, in a text of `size` characters.

    >>> complement([Span(2, 4)], 6)
    [Span(start=0, end=2), Span(start=4, end=6)]
    """
    gaps: list[Span] = []
    position = 0
    for span in union(spans):
        if span.start >= size:
            break
        if span.start > position:
            gaps.append(Span(position, span.start))
        position = span.end
    if position < size:
        gaps.append(Span(position, size))
    return gaps


def subtract(a: Iterable[Span], b: Iterable[Span]) -> list[Span]:
    """Return the characters that `a` covers but `b` does not.

    >>> subtract([Span(0, 9)], [Span(3, 4)])
    [Span(start=0, end=3), Span(start=4, end=9)]
    """
    left = union(a)
    return intersection(left, complement(b, left[-1].end if left else 0))


def length(spans: Iterable[Span]) -> int:
    """Count the characters that the spans cover. Each character is counted only once.

    >>> length([Span(0, 4), Span(2, 6)])
    6
    """
    return sum(len(span) for span in union(spans))


def cut(text: str, spans: Sequence[Span]) -> list[tuple[str, bool]]:
    """Split `text` at the edges of the spans, and pair each piece with True if a span covers it, or else with False.

    The pieces are not empty, and joined together they give `text` again.

    >>> cut("abcdef", [Span(2, 4)])
    [('ab', False), ('cd', True), ('ef', False)]
    """
    pieces: list[tuple[str, bool]] = []
    position = 0
    for span in union(spans):
        span.check(text)
        if span.start > position:
            pieces.append((text[position : span.start], False))
        pieces.append((text[span.start : span.end], True))
        position = span.end
    if position < len(text):
        pieces.append((text[position:], False))
    return pieces


def union_across_space(spans: Iterable[Span], text: str) -> list[Span]:
    """Join spans that overlap, touch, or have only white space between them.

    The result is sorted, and empty spans are dropped.

    >>> union_across_space([Span(0, 2), Span(3, 5), Span(6, 7)], "ab cd,e")
    [Span(start=0, end=5), Span(start=6, end=7)]
    """
    joined: list[Span] = []
    for span in union(spans):
        if joined and not text[joined[-1].end : span.start].strip():
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined


def trimmed(span: Span, text: str) -> Span | None:
    """Cut off the white space at the edges of `span`. Return None if the span contains only white space.

    >>> trimmed(Span(1, 5), "a bc d")
    Span(start=2, end=4)
    """
    inner = span.of(text)
    start = span.start + len(inner) - len(inner.lstrip())
    return Span(start, start + len(inner.strip())) if inner.strip() else None
