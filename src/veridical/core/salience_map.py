"""A salience map: how much each source word bears on each response word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from veridical.core.errors import InputError
from veridical.core.spans import Span

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MapWord", "SalienceMap"]


@dataclass(frozen=True, slots=True)
class MapWord:
    """A word, its span, and the id of its source (None = it is in the response)."""

    text: str
    span: Span
    source_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SalienceMap:
    """How much each source word (row) bears on each response word (column), in [0, 1].

    *Shape:* `values` (source words, response words), `contribution` (source words,), `attribution` (response words,).
    1 - contribution is the omission score of a source word, 1 - attribution the hallucination score of a response word.
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
        """Cut to the `rows` source words with the highest single values and the first `columns` response words."""
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
        """Return, for each response word, whether it shares a character with one of `spans`."""
        return [any(word.span.overlaps(span) for span in spans) for word in self.response_words]
