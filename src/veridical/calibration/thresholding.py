"""What a threshold or a calibration is fitted on: (label, score) pairs of one `Level`, and the rules for a threshold.

The levels are fitted apart; verdicts count by content word, and so do omissions, of the sources that must be covered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from veridical.core.decide import unjudged
from veridical.core.errors import UnknownNameError
from veridical.core.types import Example, Judgement, Level
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.calibration import (
    threshold_between_means,
    threshold_for_balanced_accuracy,
    threshold_for_f1,
    threshold_for_precision,
)
from veridical.metrics.registry import METRICS

__all__ = ["RULES", "Rule", "completed", "pairs", "rule"]

Rule: TypeAlias = Callable[[Bools, Floats], float]

RULES = ("f1", "balanced_accuracy", "means", "precision@P")
# a level -> the metric whose rows are (label, score) pairs of it
_ROWS = {
    Level.RESPONSE: "roc_auc",
    Level.SPAN: "word_roc_auc",
    Level.COVERAGE: "coverage_roc_auc",
    Level.SOURCE: "source_word_roc_auc",
}


def rule(name: str) -> Rule:
    """The way to fit a threshold that `name` says; `UnknownNameError` for any other than `RULES`.

    >>> import numpy as np
    >>> rule("precision@0.6")(np.array([False, True, False, True]), np.array([0.1, 0.3, 0.6, 0.8]))
    0.3
    """
    fits: dict[str, Rule] = {
        "f1": threshold_for_f1,
        "balanced_accuracy": threshold_for_balanced_accuracy,
        "means": threshold_between_means,
    }
    if name in fits:
        return fits[name]
    kind, _, wanted = name.partition("@")
    try:
        precision = float(wanted) if kind == "precision" else -1.0
    except ValueError:
        precision = -1.0
    if not 0.0 < precision <= 1.0:
        raise UnknownNameError("rule to fit by", name, RULES)
    return lambda labels, scores: threshold_for_precision(labels, scores, precision)


def completed(judgement: Judgement) -> Judgement:
    """The judgement with its response-level scores: where it gives none, its highest verdict and omission stand for it.

    >>> from veridical.core.types import Span, Verdict
    >>> completed(Judgement("1", "me", verdicts=(Verdict(Span(0, 2), 0.4),))).hallucination
    0.4
    """
    whole, omission = judgement.hallucination, judgement.omission
    if whole is None:
        whole = max((verdict.score for verdict in judgement.verdicts), default=None)
    if omission is None:
        omission = max((found.score for found in judgement.omissions), default=None)
    return replace(judgement, hallucination=whole, omission=omission)


def pairs(level: Level, example: Example, judgement: Judgement) -> Floats | None:
    """(label, score) rows of one level, *shape* (k, 2), or None where the case says nothing about it.

    A gold that judged only a part of a response says nothing about the whole of it.

    >>> from veridical.core.types import Case
    >>> example = Example(Case("1", "In Rome"), Judgement("1", "human:a", hallucination=1.0))
    >>> pairs(Level.RESPONSE, example, Judgement("1", "me", hallucination=0.3))
    array([[1. , 0.3]])
    """
    if level is Level.RESPONSE and unjudged(example.case, example.gold):
        return None
    return METRICS[_ROWS[level]].rows(example, completed(judgement) if level is Level.RESPONSE else judgement)
