"""Measure how well scores match probabilities, with reliability curves and the expected calibration error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridical.metrics.arrays import Floats, as_probabilities, labels_and_scores
from veridical.metrics.calibration import BINS
from veridical.records.errors import InputError

__all__ = ["Bin", "ece", "reliability"]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a reliability curve: the mean score, the proportion of positives and the total weight of its items."""

    score: float
    rate: float
    weight: float


def reliability(
    labels: ArrayLike,
    scores: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    bins: int = BINS,
    equal_mass: bool = False,
) -> list[Bin]:
    """Compute a reliability curve: at most `bins` bars in ascending order of score. Empty bars are left out.

    By default, [0, 1] is divided into bins of equal width that are closed on the right (Guo et al. 2017 §2). If you set
    `equal_mass`, the bins have equal total weight instead. Equal scores are always in the same bin.

    >>> reliability([0, 1, 1], [0.05, 0.9, 1.0], bins=2)
    [Bin(score=0.05, rate=0.0, weight=1.0), Bin(score=0.95, rate=1.0, weight=2.0)]
    """
    gold, score, w = labels_and_scores(labels, as_probabilities(scores), weight)
    if bins < 1:
        raise InputError(f"{bins} bins", hint="1 or more")
    bin_of = _equal_mass(score, w, bins) if equal_mass else np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], score)
    mass, total, hits = (np.bincount(bin_of, values, minlength=bins) for values in (w, w * score, w * gold))
    return [Bin(float(total[i] / mass[i]), float(hits[i] / mass[i]), float(mass[i])) for i in np.flatnonzero(mass)]


def _equal_mass(score: Floats, weight: Floats, bins: int) -> NDArray[np.int64]:
    """Find the bin of each item. Items with equal scores share a bin, chosen by the middle of their total weight."""
    _, inverse = np.unique(score, return_inverse=True)
    mass = np.bincount(inverse, weight)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    binned: NDArray[np.int64] = np.minimum((middle * bins).astype(np.int64), bins - 1)[inverse]
    return binned


def ece(
    labels: ArrayLike,
    scores: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    bins: int = BINS,
    equal_mass: bool = False,
) -> float:
    """Compute the expected calibration error of scores that are meant as probabilities of the positive class.

    In each bar of `reliability`, the mean score is compared with the proportion of positives. The error is the weighted
    mean of these differences (Naeini et al. 2015). It lies in [0, 1]. At 0 the scores are calibrated, and at 1 they are
    always sure and always wrong. For `equal_mass`, see Nixon et al. 2019.

    >>> round(ece([0, 1, 1], [0.05, 0.9, 1.0], bins=2), 4)
    0.05
    """
    bars = reliability(labels, scores, weight, bins=bins, equal_mass=equal_mass)
    return sum(bar.weight * abs(bar.score - bar.rate) for bar in bars) / sum(bar.weight for bar in bars)
