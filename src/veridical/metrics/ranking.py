"""How well scores order items, without any threshold: areas under two curves, and rank correlation.

All depend on the order of the scores only; equal scores share their place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from veridical.core.errors import InputError
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats, as_scores, labels_and_scores

__all__ = ["average_precision", "ranks", "roc_auc", "spearman"]


def roc_auc(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """The chance that a random positive scores above a random negative, ties half: [0, 1], 0.5 = no order, 1 = perfect,
    below 0.5 = the wrong way round. Area under the ROC curve (A §5.1, B §5; Hanley & McNeil 1982).

    Raises `UndefinedMetricError` with one class only.

    >>> roc_auc([1, 0, 1, 0], [0.9, 0.1, 0.4, 0.4])
    0.875
    """
    gold, score, w = labels_and_scores(labels, scores, weight)
    positive, negative = _tied(gold, score, w, "ROC AUC")
    above = positive.sum() - np.cumsum(positive) + positive / 2  # positives above each place, its own half
    return float(above @ negative / (positive.sum() * negative.sum()))


def average_precision(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """The mean over positives of the precision at their score: [base rate on average at random, 1], 1 = perfect.

    Area under the precision-recall curve **as a step function** (average precision, as scikit-learn has it), not by
    trapezoids, which are too kind (Davis & Goadrich 2006). Needs a positive and a negative.

    >>> average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]) == (1 / 1 + 2 / 3) / 2
    True
    """
    gold, score, w = labels_and_scores(labels, scores, weight)
    positive, negative = _tied(gold, score, w, "PR AUC")
    found = np.cumsum(positive[::-1])
    flagged = found + np.cumsum(negative[::-1])
    return float(positive[::-1] @ (found / flagged) / found[-1])


def _tied(gold: Bools, score: Floats, weight: Floats, what: str) -> tuple[Floats, Floats]:
    """The weight of positives and of negatives at each distinct score, ascending; raises with one class only."""
    kept = weight > 0
    gold, score, weight = gold[kept], score[kept], weight[kept]
    order = np.argsort(score, kind="stable")
    ordered = score[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    each = weight[order]
    positive = np.add.reduceat(each * gold[order], starts)
    negative = np.add.reduceat(each * ~gold[order], starts)
    if not positive.any() or not negative.any():
        one = "positive" if positive.any() else "negative"
        raise UndefinedMetricError(f"{what} needs both classes; all {gold.size} labels are {one}")
    return positive, negative


def ranks(values: ArrayLike) -> Floats:
    """The rank of each value from 1, ties at their mean, *shape* (n,).

    >>> ranks([10, 30, 20, 20])
    array([1. , 4. , 2.5, 2.5])
    """
    _, place, times = np.unique(as_scores(values, "values"), return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    mean: Floats = (last - (times - 1) / 2)[place]
    return mean


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rank correlation: [-1, 1], 0 = no monotone relation, negative = opposed. Undefined if one is constant.

    >>> spearman([1, 2, 3], [1, 8, 9])
    1.0
    """
    left, right = ranks(a), ranks(b)
    if left.size != right.size:
        raise InputError(f"{left.size} values against {right.size}")
    left, right = left - left.mean() if left.size else left, right - right.mean() if right.size else right
    spread = float((left @ left) * (right @ right))
    if spread == 0:
        raise UndefinedMetricError(f"a rank correlation needs values that differ; one side of {left.size} is constant")
    return float(np.clip(left @ right / np.sqrt(spread), -1.0, 1.0))
