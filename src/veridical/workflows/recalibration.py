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
    """A sample of scored and labelled items. An item is a sentence that a person decided about, for example.

    Attributes:
        labels: True for each item that is wrong. *Shape:* (items,)
        scores: The detector's scores, in [0, 1]. *Shape:* (items,)
        weights: How many items of the population each sampled item represents, above 0 (the inverse of its probability
            of being sampled). *Shape:* (items,)
        documents: The name of each item's document. Items of one document get into the same fold. *Shape:* (items,)
    """

    labels: Bools
    scores: Floats
    weights: Floats
    documents: np.ndarray


@dataclass(frozen=True, slots=True)
class Gain:
    """The improvement of a metric by a fit, with its 95% interval (paired bootstrap over documents).

    Attributes:
        metric: The name of the metric, such as "balanced accuracy" or "Brier score".
        before: The value without the fit.
        after: The cross-fitted value with the fit.
        gain: The improvement. It is positive if the fit is better, even for metrics for which lower is better.
        low: The lower end of the interval of `gain`.
        high: The upper end of the interval of `gain`.
    """

    metric: str
    before: float
    after: float
    gain: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """True if the whole interval is above 0, so that the improvement is hardly due to chance."""
        return self.low > 0.0


@dataclass(frozen=True, slots=True)
class Recalibration:
    """The result of `recalibrate`: the gains from a new threshold and a new calibration, and what to keep of them.

    Attributes:
        threshold: The gain in balanced accuracy by the fitted threshold.
        probabilities: The gain in the Brier score by calibrating the scores. None if you did not ask for it, or if
            wrong items do not have higher scores than the others.
        scale: The threshold to use (the fitted one if its gain is clear, see `Gain.is_clear`, else the present one) and
            the fitted calibration (if its gain is clear). With a calibration, the threshold is for calibrated scores.
            None if neither gain is clear.
    """

    threshold: Gain
    probabilities: Gain | None
    scale: Scale | None


def recalibrate(
    sample: LabelledScores, threshold: float, *, probabilities: bool = True, seed: int = 0
) -> Recalibration:
    """Fit a threshold for balanced accuracy and Platt's curve for probabilities, and keep each if it is clearly better.

    Both are compared with the present threshold and scores, on documents that they were not fitted on.

    Args:
        sample: The labelled scores.
        threshold: The present threshold, in [0, 1].
        probabilities: If true, also calibrate the scores to probabilities. Set it to False if a score is not about the
            labelled item as a whole, such as the highest score of a word in a labelled sentence.
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
