"""Count words and pairs of words in a corpus, for TF-IDF and positive pointwise mutual information.

Liu et al. 2022, §3.4, use both as features of a word. You can count any texts. The statistics contain single words and
numbers, but no running text.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from veridical.io.files import read_bytes, write_whole
from veridical.records.errors import DataError, InputError
from veridical.text.segment import words

_ARRAYS = ("words", "document_counts", "pair_totals", "pair_keys", "pair_counts", "totals")


@dataclass(frozen=True, eq=False)
class WordStatistics:
    """How often words, and pairs of words near each other, occur in a corpus. Words are in lower case.

    Attributes:
        words: The counted words.
        documents: How many texts were counted.
        window: The two words of a pair are at most this many words apart.
        document_counts: How many texts contain each word. *Shape:* (words,)
        pair_totals: How many pairs contain each word, including pairs too rare for `pair_keys`. *Shape:* (words,)
        pair_keys: The counted pairs in ascending order, as i * words + j for word i <= word j. *Shape:* (pairs,)
        pair_counts: How often each pair occurs. *Shape:* (pairs,)
    """

    words: tuple[str, ...]
    documents: int
    window: int
    document_counts: NDArray[np.int64]
    pair_totals: NDArray[np.int64]
    pair_keys: NDArray[np.int64]
    pair_counts: NDArray[np.int64]

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each word, which is its index in `words`."""
        return {word: i for i, word in enumerate(self.words)}

    def numbers(self, text_words: Iterable[str]) -> NDArray[np.int64]:
        """Look up the number of each word, or -1 for a word that was not counted. *Shape:* (words of the text,)"""
        return np.array([self.index.get(word, -1) for word in text_words], dtype=np.int64)

    def idf(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute log10(N / (1 + texts with the word)) of each word, at least 0, in the *shape* of `numbers`."""
        texts = np.where(numbers >= 0, np.append(self.document_counts, 0)[numbers], 0)
        values: NDArray[np.float64] = np.maximum(np.log10(max(self.documents, 1) / (texts + 1.0)), 0.0)
        return values

    def ppmi(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute max(0, log p(a, b) / (p(a) p(b))) for each pair of words, in nats.

        The value is 0 for a pair that was not counted.

        Args:
            left: The number of the first word of each pair, -1 for a word that was not counted.
            right: The number of the second word of each pair.

        Returns:
            The values, in the shape of both arguments together.
        """
        a, b = np.minimum(left, right), np.maximum(left, right)
        if not len(self.pair_keys):
            return np.zeros(a.shape)
        keys = a * len(self.words) + b
        index = np.minimum(np.searchsorted(self.pair_keys, keys), len(self.pair_keys) - 1)
        counted = (a >= 0) & (self.pair_keys[index] == keys)
        joint = np.where(counted, self.pair_counts[index] * np.where(a == b, 2.0, 1.0), 1.0)
        expected = np.where(counted, self.pair_totals[a].astype(np.float64) * self.pair_totals[b], 1.0)
        total = float(self.pair_totals.sum())
        values: NDArray[np.float64] = np.where(counted, np.maximum(np.log(joint * total / expected), 0.0), 0.0)
        return values

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Convert all counts to arrays of numbers. `from_arrays` reads them back."""
        return {
            "words": np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8),
            "document_counts": self.document_counts,
            "pair_totals": self.pair_totals,
            "pair_keys": self.pair_keys,
            "pair_counts": self.pair_counts.astype(np.int32),
            "totals": np.array([self.documents, self.window], dtype=np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], path: Path) -> WordStatistics:
        """Read the statistics from `arrays`.

        Raises:
            DataError: The arrays are incomplete or do not fit together. The message names `path`.
        """
        try:
            parts = {name: np.asarray(arrays[name]) for name in _ARRAYS}
            text = parts["words"].astype(np.uint8).tobytes().decode()
            vocabulary = tuple(text.split("\n")) if text else ()
            documents, window = (int(number) for number in parts["totals"])
            counts = [parts[name].astype(np.int64) for name in _ARRAYS[1:5]]
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"not word statistics: {error}", path=path, hint="make them again") from None
        lengths = [len(array) for array in counts]
        if lengths[:2] != [len(vocabulary)] * 2 or lengths[2] != lengths[3] or np.any(np.diff(counts[2]) <= 0):
            raise DataError("word statistics that do not fit together", path=path, hint="make them again")
        return cls(vocabulary, documents, window, *counts)

    def save(self, path: Path) -> None:
        """Write the statistics to a file (NumPy's .npz), whole or not at all."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **self.arrays())  # type: ignore[arg-type]
        write_whole(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> WordStatistics:
        """Read a file that `save` wrote. Nothing is unpickled.

        Raises:
            DataError: The file is of another kind.
        """
        try:
            with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
                return cls.from_arrays(dict(arrays), path)
        except (ValueError, OSError, EOFError, BadZipFile, TypeError) as error:
            if isinstance(error, DataError):
                raise
            hint = "make one with: veridical data statistics"
            raise DataError("not a file of word statistics", path=path, hint=hint) from None


def count_words(
    texts: Iterable[str], *, window: int = 5, max_words: int = 50_000, min_pairs: int = 2
) -> WordStatistics:
    """Count the words of texts, and the pairs of words that are at most `window` words apart.

    Args:
        texts: The texts to count, each as one document.
        window: The largest distance in words. 1 counts only neighbours, as Liu et al. 2022 do.
        max_words: Keep at most this many words: those that occur in most texts.
        min_pairs: Keep only pairs that occur at least this often.

    Raises:
        InputError: The texts have no words, or a number is below 1.
    """
    for name, number in (("window", window), ("max_words", max_words), ("min_pairs", min_pairs)):
        if number < 1:
            raise InputError(f"{name} is {number}", hint="a whole number from 1")
    index: dict[str, int] = {}
    rows = []
    for text in texts:
        folded = text.lower()
        forms = (folded[span.start : span.end] for span in words(folded))
        rows.append(np.array([index.setdefault(word, len(index)) for word in forms], dtype=np.int64))
    if not index:
        raise InputError("the texts have no words", hint="give texts with words")
    in_texts = np.bincount(np.concatenate([np.unique(row) for row in rows]), minlength=len(index))
    frequent = np.argsort(-in_texts, kind="stable")[:max_words]
    frequent.sort()
    renumbered = np.full(len(index), -1, dtype=np.int64)
    renumbered[frequent] = np.arange(len(frequent))
    size = len(frequent)
    keys = []
    for row in map(renumbered.__getitem__, rows):
        for apart in range(1, window + 1):
            pair = np.stack([row[:-apart], row[apart:]])
            pair = pair[:, (pair >= 0).all(axis=0)]
            keys.append(pair.min(axis=0) * size + pair.max(axis=0))
    pairs, times = np.unique(np.concatenate(keys), return_counts=True)
    totals = np.bincount(pairs // size, times, size) + np.bincount(pairs % size, times, size)
    often = times >= min_pairs
    names = list(index)
    return WordStatistics(
        tuple(names[i] for i in frequent),
        len(rows),
        window,
        in_texts[frequent].astype(np.int64),
        totals.astype(np.int64),
        pairs[often].astype(np.int64),
        times[often].astype(np.int64),
    )
