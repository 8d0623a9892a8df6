"""Turn scores of tokens into verdicts on words, or on the tokens themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridical.inference.tokenization import tokens_of_units, units_of
from veridical.records.spans import Span, complement, trimmed
from veridical.records.types import Verdict

SCORED_UNITS = ("word", "token")


def word_verdicts(
    text: str,
    spans: Sequence[Span | None],
    scores: np.ndarray,
    *,
    unit: str = "word",
    known: np.ndarray | None = None,
) -> tuple[tuple[Verdict, ...], tuple[Span, ...] | None]:
    """Give each word of a text (or each token) a verdict with the highest score of its tokens.

    Args:
        text: The response.
        spans: The characters of each token, or None if it has none.
        scores: The score of each token, in [0, 1]. *Shape:* (tokens,)
        unit: One of `SCORED_UNITS`. With "token", tokens that share a character share a verdict.
        known: Which tokens have a score. Default: all of them. *Shape:* (tokens,)

    Returns:
        The verdicts in order, and the judged spans (None if the whole text was judged). A word is not judged if it has
        no tokens, or if one of its tokens has no score.
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
