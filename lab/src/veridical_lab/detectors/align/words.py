"""Find the best matches of a text's words in other texts, for scoring the words.

This works in both directions: for the words of a response in its sources, and for the words of sources in a response.
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

from veridical.inference.tokenization import token_unit_pairs
from veridical.metrics.arrays import Bools, Floats
from veridical.text.matching import WORDS, Profile, word_support
from veridical.text.names import is_name
from veridical.text.segment import sentences, words
from veridical_lab.detectors.align.encoding import TextStates

_CLOSEST = 3  # words that are listed as the closest ones


class EncodedText:
    """A text with the states of its tokens, its words, and the words that each token belongs to.

    Attributes:
        spans: The words of the text.
        pairs: Indices of each token and word that share a character, in order. *Shape:* (pairs, 2)
        token_word: The index of each token's word, or -1 for a token outside words. *Shape:* (tokens,)
        has_tokens: Whether each word has at least one token. *Shape:* (words,)
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
        """The words in the form in which word overlap compares them by value."""
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
    """The words of a text, matched with those of other texts. All arrays have the *shape* (words,).

    Attributes:
        text: The text with the words.
        cosine: The cosine of a token's best match, averaged over the tokens of each word.
        closest: The closest words in other texts for each word, best first, as (index of the other text, index of the
            word, cosine).
        content: Whether the word counts as a content word.
        found: Whether the word is a content word and another text contains it, compared by value.
        exact: Whether another text contains the word as written, apart from capitals.
        value: Whether the word is a number, date, time or quantity, or part of one.
        name: Whether the word is a name.
        others: The other texts.
    """

    text: EncodedText
    cosine: Floats
    closest: tuple[tuple[tuple[int, int, float], ...], ...]
    content: Bools
    found: Bools
    exact: Bools
    value: Bools
    name: Bools
    others: tuple[EncodedText, ...]


def match_words(
    text: EncodedText,
    others: Sequence[EncodedText],
    cosines: NDArray[np.floating[Any]],
    places: NDArray[np.int64],
    *,
    closest: bool,
) -> WordMatches:
    """Derive the matches of a text's words from the matches of its tokens.

    Args:
        text: The text with the words.
        others: The other texts.
        cosines: The highest cosines of each token, best first. *Shape:* (tokens, k)
        places: Which tokens have these cosines, as indices into the concatenated tokens of the other texts, or -1.
            *Shape:* (tokens, k)
        closest: Whether to list the closest words of each word.
    """
    count, token, word = len(text.spans), text.pairs[:, 0], text.pairs[:, 1]
    per_word = np.maximum(np.bincount(word, minlength=count), 1)
    best = np.bincount(word, np.maximum(cosines[token, 0], -1.0), count) / per_word
    # the words of the other texts, concatenated
    shifts = [0, *accumulate(len(other.spans) for other in others)]
    row_of_words = np.concatenate([other.token_word + shift for other, shift in zip(others, shifts, strict=False)])
    lists: list[list[tuple[float, int]]] = [[] for _ in range(count)]
    for t, w in text.pairs.tolist() if closest else ():
        lists[w] += [
            (round(float(c), 3), int(row_of_words[p])) for c, p in zip(cosines[t], places[t], strict=True) if p >= 0
        ]
    named = []
    for candidates in lists:
        chosen: dict[int, float] = {}
        for cosine, row in sorted(candidates, key=lambda pair: (-pair[0], pair[1])):
            chosen.setdefault(row, cosine)
        rows = list(chosen.items())[:_CLOSEST]
        named.append(tuple((i := bisect_right(shifts, r) - 1, r - shifts[i], c) for r, c in rows))
    support = word_support(text.profile, text.spans, [other.profile for other in others])
    content, supported, value = np.array(support, dtype=bool).reshape(-1, 3).T
    other_distinct: frozenset[str] = frozenset().union(*(other.distinct for other in others))
    names = np.array([is_name(text.text, span) for span in text.spans], dtype=bool)
    return WordMatches(
        text,
        best,
        tuple(named),
        content=content,
        found=supported,
        exact=np.array([word in other_distinct for word in text.lower], dtype=bool),
        value=value,
        name=names & content,
        others=tuple(others),
    )
