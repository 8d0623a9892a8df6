"""Measure how well scores order items, without a threshold: ROC AUC and average precision.

These measures depend only on the order of the scores. Equal scores share a rank.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats, as_scores, labels_and_scores


def roc_auc(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Compute the area under the ROC curve.

    The area is the chance that a random positive scores above a random negative, where ties count half (Chang et al.
    2024, §5.1; Liu et al. 2022, §5; Hanley and McNeil 1982). The value lies in [0, 1], where 0.5 means no order, 1 a
    perfect order, and values below 0.5 a reversed order.

    Raises:
        UndefinedMetricError: All items have the same label.

    >>> roc_auc([1, 0, 1, 0], [0.9, 0.1, 0.4, 0.4])
    0.875
    """
    return _single(roc_aucs, "ROC AUC", *labels_and_scores(labels, scores, weight))


def average_precision(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Compute average precision: for each positive, the precision at its score, averaged over all positives.

    This is the area under the precision-recall curve **as a step function** (as in scikit-learn). Do not use trapezoids
    instead, because they overestimate this area (Davis and Goadrich 2006). The value lies in [0, 1]. For random scores,
    it is the proportion of positives.

    Raises:
        UndefinedMetricError: All items have the same label.

    >>> average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]) == (1 / 1 + 2 / 3) / 2
    True
    """
    return _single(average_precisions, "PR AUC", *labels_and_scores(labels, scores, weight))


def _single(
    areas: Callable[[ArrayLike, ArrayLike, Floats], Floats], name: str, gold: Bools, score: Floats, weight: Floats
) -> float:
    (area,) = areas(gold, score, weight[None, :]).tolist()
    if np.isnan(area):
        one = "positive" if weight @ gold else "negative"
        raise UndefinedMetricError(f"{name} needs both classes; all {int((weight > 0).sum())} labels are {one}")
    return float(area)


def roc_aucs(labels: ArrayLike, scores: ArrayLike, weights: Floats) -> Floats:
    """Compute the area under the ROC curve for many weightings of the same items at once, such as bootstrap samples.

    `weights` has *shape* (samples, n), and the result has *shape* (samples,). The value is NaN for samples in which all
    items with a weight above 0 have the same label.

    >>> roc_aucs([1, 0, 1, 0], [0.9, 0.1, 0.4, 0.4], np.array([[1.0, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0]]))
    array([0.875, 1.   ,   nan])
    """
    positive, negative = _per_distinct_score(labels, scores, weights)
    above = positive.sum(axis=1, keepdims=True) - np.cumsum(positive, axis=1) + positive / 2  # ties count half
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    return _divided((above * negative).sum(axis=1), pairs)


def average_precisions(labels: ArrayLike, scores: ArrayLike, weights: Floats) -> Floats:
    """Compute average precision for many weightings of the same items at once, such as bootstrap samples.

    `weights` has *shape* (samples, n), and the result has *shape* (samples,). The value is NaN for samples in which all
    items with a weight above 0 have the same label.

    >>> average_precisions([1, 0], [0.9, 0.1], np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([ 1., nan])
    """
    positive, negative = (each[:, ::-1] for each in _per_distinct_score(labels, scores, weights))
    hits = np.cumsum(positive, axis=1)
    flagged = hits + np.cumsum(negative, axis=1)
    precision = np.divide(hits, flagged, out=np.zeros_like(hits), where=flagged > 0)
    total = positive.sum(axis=1)
    return _divided((positive * precision).sum(axis=1), np.where(negative.sum(axis=1) > 0, total, 0.0))


def _per_distinct_score(labels: ArrayLike, scores: ArrayLike, weights: Floats) -> tuple[Floats, Floats]:
    """Sum the weights of positives and negatives at each distinct score, ascending, each *shape* (samples, scores)."""
    gold, score = np.asarray(labels) > 0, np.asarray(scores)
    order = np.argsort(score, kind="stable")
    ordered = score[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sorted_weights = weights[:, order]
    positive = np.add.reduceat(sorted_weights * gold[order], starts, axis=1)
    negative = np.add.reduceat(sorted_weights * ~gold[order], starts, axis=1)
    return positive, negative


def _divided(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def ranks(values: ArrayLike) -> Floats:
    """Return the rank of each value, where the lowest value has rank 1 and equal values share their mean rank.

    >>> ranks([10, 30, 20, 20])
    array([1. , 4. , 2.5, 2.5])
    """
    _, inverse, times = np.unique(as_scores(values, "values"), return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    mean: Floats = (last - (times - 1) / 2)[inverse]
    return mean
