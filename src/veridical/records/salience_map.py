"""A salience map, which shows how strongly each source word influences each response word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from veridical.records.errors import InputError
from veridical.records.spans import Span, overlapping, union

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class MapWord:
    """One word of a source or of the response, with its span. For a word of the response, `source_id` is None."""

    text: str
    span: Span
    source_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SalienceMap:
    """Shows how strongly each source word (row) influences each response word (column).

    Attributes:
        source_words: The words of all sources, one for each row.
        response_words: The words of the response, one for each column.
        values: The influence of each source word on each response word, in [0, 1], *shape* (source words, response
            words).
        contribution: How much each source word contributes to the response, *shape* (source words,). The omission score
            of the word is 1 - `contribution`.
        attribution: How well each response word is attributed to the sources, *shape* (response words,). The
            hallucination score of the word is 1 - `attribution`.
    """

    source_words: tuple[MapWord, ...]
    response_words: tuple[MapWord, ...]
    values: np.ndarray
    contribution: np.ndarray
    attribution: np.ndarray

    def __post_init__(self) -> None:
        shape = (len(self.source_words), len(self.response_words))
        if self.values.shape != shape or (len(self.contribution), len(self.attribution)) != shape:
            raise InputError(f"a salience map of {shape} words has values of {self.values.shape}")

    def strongest(self, rows: int, columns: int) -> SalienceMap:
        """Crop the map to the first `columns` response words and to `rows` source words.

        The crop keeps the source words that influence any of these response words most, in their original order.
        """
        import numpy as np

        values = self.values[:, :columns]
        peaks = values.max(axis=1, initial=0.0)
        chosen = np.sort(np.argsort(-peaks, kind="stable")[:rows])
        return SalienceMap(
            tuple(self.source_words[i] for i in chosen),
            self.response_words[:columns],
            values[chosen],
            self.contribution[chosen],
            self.attribution[:columns],
        )

    def flags(self, spans: Sequence[Span]) -> list[bool]:
        """Return, for each response word, whether it overlaps at least one of `spans`."""
        joined = union(spans)
        return [bool(overlapping(joined, word.span)) for word in self.response_words]
