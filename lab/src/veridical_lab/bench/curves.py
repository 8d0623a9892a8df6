"""Compute points of ROC and reliability curves for result rows, so that figures need no further run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridical.metrics import UndefinedMetricError
from veridical.records.types import Example, Judgement
from veridical_lab.metrics.registry import METRICS
from veridical_lab.metrics.reliability import reliability

POINTS = 101


def roc_points(labels: np.ndarray, scores: np.ndarray) -> list[list[float]]:
    """Compute a ROC curve, as at most 101 pairs of false and true positive rate, from (0, 0) to (1, 1).

    Raises:
        UndefinedMetricError: All items have the same label.

    >>> roc_points(np.array([1, 0]), np.array([0.9, 0.1]))
    [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    gold = np.asarray(labels) > 0
    if gold.all() or not gold.any():
        raise UndefinedMetricError("a ROC curve needs both classes")
    order = np.argsort(-np.asarray(scores), kind="stable")
    last = np.append(np.diff(np.asarray(scores)[order]) != 0, True)  # equal scores share a point
    true = np.append(0.0, np.cumsum(gold[order])[last] / gold.sum())
    false = np.append(0.0, np.cumsum(~gold[order])[last] / (~gold).sum())
    if len(true) > POINTS:
        picked = np.unique(np.linspace(0, len(true) - 1, POINTS).round().astype(int))
        true, false = true[picked], false[picked]
    return [[round(float(x), 5), round(float(y), 5)] for x, y in zip(false, true, strict=True)]


def curves(pairs: Sequence[tuple[Example, Judgement]]) -> dict[str, list[list[float]]]:
    """Compute the curves of the scores of whole responses.

    "roc" is a list of points (`roc_points`). "reliability" is a list of triples: mean score, proportion of hallucinated
    cases, and number of cases. The result is empty if no response has both a score and a label, or if all labels are
    the same.
    """
    rows = [METRICS["roc_auc"].rows(example, judgement) for example, judgement in pairs]
    counted = [row for row in rows if row is not None]
    if not counted:
        return {}
    table = np.concatenate(counted)
    gold, score = table[:, 0] > 0, table[:, 1]
    if gold.all() or not gold.any():
        return {}
    bars = [[round(b.score, 5), round(b.rate, 5), b.weight] for b in reliability(gold, score)]
    return {"roc": roc_points(gold, score), "reliability": bars}
