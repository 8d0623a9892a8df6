"""Where a quote stands in a text: the first unused verbatim place, then, if wanted, the nearest tolerant one."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product

from veridical.core.errors import InputError, MissingExtraError
from veridical.core.segment import words
from veridical.core.spans import Span

__all__ = ["find"]


def find(text: str, quote: str, *, used: Iterable[Span] = (), min_similarity: float = 1.0) -> Span | None:
    """The first place of `quote` in `text` that overlaps none of `used`, or None.

    Verbatim places are tried first. With `min_similarity` below 1 the first place comes next that differs only in
    letter case, white space, kinds of quotation marks and dashes, the Unicode form of accents, or punctuation around
    the quote; then the best place whose other differences leave at least that similarity (0 to 1: normalised
    insertion-deletion similarity of quote and place, both so folded; needs the `fuzzy` extra). A tolerant place
    starts and ends at a word. A quote that is empty, or tolerantly one without a letter or digit, is nowhere.

    >>> find("a cat, a dog, a cat", "a cat", used=[Span(0, 5)])
    Span(start=14, end=19)
    >>> find("They said “A  Cat”.", "'a cat'", min_similarity=0.9)
    Span(start=11, end=17)
    """
    if not 0.0 < min_similarity <= 1.0:
        raise InputError(f"min_similarity is {min_similarity}", hint="it lies above 0 and at most at 1")
    taken = list(used)
    found = next((Span(a, a + len(quote)) for a in _free(text, quote, taken)), None) if quote else None
    if found is not None or min_similarity == 1.0:
        return found
    wanted = _core(_folded(quote)[0])
    return _find_tolerant(_Prepared.of(text), wanted, taken, min_similarity) if wanted else None


def _free(text: str, quote: str, taken: list[Span]) -> Iterator[int]:
    """Where `quote` begins in `text`, in order, overlapping none of `taken`."""
    at = text.find(quote)
    while at >= 0:
        span = Span(at, at + len(quote))
        behind = max((other.end for other in taken if span.overlaps(other)), default=None)
        if behind is None:
            yield at
        at = text.find(quote, max(at + 1, behind or 0))


_SAME = str.maketrans(dict.fromkeys("’‘‚‛`´", "'") | dict.fromkeys("“”„‟«»", '"') | dict.fromkeys("‐‑‒–—―−", "-"))
_SAME.update(str.maketrans({"…": "...", "\xad": "", "\u200b": "", "\ufeff": ""}))


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    return unicodedata.normalize("NFD", character.translate(_SAME).casefold())


def _folded(text: str) -> tuple[str, list[int]]:
    """`text` as it is compared, and the place in `text` of each character of that."""
    characters: list[str] = []
    places: list[int] = []
    space = True
    for place, character in enumerate(text):
        if character.isspace():
            folded = "" if space else " "
            space = True
        else:
            folded = _folded_character(character)
            space = space and not folded
        characters.append(folded)
        places.extend([place] * len(folded))
    return "".join(characters), places


def _core(folded: str) -> str:
    """`folded` from its first to its last letter, digit or mark."""
    solid = [i for i, character in enumerate(folded) if unicodedata.category(character)[0] in "LNM"]
    return folded[solid[0] : solid[-1] + 1] if solid else ""


class _Prepared:
    """A text made ready for many searches: folded, with the places of its characters and the edges of its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.folded, self.places = _folded(text)
        found = words(text)
        self.starts = [word.start for word in found]
        self.ends = [word.end for word in found]

    @staticmethod
    @lru_cache(maxsize=8)
    def of(text: str) -> _Prepared:
        return _Prepared(text)

    def blanked(self, taken: list[Span]) -> str:
        """The folded text without the characters of `taken`, at the same length."""
        folded = self.folded
        for span in taken:
            a, b = bisect_left(self.places, span.start), bisect_left(self.places, span.end)
            folded = folded[:a] + "\0" * (b - a) + folded[b:]
        return folded

    def folded_at(self, place: Span) -> str:
        """What the characters of `place`, which starts at a word, fold to."""
        return self.folded[bisect_left(self.places, place.start) : bisect_left(self.places, place.end)]

    def at_words(self, start: int, end: int) -> Span | None:
        """The span of these folded characters, if it starts where a word does and ends where a word does."""
        first, last = self.places[start], self.places[end - 1] + 1
        if end < len(self.places) and self.places[end] < last:
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
        i = bisect_right(self.ends, self.places[start])
        j = bisect_left(self.starts, self.places[end - 1] + 1)
        firsts, lasts = self.starts[max(0, i - 2) : i + 3], self.ends[max(0, j - 3) : j + 2]
        return (Span(a, b) for a, b in product(firsts, lasts) if a < b)


def _find_tolerant(ready: _Prepared, wanted: str, taken: list[Span], min_similarity: float) -> Span | None:
    blanked = ready.blanked(taken)
    for at in _free(blanked, wanted, []):
        place = ready.at_words(at, at + len(wanted))
        if place is not None and not any(place.overlaps(other) for other in taken):
            return place
    try:
        from rapidfuzz import fuzz
        from rapidfuzz.distance import Indel
    except ImportError:
        raise MissingExtraError("finding a quote that is not verbatim", "fuzzy") from None
    window = fuzz.partial_ratio_alignment(wanted, blanked) if blanked else None
    if window is None or window.dest_start >= window.dest_end:
        return None
    best, highest = None, 0.0
    for place in ready.near(window.dest_start, window.dest_end):
        similarity = Indel.normalized_similarity(wanted, ready.folded_at(place))
        if similarity > highest and not any(place.overlaps(other) for other in taken):
            best, highest = place, similarity
    return best if highest >= min_similarity else None
