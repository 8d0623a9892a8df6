"""Decisions, probabilities and ranking against scikit-learn and scipy, and where they have no value."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics as oracle
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.arrays import value
from veridical.metrics import UndefinedMetricError, ranking
from veridical.metrics.confusion import Confusion
from veridical.records.errors import InputError

CLOSE = {"rel": 1e-9, "abs": 1e-9}
SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5000001, 0.9, 1.0])
ITEMS = st.lists(st.tuples(st.booleans(), SCORES, st.integers(0, 3)), min_size=2, max_size=40).filter(
    lambda items: {label for label, _, w in items if w} == {True, False}
)


@pytest.fixture(scope="module")
def sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(7)
    labels = generator.random(500) < 0.3
    scores = np.clip(generator.normal(0.4 + 0.2 * labels, 0.2), 0, 1).round(2)  # with ties
    return labels, scores, generator.integers(0, 4, 500)


@given(ITEMS)
def test_ranking_and_probabilities_equal_scikit_learn(items):
    labels, scores, weight = map(np.array, zip(*items, strict=True))
    assert ranking.roc_auc(labels, scores, weight) == pytest.approx(
        oracle.roc_auc_score(labels, scores, sample_weight=weight), **CLOSE
    )
    assert ranking.average_precision(labels, scores, weight) == pytest.approx(
        oracle.average_precision_score(labels, scores, sample_weight=weight), **CLOSE
    )
    assert value("brier", labels, scores, weight) == pytest.approx(
        oracle.brier_score_loss(labels, scores, sample_weight=weight), **CLOSE
    )


@given(ITEMS)
def test_decisions_equal_scikit_learn(items):
    labels, scores, weight = map(np.array, zip(*items, strict=True))
    flagged = scores >= 0.5
    options = {"sample_weight": weight}
    assert value("accuracy", labels, flagged, weight) == pytest.approx(
        oracle.accuracy_score(labels, flagged, **options), **CLOSE
    )
    for positive in (True, False):
        options = {"sample_weight": weight, "pos_label": positive, "zero_division": np.nan}
        for name, theirs in (
            ("precision", oracle.precision_score),
            ("recall", oracle.recall_score),
            ("f1", oracle.f1_score),
        ):
            ours = partial(value, name if positive else f"negative_{name}")
            expected = theirs(labels, flagged, **options)
            if np.isnan(expected):
                with pytest.raises(UndefinedMetricError):
                    ours(labels, flagged, weight)
            else:
                assert ours(labels, flagged, weight) == pytest.approx(expected, **CLOSE)
    assert value("balanced_accuracy", labels, flagged, weight) == pytest.approx(
        oracle.balanced_accuracy_score(labels, flagged, sample_weight=weight), **CLOSE
    )


def test_a_weight_is_a_number_of_copies(sample):
    labels, scores, weight = sample
    copies = np.repeat(np.arange(labels.size), weight)
    functions = (ranking.roc_auc, ranking.average_precision, partial(value, "brier"), partial(value, "bss"))
    for function in functions:
        assert function(labels, scores, weight) == pytest.approx(function(labels[copies], scores[copies]), **CLOSE)


def test_the_area_is_the_chance_of_the_right_order(sample):
    labels, scores, _ = sample
    difference = scores[labels][:, None] - scores[~labels][None, :]
    assert ranking.roc_auc(labels, scores) == pytest.approx(((difference > 0) + (difference == 0) / 2).mean(), **CLOSE)


def test_g_mean_by_hand_and_as_in_the_hades_tables():
    # 4 positives, 3 found; 5 negatives, 2 left alone: sqrt(3/4 * 2/5)
    labels = [1] * 4 + [0] * 5
    flagged = [1, 1, 1, 0, 1, 1, 1, 0, 0]
    assert value("g_mean", labels, flagged) == pytest.approx(np.sqrt(0.3))
    # tables 2 and 3: recall of both classes, G-Mean
    rows = [(72.08, 51.24, 60.77), (71.29, 72.61, 71.95), (80.13, 63.60, 71.39), (77.29, 65.19, 70.98)]
    for negatives, positives, printed in rows:
        counts = Confusion(positives, 100 - negatives, 100 - positives, negatives)
        assert 100 * counts.g_mean() == pytest.approx(printed, abs=0.015)


def test_what_the_hades_tables_call_bss_is_the_brier_score():
    # (accuracy, recall of "not", recall of "hallucination") give the base rate of the test set: 0.472 in each row
    for accuracy, negatives, positives in [(62.25, 72.08, 51.24), (72.33, 80.13, 63.60), (71.58, 77.29, 65.19)]:
        rate = (accuracy - negatives) / (positives - negatives)
        assert rate == pytest.approx(0.472, abs=0.001)
    area = [78.63, 78.72, 78.93, 77.71, 78.83, 77.07, 76.59]
    printed = [19.06, 18.78, 18.79, 19.13, 18.66, 19.77, 19.76]
    assert np.corrcoef(area, printed)[0, 1] == pytest.approx(-0.95, abs=0.005)  # a skill score would rise with the area
    skill = 1 - 0.1906 / (0.472 * 0.528)
    assert skill == pytest.approx(0.235, abs=0.001)


def test_brier_skill_is_zero_at_the_base_rate_and_negative_below():
    labels = [1, 0, 0, 0]
    assert value("bss", labels, [0.25] * 4) == pytest.approx(0)
    assert value("bss", labels, labels) == 1
    assert value("bss", labels, [1.0] * 4) == pytest.approx(1 - 0.75 / (0.25 * 0.75))


@given(st.lists(st.integers(0, 4), max_size=30))
def test_ranks_equal_those_of_scipy(values):
    assert ranking.ranks(values) == pytest.approx(scipy.stats.rankdata(values))


def test_f1_with_positives_on_one_side_only_is_zero_and_with_none_undefined():
    assert value("f1", [1, 0], [0, 0]) == 0
    assert value("f1", [0, 0], [1, 0]) == 0
    with pytest.raises(UndefinedMetricError, match="no positives"):
        value("f1", [0, 0], [0, 0])


@pytest.mark.parametrize("function", [ranking.roc_auc, ranking.average_precision, partial(value, "bss")])
@pytest.mark.parametrize("label", [True, False])
def test_one_class_has_no_ranking(function, label):
    with pytest.raises(UndefinedMetricError, match="both classes"):
        function([label, label, not label], [0.1, 0.5, 0.3], [1, 2, 0])


@pytest.mark.parametrize(
    "labels, scores, weight, message",
    [
        ([1, 0], [0.1, float("nan")], None, "1 of 2 scores are not finite"),
        ([1, 0], [0.1, float("inf")], None, "not finite"),
        ([], [], None, "nothing to measure"),
        ([1, 0], [0.1, 0.2], [0, 0], "nothing to measure"),
        ([1, 0], [0.1], None, "2 labels for 1 scores"),
        ([1, 2], [0.1, 0.2], None, "other than true and false"),
        (["a", "b"], [0.1, 0.2], None, "other than true and false"),
        ([1, 0], [0.1, 0.2], [1], "1 weights for 2 items"),
        ([1, 0], [0.1, 0.2], [1, -1], "a weight is -1"),
        ([[1, 0]], [0.1, 0.2], None, "2 dimensions"),
    ],
)
def test_what_cannot_be_measured_is_said(labels, scores, weight, message):
    with pytest.raises(InputError, match=message):
        ranking.roc_auc(labels, scores, weight)


def test_a_probability_out_of_range_is_refused():
    with pytest.raises(InputError, match=r"run from 0\.2 to 1\.5"):
        value("brier", [1, 0], [1.5, 0.2])


def test_no_true_negatives_no_accuracy():
    with pytest.raises(UndefinedMetricError, match="true negatives"):
        Confusion(1, 1, 1).accuracy()
    with pytest.raises(UndefinedMetricError, match="no gold negatives"):
        Confusion(1, 0, 1, 0).balanced_accuracy()
