"""The four counts of a yes/no decision and the ratios made of them. Hallucinated is the positive class.

A ratio of nothing to nothing is not defined and raises; it is neither 0 nor 1. F1 alone has a value where only one of
precision and recall has: with gold positives and no predicted ones (or the reverse) it is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from veridical.metrics import UndefinedMetricError

__all__ = ["Confusion"]


@dataclass(frozen=True, slots=True)
class Confusion:
    """How many items were found (tp), wrongly flagged (fp), missed (fn) and rightly left alone (tn); weights allowed.

    `tn` is None where it is not counted, as with spans.

    >>> Confusion(tp=3, fp=1, fn=2, tn=4).f1()
    0.6666666666666666
    """

    tp: float
    fp: float
    fn: float
    tn: float | None = None

    def swapped(self) -> Confusion:
        """The same decisions with "not hallucinated" as the positive class.

        >>> Confusion(3, 1, 2, 4).swapped().precision()
        0.6666666666666666
        """
        return Confusion(self._tn("the other class"), self.fn, self.fp, self.tp)

    def precision(self) -> float:
        """The share of flagged items that are positives: [0, 1], 0 = none is, 1 = all are. tp / (tp + fp).

        >>> Confusion(3, 1, 2).precision()
        0.75
        """
        return _ratio("precision", self.tp, self.tp + self.fp, "nothing was flagged")

    def recall(self) -> float:
        """The share of positives that were flagged (sensitivity): [0, 1], 0 = none, 1 = all. tp / (tp + fn).

        >>> Confusion(3, 1, 2).recall()
        0.6
        """
        return _ratio("recall", self.tp, self.tp + self.fn, "there are no gold positives")

    def specificity(self) -> float:
        """The share of negatives that were left alone: [0, 1], 0 = none, 1 = all. tn / (tn + fp).

        >>> Confusion(3, 1, 2, 4).specificity()
        0.8
        """
        tn = self._tn("specificity")
        return _ratio("specificity", tn, tn + self.fp, "there are no gold negatives")

    def false_alarms(self) -> float:
        """The share of negatives that were flagged: [0, 1], 0 = none, 1 = all. fp / (fp + tn).

        >>> Confusion(3, 1, 2, 4).false_alarms()
        0.2
        """
        return _ratio("the share of false alarms", self.fp, self._tn("it") + self.fp, "there are no gold negatives")

    def f1(self) -> float:
        """The harmonic mean of precision and recall, 2 tp / (2 tp + fp + fn): [0, 1], 0 = nothing found, 1 = perfect.

        F1-R of CH-Wang et al. 2024, §4.3, at response level. Undefined only without positives, gold or flagged.

        >>> Confusion(0, 0, 5).f1()
        0.0
        """
        return _ratio("F1", 2 * self.tp, 2 * self.tp + self.fp + self.fn, "there are no positives, gold or flagged")

    def iou(self) -> float:
        """Intersection over union of gold and flagged, tp / (tp + fp + fn): [0, 1], 0 = disjoint, 1 = the same.

        Also Jaccard's index. Undefined where both are empty.

        >>> Confusion(3, 1, 2).iou()
        0.5
        """
        return _ratio("IoU", self.tp, self.tp + self.fp + self.fn, "there are no positives, gold or flagged")

    def accuracy(self) -> float:
        """The share of right decisions: [0, 1], 0 = all wrong, 1 = all right. (tp + tn) / all.

        >>> Confusion(3, 1, 2, 4).accuracy()
        0.7
        """
        tn = self._tn("accuracy")
        return _ratio("accuracy", self.tp + tn, self.tp + self.fp + self.fn + tn, "there are no items")

    def balanced_accuracy(self) -> float:
        """The mean of recall and specificity: [0, 1], 0.5 = no better than a coin, below = worse, 1 = all right.

        Brodersen et al. 2010. Undefined unless both classes are there.

        >>> Confusion(3, 1, 2, 4).balanced_accuracy()
        0.7
        """
        return (self.recall() + self.specificity()) / 2

    def g_mean(self) -> float:
        """The geometric mean of recall and specificity: [0, 1], 0 = one class wholly wrong, 1 = all right.

        Liu et al. 2022, §5. Undefined unless both classes are there.

        >>> round(Confusion(3, 1, 2, 4).g_mean(), 4)
        0.6928
        """
        return sqrt(self.recall() * self.specificity())

    def mcc(self) -> float:
        """The Matthews correlation of labels and decisions: [-1, 1], 0 = no better than a coin, 1 = all right.

        Matthews 1975. 0 where everything, or nothing, is flagged; undefined unless both classes are there.

        >>> round(Confusion(3, 1, 2, 4).mcc(), 4)
        0.4082
        """
        tn = self._tn("MCC")
        _ratio("MCC", 1.0, (self.tp + self.fn) * (tn + self.fp), "it needs both classes")
        spread = sqrt((self.tp + self.fp) * (self.tp + self.fn) * (tn + self.fp) * (tn + self.fn))
        return (self.tp * tn - self.fp * self.fn) / spread if spread else 0.0

    def _tn(self, what: str) -> float:
        if self.tn is None:
            raise UndefinedMetricError(f"{what} needs true negatives, and these are not counted here")
        return self.tn


def _ratio(what: str, part: float, whole: float, why: str) -> float:
    if whole == 0:
        raise UndefinedMetricError(f"{what} is not defined: {why}")
    return float(part / whole)
