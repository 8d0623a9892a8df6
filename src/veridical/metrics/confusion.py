"""Count true and false positives and negatives, and compute precision, recall and other ratios of these counts.

Hallucinated is the positive class. A ratio of 0 to 0 raises `UndefinedMetricError`. F1 is more lenient: if only one of
precision and recall is defined, F1 is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import as_labels, as_weight


@dataclass(frozen=True, slots=True)
class Confusion:
    """A confusion matrix: the counts from which precision, recall and other metrics of decisions are computed.

    The counts are true positives (`tp`), false positives (`fp`), false negatives (`fn`) and true negatives (`tn`). They
    may be weighted sums. If true negatives cannot be counted, as with spans, `tn` is None, and metrics that need it
    raise `UndefinedMetricError`.

    >>> Confusion(tp=3, fp=1, fn=2, tn=4).f1()
    0.6666666666666666
    """

    tp: float
    fp: float
    fn: float
    tn: float | None = None

    @classmethod
    def of(cls, labels: ArrayLike, flagged: ArrayLike, weight: ArrayLike | None = None) -> Confusion:
        """Count true and false positives and negatives.

        `labels` are the gold labels and `flagged` the decisions, as one bool for each item. If you pass `weight`, an
        item of weight 2 is counted twice.

        >>> Confusion.of([1, 1, 0, 0], [1, 0, 0, 0])
        Confusion(tp=1.0, fp=0.0, fn=1.0, tn=2.0)
        """
        gold, found, w = as_labels(labels), as_labels(flagged, "decisions"), as_weight(weight, np.size(labels))
        counted = (gold & found, ~gold & found, gold & ~found, ~gold & ~found)
        return cls(*(float(w @ items) for items in counted))

    def swapped(self) -> Confusion:
        """Swap the classes: count the same decisions with "not hallucinated" as the positive class.

        >>> Confusion(3, 1, 2, 4).swapped().precision()
        0.6666666666666666
        """
        return Confusion(self._tn("the other class"), self.fn, self.fp, self.tp)

    def precision(self) -> float:
        """Compute precision, the proportion of flagged items that are gold positives: tp / (tp + fp), in [0, 1].

        >>> Confusion(3, 1, 2).precision()
        0.75
        """
        return _ratio("precision", self.tp, self.tp + self.fp, "nothing was flagged")

    def recall(self) -> float:
        """Compute recall, the proportion of gold positives that were flagged: tp / (tp + fn), in [0, 1].

        Recall is also called sensitivity.

        >>> Confusion(3, 1, 2).recall()
        0.6
        """
        return _ratio("recall", self.tp, self.tp + self.fn, "there are no gold positives")

    def specificity(self) -> float:
        """Compute specificity, the proportion of gold negatives that were not flagged: tn / (tn + fp), in [0, 1].

        >>> Confusion(3, 1, 2, 4).specificity()
        0.8
        """
        tn = self._tn("specificity")
        return _ratio("specificity", tn, tn + self.fp, "there are no gold negatives")

    def false_alarms(self) -> float:
        """Compute the false positive rate, fp / (fp + tn), in [0, 1].

        This is the proportion of gold negatives that were flagged.

        >>> Confusion(3, 1, 2, 4).false_alarms()
        0.2
        """
        return _ratio("the share of false alarms", self.fp, self._tn("it") + self.fp, "there are no gold negatives")

    def f1(self) -> float:
        """Compute F1, the harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn).

        F1 lies in [0, 1], where 0 means that nothing was found. At response level it is F1-R of CH-Wang et al. 2024,
        §4.3. It is undefined only if there are neither gold nor flagged positives.

        >>> Confusion(0, 0, 5).f1()
        0.0
        """
        return _ratio("F1", 2 * self.tp, 2 * self.tp + self.fp + self.fn, "there are no positives, gold or flagged")

    def iou(self) -> float:
        """Compute the intersection over union of the gold and the flagged items: tp / (tp + fp + fn).

        It is also called the Jaccard index and lies in [0, 1], where 0 means disjoint and 1 means equal. It is
        undefined if there are neither gold nor flagged positives.

        >>> Confusion(3, 1, 2).iou()
        0.5
        """
        return _ratio("IoU", self.tp, self.tp + self.fp + self.fn, "there are no positives, gold or flagged")

    def accuracy(self) -> float:
        """Compute accuracy, the proportion of decisions that are right: (tp + tn) / all, in [0, 1].

        >>> Confusion(3, 1, 2, 4).accuracy()
        0.7
        """
        tn = self._tn("accuracy")
        return _ratio("accuracy", self.tp + tn, self.tp + self.fp + self.fn + tn, "there are no items")

    def balanced_accuracy(self) -> float:
        """Compute balanced accuracy, the mean of recall and specificity (Brodersen et al. 2010).

        It lies in [0, 1], where 0.5 is chance level. It is undefined unless both classes are present.

        >>> Confusion(3, 1, 2, 4).balanced_accuracy()
        0.7
        """
        return (self.recall() + self.specificity()) / 2

    def g_mean(self) -> float:
        """Compute the geometric mean of recall and specificity (Liu et al. 2022, §5).

        It lies in [0, 1], where 0 means that all items of one class were judged wrongly. It is undefined unless both
        classes are present.

        >>> round(Confusion(3, 1, 2, 4).g_mean(), 4)
        0.6928
        """
        return sqrt(self.recall() * self.specificity())

    def mcc(self) -> float:
        """Compute the Matthews correlation coefficient of labels and decisions (Matthews 1975).

        It lies in [-1, 1], where 0 is chance level and 1 means that all decisions are right. It is 0 if everything or
        nothing is flagged, and undefined unless both classes are present.

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
