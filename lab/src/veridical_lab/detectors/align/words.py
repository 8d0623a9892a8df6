"""The words of a text with their best matches in other texts, from which scores and features are made.

It works in both directions: the words of a response among those of the sources, and the reverse.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.names import is_name
from veridical.core.segment import sentences, words
from veridical.detectors.overlap.matching import WORDS, Profile, word_support
from veridical.models.token_words import token_unit_pairs
from veridical_lab.detectors.align.encoding import TextStates

__all__ = ["FEATURES", "EncodedText", "WordMatches", "feature_names", "features", "match_words"]

K = 3  # best matches of a token
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class EncodedText:
    """A text with the states of its tokens, its words, and the words that each token belongs to.

    Attributes:
        spans: The words.
        pairs: (token, word) for each token and word that share a character, in order. *Shape:* (pairs, 2)
        token_word: The word of each token, -1 for a token outside words. *Shape:* (tokens,)
        has_tokens: Whether each word has a token. *Shape:* (words,)
    """

    def __init__(self, text: str, tokens: TextStates) -> None:
        self.text = text
        self.tokens = tokens
        self.spans = words(text)
        ends = np.array([(s.start, s.end) for s in self.spans], dtype=np.int64).reshape(-1, 2)
        self.pairs = token_unit_pairs(tokens.offsets, ends)
        self.token_word = np.full(len(tokens.ids), -1)
        self.token_word[self.pairs[:, 0]] = self.pairs[:, 1]
        self.has_tokens = np.bincount(self.pairs[:, 1], minlength=len(ends)) > 0

    @cached_property
    def profile(self) -> Profile:
        """The words as word overlap compares them by value."""
        return Profile(self.text, WORDS["values"])

    @cached_property
    def lower(self) -> list[str]:
        """The words in lower case."""
        return [span.of(self.text).lower().replace("’", "'") for span in self.spans]

    @cached_property
    def distinct(self) -> frozenset[str]:
        """The distinct words in lower case."""
        return frozenset(self.lower)

    @cached_property
    def document_frequencies(self) -> tuple[int, dict[int, int]]:
        """The number of sentences, and the number of sentences that contain each token id."""
        starts = np.array([span.start for span in sentences(self.text)], dtype=np.int64)
        if not len(starts):
            return 0, {}
        sentence = np.searchsorted(starts, self.tokens.offsets[:, 0], side="right")
        ids, counts = np.unique(
            np.unique(np.column_stack([self.tokens.ids, sentence]), axis=0)[:, 0], return_counts=True
        )
        return len(starts), dict(zip(ids.tolist(), counts.tolist(), strict=True))

    @property
    def size(self) -> int:
        """The approximate size in memory, in bytes."""
        return int(self.tokens.states.nbytes) + 32 * len(self.tokens.ids) + 300 * len(self.spans) + 3 * len(self.text)


@dataclass(frozen=True, slots=True, eq=False)
class WordMatches:
    """The words of a text among those of the other texts. *Shapes:* (words,) unless stated.

    Attributes:
        text: The text.
        cosine: The mean, over a word's tokens, of the best match's cosine. *Shape:* (layers, words)
        lowest: The lowest cosine of a best match over the word's tokens, in the last layer.
        top: The mean cosine of the `K` best matches, over the word's tokens, in the last layer.
        where: The word's best match, as an index into the concatenated words of the other texts; -1 without one.
        closest: For each word, its closest words elsewhere, best first: (index of the other text, word, cosine).
        content: Whether the word counts as a content word.
        found: Whether the word is a content word that another text contains, compared by value.
        exact: Whether another text contains the word as written, apart from capitals.
        value: Whether the word is or is part of a number, date, time or quantity.
        name: Whether the word is a name.
        others: The other texts.
        other_words: The number of words of the other texts.
    """

    text: EncodedText
    cosine: Floats
    lowest: Floats
    top: Floats
    where: Ints
    closest: tuple[tuple[tuple[int, int, float], ...], ...]
    content: Bools
    found: Bools
    exact: Bools
    value: Bools
    name: Bools
    others: tuple[EncodedText, ...]
    other_words: int


def match_words(
    text: EncodedText,
    others: Sequence[EncodedText],
    cosines: Sequence[NDArray[np.floating[Any]]],
    places: Sequence[Ints],
    *,
    closest: bool,
) -> WordMatches:
    """Derive the matches of a text's words from those of its tokens.

    Args:
        text: The text.
        others: The other texts.
        cosines: For each layer, the highest cosines of each token, best first. *Shape:* (tokens, k)
        places: For each layer, the tokens with those cosines, as indices into the concatenated tokens of the other
            texts; -1 for none. *Shape:* (tokens, k)
        closest: Whether to list the closest words of each word.
    """
    count, token, word = len(text.spans), text.pairs[:, 0], text.pairs[:, 1]
    per_word = np.maximum(np.bincount(word, minlength=count), 1)
    best = np.stack([np.bincount(word, np.maximum(c[token, 0], -1.0), count) / per_word for c in cosines])
    main, place = cosines[-1], places[-1]
    lowest = np.full(count, 1.0)
    np.minimum.at(lowest, word, np.maximum(main[token, 0], -1.0))
    best_cosines = np.maximum(np.where(place[token] < 0, main[token, :1], main[token]), -1.0)
    top = np.bincount(word, best_cosines.mean(1), count) / per_word
    # the words of the other texts, concatenated
    shifts = [0, *accumulate(len(other.spans) for other in others)]
    row_of_words = np.concatenate([other.token_word + shift for other, shift in zip(others, shifts, strict=False)])
    where = np.full(count, -1)
    order = np.lexsort((-main[token, 0], word))
    firsts = order[np.r_[True, word[order][1:] != word[order][:-1]]] if len(order) else order
    best_places = place[token[firsts], 0]
    where[word[firsts]] = np.where(best_places >= 0, row_of_words[best_places], -1)
    lists: list[list[tuple[float, int]]] = [[] for _ in range(count)]
    for t, w in text.pairs.tolist() if closest else ():
        lists[w] += [
            (round(float(c), 3), int(row_of_words[p])) for c, p in zip(main[t], place[t], strict=True) if p >= 0
        ]
    named = []
    for candidates in lists:
        chosen: dict[int, float] = {}
        for cosine, row in sorted(candidates, key=lambda pair: (-pair[0], pair[1])):
            chosen.setdefault(row, cosine)
        rows = list(chosen.items())[:K]
        named.append(tuple((i := bisect_right(shifts, r) - 1, r - shifts[i], c) for r, c in rows))
    support = word_support(text.profile, text.spans, [other.profile for other in others])
    content, supported, value = np.array(support, dtype=bool).reshape(-1, 3).T
    other_distinct: frozenset[str] = frozenset().union(*(other.distinct for other in others))
    names = np.array([is_name(text.text, span) for span in text.spans], dtype=bool)
    return WordMatches(
        text,
        best,
        lowest,
        top,
        where,
        tuple(named),
        content=content,
        found=supported,
        exact=np.array([word in other_distinct for word in text.lower], dtype=bool),
        value=value,
        name=names & content,
        others=tuple(others),
        other_words=shifts[-1],
    )


FEATURES = (
    "lowest",
    "top",
    "idf",
    "exact",
    "content",
    "found",
    "value found",
    "value missing",
    "name found",
    "name missing",
    "cosine of a missing word",
    "before",
    "after",
    "around",
    "continues",
    "is continued",
    "near",
    "mean",
    "missing",
    "place",
    "words",
    "other words",
)


def feature_names(layers: Sequence[int]) -> list[str]:
    """Return the names of the columns of `features`, for states of the given layers."""
    return [*(f"layer {layer}" for layer in layers), *FEATURES]


def features(matches: WordMatches, idf: Floats) -> Floats:
    """Return the input of a trained head for each word, in the order of `feature_names`. *Shape:* (words, features)

    `idf` is the inverse document frequency of each word (the mean over its tokens). *Shape:* (words,)
    """
    best, count = matches.cosine[-1], len(matches.text.spans)
    content, found, value, name = matches.content, matches.found, matches.value, matches.name
    missing = content & ~found
    padded = np.r_[[1.0] * 2, best, [1.0] * 2]
    where = np.r_[-9, matches.where, -9]
    steps = np.diff(where)
    joined = (steps >= 0) & (steps <= 2) & (where[1:] >= 0) & (where[:-1] >= 0)
    near = np.zeros(count)
    for shift in (-4, -3, -2, -1, 1, 2, 3, 4):
        i = np.arange(count)
        neighbour_i = i + shift
        inside = (neighbour_i >= 0) & (neighbour_i < count)
        neighbour = matches.where[np.clip(neighbour_i, 0, max(count - 1, 0))] if count else matches.where
        near += inside & (neighbour >= 0) & (matches.where >= 0) & (np.abs(neighbour - matches.where) <= 8)
    columns = [
        matches.lowest,
        matches.top,
        idf,
        matches.exact,
        content,
        found,
        value & found,
        value & missing,
        name & found,
        name & missing,
        best * missing,
        padded[1 : count + 1],
        padded[3 : count + 3],
        (padded[:count] + padded[1 : count + 1] + padded[3 : count + 3] + padded[4 : count + 4]) / 4,
        joined[:count],
        joined[1 : count + 1],
        near / 8,
        np.full(count, best.mean() if count else 0.0),
        np.full(count, missing.sum() / max(content.sum(), 1)),
        np.arange(count) / max(count, 1),
        np.full(count, np.log1p(count)),
        np.full(count, np.log1p(matches.other_words)),
    ]
    return np.column_stack([*matches.cosine, *(np.asarray(column, dtype=np.float64) for column in columns)])
