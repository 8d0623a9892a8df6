"""Marks over a text: cutting it where marks begin and end, what of it to show, and how to show it safely.

Knows nothing of verdicts or colours. Every function is linear in the text and the marks (times how deep marks overlap).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from veridical.core.errors import SpanError
from veridical.core.segment import sentences
from veridical.core.spans import Span, union

__all__ = ["Segment", "passages", "segment", "shorten", "visible", "within"]

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


# What must not reach a terminal or a page as it is: controls (escape sequences start with one), line and paragraph
# separators, bidirectional embeddings, overrides and isolates, invisible spaces, tag characters, lone surrogates,
# noncharacters. Joiners and left-to-right marks stay: honest text needs them and they cannot deceive by themselves.
_HIDDEN = re.compile(
    "\r(?=\n)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060\u2066-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str, start: int = 0, end: int | None = None) -> str:
    """`text[start:end]` with every character that could act instead of being read shown as a sign for it.

    ASCII controls become their pictures (␛), others ⟨U+202E⟩. Line feeds and tabs stay; a line break of two
    characters becomes one. Pieces join: the pieces of a text, made visible one by one, are the visible text.

    >>> visible("a\\x1b[2Jb\\u202ec\\r\\n")
    'a␛[2Jb⟨U+202E⟩c\\n'
    """
    stop = len(text) if end is None else end
    if stop > start and text[stop - 1] == "\r" and text[stop : stop + 1] == "\n":
        stop -= 1  # the line feed after it stands in the next piece
    return _HIDDEN.sub(_sign, text[start:stop])


def _sign(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character == "\r" and match.string[match.end() : match.end() + 1] == "\n":
        return ""
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


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


def shorten(text: str, limit: int) -> str:
    """`text` on one line, its middle replaced by … where it is longer than `limit` characters.

    >>> shorten("one two three four five six", 15)
    'one two … six'
    """
    if len(text) > 4 * limit:  # do not split a very long text only to throw it away
        text = f"{text[: 2 * limit]} {text[-2 * limit :]}"
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    head, tail = line[: limit * 2 // 3].rsplit(" ", 1)[0], line[-(limit // 3) :]
    return f"{head} … {tail.split(' ', 1)[-1]}"
