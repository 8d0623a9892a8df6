"""Labels on tokens, quotes and differences of two texts turned into character spans."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from veridical.core.decide import merge
from veridical.core.errors import InputError
from veridical.core.quotes import find_quote
from veridical.core.spans import Span, union

__all__ = ["align", "diff_spans", "locate", "runs", "tokens"]


def tokens(text: str) -> list[Span]:
    """The white-space tokens of `text`, as `str.split` gives them.

    >>> tokens(" a  bc")
    [Span(start=1, end=2), Span(start=4, end=6)]
    """
    return [Span(*match.span()) for match in re.finditer(r"\S+", text)]


def runs(spans: Sequence[Span], flags: Sequence[bool]) -> list[Span]:
    """The maximal runs of flagged spans, each from the start of its first to the end of its last.

    `spans` are in order; `InputError` where there are not as many flags as spans.

    >>> runs(tokens("a bc d e"), [False, True, True, False])
    [Span(start=2, end=6)]
    """
    if len(spans) != len(flags):
        raise InputError(f"{len(flags)} labels for {len(spans)} tokens")
    joined: list[Span] = []
    open_run = False
    for span, flag in zip(spans, flags, strict=True):
        if flag and open_run:
            joined[-1] = Span(joined[-1].start, span.end)
        elif flag:
            joined.append(span)
        open_run = flag
    return joined


def align(text: str, pieces: Sequence[str]) -> list[Span] | None:
    """The spans of `pieces` in `text`, in order and with only white space between them; None if they do not fit.

    A piece that is white space itself is where it occurs next.

    >>> align("ex-pats. ", ["ex", "-", "pats", "."])
    [Span(start=0, end=2), Span(start=2, end=3), Span(start=3, end=7), Span(start=7, end=8)]
    """
    spans: list[Span] = []
    at = 0
    for piece in pieces:
        start = text.find(piece, at)
        if start < 0 or text[at:start].strip():
            return None
        at = start + len(piece)
        spans.append(Span(start, at))
    return None if text[at:].strip() else spans


def locate(text: str, quotes: Sequence[str]) -> list[Span] | None:
    """The first unused verbatim occurrence of each quote, line by line if need be; None if one has none."""
    spans: list[Span] = []
    for quote in quotes:
        whole = find_quote(text, quote.strip(), used=spans)
        parts = [quote.strip()] if whole else [line.strip() for line in quote.splitlines() if line.strip()]
        for part in parts:
            span = find_quote(text, part, used=spans)
            if span is None:
                return None
            spans.append(span)
        if not parts:
            return None
    return union(spans)


_WORD = re.compile(r"\w+(?:[.,'’-]\w+)*|[^\w\s]")


def diff_spans(before: str, after: str) -> list[Span]:
    """The spans of `after` that differ from `before`, by words; those with only punctuation between them are one.

    Words that are only left out leave no character: where nothing else was changed, the word after the gap (at the end,
    the one before it) is marked instead. Texts that differ in white space alone give [].

    >>> [s.of("born on 3 June 1946.") for s in diff_spans("born on 9 May 1946.", "born on 3 June 1946.")]
    ['3 June']
    """
    old = _WORD.findall(before)
    spans = [Span(*match.span()) for match in _WORD.finditer(after)]
    new = [span.of(after) for span in spans]
    changed: list[Span] = []
    gaps: list[int] = []
    # what both begin and end with is set aside first: difflib's longest block may else be an accidental repetition
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    middle = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for kind, _, _, start, end in middle.get_opcodes():
        if kind == "delete":
            gaps.append(head + start)
        elif kind != "equal":
            changed.append(Span(spans[head + start].start, spans[head + end - 1].end))
    if not changed and spans:
        changed = [spans[min(gap, len(spans) - 1)] for gap in gaps]
    return merge(after, changed)


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words the two begin with in common."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
