"""Turn scores of tokens into verdicts on words, or on the tokens themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridical.inference.tokenization import tokens_of_units, units_of
from veridical.records.spans import Span, complement, trimmed
from veridical.records.types import Verdict

__all__ = ["SCORED_UNITS", "word_verdicts"]

SCORED_UNITS = ("word", "token")


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
        spans: The characters of each token. None for a token without characters.
        scores: The score of each token, in [0, 1]. *Shape:* (tokens,)
        unit: One of `SCORED_UNITS`. With "token", tokens that share a character get one verdict together.
        known: Whether each token has a score. Default: all tokens have a score. *Shape:* (tokens,)

    Returns:
        The verdicts in order, and the judged spans, which are None for the whole text. A word is not judged if it has
        no tokens, or if one of them has no score.
    """
    tokens = [None if span is None else trimmed(span, text) for span in spans]
    units = units_of(text, spans, unit)
    verdicts, unjudged = [], []
    for part, inside in zip(units, tokens_of_units(tokens, units), strict=True):
        if len(inside) and (known is None or known[inside].all()):
            verdicts.append(Verdict(part, float(scores[inside].max())))
        else:
            unjudged.append(part)
    return tuple(verdicts), tuple(complement(unjudged, len(text))) if unjudged else None
