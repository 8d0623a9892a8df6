"""Reliability and calibration error against scikit-learn and by hand."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from veridical_lab.metrics.reliability import ece, reliability


def test_reliability_equals_scikit_learn():
    generator = np.random.default_rng(3)
    scores = generator.random(400).round(3)
    labels = generator.random(400) < scores**2
    rate, mean = calibration_curve(labels, scores, n_bins=10)
    bars = reliability(labels, scores)
    assert [bar.rate for bar in bars] == pytest.approx(rate)
    assert [bar.score for bar in bars] == pytest.approx(mean)
    assert sum(bar.weight for bar in bars) == 400


def test_ece_by_hand():
    # {0.11, 0.19} with labels 0, 1: |0.15 - 0.5| = 0.35; {0.9} with label 1: 0.1; (2 * 0.35 + 0.1) / 3
    assert ece([0, 1, 1], [0.11, 0.19, 0.9]) == pytest.approx(0.8 / 3)
    assert ece([1, 0, 0, 0], [0.25] * 4) == pytest.approx(0)
    assert ece([1, 0], [0.0, 1.0]) == pytest.approx(1)
