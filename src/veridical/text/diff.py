"""Find the edits that turn one text into another.

The texts are compared by their longest common subsequence, which is computed by RapidFuzz.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import takewhile

from rapidfuzz.distance import Indel

from veridical.records.spans import Span
from veridical.records.types import Edit
from veridical.text.segment import sentences, words
from veridical.text.stopwords import STOP_WORDS

MAX_CELLS = 2**32  # pairs of items to compare: half a gigabyte at one bit each


def matches(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Align two sequences by their longest common subsequence.

    Return the pairs of equal items in order, each as an index in `before` and an index in `after`. The common prefix
    and suffix are always aligned. The items between them stay unaligned if there are too many to compare (more than
    `MAX_CELLS` pairs).

    >>> matches("a b c d".split(), "a x c c d".split())
    [(0, 0), (2, 3), (3, 4)]
    """
    numbers: dict[Hashable, int] = {}
    one, other = ([numbers.setdefault(item, len(numbers)) for item in items] for items in (before, after))
    shorter = min(len(one), len(other))
    head = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    tail = next((i for i in range(shorter - head) if one[-1 - i] != other[-1 - i]), shorter - head)
    middle, other_middle = one[head : len(one) - tail], other[head : len(other) - tail]
    pairs = [(i, i) for i in range(head)]
    if len(middle) * len(other_middle) <= MAX_CELLS:
        for code in Indel.opcodes(middle, other_middle):
            if code.tag == "equal":
                start, other_start = head + code.src_start, head + code.dest_start
                pairs += [(start + k, other_start + k) for k in range(code.src_end - code.src_start)]
    return pairs + [(len(one) - k, len(other) - k) for k in range(tail, 0, -1)]


def diff(before: str, after: str, *, because: str = "") -> tuple[Edit, ...]:
    """Find the word-level edits that turn `before` into `after`.

    Sentences that are in both texts are matched first. If only function words or punctuation lie between two changes in
    a sentence, both changes become one edit. `because` is the reason that each edit gets.

    >>> for edit in diff("It was built in 1899, at Paris.", "It was built in 1889, in Paris."):
    ...     print(edit.span.of("It was built in 1899, at Paris."), "->", edit.replacement)
    1899, at -> 1889, in
    """
    edits: list[Edit] = []
    for old, new in _differing(before, after, sentences):
        for a, b in _differing(old.of(before), new.of(after), _tokens):
            removed, added = a.shift(old.start), b.shift(new.start)
            # leave shared white space at the edges out of the edit: it should cover the words alone
            head = _shared_blanks(removed.of(before), added.of(after))
            removed, added = Span(removed.start + head, removed.end), Span(added.start + head, added.end)
            tail = _shared_blanks(removed.of(before)[::-1], added.of(after)[::-1])
            replacement = after[added.start : added.end - tail]
            edits.append(Edit(Span(removed.start, removed.end - tail), replacement, because))
    return tuple(_joined(before, edits))


def _differing(before: str, after: str, split: Callable[[str], Sequence[Span]]) -> Iterator[tuple[Span, Span]]:
    """Yield the spans of both texts between the sentences or tokens that they share, in order."""
    old_words, new_words = split(before), split(after)
    a = b = 0
    for i, j in (*matches([s.of(before) for s in old_words], [s.of(after) for s in new_words]), (-1, -1)):
        old = Span(len(before), len(before)) if i < 0 else old_words[i]
        new = Span(len(after), len(after)) if j < 0 else new_words[j]
        if before[a : old.start] != after[b : new.start]:
            yield Span(a, old.start), Span(b, new.start)
        a, b = old.end, new.end


def _shared_blanks(one: str, other: str) -> int:
    """Count the white-space characters that both texts begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] and pair[0].isspace(), pairs))


_SIGN = re.compile(r"[^\s\x21-\x7e]+|\S")  # punctuation or symbols; an emoji of several code points is one match


def _tokens(text: str) -> list[Span]:
    """Split `text` into words, and the punctuation and symbols between them, in order."""
    tokens: list[Span] = []
    position = 0
    for word in (*words(text), Span(len(text), len(text))):
        tokens += [Span(*match.span()) for match in _SIGN.finditer(text, position, word.start)]
        if len(word):
            tokens.append(word)
        position = word.end
    return tokens


def _joined(text: str, edits: Sequence[Edit]) -> Iterator[Edit]:
    """Join neighbouring edits in a sentence if only function words or punctuation lie between them."""
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
