"""The metrics of whole responses by name (`METRICS`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from veridical.metrics import UndefinedMetricError, calibration, ranking
from veridical.metrics.alignment import response_pair
from veridical.metrics.arrays import Floats, as_probabilities
from veridical.metrics.confusion import Confusion
from veridical.metrics.measure import FunctionOfSums, Metric, RankingArea
from veridical.records.types import Example, Judgement


def _decision(example: Example, judgement: Judgement, threshold: float) -> Floats | None:
    pair = response_pair(example, judgement)
    return None if pair is None else np.array([[pair[0], pair[1] >= threshold]], dtype=np.float64)


def score_row(example: Example, judgement: Judgement, _: float) -> Floats | None:
    """Return the gold label (0 or 1) and the predicted score of a response as one row, *shape* (1, 2).

    Return None if the case cannot be measured (`metrics.alignment.response_pair`). The third argument is ignored.
    """
    pair = response_pair(example, judgement)
    return None if pair is None else np.array([pair], dtype=np.float64)


def decided(formula: Callable[[Confusion], float]) -> FunctionOfSums:
    """Build the statistic of a metric of decisions, such as accuracy.

    It counts rows of label and decision (flagged or not) in a confusion matrix, and applies `formula` to this matrix.
    """

    def terms(rows: Floats) -> Floats:
        gold, flagged = rows[:, 0] > 0, rows[:, 1] > 0
        return np.column_stack([gold & flagged, ~gold & flagged, gold & ~flagged, ~gold & ~flagged]).astype(float)

    return FunctionOfSums(terms, lambda sums: formula(Confusion(*sums.tolist())))


def mean(sums: Floats) -> float:
    """Divide the first sum by the second, which is a count. Use it as the formula of a `FunctionOfSums`."""
    if not sums[1]:
        raise UndefinedMetricError("a mean over no cases is not defined")
    return float(sums[0] / sums[1])


def _brier_skill(sums: Floats) -> float:
    rate = sums[1] / sums[2]
    if rate in (0.0, 1.0):
        raise UndefinedMetricError(f"the Brier skill score needs both classes; all labels are {bool(rate)}")
    return float(1.0 - sums[0] / sums[2] / (rate * (1.0 - rate)))


def _squared_errors(rows: Floats) -> Floats:
    gold, score = rows[:, 0] > 0, as_probabilities(rows[:, 1])
    return np.column_stack([(score - gold) ** 2, gold, np.ones(len(rows))])


BRIER = FunctionOfSums(lambda rows: _squared_errors(rows)[:, [0, 2]], mean)
ECE = FunctionOfSums(lambda rows: calibration.bin_terms(rows[:, 0] > 0, rows[:, 1]), calibration.ece_of_sums)
ROC_AUC = RankingArea(ranking.roc_auc, ranking.roc_aucs)
_BRIER_SKILL = FunctionOfSums(_squared_errors, _brier_skill)
_PR_AUC = RankingArea(ranking.average_precision, ranking.average_precisions)

_CHANG, _LIU, _CHWANG = "Chang et al. 2024, §5.1", "Liu et al. 2022, §5", "CH-Wang et al. 2024, §4.3"
_response = partial(Metric, level="response", project=_decision)
_probability = partial(Metric, level="response", project=score_row, needs_threshold=False)

_TABLE = [
    _response(
        "accuracy", definition="Proportion of right decisions", source=_LIU, statistic=decided(Confusion.accuracy)
    ),
    _response(
        "balanced_accuracy",
        definition="Mean of the recalls of both classes; 0.5 = a coin",
        source="Brodersen et al. 2010",
        statistic=decided(Confusion.balanced_accuracy),
    ),
    _response("precision", definition="tp / (tp + fp)", source=_CHWANG, statistic=decided(Confusion.precision)),
    _response("recall", definition="tp / (tp + fn)", source=_CHWANG, statistic=decided(Confusion.recall)),
    _response(
        "false_alarms",
        definition="Proportion of right responses that are flagged: fp / (fp + tn)",
        source="the false positive rate",
        statistic=decided(Confusion.false_alarms),
        higher_is_better=False,
    ),
    _response("f1", definition="F1-R: 2 tp / (2 tp + fp + fn)", source=_CHWANG, statistic=decided(Confusion.f1)),
    *(
        _response(
            f"negative_{name}",
            definition=f'{text} of the class "not hallucinated"',
            source="Liu et al. 2022, Tables 2 and 3",
            statistic=decided(formula),
        )
        for name, text, formula in (
            ("precision", "Precision", lambda c: c.swapped().precision()),
            ("recall", "Recall", lambda c: c.swapped().recall()),
            ("f1", "F1", lambda c: c.swapped().f1()),
        )
    ),
    _response(
        "g_mean",
        definition="Geometric mean of the recalls of both classes",
        source=_LIU,
        statistic=decided(Confusion.g_mean),
    ),
    _probability(
        "brier",
        definition="Mean squared distance of score and label (what Liu et al. 2022 print as BSS)",
        source=_LIU,
        statistic=BRIER,
        higher_is_better=False,
    ),
    _probability(
        "bss",
        definition="1 - Brier / Brier of the base rate; 0 = the base rate, negative = worse",
        source="Brier 1950; not the BSS of Liu et al. 2022",
        statistic=_BRIER_SKILL,
        low=float("-inf"),
    ),
    _probability(
        "roc_auc",
        definition="Chance that a hallucinated response scores above another, ties half; 0.5 = no order",
        source=f"{_CHANG}; {_LIU}",
        statistic=ROC_AUC,
    ),
    _probability(
        "pr_auc",
        definition="Average precision: area under precision-recall steps",
        source="Davis and Goadrich 2006",
        statistic=_PR_AUC,
    ),
    _probability(
        "ece",
        definition="Mean gap of score and proportion of positives over 10 bins of equal width",
        source="Naeini et al. 2015",
        statistic=ECE,
        higher_is_better=False,
    ),
]

METRICS: dict[str, Metric] = {entry.name: entry for entry in _TABLE}
