"""Where a quote stands in a text: the first unused verbatim position, then, if wanted, the nearest tolerant one."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from veridical.core.errors import InputError
from veridical.core.segment import words
from veridical.core.spans import Span

__all__ = ["find_quote"]


def find_quote(text: str, quote: str, *, used: Iterable[Span] = (), min_similarity: float = 1.0) -> Span | None:
    """Find the first occurrence of `quote` in `text` that overlaps none of `used`; None if there is none.

    Verbatim occurrences are tried first. With `min_similarity` below 1 the first one comes next that differs only in
    letter case, white space, kinds of quotation marks and dashes, the Unicode form of accents, or punctuation around
    the quote; then the best one whose other differences leave at least that similarity. A tolerant occurrence starts
    and ends at a word. A quote that is empty, or tolerantly one without a letter or digit, is nowhere.

    Args:
        text: Where to look.
        quote: What to look for.
        used: Spans of `text` that are taken.
        min_similarity: In (0, 1]: normalised insertion-deletion similarity of quote and occurrence, both folded.

    >>> find_quote("a cat, a dog, a cat", "a cat", used=[Span(0, 5)])
    Span(start=14, end=19)
    >>> find_quote("They said “A  Cat”.", "'a cat'", min_similarity=0.9)
    Span(start=11, end=17)
    """
    if not 0.0 < min_similarity <= 1.0:
        raise InputError(f"min_similarity is {min_similarity}", hint="it lies above 0 and at most at 1")
    taken = list(used)
    start = next(_occurrences(text, quote, taken), None) if quote else None
    if start is not None:
        return Span(start, start + len(quote))
    if min_similarity == 1.0:
        return None
    folded, _ = _folded(quote)
    solid = [i for i, character in enumerate(folded) if unicodedata.category(character)[0] in "LNM"]
    if not solid:
        return None
    return _FoldedText.of(text).find(folded[solid[0] : solid[-1] + 1], taken, min_similarity)


def _occurrences(text: str, quote: str, taken: Sequence[Span]) -> Iterator[int]:
    """Where `quote` begins in `text`, in order, overlapping none of `taken`."""
    at = text.find(quote)
    while at >= 0:
        span = Span(at, at + len(quote))
        end_of_taken = max((other.end for other in taken if span.overlaps(other)), default=None)
        if end_of_taken is None:
            yield at
        at = text.find(quote, max(at + 1, end_of_taken or 0))


_SAME = str.maketrans(dict.fromkeys("’‘‚‛`´", "'") | dict.fromkeys("“”„‟«»", '"') | dict.fromkeys("‐‑‒–—―−", "-"))
_SAME.update(str.maketrans({"…": "...", "\xad": "", "\u200b": "", "\ufeff": ""}))


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    return unicodedata.normalize("NFD", character.translate(_SAME).casefold())


def _folded(text: str) -> tuple[str, list[int]]:
    """`text` as it is compared, and the offset in `text` of each character of that."""
    characters: list[str] = []
    offsets: list[int] = []
    space = True
    for offset, character in enumerate(text):
        if character.isspace():
            folded = "" if space else " "
            space = True
        else:
            folded = _folded_character(character)
            space = space and not folded
        characters.append(folded)
        offsets.extend([offset] * len(folded))
    return "".join(characters), offsets


class _FoldedText:
    """A text made ready for many searches: folded, with the offsets of its characters and the edges of its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.folded, self.offsets = _folded(text)
        spans = words(text)
        self.starts = [word.start for word in spans]
        self.ends = [word.end for word in spans]

    @staticmethod
    @lru_cache(maxsize=8)
    def of(text: str) -> _FoldedText:
        return _FoldedText(text)

    def blanked(self, taken: Sequence[Span]) -> str:
        """The folded text without the characters of `taken`, at the same length."""
        folded = self.folded
        for span in taken:
            a, b = bisect_left(self.offsets, span.start), bisect_left(self.offsets, span.end)
            folded = folded[:a] + "\0" * (b - a) + folded[b:]
        return folded

    def folded_at(self, span: Span) -> str:
        """What the characters of `span`, which starts at a word, fold to."""
        return self.folded[bisect_left(self.offsets, span.start) : bisect_left(self.offsets, span.end)]

    def at_words(self, start: int, end: int) -> Span | None:
        """The span of these folded characters, if it starts where a word does and ends where a word does."""
        first, last = self.offsets[start], self.offsets[end - 1] + 1
        if end < len(self.offsets) and self.offsets[end] < last:
            return None  # in the midst of what one character folds to: "cafe" in "café"
        i, j = bisect_left(self.starts, first), bisect_left(self.ends, last)
        if i < len(self.starts) and self.starts[i] == first and j < len(self.ends):
            # the last word may go on with characters that fold to nothing
            rest = self.text[last : self.ends[j]]
            if not _folded(rest)[0]:
                return Span(first, self.ends[j])
        return None

    def near(self, start: int, end: int) -> Iterator[Span]:
        """Spans from word to word whose edges are up to two words off those of these folded characters."""
        i = bisect_right(self.ends, self.offsets[start])
        j = bisect_left(self.starts, self.offsets[end - 1] + 1)
        firsts, lasts = self.starts[max(0, i - 2) : i + 3], self.ends[max(0, j - 3) : j + 2]
        return (Span(a, b) for a, b in product(firsts, lasts) if a < b)

    def find(self, wanted: str, taken: Sequence[Span], min_similarity: float) -> Span | None:
        """The first occurrence of the folded `wanted` that overlaps none of `taken`, else the most similar one."""
        blanked = self.blanked(taken)
        for at in _occurrences(blanked, wanted, []):
            span = self.at_words(at, at + len(wanted))
            if span is not None and not any(span.overlaps(other) for other in taken):
                return span
        window = fuzz.partial_ratio_alignment(wanted, blanked) if blanked else None
        if window is None or window.dest_start >= window.dest_end:
            return None
        best, highest = None, 0.0
        for span in self.near(window.dest_start, window.dest_end):
            similarity = Indel.normalized_similarity(wanted, self.folded_at(span))
            if similarity > highest and not any(span.overlaps(other) for other in taken):
                best, highest = span, similarity
        return best if highest >= min_similarity else None
