"""Fit a threshold for each metric level, such as tokens or spans, on validation data."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from veridical.metrics import UndefinedMetricError
from veridical.metrics.alignment import characters
from veridical.metrics.measure import METRIC_LEVELS
from veridical.metrics.thresholding import flagging_from, threshold_fitter
from veridical.metrics.tokens import white_space_tokens
from veridical.records.types import Example, Judgement, Level
from veridical_lab.metrics.registry import LABELLED_SCORES
from veridical_lab.metrics.spans import coverage_rows, coverage_terms, f1_of_coverage_sums

_CANDIDATES = 100  # maximum number of candidate thresholds


def fit_metric_thresholds(
    judged: Sequence[tuple[Example, Judgement]], criterion: str, levels: Collection[Level]
) -> tuple[dict[str, float], list[str]]:
    """Fit a threshold for each metric level (`Metric.level`), on the units that the metrics of this level count.

    The thresholds of responses, white-space tokens, characters, coverage and sources are chosen by `criterion`. For
    spans, the criterion "f1" chooses the threshold with the highest F1-Sp. Any other criterion chooses the same
    threshold as for tokens.

    Args:
        judged: The labelled (validation) examples, each with its judgement.
        criterion: The name of a criterion in `CRITERIA`.
        levels: The levels that the detector scores.

    Returns:
        The threshold of each level that was fitted, and a note on each level that could not be fitted.
    """
    fit = threshold_fitter(criterion)
    thresholds: dict[str, float] = {}
    notes = []
    for level, project in LABELLED_SCORES.items():
        if METRIC_LEVELS[level][0].isdisjoint(levels):
            continue
        rows = [table for e, j in judged if (table := project(e, j, 0.0)) is not None and len(table)]
        if not rows:
            continue
        table = np.concatenate(rows)
        try:
            if level == "span" and criterion == "f1":
                thresholds[level] = threshold_for_f1_sp(judged)
            else:
                thresholds[level] = fit(table[:, 0] > 0, table[:, 1])
        except UndefinedMetricError as error:
            notes.append(f"{level}: not fitted ({error.message})")
    return thresholds, notes


def threshold_for_f1_sp(judged: Sequence[tuple[Example, Judgement]]) -> float:
    """Choose the threshold with the highest F1-Sp (CH-Wang et al. 2024, §5.2).

    Among equally good thresholds, the highest is chosen. Each distinct score of a judged character gives a candidate.
    If there are more than 100 scores, 100 thresholds are tried, at even ranks.

    Raises:
        UndefinedMetricError: No span is labelled, or all scores are 0.

    >>> from veridical.records.types import Case, Span, Verdict
    >>> gold = Judgement("1", "human:a", verdicts=(Verdict(Span(3, 7), 1.0),))
    >>> scored = Judgement("1", "me", verdicts=(Verdict(Span(0, 2), 0.25), Verdict(Span(3, 7), 0.5)))
    >>> threshold_for_f1_sp([(Example(Case("1", "In Rome"), gold), scored)])
    0.375
    """
    texts = [text for example, judgement in judged if (text := characters(example, judgement)) is not None]
    cuts = np.unique(np.concatenate([text.score[text.judged] for text in texts]) if texts else np.zeros(0))[::-1]
    if not cuts.any():
        raise UndefinedMetricError("all scores are 0: no threshold separates them")
    if not any(text.gold_mask().any() for text in texts):
        raise UndefinedMetricError("no span is labelled as hallucinated")
    indices = np.arange(len(cuts))
    if len(cuts) > _CANDIDATES:
        indices = np.linspace(0, len(cuts) - 1, _CANDIDATES).round().astype(int)
    units = [text.judged_units(white_space_tokens(text.text)) for text in texts]
    best, best_value = 0.0, -1.0
    for threshold in (flagging_from(cuts, i) for i in indices.tolist()):
        rows = [coverage_rows(*text.spans(threshold), tokens) for text, tokens in zip(texts, units, strict=True)]
        value = f1_of_coverage_sums(coverage_terms(np.concatenate(rows)).sum(axis=0))
        if value > best_value + 1e-12:
            best, best_value = threshold, value
    return best
