"""Where a quote stands in a text: the first unused verbatim place, then, if wanted, the nearest tolerant one."""

from __future__ import annotations

from collections.abc import Iterable

from veridical.core.errors import InputError, MissingExtraError
from veridical.core.segment import words
from veridical.core.spans import Span

__all__ = ["find"]


def find(text: str, quote: str, *, used: Iterable[Span] = (), min_similarity: float = 1.0) -> Span | None:
    """The first place of `quote` in `text` that overlaps none of `used`, or None.

    Verbatim places are tried first. With `min_similarity` below 1 the best tolerant place comes next: letter case,
    white space and kinds of quotation marks do not count, and the rest must agree to at least that share (0 to 1,
    normalised edit similarity of the quote and the place; needs the `fuzzy` extra). A tolerant place starts and
    ends at a word. An empty quote is nowhere.

    >>> find("a cat, a dog, a cat", "a cat", used=[Span(0, 5)])
    Span(start=14, end=19)
    """
    if not 0.0 < min_similarity <= 1.0:
        raise InputError(f"min_similarity is {min_similarity}", hint="it lies in (0, 1]")
    taken = list(used)
    at = text.find(quote) if quote else -1
    while at >= 0:
        span = Span(at, at + len(quote))
        if not any(span.overlaps(other) for other in taken):
            return span
        at = text.find(quote, at + 1)
    if min_similarity == 1.0 or not quote.strip():
        return None
    return _find_tolerant(text, quote, taken, min_similarity)


_SAME = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "«": '"', "»": '"', "–": "-", "—": "-"})


def _folded(text: str) -> tuple[str, list[int]]:
    """`text` with case, quotation marks and white space folded, and the place of each of its characters in `text`."""
    characters: list[str] = []
    places: list[int] = []
    space = True
    for place, character in enumerate(text):
        if character.isspace():
            if not space:
                characters.append(" ")
                places.append(place)
            space = True
            continue
        space = False
        for folded in character.translate(_SAME).casefold():
            characters.append(folded)
            places.append(place)
    return "".join(characters), places


def _find_tolerant(text: str, quote: str, taken: list[Span], min_similarity: float) -> Span | None:
    try:
        from rapidfuzz import fuzz
        from rapidfuzz.distance import Indel
    except ImportError:
        raise MissingExtraError("finding a quote that is not verbatim", "fuzzy") from None
    blanked = list(text)
    for span in taken:
        blanked[span.start : span.end] = "\0" * len(span)
    folded, places = _folded("".join(blanked))
    wanted = _folded(quote)[0].strip()
    best = fuzz.partial_ratio_alignment(wanted, folded) if wanted and folded else None
    if best is None or best.dest_start >= best.dest_end:
        return None
    place = _at_words(text, Span(places[best.dest_start], places[best.dest_end - 1] + 1))
    similarity = Indel.normalized_similarity(wanted, _folded(place.of(text))[0].strip())
    if similarity < min_similarity or any(place.overlaps(other) for other in taken):
        return None
    return place


def _at_words(text: str, span: Span) -> Span:
    """`span` widened to whole words and stripped of white space."""
    start, end = span.start, span.end
    for word in words(text):
        if word.end <= start:
            continue
        if word.start >= end:
            break
        start, end = min(start, word.start), max(end, word.end)
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end)
