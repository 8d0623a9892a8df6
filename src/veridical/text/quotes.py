"""Find a quote in a text: the first unused verbatim occurrence or, if allowed, the most similar passage."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from veridical.records.errors import InputError
from veridical.records.spans import Span, overlapping, union
from veridical.text.segment import words


def find_quote(text: str, quote: str, *, used: Iterable[Span] = (), min_similarity: float = 1.0) -> Span | None:
    """Find the first occurrence of `quote` in `text` that does not overlap a used span.

    Verbatim occurrences are tried first. If `min_similarity` is below 1, two more tolerant searches follow:

    * The first one ignores letter case, white space, types of quotation marks and dashes, the Unicode form of accents,
      and punctuation around the quote.
    * The second one takes the most similar passage if its similarity is at least `min_similarity`.

    These two searches only find passages that start and end with a whole word.

    Args:
        text: The text to search.
        quote: The quote to find. An empty quote is never found. The tolerant searches need a letter or digit in the
            quote.
        used: The spans of `text` that the occurrence must not overlap.
        min_similarity: The lowest similarity to accept, in (0, 1]. The similarity of quote and passage is their
            normalised insertion-deletion similarity. It ignores the same differences as the first tolerant search.

    Returns:
        The span of the occurrence, or None if there is no occurrence.

    >>> find_quote("a cat, a dog, a cat", "a cat", used=[Span(0, 5)])
    Span(start=14, end=19)
    >>> find_quote("They said “A  Cat”.", "'a cat'", min_similarity=0.9)
    Span(start=11, end=17)
    """
    if not 0.0 < min_similarity <= 1.0:
        raise InputError(f"min_similarity is {min_similarity}", hint="it lies above 0 and at most at 1")
    taken = union(used)
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
    """Find where `quote` occurs in `text` without overlapping a `taken` span (a `union`), in order."""
    start = text.find(quote)
    while start >= 0:
        others = overlapping(taken, Span(start, start + len(quote)))
        if not others:
            yield start
        start = text.find(quote, others[-1].end if others else start + 1)


_SAME = str.maketrans(dict.fromkeys("’‘‚‛`´", "'") | dict.fromkeys("“”„‟«»", '"') | dict.fromkeys("‐‑‒–—―−", "-"))
_SAME.update(str.maketrans({"…": "...", "\xad": "", "\u200b": "", "\ufeff": ""}))


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    return unicodedata.normalize("NFD", character.translate(_SAME).casefold())


def _folded(text: str) -> tuple[str, list[int]]:
    """Fold `text` for comparison, and return the offset in `text` of each folded character."""
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
    """A text prepared for many searches: folded, with the offsets of its characters and the edges of its words."""

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
        """Return the folded text, with NUL in place of every character of the `taken` spans."""
        parts: list[str] = []
        position = 0
        for span in union(taken):
            a, b = bisect_left(self.offsets, span.start), bisect_left(self.offsets, span.end)
            parts += [self.folded[position:a], "\0" * (b - a)]
            position = b
        return "".join(parts) + self.folded[position:]

    def folded_at(self, span: Span) -> str:
        """Return the folded form of the characters of `span`, which starts at a word."""
        return self.folded[bisect_left(self.offsets, span.start) : bisect_left(self.offsets, span.end)]

    def at_words(self, start: int, end: int) -> Span | None:
        """Return the span of the folded characters `start` to `end`.

        Return None if the span does not begin and end with a whole word.
        """
        first, last = self.offsets[start], self.offsets[end - 1] + 1
        if end < len(self.offsets) and self.offsets[end] < last:
            return None  # the end splits one character of the text: "cafe" in "café"
        i, j = bisect_left(self.starts, first), bisect_left(self.ends, last)
        if i < len(self.starts) and self.starts[i] == first and j < len(self.ends):
            # the last word may end in characters that fold to nothing
            rest = self.text[last : self.ends[j]]
            if not _folded(rest)[0]:
                return Span(first, self.ends[j])
        return None

    def near(self, start: int, end: int) -> Iterator[Span]:
        """Yield spans of whole words whose edges lie up to two words from the folded characters `start` to `end`."""
        i = bisect_right(self.ends, self.offsets[start])
        j = bisect_left(self.starts, self.offsets[end - 1] + 1)
        firsts, lasts = self.starts[max(0, i - 2) : i + 3], self.ends[max(0, j - 3) : j + 2]
        return (Span(a, b) for a, b in product(firsts, lasts) if a < b)

    def find(self, wanted: str, taken: Sequence[Span], min_similarity: float) -> Span | None:
        """Find the first occurrence of `wanted` (folded) that overlaps no `taken` span, or the most similar passage."""
        blanked = self.blanked(taken)
        for start in _occurrences(blanked, wanted, []):
            span = self.at_words(start, start + len(wanted))
            if span is not None and not overlapping(taken, span):
                return span
        window = fuzz.partial_ratio_alignment(wanted, blanked) if blanked else None
        if window is None or window.dest_start >= window.dest_end:
            return None
        best, highest = None, 0.0
        for span in self.near(window.dest_start, window.dest_end):
            similarity = Indel.normalized_similarity(wanted, self.folded_at(span))
            if similarity > highest and not overlapping(taken, span):
                best, highest = span, similarity
        return best if highest >= min_similarity else None
