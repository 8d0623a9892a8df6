"""Split text into units (white-space tokens or words), and convert labels and scores of characters to those of units.

Units are an array of *shape* (k, 2), with the start and the end (not included) of each unit in characters. They are
sorted and do not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veridical.metrics.arrays import Bools, Floats
from veridical.records.errors import SpanError
from veridical.records.spans import Span
from veridical.text.segment import words

Units: TypeAlias = NDArray[np.int64]
_TOKEN = re.compile(r"\S+")


def white_space_tokens(text: str) -> Units:
    """Split `text` at white space and return the spans of the tokens.

    The result has *shape* (k, 2), where k is the number of tokens.

    >>> white_space_tokens("It is  300 m.").tolist()
    [[0, 2], [3, 5], [7, 10], [11, 13]]
    """
    return np.array([match.span() for match in _TOKEN.finditer(text)], dtype=np.int64).reshape(-1, 2)


def word_units(text: str, *, is_stop_word: Callable[[str], bool] | None = None) -> Units:
    """Split `text` into words (`text.segment.words`) and return their spans, without those of stop words.

    If `is_stop_word` is None, all words are returned. Otherwise, it is called with each word in lower case, with plain
    apostrophes. Dropping stop words follows Chang et al. 2024, §5.3. The result has *shape* (k, 2), where k is the
    number of returned words, and contains start and end positions in characters.

    >>> word_units("The tower is tall", is_stop_word={"the", "is"}.__contains__).tolist()
    [[4, 9], [13, 17]]
    """
    spans = words(text)
    if is_stop_word is not None:
        spans = [span for span in spans if not is_stop_word(span.of(text).lower().replace("’", "'"))]
    return np.array([(span.start, span.end) for span in spans], dtype=np.int64).reshape(-1, 2)


def mask(size: int, spans: Iterable[Span]) -> Bools:
    """Return a mask of a text of `size` characters that is True for each character in at least one span.

    The result has *shape* (size,).

    Raises:
        SpanError: A span runs past the last character.

    >>> mask(4, [Span(1, 3), Span(2, 3)])
    array([False,  True,  True, False])
    """
    ends = np.array([(span.start, span.end) for span in spans], dtype=np.int64).reshape(-1, 2)
    _check_inside(size, ends)
    steps = np.bincount(ends[:, 0], minlength=size + 1) - np.bincount(ends[:, 1], minlength=size + 1)
    marked: Bools = np.cumsum(steps)[:size] > 0
    return marked


def scores_of_characters(size: int, scored: Iterable[tuple[Span, float]]) -> Floats:
    """Return, for each of `size` characters, the highest score among the spans that cover it.

    If no span covers a character, its score is 0. The result has *shape* (size,).

    >>> scores_of_characters(4, [(Span(0, 3), 0.5), (Span(2, 4), 0.25)])
    array([0.5 , 0.5 , 0.5 , 0.25])
    """
    ascending = sorted(scored, key=lambda pair: pair[1])
    _check_inside(size, np.array([(span.start, span.end) for span, _ in ascending], dtype=np.int64).reshape(-1, 2))
    scores = np.zeros(size)
    for span, score in ascending:  # higher scores overwrite lower ones
        scores[span.start : span.end] = score
    return scores


def _check_inside(size: int, ends: Units) -> None:
    if ends.size and ends[:, 1].max() > size:
        start, end = ends[ends[:, 1].argmax()]
        raise SpanError(f"span [{start}, {end}) runs past its text of {size} characters")


def runs(marked: Bools) -> list[Span]:
    """Convert a mask of characters to spans: one span for each run of consecutive True values.

    >>> runs(np.array([True, False, True, True]))
    [Span(start=0, end=1), Span(start=2, end=4)]
    """
    edges = np.flatnonzero(np.diff(np.r_[0, marked.astype(np.int8), 0])).tolist()
    return [Span(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def any_in(marked: Bools, units: Units) -> Bools:
    """Return, for each unit (word or token), whether any of its characters is True in the mask `marked`.

    The units are start and end positions with *shape* (k, 2), and the result has *shape* (k,).

    >>> any_in(np.array([True, False, False]), np.array([[0, 2], [2, 3]]))
    array([ True, False])
    """
    before = np.r_[0, np.cumsum(marked)]
    marked_units: Bools = before[units[:, 1]] > before[units[:, 0]]
    return marked_units


def highest_in(values: Floats, units: Units) -> Floats:
    """Return, for each unit (word or token), the highest value of its characters.

    `values` has one value per character. The units are start and end positions with *shape* (k, 2), and the result has
    *shape* (k,). No unit may be empty.

    >>> highest_in(np.array([0.5, 0.0, 0.25]), np.array([[0, 2], [2, 3]]))
    array([0.5 , 0.25])
    """
    if not units.size:
        return np.zeros(0)
    highest: Floats = np.maximum.reduceat(np.r_[values, 0.0], units.ravel())[::2]  # odd entries: gaps between units
    return highest
