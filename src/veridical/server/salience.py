"""Convert salience maps to JSON. A map shows how strongly each source word influences each word of a response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from veridical.report.salience import strongest

if TYPE_CHECKING:
    from veridical.records.salience_map import SalienceMap


def map_documents(maps: Sequence[SalienceMap | None]) -> list[dict[str, Any] | None]:
    """Convert salience maps to JSON objects, for the route `/v1/salience`.

    Each word of the response has its attribution (how well the sources support it, from 0 to 1) and the few source
    words that influence it most. None (no map) stays None.
    """
    return [None if salience is None else {"words": _words(salience)} for salience in maps]


def _words(salience: SalienceMap) -> list[dict[str, Any]]:
    return [
        {
            "span": asdict(word.span),
            "attribution": float(salience.attribution[j]),
            "strongest": [
                {**asdict(salience.source_words[i]), "value": float(salience.values[i, j])}
                for i in strongest(salience, j)
            ],
        }
        for j, word in enumerate(salience.response_words)
    ]
