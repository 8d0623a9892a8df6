"""Test whether two areas under ROC curves on the same cases differ.

All p-values are two-sided. A small p-value means that the result would be unlikely if there were no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats, labels_and_scores
from veridical.metrics.ranking import ranks, roc_auc
from veridical.records.errors import InputError


@dataclass(frozen=True, slots=True)
class AreaTest:
    """The result of testing whether two areas under ROC curves on the same cases differ.

    `z` is positive if the first area is larger. `p` is two-sided, in [0, 1]. `correlation` is the correlation of both
    areas, in [-1, 1]: 0 if they vary independently, and 1 if they vary together.
    """

    area_a: float
    area_b: float
    correlation: float
    z: float
    p: float


def hanley_mcneil(labels: ArrayLike, scores_a: ArrayLike, scores_b: ArrayLike) -> AreaTest:
    """Test whether two areas under ROC curves on the same cases differ (Hanley & McNeil 1983; Chang et al. 2024, §5.1).

    The standard error of each area A is computed as in Hanley & McNeil 1982, with Q1 = A / (2 - A) and Q2 = 2 A² / (1 +
    A). For the correlation r of the areas, the Pearson correlation of the two systems' scores is computed within each
    class. The mean of both correlations and the mean area are then passed to `area_correlation`. The test is undefined
    if all items have the same label, or if the standard error of the difference is 0 but the areas differ.

    >>> test = hanley_mcneil([1, 1, 1, 0, 0, 0], [0.9, 0.8, 0.4, 0.5, 0.2, 0.1], [0.6, 0.3, 0.5, 0.4, 0.7, 0.1])
    >>> round(test.area_a, 3), round(test.area_b, 3), round(test.p, 2)
    (0.889, 0.556, 0.24)
    """
    gold, a, b = _paired(labels, scores_a, scores_b)
    areas = roc_auc(gold, a), roc_auc(gold, b)
    within = [_pearson(a[side], b[side]) for side in (gold, ~gold)]
    r = area_correlation(sum(within) / 2, sum(areas) / 2)
    positives, negatives = int(gold.sum()), int((~gold).sum())
    errors = []  # the standard error of each area
    for area in areas:
        q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
        spread = area * (1 - area) + (positives - 1) * (q1 - area**2) + (negatives - 1) * (q2 - area**2)
        errors.append(sqrt(max(spread, 0.0) / (positives * negatives)))
    variance = errors[0] ** 2 + errors[1] ** 2 - 2 * r * errors[0] * errors[1]
    return _tested(areas, r, variance)


def area_correlation(rating: float, area: float) -> float:
    """Compute the correlation r of two areas under ROC curves from the correlation of their scores.

    Pass the mean correlation of the scores as `rating` and the mean area as `area`. The result replaces a look-up in
    the table of Hanley & McNeil 1983. It differs from the printed table by at most 0.015 up to an area of 0.95, and by
    at most 0.022 at 0.975.

    For two normal classes of equal spread and large samples, the covariance of the areas is proportional to P(c) - A².
    P(c) is the probability that two standard normals of correlation c are both below z, the A-quantile. Between the two
    systems, c is `rating` / 2, and within one system it is 1/2. By Plackett's identity, P(c) - A² is, up to a factor,
    the integral of exp(-z² / (1 + t)) / sqrt(1 - t²) from 0 to c.

    >>> round(area_correlation(0.5, 0.9), 2)  # the table prints 0.41
    0.42
    """
    if not (-1.0 <= rating <= 1.0 and 0.0 <= area <= 1.0):
        raise InputError(f"a correlation of {rating} and an area of {area}", hint="in [-1, 1] and [0, 1]")
    inner = min(max(area, 1e-6), 1 - 1e-6)  # the limits are finite; the quantile is not
    return _orthant(rating / 2, inner) / _orthant(0.5, inner)


def _orthant(c: float, area: float) -> float:
    z = NormalDist().inv_cdf(area)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t = (nodes + 1) / 2 * c
    return float(weights @ (np.exp(-(z**2) / (1 + t)) / np.sqrt(1 - t**2))) * c / 2


def delong(labels: ArrayLike, scores_a: ArrayLike, scores_b: ArrayLike) -> AreaTest:
    """Test whether two areas under ROC curves on the same cases differ (DeLong, DeLong & Clarke-Pearson 1988).

    Unlike `hanley_mcneil`, this test assumes nothing about the distribution of the scores. It is computed from midranks
    (Sun & Xu 2014) and needs at least two positives and two negatives.

    >>> test = delong([1, 1, 1, 0, 0, 0], [0.9, 0.8, 0.4, 0.5, 0.2, 0.1], [0.6, 0.3, 0.5, 0.4, 0.7, 0.1])
    >>> round(test.z, 3), round(test.p, 2)
    (0.866, 0.39)
    """
    gold, a, b = _paired(labels, scores_a, scores_b)
    m, n = int(gold.sum()), int((~gold).sum())
    if min(m, n) < 2:
        raise UndefinedMetricError(f"DeLong's test needs two of each class; there are {m} positives, {n} negatives")
    parts = [(ranks(s), ranks(s[gold]), ranks(s[~gold])) for s in (a, b)]
    # share of negatives below each positive, and of positives above each negative
    above = np.stack([(overall[gold] - in_class) / n for overall, in_class, _ in parts])
    below = np.stack([1 - (overall[~gold] - in_class) / m for overall, _, in_class in parts])
    covariance = np.cov(above) / m + np.cov(below) / n
    spread = sqrt(covariance[0, 0] * covariance[1, 1])
    r = float(covariance[0, 1]) / spread if spread else 0.0
    variance = float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    return _tested((float(above[0].mean()), float(above[1].mean())), r, variance)


def _paired(labels: ArrayLike, a: ArrayLike, b: ArrayLike) -> tuple[Bools, Floats, Floats]:
    gold, first, _ = labels_and_scores(labels, a)
    _, second, _ = labels_and_scores(labels, b)
    if not gold.any() or gold.all():
        raise UndefinedMetricError(f"areas need both classes; all {gold.size} labels are {bool(gold.any())}")
    return gold, first, second


def _pearson(a: Floats, b: Floats) -> float:
    """Compute Pearson's correlation, or 0 if one side is constant, which makes the test conservative."""
    x, y = a - a.mean(), b - b.mean()
    spread = sqrt(float((x @ x) * (y @ y)))
    return min(1.0, max(-1.0, float(x @ y) / spread)) if spread else 0.0


def _tested(areas: tuple[float, float], r: float, variance: float) -> AreaTest:
    a, b = areas
    if variance < 1e-15:  # 0 up to rounding
        if abs(a - b) > 1e-12:
            raise UndefinedMetricError(f"areas {a:.4g} and {b:.4g} have no spread to compare their difference with")
        return AreaTest(a, b, r, 0.0, 1.0)
    z = (a - b) / sqrt(variance)
    return AreaTest(a, b, r, z, erfc(abs(z) / sqrt(2)))
