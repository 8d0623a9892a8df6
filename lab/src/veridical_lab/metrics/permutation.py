"""Test whether two systems differ on the same cases by paired permutation, exactly wherever this is feasible.

Under the null hypothesis that the systems are equally good, the two outcomes of any case can be swapped. With n cases,
there are 2^n ways to swap some of them, which are called assignments. The p-value is the proportion of assignments in
which the systems differ at least as much as observed.

Accuracy and F1 depend only on sums of whole numbers. Many cases differ in the same way, so the distribution of these
sums is computed by dynamic programming over the *kinds* of difference. Each kind adds a binomial number of swaps
(Zmigrod, Vieira and Cotterell 2022; CH-Wang et al. 2024, §5.4). F1-Sp adds up fractions instead. For such values, use
`permutation_of_sums`, which computes all assignments if there are few, and otherwise draws a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats, as_labels
from veridical.records.errors import InputError

STATES = 20_000_000
DRAWS = 9_999
_CHUNK = 1000
TOLERANCE = 1e-12  # rounding errors of equal values are smaller; such values count as equally extreme

Integers = NDArray[np.int64]


def permutation_accuracy(labels: ArrayLike, predicted_a: ArrayLike, predicted_b: ArrayLike) -> float:
    """Compute the exact two-sided p-value of the difference between two accuracies, in (0, 1].

    The p-value is the proportion of assignments whose difference is at least as large as the observed one. For
    accuracy, the test is the same as the sign test on the cases that only one system gets right (the exact form of
    McNemar's test).

    >>> permutation_accuracy([1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0])  # 3 differ, all one way: 2 of 8
    0.25
    """
    gold, a, b = _three(labels, predicted_a, predicted_b)
    return permutation_sum(gold == a, gold == b)


def permutation_sum(values_a: ArrayLike, values_b: ArrayLike) -> float:
    """Compute the exact two-sided p-value of the difference between two sums (or means) of whole numbers, in (0, 1].

    `values_a` and `values_b` contain the term that each case adds to the sum of the first and the second system,
    *shape* (cases,).

    >>> permutation_sum([2, 2, 1, 0], [0, 0, 1, 0])  # 2 cases differ, both one way: 2 of 4
    0.5
    """
    a, b = (np.asarray(values).astype(np.int64) for values in (values_a, values_b))
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"values of shape {a.shape} for values of shape {b.shape}", hint="one value per case for each")
    if not a.size:
        raise UndefinedMetricError("there are no cases to compare on")
    grid, _ = _distribution(a - b, np.zeros_like(a))
    # entry k of the grid: of the total difference d = len(grid) - 1, k falls to a and d - k to b
    difference = np.abs(2 * np.arange(len(grid)) - (len(grid) - 1))
    return min(1.0, float(grid[:, 0][difference >= abs(int((a - b).sum()))].sum()))


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """A two-sided p-value, and the number of assignments from which it was computed.

    If `exact` is True, they are all possible assignments. Otherwise they were drawn at random.
    """

    p: float
    exact: bool
    assignments: int


def permutation_of_sums(sums_a: ArrayLike, sums_b: ArrayLike, values: Callable[[Floats], Floats]) -> PermutationTest:
    """Run the paired permutation test for any value that depends on sums over cases, such as F1-Sp.

    The test is exact if there are at most 9,999 assignments of the cases on which the systems differ. Otherwise, 9,999
    assignments are drawn at random, and p is (1 + number at least as extreme) / (1 + draws), which is never 0 (Phipson
    and Smyth 2010).

    Args:
        sums_a: The terms that each case adds to the k sums of the first system, *shape* (cases, k).
        sums_b: The terms that each case adds to the k sums of the second system, *shape* (cases, k).
        values: A function that turns rows of sums, *shape* (m, k), into values, *shape* (m,). Undefined values are NaN.

    Raises:
        UndefinedMetricError: The value of one system is undefined, or there are no cases.

    >>> mean = lambda sums: sums[:, 0] / sums[:, 1]
    >>> permutation_of_sums([[0.9, 1], [0.8, 1]], [[0.1, 1], [0.3, 1]], mean)
    PermutationTest(p=0.5, exact=True, assignments=4)
    """
    a, b = (np.asarray(sums, dtype=np.float64) for sums in (sums_a, sums_b))
    if a.shape != b.shape or a.ndim != 2:
        raise InputError(f"sums of shape {a.shape} for sums of shape {b.shape}", hint="one row per case for each")
    total_a, total_b = a.sum(axis=0), b.sum(axis=0)
    observed = float(np.abs(np.diff(values(np.stack([total_a, total_b]))))[0]) if len(a) else np.nan
    if np.isnan(observed):
        raise UndefinedMetricError("a value to compare is undefined")
    step = (b - a)[(a != b).any(axis=1)]
    differing = len(step)
    exact = differing < 63 and 2**differing <= DRAWS
    random = np.random.default_rng(0)
    assignments = 2**differing if exact else DRAWS
    extreme = 0
    for first in range(0, assignments, _CHUNK):
        size = min(_CHUNK, assignments - first)
        if exact:
            swapped = (np.arange(first, first + size)[:, None] >> np.arange(differing)) & 1
        else:
            swapped = random.integers(0, 2, (size, differing))
        moved = swapped @ step
        difference = np.abs(values(total_a + moved) - values(total_b - moved))
        extreme += int(np.count_nonzero(~(difference < observed - TOLERANCE)))  # undefined ones count as extreme
    p = extreme / assignments if exact else (1 + extreme) / (1 + assignments)
    return PermutationTest(p, exact, assignments)


def permutation_f1(labels: ArrayLike, predicted_a: ArrayLike, predicted_b: ArrayLike) -> float:
    """Compute the exact two-sided p-value of the difference between two F1 values (such as F1-R), in (0, 1].

    The p-value is defined as for `permutation_accuracy`. It is undefined if there are no gold positives.

    >>> permutation_f1([1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0])
    0.25
    """
    gold, a, b = _three(labels, predicted_a, predicted_b)
    rows = [np.column_stack([gold & flagged, ~gold & flagged, gold & ~flagged]) for flagged in (a, b)]
    return permutation_f1_counts(*rows)


def permutation_f1_counts(counts_a: ArrayLike, counts_b: ArrayLike) -> float:
    """Compute the exact two-sided p-value of the difference between two F1 values from each case's (tp, fp, fn).

    The p-value lies in (0, 1]. `counts_a` and `counts_b` contain whole numbers, *shape* (cases, 3), such as the rows of
    `token_f1`. A case is always swapped as a whole.

    Raises:
        InputError: The two systems have different numbers of gold positives (tp + fn) in some case, or the sums have
            more than 20,000,000 states. If there are too many states, count tokens instead of characters.
        UndefinedMetricError: There are no gold positives.

    >>> permutation_f1_counts([[2, 0, 0], [1, 1, 0]], [[0, 1, 2], [0, 0, 1]])
    0.5
    """
    a, b = _counts(counts_a), _counts(counts_b)
    if len(a) != len(b) or not np.array_equal(a[:, 0] + a[:, 2], b[:, 0] + b[:, 2]):
        raise InputError("the two systems do not have the same gold positives in each case", hint="pair them by case")
    gold = int((a[:, 0] + a[:, 2]).sum())
    if gold == 0:
        raise UndefinedMetricError("F1 cannot be compared: there are no gold positives")
    # a swap replaces a's (tp, fp) of a case by b's; b has the totals minus a's sums
    step = a[:, :2] - b[:, :2]
    grid, low = _distribution(step[:, 0], step[:, 1])
    total = (a[:, :2] + b[:, :2]).sum(axis=0)
    start = np.where((step[:, :1] < 0) | ((step[:, :1] == 0) & (step[:, 1:] < 0)), a[:, :2], b[:, :2]).sum(axis=0)
    tp = start[0] + np.arange(grid.shape[0])[:, None]
    fp = start[1] + low + np.arange(grid.shape[1])[None, :]
    observed = abs(_f1(a[:, 0].sum(), a[:, 1].sum(), gold) - _f1(b[:, 0].sum(), b[:, 1].sum(), gold))
    reached = grid > 0  # no assignment has the other pairs of sums
    tp, fp = (np.broadcast_to(sums, grid.shape)[reached] for sums in (tp, fp))
    difference = np.abs(_f1(tp, fp, gold) - _f1(total[0] - tp, total[1] - fp, gold))
    return min(1.0, float(grid[reached][difference >= observed - TOLERANCE].sum()))


def _f1(tp: Integers, fp: Integers, gold: int) -> Floats:
    value: Floats = 2 * tp / (tp + fp + gold)
    return value


def _three(labels: ArrayLike, predicted_a: ArrayLike, predicted_b: ArrayLike) -> tuple[Bools, Bools, Bools]:
    gold, a, b = as_labels(labels), as_labels(predicted_a, "predictions"), as_labels(predicted_b, "predictions")
    if not gold.size == a.size == b.size:
        raise InputError(f"{gold.size} labels for {a.size} and {b.size} predictions")
    if not gold.size:
        raise UndefinedMetricError("there are no cases to compare on")
    return gold, a, b


def _counts(counts: ArrayLike) -> Integers:
    table = np.asarray(counts)
    if table.ndim != 2 or table.shape[1] != 3:
        raise InputError(f"counts of shape {table.shape}", hint="one row (tp, fp, fn) a case")
    whole = table.astype(np.int64)
    if not np.array_equal(whole, table) or (whole < 0).any():
        raise InputError("counts are not whole numbers of 0 or more")
    return whole


def _distribution(tp: Integers, fp: Integers) -> tuple[Floats, int]:
    """Compute the distribution of the sums when each step (tp, fp) is taken with probability 1/2.

    Steps with a negative tp are negated first. Return the probabilities, *shape* (tp sums from 0, fp sums), and the
    lowest fp sum.
    """
    steps = np.column_stack([tp, fp])
    steps = np.where(((tp < 0) | ((tp == 0) & (fp < 0)))[:, None], -steps, steps)
    kinds, times = np.unique(steps[steps.any(axis=1)], axis=0, return_counts=True)
    reach = np.abs(kinds) * times[:, None]
    states = (int(reach[:, 0].sum()) + 1) * (int(reach[:, 1].sum()) + 1)
    if states > STATES:
        raise InputError(f"the sums span {states:,} states, more than {STATES:,}", hint="compare on larger units")
    grid, low = np.ones((1, 1)), 0
    for i in np.argsort(reach.sum(axis=1), kind="stable"):  # small ones first, while the grid is small
        (up, side), m = kinds[i].tolist(), int(times[i])
        wider = np.zeros((grid.shape[0] + up * m, grid.shape[1] + abs(side) * m))
        for k in range(m + 1):
            chance = comb(m, k) / (1 << m)
            column = side * k if side >= 0 else -side * (m - k)
            wider[up * k : up * k + grid.shape[0], column : column + grid.shape[1]] += chance * grid
        grid, low = wider, low + min(side, 0) * m
    return grid, low
