"""Whether scores are probabilities: reliability curves and the expected calibration error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridical.core.errors import InputError
from veridical.metrics.arrays import Floats, as_probabilities, labels_and_scores

__all__ = [
    "Bin",
    "bin_terms",
    "ece",
    "ece_of_sums",
    "reliability",
]

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a reliability curve: the mean score in it, the share of positives, and the weight it holds."""

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
    """The reliability curve: at most `bins` bars by ascending score, empty ones left out.

    Bins are of equal width over [0, 1], closed on the right (Guo et al. 2017 §2), or of equal mass; equal scores
    always share a bin.

    >>> reliability([0, 1, 1], [0.05, 0.9, 1.0], bins=2)
    [Bin(score=0.05, rate=0.0, weight=1.0), Bin(score=0.95, rate=1.0, weight=2.0)]
    """
    gold, score, w = labels_and_scores(labels, as_probabilities(scores), weight)
    if bins < 1:
        raise InputError(f"{bins} bins", hint="1 or more")
    where = _equal_mass(score, w, bins) if equal_mass else np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], score)
    mass, total, hits = (np.bincount(where, values, minlength=bins) for values in (w, w * score, w * gold))
    return [Bin(float(total[i] / mass[i]), float(hits[i] / mass[i]), float(mass[i])) for i in np.flatnonzero(mass)]


def _equal_mass(score: Floats, weight: Floats, bins: int) -> NDArray[np.int64]:
    """The bin of each item: where the middle of the weight that shares its score lies."""
    _, place = np.unique(score, return_inverse=True)
    mass = np.bincount(place, weight)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    binned: NDArray[np.int64] = np.minimum((middle * bins).astype(np.int64), bins - 1)[place]
    return binned


def ece(
    labels: ArrayLike,
    scores: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    bins: int = BINS,
    equal_mass: bool = False,
) -> float:
    """The expected calibration error, the weighted mean gap between score and share of positives over `reliability`'s
    bars: [0, 1], 0 = scores are the share of positives (in each bar), 1 = always sure and wrong; lower is better.

    Naeini et al. 2015, for the probability of the positive class; `equal_mass` as Nixon et al. 2019.

    >>> round(ece([0, 1, 1], [0.05, 0.9, 1.0], bins=2), 4)
    0.05
    """
    bars = reliability(labels, scores, weight, bins=bins, equal_mass=equal_mass)
    return sum(bar.weight * abs(bar.score - bar.rate) for bar in bars) / sum(bar.weight for bar in bars)


def bin_terms(labels: ArrayLike, scores: ArrayLike) -> Floats:
    """What each item adds to the sums that `ece` (10 bins of equal width) is made of, *shape* (items, 30).

    The sums are, for each bin: the weight, the scores, the positives.
    """
    gold, score, _ = labels_and_scores(labels, as_probabilities(scores))
    terms = np.zeros((gold.size, 3, BINS))
    bin_of = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], score)
    terms[np.arange(gold.size), :, bin_of] = np.column_stack([np.ones(gold.size), score, gold])
    return terms.reshape(gold.size, -1)


def ece_of_sums(sums: Floats) -> float:
    """`ece` of the sums of `bin_terms`.

    >>> round(ece_of_sums(bin_terms([0, 1, 1], [0.05, 0.9, 1.0]).sum(axis=0)), 4)
    0.05
    """
    mass, scores, positives = sums.reshape(3, -1)
    return float(np.abs(scores - positives).sum() / mass.sum())
