"""The exact permutation test against all 2^n assignments, and against scipy's binomial test."""

from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.arrays import value
from veridical.metrics import UndefinedMetricError
from veridical.records.errors import InputError
from veridical_lab.metrics import permutation

CASES = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=10)
COUNTS = st.lists(
    st.integers(0, 3).flatmap(
        lambda gold: st.tuples(st.just(gold), *[st.tuples(st.integers(0, gold), st.integers(0, 3))] * 2)
    ),
    min_size=1,
    max_size=8,
)


def by_brute_force(a: np.ndarray, b: np.ndarray, value) -> float:
    """The share of swaps of rows between `a` and `b` with a difference as large as without any."""
    observed = abs(value(a) - value(b))
    reached = [
        abs(value(np.where(swap, b, a)) - value(np.where(swap, a, b))) >= observed - 1e-12
        for swap in (np.array(bits)[:, None] for bits in product([False, True], repeat=len(a)))
    ]
    return float(np.mean(reached))


def f1_of(rows: np.ndarray) -> float:
    tp, fp, fn = rows.sum(axis=0)
    return 2 * tp / (2 * tp + fp + fn)


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_accuracy_and_f1_equal_brute_force(cases):
    labels, a, b = (np.array(column) for column in zip(*cases, strict=True))
    right = [(labels == side).astype(float)[:, None] for side in (a, b)]
    expected = by_brute_force(*right, lambda rows: rows.mean())
    assert permutation.permutation_accuracy(labels, a, b) == pytest.approx(expected, abs=1e-12)
    if labels.any():
        rows = [np.column_stack([labels & s, ~labels & s, labels & ~s]).astype(int) for s in (a, b)]
        assert permutation.permutation_f1(labels, a, b) == pytest.approx(by_brute_force(*rows, f1_of), abs=1e-12)
    else:
        with pytest.raises(UndefinedMetricError, match="no gold positives"):
            permutation.permutation_f1(labels, a, b)


@settings(max_examples=60, deadline=None)
@given(COUNTS)
def test_f1_of_counts_equals_brute_force(cases):
    a, b = (np.array([(tp, fp, g - tp) for g, *both in cases for tp, fp in [both[i]]]) for i in (0, 1))
    if not sum(g for g, *_ in cases):
        with pytest.raises(UndefinedMetricError):
            permutation.permutation_f1_counts(a, b)
        return
    assert permutation.permutation_f1_counts(a, b) == pytest.approx(by_brute_force(a, b, f1_of), abs=1e-12)
    assert permutation.permutation_f1_counts(b, a) == permutation.permutation_f1_counts(a, b)


def test_by_hand():
    # gold 1 1 1 0 0; a finds all three, b only the first; both flag the first negative.
    # The two differing cases give a's extra hits 0, 1, 1, 2 of 2; |difference| is as large for 0 and 2: p = 2/4
    labels, a, b = [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 0, 0, 1, 0]
    assert permutation.permutation_f1(labels, a, b) == 0.5
    assert permutation.permutation_accuracy(labels, a, b) == 0.5


def test_accuracy_is_the_sign_test_on_many_cases():
    generator = np.random.default_rng(0)
    labels = generator.random(2000) < 0.5
    a, b = (np.where(generator.random(2000) < right, labels, ~labels) for right in (0.75, 0.72))
    wins, losses = int(((a == labels) & (b != labels)).sum()), int(((a != labels) & (b == labels)).sum())
    expected = scipy.stats.binomtest(wins, wins + losses).pvalue
    assert permutation.permutation_accuracy(labels, a, b) == pytest.approx(expected, rel=1e-9)


def test_f1_of_two_thousand_cases_agrees_with_sampling():
    generator = np.random.default_rng(1)
    labels = generator.random(2000) < 0.4
    a, b = (np.where(generator.random(2000) < right, labels, ~labels) for right in (0.75, 0.73))
    exact = permutation.permutation_f1(labels, a, b)
    observed = abs(value("f1", labels, a) - value("f1", labels, b))
    swaps = generator.random((4000, 2000)) < 0.5

    def f1(flagged: np.ndarray) -> np.ndarray:
        tp = (flagged & labels).sum(axis=1)
        return 2 * tp / (flagged.sum(axis=1) + labels.sum())

    sampled = np.mean(np.abs(f1(np.where(swaps, a, b)) - f1(np.where(swaps, b, a))) >= observed)
    assert exact == pytest.approx(sampled, abs=4 * np.sqrt(exact * (1 - exact) / 4000))


@pytest.mark.parametrize(
    "a, b, message",
    [
        ([[1, 0, 0]], [[0, 0, 0]], "same gold positives"),
        ([[1, 0, 0]], [[1, 0, 0]] * 2, "same gold positives"),
        ([[0.5, 0, 0]], [[0.5, 0, 0]], "whole numbers"),
        ([[-1, 0, 2]], [[1, 0, 0]], "whole numbers"),
        ([1, 0, 0], [1, 0, 0], "one row"),
        ([[9000, 9000, 0]], [[0, 0, 9000]], "81,018,001 states"),
    ],
)
def test_counts_that_cannot_be_compared_are_refused(a, b, message):
    with pytest.raises(InputError, match=message):
        permutation.permutation_f1_counts(a, b)
