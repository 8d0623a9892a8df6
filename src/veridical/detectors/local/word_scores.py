"""Scores of tokens turned into verdicts on words, or on the tokens themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridical.core.segment import words
from veridical.core.spans import Span, complement, trimmed
from veridical.core.types import Verdict

__all__ = ["UNITS", "word_verdicts"]

UNITS = ("word", "token")


def word_verdicts(
    text: str,
    spans: Sequence[Span | None],
    scores: np.ndarray,
    *,
    unit: str = "word",
    known: np.ndarray | None = None,
) -> tuple[tuple[Verdict, ...], tuple[Span, ...] | None]:
    """Give every word of a text (or every token) the highest score of its tokens.

    Args:
        text: The response.
        spans: The characters of each token; None for a token that stands for none.
        scores: The score of each token, in [0, 1]. *Shape:* (tokens,)
        unit: One of `UNITS`. With "token", tokens that share a character have one verdict together.
        known: Whether each token has a score; None: all have one. *Shape:* (tokens,)

    Returns:
        The verdicts in order, and the spans that were judged (None: all of the text). A word without tokens, or with
        one of unknown score, is not judged.
    """
    tokens = sorted(
        (inner, i) for i, span in enumerate(spans) if span is not None and (inner := trimmed(span, text)) is not None
    )
    units = words(text) if unit == "word" else []
    if unit == "token":
        for span, _ in tokens:
            if units and units[-1].overlaps(span):
                units[-1] = Span(units[-1].start, max(units[-1].end, span.end))
            else:
                units.append(span)
    verdicts, unjudged = [], []
    first = 0
    for part in units:
        while first < len(tokens) and tokens[first][0].end <= part.start:
            first += 1
        inside = []
        for span, i in tokens[first:]:
            if span.start >= part.end:
                break
            if span.end > part.start:
                inside.append(i)
        if inside and (known is None or known[inside].all()):
            verdicts.append(Verdict(part, float(scores[inside].max())))
        else:
            unjudged.append(part)
    return tuple(verdicts), tuple(complement(unjudged, len(text))) if unjudged else None
