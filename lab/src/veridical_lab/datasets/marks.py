"""Turn labels on tokens, quotes, and differences between two texts into character spans."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from veridical.records.decide import merge
from veridical.records.errors import InputError
from veridical.records.spans import Span, union
from veridical.text.quotes import find_quote

__all__ = ["align", "diff_spans", "flagged_runs", "locate", "tokens"]


def tokens(text: str) -> list[Span]:
    """Return the spans of the white-space tokens of `text`, as `str.split` splits it.

    >>> tokens(" a  bc")
    [Span(start=1, end=2), Span(start=4, end=6)]
    """
    return [Span(*match.span()) for match in re.finditer(r"\S+", text)]


def flagged_runs(spans: Sequence[Span], flags: Sequence[bool]) -> list[Span]:
    """Join flagged spans that directly follow each other, from the start of the first to the end of the last one.

    The spans must be in order.

    Raises:
        InputError: The numbers of flags and spans differ.

    >>> flagged_runs(tokens("a bc d e"), [False, True, True, False])
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
    """Return the spans of some pieces in a text, in order, with only white space between them.

    A piece that is white space has the span of its next occurrence. Return None if the pieces do not fit the text.

    >>> align("ex-pats. ", ["ex", "-", "pats", "."])
    [Span(start=0, end=2), Span(start=2, end=3), Span(start=3, end=7), Span(start=7, end=8)]
    """
    spans: list[Span] = []
    end = 0
    for piece in pieces:
        start = text.find(piece, end)
        if start < 0 or text[end:start].strip():
            return None
        end = start + len(piece)
        spans.append(Span(start, end))
    return None if text[end:].strip() else spans


def locate(text: str, quotes: Sequence[str]) -> list[Span] | None:
    """Return the first unused verbatim occurrence of each quote, or None if a quote has none.

    If the quote as a whole is not found, its lines are searched for one by one.
    """
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
    """Return the spans of `after` that differ from `before`, by words.

    Spans with only punctuation between them are joined. Removed words leave no character. If nothing else was changed,
    the word after the gap is marked instead, or the word before it if the gap is at the end. If two texts differ only
    in white space, there are no spans.

    >>> [s.of("born on 3 June 1946.") for s in diff_spans("born on 9 May 1946.", "born on 3 June 1946.")]
    ['3 June']
    """
    old = _WORD.findall(before)
    spans = [Span(*match.span()) for match in _WORD.finditer(after)]
    new = [span.of(after) for span in spans]
    changed: list[Span] = []
    gaps: list[int] = []
    # set the common beginning and end aside, or difflib's longest block may be an accidental repetition
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
    """Count the words that both begin with."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
