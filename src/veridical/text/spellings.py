"""Find words that two texts write differently: with a hyphen, with a space, or shortened ("Lib Dems").

All texts must be in lower case. Each text is indexed once by its pairs of words, so searches take linear time.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from itertools import pairwise

from veridical.records.spans import Span

_LETTER_RUN = re.compile(r"[^\W\d_]+")
_JOINS = " -‐‑"
_SHORTEST = 3
_LONGEST = 100  # letters of a word that is split
_MOST = 64  # pairs with the same beginnings that an abbreviation is compared with


def adjacent_words(text: str, known: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of adjacent words in `text` that are both in `known`, such as "co" and "operate" in "co-operate".

    Only a hyphen or a space may separate the two words.
    """
    for (a, end, _), (b, _, start) in pairwise((m[0], m.end(), m.start()) for m in _LETTER_RUN.finditer(text)):
        if start == end + 1 and text[end] in _JOINS and a in known and b in known:
            yield a, b


class WordPairs:
    """Indexes the pairs of adjacent words in a text, to find words that another text spells differently.

    The two words must be separated by a single character.
    """

    __slots__ = ("_alike", "_starts")

    def __init__(self, text: str) -> None:
        self._starts: dict[tuple[str, str], int] = {}
        self._alike: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
        for first, second in pairwise(_LETTER_RUN.finditer(text)):
            start, end = first.start(), second.end()
            if second.start() != first.end() + 1 or text[max(0, start - 1) : start].isalnum():
                continue
            pair, between = (first[0], second[0]), text[first.end()]
            if between in _JOINS and not text[end : end + 1].isalnum():
                self._starts.setdefault(pair, start)
            if between in " \xa0":
                alike = self._alike.setdefault((first[0][:_SHORTEST], second[0][:_SHORTEST]), {})
                if len(alike) < _MOST:
                    alike.setdefault(pair, start)

    def splits(self, word: str, known: Container[str]) -> Iterator[tuple[str, str, int]]:
        """Yield each way to split `word` into two words that the text joins by a hyphen or a space.

        Each result is a triple: the first word, the second word, and the position of the first word in the text.

        Args:
            word: The word to split.
            known: The words that count. Splits into other words are skipped.

        >>> list(WordPairs("they co-operate").splits("cooperate", {"co", "operate"}))
        [('co', 'operate', 5)]
        """
        if not 5 <= len(word) <= _LONGEST or not word.isalpha():
            return
        for i in range(2, len(word) - 1):
            a, b = word[:i], word[i:]
            if (start := self._starts.get((a, b))) is not None and a in known and b in known:
                yield a, b, start

    def abbreviation(self, a: str, b: str) -> Span | None:
        """Find a two-word name in the text that the words `a b` abbreviate, such as "liberal democrats" for "lib dems".

        Return the span of the name, or None if there is no such name. The name in the text may also be the shorter one,
        which abbreviates `a b`.

        >>> WordPairs("the liberal democrats").abbreviation("lib", "dems")
        Span(start=4, end=21)
        """
        if min(len(a), len(b)) < _SHORTEST or not (a.isalpha() and b.isalpha()):
            return None
        for pair, start in self._alike.get((a[:_SHORTEST], b[:_SHORTEST]), {}).items():
            for short, long in (((a, b), pair), (pair, (a, b))):
                words = [(one.removesuffix("s"), other) for one, other in zip(short, long, strict=True)]
                if all(_SHORTEST <= len(one) < len(other) - 1 and other.startswith(one) for one, other in words):
                    return Span(start, start + len(pair[0]) + 1 + len(pair[1]))
        return None
