"""Convert salience maps to JSON. A map shows how strongly each source word influences each word of a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from veridical.records.salience_map import SalienceMap
    from veridical.records.spans import Span

__all__ = ["map_documents"]

_STRONGEST = 5  # source words per word of the response


def map_documents(maps: Sequence[SalienceMap | None]) -> list[dict[str, Any] | None]:
    """Convert salience maps to JSON. Each word of the response has its attribution and its strongest source words.

    None stays None.
    """
    return [None if salience is None else {"words": _words(salience)} for salience in maps]


def _words(salience: SalienceMap) -> list[dict[str, Any]]:
    words = []
    for j, word in enumerate(salience.response_words):
        column = salience.values[:, j]
        strongest = [int(i) for i in np.argsort(-column, kind="stable")[:_STRONGEST] if column[i] > 0]
        sources = [
            {
                "source_id": salience.source_words[i].source_id,
                "span": _span(salience.source_words[i].span),
                "text": salience.source_words[i].text,
                "value": float(column[i]),
            }
            for i in strongest
        ]
        words.append({"span": _span(word.span), "attribution": float(salience.attribution[j]), "strongest": sources})
    return words


def _span(span: Span) -> dict[str, int]:
    return {"start": span.start, "end": span.end}
