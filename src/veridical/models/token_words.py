"""The mapping between a text's tokens and its words, or other units, by the characters that they share.

Results are token indices or spans of characters; no text is tokenised here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from veridical.core.segment import words
from veridical.core.spans import Span, trimmed

__all__ = ["joined_tokens", "token_ranges", "token_unit_pairs", "tokens_of_units", "units_of"]

Ints = NDArray[np.int64]
_NOWHERE = (np.iinfo(np.int64).max, -1)  # a token that shares no character with anything


def token_unit_pairs(tokens: Ints, units: Ints) -> Ints:
    """Return (token, unit) for each token that shares a character with a unit, sorted by unit, then by token.

    Args:
        tokens: Start and end of each token, in any order. *Shape:* (tokens, 2)
        units: Start and end of each unit. *Shape:* (units, 2)

    Returns:
        *Shape:* (pairs, 2)

    >>> token_unit_pairs(np.array([[0, 2], [2, 4], [4, 6]]), np.array([[0, 3], [5, 6]])).tolist()
    [[0, 0], [1, 0], [2, 1]]
    """
    starts, ends = tokens.T
    # tokens before `first` end too early and tokens from `last` on start too late; those between are checked below
    first = np.searchsorted(np.maximum.accumulate(ends), units[:, 0], side="right")
    last = np.searchsorted(np.minimum.accumulate(starts[::-1])[::-1], units[:, 1], side="left")
    counts = np.maximum(last - first, 0)
    rank = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of a token within its unit
    token, unit = np.repeat(first, counts) + rank, np.repeat(np.arange(len(units)), counts)
    shared = (ends[token] > units[unit, 0]) & (starts[token] < units[unit, 1])
    return np.column_stack([token[shared], unit[shared]])


def tokens_of_units(spans: Sequence[Span | None], units: Sequence[Span]) -> list[Ints]:
    """Return, for each unit, the indices of the tokens that share a character with it.

    `spans` holds the characters of each token, None for a token without characters.

    >>> [tokens.tolist() for tokens in tokens_of_units([Span(0, 2), None, Span(2, 4)], [Span(0, 4), Span(4, 5)])]
    [[0, 2], []]
    """
    tokens = np.array([_NOWHERE if s is None else (s.start, s.end) for s in spans], dtype=np.int64).reshape(-1, 2)
    edges = np.array([(unit.start, unit.end) for unit in units], dtype=np.int64).reshape(-1, 2)
    token, unit = token_unit_pairs(tokens, edges).T
    return np.split(token, np.cumsum(np.bincount(unit, minlength=len(units)))[:-1]) if units else []


def token_ranges(spans: Sequence[Span | None], units: Sequence[Span]) -> list[tuple[int, int]]:
    """Return, for each unit of a text, its first token and the one behind its last; (0, 0) for a unit without tokens.

    Tokens without characters that lie between the two are included.

    >>> token_ranges([Span(0, 2), None, Span(2, 4), Span(5, 6)], [Span(0, 4), Span(4, 5), Span(5, 6)])
    [(0, 3), (0, 0), (3, 4)]
    """
    return [
        (int(tokens[0]), int(tokens[-1]) + 1) if len(tokens) else (0, 0) for tokens in tokens_of_units(spans, units)
    ]


def joined_tokens(spans: Iterable[Span | None]) -> list[Span]:
    """Return the characters of tokens in order; merge tokens that share a character.

    >>> joined_tokens([Span(0, 2), Span(2, 3), None, Span(2, 5)])
    [Span(start=0, end=2), Span(start=2, end=5)]
    """
    tokens: list[Span] = []
    for span in sorted(span for span in spans if span is not None):
        if tokens and tokens[-1].overlaps(span):
            tokens[-1] = Span(tokens[-1].start, max(tokens[-1].end, span.end))
        else:
            tokens.append(span)
    return tokens


def units_of(text: str, spans: Iterable[Span | None], unit: str) -> list[Span]:
    """Return the units of a text to score: its words if `unit` is "word", else its tokens without white space."""
    if unit == "word":
        return words(text)
    return joined_tokens(trimmed(span, text) for span in spans if span is not None)
