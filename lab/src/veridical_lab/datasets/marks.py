"""Find the character spans of labelled tokens, of quotes, and of differences between two texts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from veridical.records.decide import merge
from veridical.records.errors import InputError
from veridical.records.spans import Span, union
from veridical.text.quotes import find_quote


def tokens(text: str) -> list[Span]:
    """Split `text` at white space, as `str.split` does, and return the span of each token.

    >>> tokens(" a  bc")
    [Span(start=1, end=2), Span(start=4, end=6)]
    """
    return [Span(*match.span()) for match in re.finditer(r"\S+", text)]


def flagged_runs(spans: Sequence[Span], flags: Sequence[bool]) -> list[Span]:
    """Join flagged spans that follow each other in the list. The joined span includes what stands between them.

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
    """Find pieces that make up a text, in order, with only white space between them.

    A piece that is itself white space gets the span of its next occurrence. Return None if the pieces do not fit the
    text.

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
    """Find each quote in a text, word for word, at its first place that no earlier quote has taken.

    If a quote as a whole is not found, its lines are looked for one by one. Return None if that fails, too.
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
    """Compare two texts by words, and return the spans of `after` that differ from `before`.

    Spans with only punctuation between them are joined. Removed words leave no characters to mark. If words were only
    removed, the word after the gap is marked instead, or the word before a gap at the end. If two texts differ only in
    white space, there are no spans.

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
    """Count how many words are the same at the beginning of both lists."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
