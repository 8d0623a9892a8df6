"""Edits of a text on its characters: made from two texts, applied, put one after another, and spans carried through.

An edit replaces the characters of its span; an empty span is a place to insert at. A list of edits is good for a text
if it is sorted, none overlaps the next, no two insert at one place, and all lie inside the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

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
    made: list[Edit] = []
    shift = 0  # from a place in `text` to the same place in `between`
    done: list[tuple[Span, Edit]] = []
    for edit in first:
        start = edit.span.start + shift
        done.append((Span(start, start + len(edit.replacement)), edit))
        shift += len(edit.replacement) - len(edit.span)
    shift = 0
    for place, old, new in _clusters(done, [(edit.span, edit) for edit in second]):
        start = place.start - shift
        shift += sum(len(edit.replacement) - len(edit.span) for edit in old)
        here = [Edit(e.span.shift(-place.start), e.replacement, e.because) for e in new]
        said = dict.fromkeys(edit.because for edit in (*old, *new))
        made.append(Edit(Span(start, place.end - shift), apply(place.of(between), here), "; ".join(said)))
    return tuple(edit for edit in made if edit.replacement != edit.span.of(text))


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
    for old, new in _unlike(before, after):
        edits += [Edit(a, b.of(after), because) for a, b in _changes(before, after, old, new)]
    return tuple(_joined(before, edits))


def _unlike(before: str, after: str) -> Iterator[tuple[Span, Span]]:
    """The stretches of both texts between the sentences that they share, in order."""
    ours, theirs = sentences(before), sentences(after)
    shared = _matches([s.of(before) for s in ours], [s.of(after) for s in theirs])
    yield from _between(before, after, [(ours[i], theirs[j]) for i, j in shared])


def _between(before: str, after: str, pairs: Iterable[tuple[Span, Span]]) -> Iterator[tuple[Span, Span]]:
    a = b = 0
    for old, new in (*pairs, (Span(len(before), len(before)), Span(len(after), len(after)))):
        if before[a : old.start] != after[b : new.start]:
            yield Span(a, old.start), Span(b, new.start)
        a, b = old.end, new.end


def _changes(before: str, after: str, old: Span, new: Span) -> Iterator[tuple[Span, Span]]:
    one, other = old.of(before), new.of(after)
    ours, theirs = _tokens(one), _tokens(other)
    shared = _matches([s.of(one) for s in ours], [s.of(other) for s in theirs])
    for a, b in _between(one, other, [(ours[i], theirs[j]) for i, j in shared]):
        # white space that both have at an edge stays; a replaced word must not take its blank with it
        gone, come = a.of(one), b.of(other)
        head = _blank(gone[: _alike(gone, come)])
        rest = gone[head:][::-1]
        tail = _blank(rest[: _alike(rest, come[head:][::-1])])
        yield (
            Span(old.start + a.start + head, old.start + a.end - tail),
            Span(new.start + b.start + head, new.start + b.end - tail),
        )


def _blank(text: str) -> int:
    """How much white space `text` begins with."""
    return len(text) - len(text.lstrip())


_SIGN = re.compile(r"[^\s\x21-\x7e]+|\S")  # signs that are no words; a joined emoji is one


def _tokens(text: str) -> list[Span]:
    """The words of `text` and the signs between them, in order."""
    found: list[Span] = []
    at = 0
    for word in (*words(text), Span(len(text), len(text))):
        found += [Span(*match.span()) for match in _SIGN.finditer(text, at, word.start)]
        if len(word):
            found.append(word)
        at = word.end
    return found


_PAIRS = 100_000  # pairs of equal items up to which all are weighed against each other
_DEPTH = 40


def _matches(ours: Sequence[str], theirs: Sequence[str], depth: int = _DEPTH) -> Iterator[tuple[int, int]]:
    """Which items of both sequences are the same, in order; what both begin and end with always is.

    Where items repeat so often that weighing all pairs would take minutes, items that each side has once part the
    sequences first; where there are none, nothing between is taken for the same.
    """
    head = _alike(ours, theirs)
    tail = _alike(ours[head:][::-1], theirs[head:][::-1])
    a, b = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    yield from ((i, i) for i in range(head))
    counts = Counter(a), Counter(b)
    if sum(n * counts[1][item] for item, n in counts[0].items()) <= _PAIRS:
        blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
        yield from ((head + i + k, head + j + k) for i, j, size in blocks for k in range(size))
    elif depth and (anchors := _anchors(a, b, counts)):
        at = bt = 0
        for i, j in (*anchors, (len(a), len(b))):
            yield from ((head + at + x, head + bt + y) for x, y in _matches(a[at:i], b[bt:j], depth - 1))
            if i < len(a):
                yield head + i, head + j
            at, bt = i + 1, j + 1
    yield from ((len(ours) - k, len(theirs) - k) for k in range(tail, 0, -1))


def _anchors(a: Sequence[str], b: Sequence[str], counts: tuple[Counter[str], Counter[str]]) -> list[tuple[int, int]]:
    """The longest run, in the order of both, of items that each has once (patience sorting)."""
    place = {item: j for j, item in enumerate(b) if counts[1][item] == 1 and counts[0][item] == 1}
    ends: list[int] = []  # the smallest place at which a run of each length can end
    runs: list[tuple[int, int]] = []  # those ends as indices into `chain`
    chain: list[tuple[int, int, int]] = []  # (i, j, index of the one before it in its run)
    for i, item in enumerate(a):
        if item not in place:
            continue
        j = place[item]
        n = bisect_left(ends, j)
        chain.append((i, j, runs[n - 1][1] if n else -1))
        ends[n : n + 1] = [j]
        runs[n : n + 1] = [(j, len(chain) - 1)]
    found: list[tuple[int, int]] = []
    k = runs[-1][1] if runs else -1
    while k >= 0:
        i, j, k = chain[k]
        found.append((i, j))
    return found[::-1]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _joined(text: str, edits: Sequence[Edit]) -> Iterator[Edit]:
    """`edits`, neighbours as one where what lies between reads as part of the same change."""
    ends = [sentence.end for sentence in sentences(text)]
    last: Edit | None = None
    for edit in edits:
        if last is not None and _reads_on(text, Span(last.span.end, edit.span.start), ends):
            kept = text[last.span.end : edit.span.start]
            last = Edit(Span(last.span.start, edit.span.end), last.replacement + kept + edit.replacement, edit.because)
            continue
        if last is not None:
            yield last
        last = edit
    if last is not None:
        yield last


def _reads_on(text: str, gap: Span, ends: Sequence[int]) -> bool:
    if any(gap.start <= end <= gap.end for end in ends):
        return False
    return all(word.of(gap.of(text)).casefold() in STOP_WORDS for word in words(gap.of(text)))
