"""Edits of a text on its characters: made from two texts, applied, put one after another, and spans carried through.

An edit replaces the characters of its span; an empty span is a place to insert at. A list of edits is good for a text
if it is sorted, none overlaps the next, no two insert at one place, and all lie inside the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, takewhile

from veridical.core.diff import matches
from veridical.core.errors import SpanError
from veridical.core.segment import sentences, words
from veridical.core.spans import Span
from veridical.core.stopwords import STOP_WORDS
from veridical.core.types import Edit

__all__ = ["apply", "carry", "check_edits", "compose", "diff"]


def check_edits(text: str, edits: Sequence[Edit]) -> None:
    """Raise `SpanError` unless `edits` are sorted, apart from each other, and inside `text`."""
    for edit in edits:
        edit.span.check(text)
    for one, other in pairwise(edits):
        if other.span.start < one.span.end or other.span == one.span:
            raise SpanError(
                f"the edits of [{one.span.start}, {one.span.end}) and [{other.span.start}, {other.span.end}) "
                "overlap or are out of order",
                hint="edits are sorted, and none touches a character or place of another",
            )


def apply(text: str, edits: Sequence[Edit]) -> str:
    """`text` after `edits`, whose spans all speak of `text` as it was; `SpanError` if they are not good for it.

    >>> apply("It is 300 m tall.", [Edit(Span(6, 9), "330", "the source says 330")])
    'It is 330 m tall.'
    """
    check_edits(text, edits)
    parts: list[str] = []
    at = 0
    for edit in edits:
        parts += [text[at : edit.span.start], edit.replacement]
        at = edit.span.end
    return "".join(parts) + text[at:]


def carry(span: Span, edits: Sequence[Edit]) -> Span:
    """Where `span` of the text stands after `edits`: what is left of its characters and what replaced any of them.

    What was inserted inside it belongs to it, what was inserted at its edges does not. Empty where all of it was
    deleted.

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
    """The edits of `text` that do what `first` and then `second` do; `second` speaks of the text after `first`.

    Edits of both that overlap or touch become one, with both reasons.

    >>> compose("a b", [Edit(Span(0, 1), "x", "one")], [Edit(Span(2, 3), "y", "two")])[1]
    Edit(span=Span(start=2, end=3), replacement='y', because='two')
    """
    between = apply(text, first)
    check_edits(between, second)
    composed: list[Edit] = []
    shift = 0  # from a place in `text` to the same place in `between`
    placed: list[tuple[Span, Edit]] = []
    for edit in first:
        start = edit.span.start + shift
        placed.append((Span(start, start + len(edit.replacement)), edit))
        shift += len(edit.replacement) - len(edit.span)
    shift = 0
    for place, old, new in _clusters(placed, [(edit.span, edit) for edit in second]):
        start = place.start - shift
        shift += sum(len(edit.replacement) - len(edit.span) for edit in old)
        here = [Edit(e.span.shift(-place.start), e.replacement, e.because) for e in new]
        reasons = dict.fromkeys(edit.because for edit in (*old, *new))
        composed.append(Edit(Span(start, place.end - shift), apply(place.of(between), here), "; ".join(reasons)))
    return tuple(edit for edit in composed if edit.replacement != edit.span.of(text))


def _clusters(
    old: Sequence[tuple[Span, Edit]], new: Sequence[tuple[Span, Edit]]
) -> Iterator[tuple[Span, list[Edit], list[Edit]]]:
    """The edits of both lists whose places touch, together with the place that they cover."""
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


def diff(before: str, after: str, *, because: str = "") -> tuple[Edit, ...]:
    """The edits that turn `before` into `after`, exactly, by words; sentences that both share are set aside first.

    Changes with only function words or punctuation of one sentence between them are one edit.

    >>> for edit in diff("It was built in 1899, at Paris.", "It was built in 1889, in Paris."):
    ...     print(edit.span.of("It was built in 1899, at Paris."), "->", edit.replacement)
    1899, at -> 1889, in
    """
    edits: list[Edit] = []
    for old, new in _differing(before, after, sentences):
        for a, b in _differing(old.of(before), new.of(after), _tokens):
            gone, come = a.shift(old.start), b.shift(new.start)
            # white space that both have at an edge stays: a replaced word must not take its blank with it
            head = _shared_blanks(gone.of(before), come.of(after))
            gone, come = Span(gone.start + head, gone.end), Span(come.start + head, come.end)
            tail = _shared_blanks(gone.of(before)[::-1], come.of(after)[::-1])
            replacement = after[come.start : come.end - tail]
            edits.append(Edit(Span(gone.start, gone.end - tail), replacement, because))
    return tuple(_joined(before, edits))


def _differing(before: str, after: str, split: Callable[[str], Sequence[Span]]) -> Iterator[tuple[Span, Span]]:
    """The stretches of both texts between the sentences or tokens that they share, in order."""
    ours, theirs = split(before), split(after)
    a = b = 0
    for i, j in (*matches([s.of(before) for s in ours], [s.of(after) for s in theirs]), (-1, -1)):
        old = Span(len(before), len(before)) if i < 0 else ours[i]
        new = Span(len(after), len(after)) if j < 0 else theirs[j]
        if before[a : old.start] != after[b : new.start]:
            yield Span(a, old.start), Span(b, new.start)
        a, b = old.end, new.end


def _shared_blanks(one: str, other: str) -> int:
    """How many characters of white space both texts begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] and pair[0].isspace(), pairs))


_SIGN = re.compile(r"[^\s\x21-\x7e]+|\S")  # signs that are no words; a joined emoji is one


def _tokens(text: str) -> list[Span]:
    """The words of `text` and the signs between them, in order."""
    tokens: list[Span] = []
    at = 0
    for word in (*words(text), Span(len(text), len(text))):
        tokens += [Span(*match.span()) for match in _SIGN.finditer(text, at, word.start)]
        if len(word):
            tokens.append(word)
        at = word.end
    return tokens


def _joined(text: str, edits: Sequence[Edit]) -> Iterator[Edit]:
    """`edits`, with neighbours as one where only function words or punctuation of one sentence separate them."""
    ends = [sentence.end for sentence in sentences(text)]
    last: Edit | None = None
    for edit in edits:
        if last is not None:
            gap = Span(last.span.end, edit.span.start)
            between = gap.of(text)
            if not any(gap.start <= end <= gap.end for end in ends) and all(
                word.of(between).casefold() in STOP_WORDS for word in words(between)
            ):
                replacement = last.replacement + between + edit.replacement
                last = Edit(Span(last.span.start, edit.span.end), replacement, edit.because)
                continue
            yield last
        last = edit
    if last is not None:
        yield last
