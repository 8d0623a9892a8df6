"""Measure the calibration of scores, by reliability curves and the expected calibration error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from veridical.metrics.calibration import BINS, bin_terms, ece_of_sums


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a reliability curve: the mean score, the proportion of positives and the number of its items."""

    score: float
    rate: float
    weight: float


def reliability(labels: ArrayLike, scores: ArrayLike) -> list[Bin]:
    """Compute a reliability curve: at most 10 bars in ascending order of score. Empty bars are left out.

    [0, 1] is divided into bins of equal width that are closed on the right (Guo et al. 2017 §2).

    >>> reliability([0, 1, 1], [0.05, 0.9, 1.0])
    [Bin(score=0.05, rate=0.0, weight=1.0), Bin(score=0.9, rate=1.0, weight=1.0), Bin(score=1.0, rate=1.0, weight=1.0)]
    """
    mass, total, hits = bin_terms(labels, scores).sum(axis=0).reshape(3, BINS)
    return [Bin(float(total[i] / mass[i]), float(hits[i] / mass[i]), float(mass[i])) for i in np.flatnonzero(mass)]


def ece(labels: ArrayLike, scores: ArrayLike) -> float:
    """Compute the expected calibration error of scores that estimate the probability of the positive class.

    The error is the mean absolute difference between the mean score and the proportion of positives over the bars of
    `reliability`, weighted by the number of items (Naeini et al. 2015). It lies in [0, 1]. At 0, the scores are
    calibrated. At 1, they are always certain and always wrong.

    >>> round(ece([0, 1, 1], [0.05, 0.9, 1.0]), 4)
    0.05
    """
    return ece_of_sums(bin_terms(labels, scores).sum(axis=0))
