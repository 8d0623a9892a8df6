"""From scores of a model's tokens to verdicts on words (or on the tokens themselves)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.segment import words
from veridical.core.spans import Span, complement
from veridical.core.types import Case, Judgement, Verdict

__all__ = ["judgement_of", "not_judged", "score_units", "trim"]


def not_judged(case: Case, by: str, *notes: str) -> Judgement:
    """Return the judgement of a case that could not be judged, with the reasons."""
    return Judgement(case.id, by, judged=(), notes=notes)


def trim(span: Span, text: str) -> Span | None:
    """Return the span without the white space around it; None if there is nothing else."""
    inner = span.of(text)
    start = span.start + len(inner) - len(inner.lstrip())
    end = span.end - (len(inner) - len(inner.rstrip()))
    return Span(start, end) if start < end else None


def score_units(
    response: str, spans: Sequence[Span | None], scores: NDArray[Any], unit: str, known: NDArray[Any] | None = None
) -> tuple[tuple[Verdict, ...], tuple[Span, ...] | None]:
    """Give each word (or each token) of a response the highest score of its tokens.

    Args:
        response: The response.
        spans: The characters of each token, None for one without any.
        scores: The score of each token. *Shape:* (tokens,).
        unit: "word" or "token"; tokens that share a character are one unit.
        known: Whether each token has a score; None: all do. *Shape:* (tokens,).

    Returns:
        The verdicts, and the spans that were judged (None: the whole response). A unit is judged if it has tokens and
        all of them have a score.
    """
    trimmed = [span and trim(span, response) for span in spans]
    tokens = sorted((span.start, span.end, i) for i, span in enumerate(trimmed) if span)
    if unit == "word":
        units = words(response)
    else:
        units = []
        for start, end, _ in tokens:
            if units and start < units[-1].end:
                units[-1] = Span(units[-1].start, max(units[-1].end, end))
            else:
                units.append(Span(start, end))
    verdicts, unknown = [], []
    first = 0
    for part in units:
        while first < len(tokens) and tokens[first][1] <= part.start:
            first += 1
        indices = []
        for start, end, i in tokens[first:]:
            if start >= part.end:
                break
            if end > part.start:
                indices.append(i)
        if indices and (known is None or known[indices].all()):
            verdicts.append(Verdict(part, float(scores[indices].max())))
        else:
            unknown.append(part)
    return tuple(verdicts), tuple(complement(unknown, len(response))) if unknown else None


def judgement_of(
    case: Case,
    by: str,
    spans: Sequence[Span | None],
    *,
    tokens: NDArray[np.float64] | None,
    response: float | None,
    unit: str = "word",
    notes: tuple[str, ...] = (),
) -> Judgement:
    """Return the judgement that the scores of a response and of its tokens result in.

    Args:
        case: The case.
        by: The detector's name.
        spans: The characters of each token.
        tokens: The score of each token, None where there are no such scores. *Shape:* (tokens,).
        response: The score of the whole; None: the highest verdict's.
        unit: "word" or "token".
        notes: What is to be said of the judgement.
    """
    if tokens is None:
        return Judgement(case.id, by, response, notes=notes)
    verdicts, judged = score_units(case.response, spans, tokens, unit)
    if response is None and verdicts:
        response = max(verdict.score for verdict in verdicts)
    if judged is not None:
        notes = (*notes, "the tokenizer has no token for a part of the response: it was not judged")
    return Judgement(case.id, by, response, verdicts=verdicts, judged=judged, notes=notes)
