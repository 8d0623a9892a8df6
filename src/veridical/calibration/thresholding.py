"""What a threshold or a calibration is fitted on: (label, score) pairs of one `Level`, and the rules for a threshold.

The levels are fitted apart; verdicts count by content word, and so do omissions, of the sources that must be covered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from veridical.core.decide import unjudged
from veridical.core.errors import UnknownNameError
from veridical.core.types import Example, Judgement, Level
from veridical.metrics import UndefinedMetricError
from veridical.metrics.alignment import characters
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.calibration import (
    threshold_between_means,
    threshold_for_balanced_accuracy,
    threshold_for_f1,
    threshold_for_precision,
)
from veridical.metrics.measure import METRIC_LEVELS
from veridical.metrics.registry import LABELLED_SCORES, METRICS
from veridical.metrics.spans import coverage_rows, coverage_terms, f1_of_coverage_sums
from veridical.metrics.tokens import white_space_tokens

__all__ = ["RULES", "Rule", "completed", "fit_metric_thresholds", "pairs", "rule", "threshold_for_f1_sp"]

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


def fit_metric_thresholds(
    judged: Sequence[tuple[Example, Judgement]], rule_name: str, levels: Collection[Level]
) -> tuple[dict[str, float], list[str]]:
    """Fit a threshold for each level of a metric (`Metric.level`) on the units that its metrics count.

    Responses, white-space tokens, characters and sources are fitted by the rule. Span metrics have the threshold with
    the highest F1-Sp under the rule "f1", and the one fitted on tokens under any other.

    Args:
        judged: Labelled (validation) examples, each with its judgement.
        rule_name: One of `RULES`.
        levels: What the detector scores.

    Returns:
        The threshold of each level that could be fitted, and a note on each that could not.
    """
    fit = rule(rule_name)
    thresholds: dict[str, float] = {}
    notes = []
    for level, project in LABELLED_SCORES.items():
        if METRIC_LEVELS[level][0].isdisjoint(levels):
            continue
        rows = [found for e, j in judged if (found := project(e, j, 0.0)) is not None and len(found)]
        if not rows:
            continue
        table = np.concatenate(rows)
        try:
            if level == "span" and rule_name == "f1":
                thresholds[level] = threshold_for_f1_sp(judged)
            else:
                thresholds[level] = fit(table[:, 0] > 0, table[:, 1])
        except UndefinedMetricError as error:
            notes.append(f"{level}: not fitted ({error.message})")
    return thresholds, notes


def threshold_for_f1_sp(judged: Sequence[tuple[Example, Judgement]], *, candidates: int = 100) -> float:
    """The score from which flagging gives the highest F1-Sp; the highest such score on a tie.

    CH-Wang et al. 2024, §5.2. Tried are the distinct scores of judged characters, or where there are more, so many of
    them at even ranks. Raises `UndefinedMetricError` where no span is labelled or all scores are 0.

    >>> from veridical.core.types import Case, Span, Verdict
    >>> gold = Judgement("1", "human:a", verdicts=(Verdict(Span(3, 7), 1.0),))
    >>> scored = Judgement("1", "me", verdicts=(Verdict(Span(0, 2), 0.3), Verdict(Span(3, 7), 0.6)))
    >>> threshold_for_f1_sp([(Example(Case("1", "In Rome"), gold), scored)])
    0.6
    """
    texts = [found for example, judgement in judged if (found := characters(example, judgement)) is not None]
    scores = np.unique(np.concatenate([text.score[text.judged] for text in texts]) if texts else np.zeros(0))
    if not scores.any():
        raise UndefinedMetricError("all scores are 0: no threshold separates them")
    if not any(text.gold_mask().any() for text in texts):
        raise UndefinedMetricError("no span is labelled as hallucinated")
    if len(scores) > candidates:
        scores = scores[np.linspace(0, len(scores) - 1, candidates).round().astype(int)]
    units = [text.judged_units(white_space_tokens(text.text)) for text in texts]
    best, best_value = 0.0, -1.0
    for threshold in scores[::-1].tolist():
        rows = [coverage_rows(*text.spans(threshold), tokens) for text, tokens in zip(texts, units, strict=True)]
        value = f1_of_coverage_sums(coverage_terms(np.concatenate(rows)).sum(axis=0))
        if value > best_value + 1e-12:
            best, best_value = threshold, value
    return best
