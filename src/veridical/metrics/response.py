"""Metrics of decisions and probabilities on whole responses, or on any other items with one label each.

Functions for decisions take `labels` and `predicted`, both as booleans. Functions for probabilities take `labels` and
`scores` in [0, 1]. In all of them, `weight` says how often each item counts. For metrics that depend only on the order
of scores, see `ranking`.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import as_labels, as_probabilities, as_weight, labels_and_scores
from veridical.metrics.confusion import Confusion
from veridical.records.errors import InputError

__all__ = [
    "accuracy",
    "balanced_accuracy",
    "brier",
    "brier_skill",
    "confusion",
    "f1",
    "g_mean",
    "precision",
    "recall",
]


def confusion(labels: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None) -> Confusion:
    """Count how the decisions in `predicted` agree with `labels`.

    >>> confusion([1, 1, 0, 0], [1, 0, 0, 0])
    Confusion(tp=1.0, fp=0.0, fn=1.0, tn=2.0)
    """
    gold, flagged = as_labels(labels), as_labels(predicted, "predictions")
    if gold.size != flagged.size:
        raise InputError(f"{gold.size} labels for {flagged.size} predictions")
    w = as_weight(weight, gold.size)
    tp = float(w @ (gold & flagged))
    fp = float(w @ (~gold & flagged))
    fn = float(w @ (gold & ~flagged))
    return Confusion(tp, fp, fn, float(w @ (~gold & ~flagged)))


def accuracy(labels: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Compute accuracy, the proportion of decisions that are right, in [0, 1].

    See Liu et al. 2022, §5 (Acc), and George and Stuhlmüller 2023, §2.4.

    >>> accuracy([1, 1, 0, 0], [1, 0, 0, 0])
    0.75
    """
    return confusion(labels, predicted, weight).accuracy()


def balanced_accuracy(labels: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Compute the mean of both classes' recalls (Brodersen et al. 2010).

    It lies in [0, 1], where 0.5 is as good as tossing a coin.

    >>> balanced_accuracy([1, 1, 0, 0], [1, 0, 0, 0])
    0.75
    """
    return confusion(labels, predicted, weight).balanced_accuracy()


def g_mean(labels: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Compute the geometric mean of both classes' recalls (Liu et al. 2022, §5).

    It lies in [0, 1], where 0 means that all items of one class were judged wrongly. Table 2 of the paper agrees with
    this formula, except for the RoBERTa row, whose recalls 74.76 and 70.67 give 72.69, not 70.94.

    >>> g_mean([1, 1, 0, 0], [1, 0, 0, 0]) == (0.5 * 1.0) ** 0.5
    True
    """
    return confusion(labels, predicted, weight).g_mean()


def precision(
    labels: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None, *, positive: bool = True
) -> float:
    """Compute precision, the proportion of flagged items that are gold positives, in [0, 1].

    Precision is undefined if no item is flagged. Use `positive=False` for the precision of the class "not hallucinated"
    (Liu et al. 2022, §5, report both).

    >>> precision([1, 1, 0, 0], [1, 0, 0, 0]), precision([1, 1, 0, 0], [1, 0, 0, 0], positive=False)
    (1.0, 0.6666666666666666)
    """
    return _of_class(labels, predicted, weight, positive).precision()


def recall(labels: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None, *, positive: bool = True) -> float:
    """Compute recall, the proportion of a class's items that were found, in [0, 1].

    Use `positive=False` for the class "not hallucinated". Recall is undefined if the class has no items.

    >>> recall([1, 1, 0, 0], [1, 0, 0, 0]), recall([1, 1, 0, 0], [1, 0, 0, 0], positive=False)
    (0.5, 1.0)
    """
    return _of_class(labels, predicted, weight, positive).recall()


def f1(labels: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None, *, positive: bool = True) -> float:
    """Compute F1, the harmonic mean of precision and recall (F1-R of CH-Wang et al. 2024, §4.3).

    F1 lies in [0, 1]. It is 0 if the class is only in the labels or only in the predictions, and undefined if the class
    is in neither.

    >>> f1([1, 1, 0, 0], [1, 0, 0, 0]), f1([1, 1, 0, 0], [1, 0, 0, 0], positive=False)
    (0.6666666666666666, 0.8)
    """
    return _of_class(labels, predicted, weight, positive).f1()


def _of_class(labels: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None, positive: bool) -> Confusion:
    counts = confusion(labels, predicted, weight)
    return counts if positive else counts.swapped()


def brier(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Compute the Brier score, the mean squared difference between score and label (Brier 1950).

    It lies in [0, 1]. Lower is better: 0 means always sure and right, 1 always sure and wrong.

    **Tables 2 and 3 of Liu et al. 2022 print this value, times 100, as "BSS (↓)"**, for three reasons. Their §5
    describes a mean squared error. The values of the seven transformers fall as their AUC rises (Pearson -0.95), while
    a skill score would rise. And 19.06 lies below 24.9, the score of always predicting the base rate (0.472, which
    follows from accuracy and recalls).

    >>> brier([1, 0], [0.8, 0.4])
    0.1
    """
    gold, score, w = labels_and_scores(labels, as_probabilities(scores), weight)
    return float(w @ (score - gold) ** 2 / w.sum())


def brier_skill(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Compute the Brier skill score: 1 minus the Brier score divided by the score of always predicting the base rate.

    It lies in (-∞, 1], where 1 is perfect, 0 is as good as the base rate, and negative values are worse. It is
    undefined if all items have the same label. Liu et al. 2022 print another value as "BSS" (see `brier`): their 19.06
    is a skill of 0.235.

    >>> round(brier_skill([1, 0], [0.8, 0.4]), 12)
    0.6
    """
    gold, _, w = labels_and_scores(labels, scores, weight)
    rate = float(w @ gold / w.sum())
    if rate in (0.0, 1.0):
        raise UndefinedMetricError(f"the Brier skill score needs both classes; all labels are {bool(rate)}")
    return 1.0 - brier(labels, scores, weight) / (rate * (1.0 - rate))
