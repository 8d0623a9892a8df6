"""Calibrators against scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from tests.metrics.arrays import value
from veridical.metrics import UndefinedMetricError
from veridical.metrics.calibrators import Platt, calibrator, fit_isotonic, fit_platt
from veridical.records.errors import InputError


@pytest.fixture(scope="module")
def sample():
    generator = np.random.default_rng(3)
    scores = generator.random(400).round(3)
    return generator.random(400) < scores**2, scores


def test_platt_equals_scikit_learns(sample):
    labels, scores = sample
    theirs = _SigmoidCalibration().fit(scores, labels)
    ours = fit_platt(labels, scores)
    assert ours.apply(scores) == pytest.approx(theirs.predict(scores), abs=1e-4)


def test_platt_stays_finite_where_the_scores_part_the_classes():
    fitted = fit_platt([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9])
    # Platt's targets: (2 + 1) / (2 + 2) for positives, 1 / (2 + 2) for negatives; symmetric about 0.5, and at the
    # optimum residuals are orthogonal to the scores: 0.4 (p(0.1) - 1/4) + 0.3 (p(0.2) - 1/4) = 0
    assert fitted.apply([0.5])[0] == pytest.approx(0.5, abs=1e-6)
    assert fitted.apply([0.1, 0.2]) @ [0.4, 0.3] == pytest.approx(0.7 * 0.25, abs=1e-6)


def test_platt_does_not_overflow():
    assert Platt(1e6, 0.0).apply([-1.0, 0.0, 1.0]).tolist() == [0.0, 0.5, 1.0]


def test_isotonic_equals_scikit_learn(sample):
    labels, scores = sample
    theirs = IsotonicRegression(out_of_bounds="clip").fit(scores, labels)
    ours = fit_isotonic(labels, scores)
    at = np.linspace(-0.5, 1.5, 301)
    assert ours.apply(at) == pytest.approx(theirs.predict(at), abs=1e-12)


@pytest.mark.parametrize("fit", [fit_platt, fit_isotonic])
def test_calibrators_improve_go_through_json_and_need_two_classes(fit, sample):
    labels, scores = sample
    fitted = fit(labels, scores)
    assert value("brier", labels, fitted.apply(scores)) < value("brier", labels, scores)
    assert calibrator(json.loads(json.dumps(fitted.parameters()))) == fitted
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
        {"kind": "isotonic", "scores": [0.1, 0.5], "probabilities": [-1, 7]},
    ],
)
def test_what_is_no_calibrator_is_refused(parameters):
    with pytest.raises(InputError):
        calibrator(parameters)
