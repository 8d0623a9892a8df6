"""Compute confidence intervals and test for significant differences.

This module has bootstrap intervals that resample documents, Wilson's interval, McNemar's test and Bonferroni's
correction. All p-values are two-sided.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import exp, lgamma, log, sqrt
from statistics import NormalDist

import numpy as np

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.records.errors import InputError

UNDEFINED_SHARE = 0.1


def bootstrap(
    value: Callable[[Floats], float],
    documents: Sequence[Hashable],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Compute a confidence interval by resampling whole documents: the percentile bootstrap of clusters.

    Items of one document are kept together, because they are not independent (Efron & Tibshirani 1993 §13.3).

    Args:
        value: A function that computes the value. It gets the weight of each item, which is how often the item occurs
            in the sample, *shape* (items,). It may raise `UndefinedMetricError`.
        documents: The document of each item.
        resamples: The number of bootstrap samples, 1 or more.
        seed: The seed of the random samples. The same seed gives the same interval.
        level: The confidence level of the interval, in (0, 1).

    Raises:
        UndefinedMetricError: There is only one document, or the value is undefined in more than a tenth of the samples.

    >>> right = np.array([1.0, 1.0, 0.0])
    >>> bootstrap(lambda weight: weight @ right / weight.sum(), ["a", "a", "b"], resamples=200)
    (0.0, 1.0)
    """
    index = {name: i for i, name in enumerate(dict.fromkeys(documents))}
    document = np.array([index[name] for name in documents], dtype=np.int64)
    values = np.full(resamples, np.nan)
    for i, times in enumerate(draw_documents(len(index), resamples=resamples, seed=seed, level=level)):
        try:
            values[i] = value(times[document])
        except UndefinedMetricError:
            continue
    return percentile_interval(values, len(index), level)


def draw_documents(count: int, *, resamples: int, seed: int, level: float = 0.95) -> Floats:
    """Draw bootstrap samples of documents, and return how often each document occurs in each sample.

    The result has *shape* (resamples, count). `count` is the number of documents. `level`, the confidence level of the
    interval that you will compute, is only checked.

    Raises:
        UndefinedMetricError: There are fewer than two documents.

    >>> draw_documents(3, resamples=2, seed=0).sum(axis=1)
    array([3., 3.])
    """
    if resamples < 1 or not 0.0 < level < 1.0:
        raise InputError(f"{resamples} resamples at level {level}", hint="1 or more, at a level between 0 and 1")
    if count < 2:
        raise UndefinedMetricError("one document only" if count else "there are no documents to draw from")
    even = np.full(count, 1 / count)
    return np.random.default_rng(seed).multinomial(count, even, size=resamples).astype(np.float64)


def percentile_interval(values: Floats, documents: int, level: float = 0.95) -> tuple[float, float]:
    """Compute the percentile confidence interval from the values of a metric in bootstrap samples.

    A value is NaN if it is undefined in its sample. `documents` is the number of documents, for the error message.

    Raises:
        UndefinedMetricError: More than a tenth of the values are undefined.

    >>> percentile_interval(np.arange(101.0), 10, level=0.5)
    (25.0, 75.0)
    """
    defined = values[~np.isnan(values)]
    missing = len(values) - len(defined)
    if missing > UNDEFINED_SHARE * len(values):
        raise UndefinedMetricError(
            f"undefined in {missing} of {len(values)} bootstrap samples of {documents} documents",
            hint="an interval needs more documents",
        )
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def wilson_interval(count: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's confidence interval (1927) of the proportion `count` / `n`, such as 3 errors in 20 items.

    The items must be independent. Both numbers may be fractions, such as effective sample sizes, and `n` must be
    positive. Both bounds lie in [0, 1].

    >>> [round(bound, 3) for bound in wilson_interval(0, 20)]
    [0.0, 0.161]
    """
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    proportion = count / n
    centre = (proportion + z2 / (2 * n)) / (1 + z2 / n)
    half = sqrt(z2 * (proportion * (1 - proportion) + z2 / (4 * n)) / n) / (1 + z2 / n)
    return max(0.0, centre - half) if count else 0.0, min(1.0, centre + half) if count < n else 1.0


def mcnemar(only_a: int, only_b: int) -> float:
    """Test whether two systems give equally many positive decisions on the same items (McNemar 1947, exact).

    `only_a` counts the items that are positive only for the first system, and `only_b` those that are positive only for
    the second. Items on which the systems agree do not matter. Return the two-sided p-value in [0, 1], which is 1 if
    the systems agree on all items.

    >>> round(mcnemar(9, 1), 4), mcnemar(0, 0)
    (0.0215, 1.0)
    """
    n = only_a + only_b
    if min(only_a, only_b) < 0:
        raise InputError(f"{only_a} and {only_b} items", hint="numbers from 0")
    tail = (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2) for k in range(min(only_a, only_b) + 1))
    return min(1.0, 2 * sum(map(exp, tail)))


def bonferroni(p_values: Sequence[float]) -> list[float]:
    """Multiply each p-value by the number of p-values, up to 1 (Bonferroni; Chang et al. 2024, §5.1).

    If there is no real difference, the chance that any of the results is below α is then at most α.

    >>> bonferroni([0.01, 0.4, 0.2])
    [0.03, 1.0, 0.6000000000000001]
    """
    for p in p_values:
        if not 0.0 <= p <= 1.0:
            raise InputError(f"{p} is not a p-value", hint="it lies in [0, 1]")
    return [min(1.0, p * len(p_values)) for p in p_values]
