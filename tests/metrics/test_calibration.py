"""Calibration against scikit-learn, thresholds by trying them all."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import _SigmoidCalibration, calibration_curve
from sklearn.isotonic import IsotonicRegression

from veridical.core.errors import InputError
from veridical.core.types import check_threshold
from veridical.metrics import UndefinedMetricError, calibration, response

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
    bars = calibration.reliability(labels, scores)
    assert [bar.rate for bar in bars] == pytest.approx(rate)
    assert [bar.score for bar in bars] == pytest.approx(mean)


def test_ece_by_hand():
    # bins of width 1/2: {0.1, 0.5} with labels 0, 1: |0.3 - 0.5| = 0.2; {0.9} with label 1: 0.1; (2 * 0.2 + 0.1) / 3
    assert calibration.ece([0, 1, 1], [0.1, 0.5, 0.9], bins=2) == pytest.approx(0.5 / 3)
    # equal mass, three bins of one item each: 0.1, 0.5, 0.1
    assert calibration.ece([0, 1, 1], [0.1, 0.5, 0.9], bins=3, equal_mass=True) == pytest.approx(0.7 / 3)


def test_ece_is_zero_for_scores_that_mean_what_they_say():
    assert calibration.ece([1, 0, 0, 0], [0.25] * 4) == pytest.approx(0)
    assert calibration.ece([1, 0], [0.0, 1.0]) == pytest.approx(1)


@given(ITEMS, st.booleans(), st.integers(1, 6))
def test_weights_are_copies_and_ties_share_a_bin(items, equal_mass, bins):
    labels, scores = map(np.array, zip(*items, strict=True))
    weight = np.arange(labels.size) % 3 + 1
    copies = np.repeat(np.arange(labels.size), weight)
    options = {"bins": bins, "equal_mass": equal_mass}
    ours = calibration.reliability(labels, scores, weight, **options)
    copied = calibration.reliability(labels[copies], scores[copies], **options)
    assert [(b.score, b.rate, b.weight) for b in ours] == [pytest.approx((b.score, b.rate, b.weight)) for b in copied]
    shuffled = np.random.default_rng(0).permutation(labels.size)
    again = calibration.ece(labels[shuffled], scores[shuffled], weight[shuffled], **options)
    assert again == pytest.approx(calibration.ece(labels, scores, weight, **options))


def test_equal_mass_bins_hold_equal_masses():
    bars = calibration.reliability(np.arange(100) % 2 == 0, np.linspace(0, 1, 100) ** 3, bins=5, equal_mass=True)
    assert [bar.weight for bar in bars] == [20] * 5


def test_platt_equals_scikit_learns(sample):
    labels, scores = sample
    theirs = _SigmoidCalibration().fit(scores, labels)
    ours = calibration.fit_platt(labels, scores)
    assert ours.apply(scores) == pytest.approx(theirs.predict(scores), abs=1e-4)


def test_platt_stays_finite_where_the_scores_part_the_classes():
    fitted = calibration.fit_platt([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9])
    # Platt's targets: (2 + 1) / (2 + 2) for positives, 1 / (2 + 2) for negatives; symmetric about 0.5, and at the
    # optimum residuals are orthogonal to the scores: 0.4 (p(0.1) - 1/4) + 0.3 (p(0.2) - 1/4) = 0
    assert fitted.apply([0.5])[0] == pytest.approx(0.5, abs=1e-6)
    assert fitted.apply([0.1, 0.2]) @ [0.4, 0.3] == pytest.approx(0.7 * 0.25, abs=1e-6)


def test_platt_does_not_overflow():
    assert calibration.Platt(1e6, 0.0).apply([-1.0, 0.0, 1.0]).tolist() == [0.0, 0.5, 1.0]


def test_isotonic_equals_scikit_learn(sample):
    labels, scores = sample
    theirs = IsotonicRegression(out_of_bounds="clip").fit(scores, labels)
    ours = calibration.fit_isotonic(labels, scores)
    at = np.linspace(-0.5, 1.5, 301)
    assert ours.apply(at) == pytest.approx(theirs.predict(at), abs=1e-12)


@pytest.mark.parametrize("fit", [calibration.fit_platt, calibration.fit_isotonic])
def test_calibrators_improve_go_through_json_and_need_two_classes(fit, sample):
    labels, scores = sample
    fitted = fit(labels, scores)
    assert response.brier(labels, fitted.apply(scores)) < response.brier(labels, scores)
    assert calibration.calibrator(json.loads(json.dumps(fitted.parameters()))) == fitted
    with pytest.raises(UndefinedMetricError, match="both classes"):
        fit([1, 1], [0.1, 0.2])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"kind": "beta"},
        {"kind": "platt", "slope": "1", "intercept": 0},
        {"kind": "isotonic", "scores": [0.5, 0.1], "probabilities": [0, 1]},
        {"kind": "isotonic", "scores": [], "probabilities": []},
    ],
)
def test_what_is_no_calibrator_is_refused(parameters):
    with pytest.raises(InputError):
        calibration.calibrator(parameters)


def tried(items, measure):
    """The best value of `measure` over all observed scores, and the highest score that has it."""
    labels, scores = map(np.array, zip(*items, strict=True))
    values = {cut: measure(labels, scores >= cut) for cut in sorted(set(scores.tolist()))}
    best = max(values.values())
    return max(cut for cut, value in values.items() if value == pytest.approx(best, abs=1e-12))


@given(ITEMS)
def test_thresholds_are_the_best_there_are(items):
    labels, scores = zip(*items, strict=True)
    assert calibration.threshold_for_f1(labels, scores) == tried(items, response.f1)
    chosen = calibration.threshold_for_balanced_accuracy(labels, scores)
    assert chosen == tried(items, response.balanced_accuracy)
    assert check_threshold(chosen) == chosen


def test_rounding_does_not_break_a_tie():
    # from 0.1: 5/6 - 1/2; from 0.25: 2/6 - 0: both 1/3, but not as floats
    labels, scores = [0, 0, 1, 1, 1, 1, 1, 1], [0.0, 0.1, 0.0, 0.1, 0.1, 0.1, 0.25, 0.25]
    assert calibration.threshold_for_balanced_accuracy(labels, scores) == 0.25


@given(ITEMS, st.sampled_from([0.2, 0.5, 0.8, 1.0]))
def test_a_wanted_precision_is_reached_at_the_lowest_score(items, wanted):
    labels, scores = map(np.array, zip(*items, strict=True))
    good = [c for c in sorted(set(scores.tolist())) if response.precision(labels, scores >= c) >= wanted]
    if good:
        assert calibration.threshold_for_precision(labels, scores, wanted) == good[0]
    else:
        with pytest.raises(UndefinedMetricError, match="the best is"):
            calibration.threshold_for_precision(labels, scores, wanted)


def test_the_middle_of_the_class_means_is_the_same_seen_from_the_probability_of_being_right():
    labels, scores = [0, 0, 1, 1, 1], np.array([0.1, 0.3, 0.5, 0.9, 1.0])
    # means 0.2 and 0.8
    assert calibration.threshold_between_means(labels, scores) == pytest.approx(0.5)
    right = 1 - scores
    assert 1 - calibration.threshold_between_means(labels, right) == pytest.approx(0.5)


def test_flagging_everything_is_in_reach():
    labels, scores = [1, 1, 1, 0], [0.0, 0.0, 1.0, 0.0]
    assert calibration.threshold_for_f1(labels, scores) == 0.0  # F1 6/7; from 1.0 it is 1/2


def test_no_threshold_separates_anything_where_all_scores_are_zero():
    with pytest.raises(UndefinedMetricError, match="all scores are 0"):
        calibration.threshold_for_f1([0, 1], [0.0, 0.0])
