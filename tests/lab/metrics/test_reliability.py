"""Reliability and calibration error against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from veridical_lab.metrics.reliability import ece, reliability

SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
ITEMS = st.lists(st.tuples(st.booleans(), SCORES), min_size=2, max_size=30).filter(
    lambda items: len({label for label, _ in items}) == 2 and any(score for _, score in items)
)


@pytest.fixture(scope="module")
def sample():
    generator = np.random.default_rng(3)
    scores = generator.random(400).round(3)
    return generator.random(400) < scores**2, scores


def test_reliability_equals_scikit_learn(sample):
    labels, scores = sample
    rate, mean = calibration_curve(labels, scores, n_bins=10)
    bars = reliability(labels, scores)
    assert [bar.rate for bar in bars] == pytest.approx(rate)
    assert [bar.score for bar in bars] == pytest.approx(mean)


def test_ece_by_hand():
    # bins of width 1/2: {0.1, 0.5} with labels 0, 1: |0.3 - 0.5| = 0.2; {0.9} with label 1: 0.1; (2 * 0.2 + 0.1) / 3
    assert ece([0, 1, 1], [0.1, 0.5, 0.9], bins=2) == pytest.approx(0.5 / 3)
    # equal mass, three bins of one item each: 0.1, 0.5, 0.1
    assert ece([0, 1, 1], [0.1, 0.5, 0.9], bins=3, equal_mass=True) == pytest.approx(0.7 / 3)


def test_ece_is_zero_for_scores_that_mean_what_they_say():
    assert ece([1, 0, 0, 0], [0.25] * 4) == pytest.approx(0)
    assert ece([1, 0], [0.0, 1.0]) == pytest.approx(1)


@given(ITEMS, st.booleans(), st.integers(1, 6))
def test_weights_are_copies_and_ties_share_a_bin(items, equal_mass, bins):
    labels, scores = map(np.array, zip(*items, strict=True))
    weight = np.arange(labels.size) % 3 + 1
    copies = np.repeat(np.arange(labels.size), weight)
    options = {"bins": bins, "equal_mass": equal_mass}
    ours = reliability(labels, scores, weight, **options)
    copied = reliability(labels[copies], scores[copies], **options)
    assert [(b.score, b.rate, b.weight) for b in ours] == [pytest.approx((b.score, b.rate, b.weight)) for b in copied]
    shuffled = np.random.default_rng(0).permutation(labels.size)
    again = ece(labels[shuffled], scores[shuffled], weight[shuffled], **options)
    assert again == pytest.approx(ece(labels, scores, weight, **options))


def test_equal_mass_bins_hold_equal_masses():
    bars = reliability(np.arange(100) % 2 == 0, np.linspace(0, 1, 100) ** 3, bins=5, equal_mass=True)
    assert [bar.weight for bar in bars] == [20] * 5
