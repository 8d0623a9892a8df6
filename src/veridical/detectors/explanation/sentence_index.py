"""Index the sentences of some texts by their words, to find those closest to a sentence of another text.

Words are compared by stem; numbers, dates and quantities by value (as in `overlap:values`). Building the index takes
linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from veridical.core import quantities
from veridical.core.json_records import json_records
from veridical.core.segment import sentences
from veridical.core.spans import Span
from veridical.detectors.claims.markup import list_numbers
from veridical.detectors.explanation.sentence import Sentence, word_pattern

__all__ = ["SentenceIndex", "WeightedWord", "index_of", "read_sentences"]

_LONG, _PIECE = 100, 50  # "sentences" of more than 100 words (tables, texts without full stops) are cut into pieces


def read_sentences(text: str, text_i: int = 0) -> Iterator[tuple[Sentence, frozenset[str]]]:
    """Yield the sentences of `text` that have words, in order, each with the keys that it supports in another text.

    Each row of a table counts as a sentence, and so does each record of JSON.
    """
    folded = quantities.fold(text)
    pattern = word_pattern(folded)
    item_numbers = frozenset(
        i for number in list_numbers(text) for i in range(number.start, number.end) if text[i].isdigit()
    )
    for span in _units(text):
        forms = pattern.findall(folded, span.start, span.end)
        pieces = [(span, forms)] if forms else []
        if len(forms) > _LONG:
            matches = list(pattern.finditer(folded, span.start, span.end))
            parts = [matches[i : i + _PIECE] for i in range(0, len(matches), _PIECE)]
            pieces = [(Span(part[0].start(), part[-1].end()), [match[0] for match in part]) for part in parts]
        for piece, piece_forms in pieces:
            keys = frozenset(key for form in set(piece_forms) for key in quantities.implies(form))
            yield Sentence(text, folded, pattern, piece, text_i, item_numbers), keys


def _units(text: str) -> list[Span]:
    """Return the sentences of a text, its rows of tables and its records of JSON, in order."""
    pieces = [(records[0].start, records[-1].end, records) for records in json_records(text).values()]
    starts = [start for start, _, _ in pieces]
    units = [record for _, _, records in pieces for record in records]
    for sentence in sentences(text):
        before = bisect_right(starts, sentence.start) - 1
        inside = before >= 0 and pieces[before][1] > sentence.start
        if not inside and not (before + 1 < len(starts) and starts[before + 1] < sentence.end):
            units += _rows(text, sentence)
    return sorted(units)


def _rows(text: str, span: Span) -> list[Span]:
    """Return the lines inside `span` if they are rows of a table or fields of a record; otherwise `span` alone."""
    lines = [Span(*match.span()).shift(span.start) for match in re.finditer(r"[^\n]*\S[^\n]*", span.of(text))]
    for divider in _DIVIDERS if len(lines) > 1 else ():
        counts = {len(divider.findall(line.of(text))) for line in lines}
        if len(counts) == 1 and counts.pop() > 0:
            return lines
    return [span]


_DIVIDERS = [
    re.compile(divider)
    for divider in (r"\t", r"\|", ";", r" {2,}(?=\S)", r"(?<=[^,\s]),(?=[^,\s])", r"^[^:\n]{1,40}: ")
]


@dataclass(frozen=True, slots=True)
class WeightedWord:
    """A word to look up in an index: its token, the key by which the index has it (None if it lacks it), its weight."""

    token_i: int
    key: str | None
    weight: float

    def scaled(self, factor: float) -> WeightedWord:
        """Return the same word with `factor` times its weight."""
        return WeightedWord(self.token_i, self.key, self.weight * factor)


class SentenceIndex:
    """The sentences of some texts and, for each key, the sentences that support it."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self.sentences: list[Sentence] = []
        self.keys: list[frozenset[str]] = []
        self._with_key: defaultdict[str, list[int]] = defaultdict(list)
        for text_i, text in enumerate(texts):
            for sentence, keys in read_sentences(text, text_i):
                for key in keys:
                    self._with_key[key].append(len(self.sentences))
                self.sentences.append(sentence)
                self.keys.append(keys)
        self._mean_size = sum(map(len, self.keys)) / max(1, len(self.keys)) or 1.0

    def __contains__(self, key: str) -> bool:
        return key in self._with_key

    def has_number(self, number: str) -> bool:
        """Check whether a text has a number in these digits, with any unit or magnitude."""
        digits = re.compile(rf"(?<![0-9])(?<![0-9][.,]){re.escape(number)}(?![0-9]|[.,][0-9])")
        return any(digits.search(text) for text in self._texts)

    def with_key(self, key: str) -> Sequence[int]:
        """Return the indices of the sentences that support a key."""
        return self._with_key.get(key, ())

    def weighted(self, sentence: Sentence) -> list[WeightedWord]:
        """Weight the words of a sentence of another text, without stop words; rare words get more weight."""
        weighted = []
        for i, token in enumerate(sentence.tokens):
            keys = token.keys
            if keys and token.span.start not in sentence.item_numbers:
                key = next((key for key in keys if key in self._with_key), None)
                count = 1 if key is None else len(self._with_key[key])
                weighted.append(WeightedWord(i, key, log(1 + max(1, len(self.sentences)) / count)))
        return weighted

    def share(self, sentence_i: int, words: Sequence[WeightedWord]) -> float:
        """Return the share of the words' weight that a sentence has, in [0, 1]."""
        total = sum(word.weight for word in words) or 1.0
        return min(1.0, sum(word.weight for word in words if word.key in self.keys[sentence_i]) / total)

    def closest(self, words: Sequence[WeightedWord], limit: int) -> list[tuple[int, float]]:
        """Find the sentences that share the most weight with `words`; longer ones than the mean score lower.

        Args:
            words: The words; each key counts once.
            limit: The most sentences to return.

        Returns:
            The index of each sentence and its score in [0, 1], best first.
        """
        shared: defaultdict[int, float] = defaultdict(float)
        for key, weight in {word.key: word.weight for word in words if word.key is not None}.items():
            for i in self._with_key[key]:
                shared[i] += weight
        total = sum(word.weight for word in words) or 1.0
        ranked = sorted((-share / self._length_penalty(i), i) for i, share in shared.items())
        return [(i, min(1.0, -score / total)) for score, i in ranked[:limit]]

    def closeness(self, sentence_i: int, words: Sequence[WeightedWord]) -> float:
        """Return the score in [0, 1] by which `closest` ranks a sentence: its share of `words`, less if it is long."""
        shared = {word.key: word.weight for word in words if word.key in self.keys[sentence_i]}
        total = sum(word.weight for word in words) or 1.0
        return min(1.0, sum(shared.values()) / self._length_penalty(sentence_i) / total)

    def _length_penalty(self, sentence_i: int) -> float:
        return 0.8 + 0.2 * max(1.0, len(self.keys[sentence_i]) / self._mean_size)


@lru_cache(maxsize=4)
def index_of(texts: tuple[str, ...]) -> SentenceIndex:
    """Return the index of some texts. The last four are cached: cases share sources, and each is read several times."""
    return SentenceIndex(texts)
