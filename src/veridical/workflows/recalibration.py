"""Fit a new threshold and probabilities for a detector on a sample of its scores, and test whether they are better.

Every figure is cross-fitted: each document is judged by a fit on the other documents. If items enter the sample with
different probabilities, weight each item by the inverse of its probability, so that the figures hold for all items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from veridical.detectors.calibrated import Scale
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.calibrators import fit_platt
from veridical.metrics.confusion import Confusion
from veridical.metrics.significance import bootstrap
from veridical.metrics.thresholding import threshold_for_balanced_accuracy
from veridical.workflows.calibration import folds_of


@dataclass(frozen=True, slots=True, eq=False)
class LabelledScores:
    """Scores with their labels.

    Attributes:
        labels: Whether each item is wrong. *Shape:* (items,)
        scores: The detector's scores, in [0, 1]. *Shape:* (items,)
        weights: How many items each item of the sample stands for, above 0. *Shape:* (items,)
        documents: The name of each item's document. *Shape:* (items,)
    """

    labels: Bools
    scores: Floats
    weights: Floats
    documents: np.ndarray


@dataclass(frozen=True, slots=True)
class Gain:
    """A metric before and after a fit, and the improvement with its 95% interval (paired bootstrap over documents).

    A positive `gain` is always an improvement, even for metrics for which lower is better.
    """

    metric: str
    before: float
    after: float
    gain: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low > 0.0


@dataclass(frozen=True, slots=True)
class Recalibration:
    """The gains of a new fit, and the part of the fit that is worth keeping.

    Attributes:
        threshold: The balanced accuracy with the present threshold and with the fitted threshold.
        probabilities: The Brier score of the present scores and of the calibrated scores. None if you did not ask for
            it, or if wrong items do not have higher scores.
        scale: The fitted threshold, the fitted probabilities, or both: whatever is clearly better. None if neither is.
    """

    threshold: Gain
    probabilities: Gain | None
    scale: Scale | None


def recalibrate(
    sample: LabelledScores, threshold: float, *, probabilities: bool = True, seed: int = 0
) -> Recalibration:
    """Fit a threshold for balanced accuracy and Platt's curve for probabilities, and keep each if it is clearly better.

    Args:
        sample: The labelled scores.
        threshold: The present threshold, in [0, 1].
        probabilities: Whether the scores are probabilities of the labels, so that they can be calibrated.
        seed: The random seed of folds and bootstrap.

    Raises:
        UndefinedMetricError: There are too few documents, or too few items of one of the classes.
    """
    labels, weights = sample.labels, sample.weights / sample.weights.mean()  # Platt's targets count items
    flagged, fitted = np.zeros(len(labels), np.bool_), sample.scores.copy()
    folds = folds_of(sample.documents, seed)
    for fold in range(int(folds.max()) + 1):
        inside = folds == fold
        part = labels[~inside], sample.scores[~inside], weights[~inside]
        flagged[inside] = sample.scores[inside] >= threshold_for_balanced_accuracy(*part)
        if probabilities:
            fitted[inside] = fit_platt(*part).apply(sample.scores[inside])

    def measured(metric: str, value: Callable[[Floats], tuple[float, float]], sign: int) -> Gain:
        before, after = value(weights)
        low, high = bootstrap(
            lambda times: sign * float(np.subtract(*value(times * weights)[::-1])), sample.documents.tolist(), seed=seed
        )
        return Gain(metric, before, after, sign * (after - before), low, high)

    def balanced_accuracy(decisions: Bools, w: Floats) -> float:
        return Confusion.of(labels, decisions, w).balanced_accuracy()

    def brier(probability: Floats, w: Floats) -> float:
        return float(np.average((probability - labels) ** 2, weights=w))

    old = sample.scores >= threshold
    by_threshold = measured(
        "balanced accuracy", lambda w: (balanced_accuracy(old, w), balanced_accuracy(flagged, w)), 1
    )
    calibration = fit_platt(labels, sample.scores, weights) if probabilities else None
    by_probabilities = None
    if calibration is not None and calibration.slope > 0:
        by_probabilities = measured("Brier score", lambda w: (brier(sample.scores, w), brier(fitted, w)), -1)
    if by_threshold.is_clear:
        threshold = threshold_for_balanced_accuracy(labels, sample.scores, weights)
    if by_probabilities is None or not by_probabilities.is_clear:
        calibration = None
    if calibration is not None:
        threshold = float(calibration.apply([threshold])[0])
    scale = Scale(threshold, calibration) if by_threshold.is_clear or calibration is not None else None
    return Recalibration(by_threshold, by_probabilities, scale)
