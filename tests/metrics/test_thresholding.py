"""Thresholds by trying them all."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.arrays import value
from veridical.metrics import UndefinedMetricError
from veridical.metrics.thresholding import (
    threshold_between_means,
    threshold_for_balanced_accuracy,
    threshold_for_f1,
    threshold_for_precision,
)
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Verdict, check_threshold
from veridical_lab.metrics.thresholds import threshold_for_f1_sp

SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
ITEMS = st.lists(st.tuples(st.booleans(), SCORES), min_size=2, max_size=30).filter(
    lambda items: len({label for label, _ in items}) == 2 and any(score for _, score in items)
)


def tried(items, measure):
    """The best value of `measure` over all observed scores, and the highest score that has it."""
    labels, scores = map(np.array, zip(*items, strict=True))
    values = {cut: measure(labels, scores >= cut) for cut in sorted(set(scores.tolist()))}
    best = max(values.values())
    return between(scores, max(cut for cut, value in values.items() if value == pytest.approx(best, abs=1e-12)))


def between(scores, cut):
    """Halfway from the score `cut` to the next lower one, or to 0."""
    return (cut + max((score for score in scores if score < cut), default=0.0)) / 2


@given(ITEMS)
def test_thresholds_are_the_best_there_are(items):
    labels, scores = zip(*items, strict=True)
    assert threshold_for_f1(labels, scores) == tried(items, partial(value, "f1"))
    chosen = threshold_for_balanced_accuracy(labels, scores)
    assert chosen == tried(items, partial(value, "balanced_accuracy"))
    assert check_threshold(chosen) == chosen


def test_rounding_does_not_break_a_tie():
    # from 0.1: 5/6 - 1/2; from 0.25: 2/6 - 0: both 1/3, but not as floats
    labels, scores = [0, 0, 1, 1, 1, 1, 1, 1], [0.0, 0.1, 0.0, 0.1, 0.1, 0.1, 0.25, 0.25]
    assert threshold_for_balanced_accuracy(labels, scores) == 0.175  # flags from 0.25


@given(ITEMS, st.sampled_from([0.2, 0.5, 0.8, 1.0]))
def test_a_wanted_precision_is_reached_at_the_lowest_score(items, wanted):
    labels, scores = map(np.array, zip(*items, strict=True))
    good = [c for c in sorted(set(scores.tolist())) if value("precision", labels, scores >= c) >= wanted]
    if good:
        assert threshold_for_precision(labels, scores, wanted) == between(scores, good[0])
    else:
        with pytest.raises(UndefinedMetricError, match="the best is"):
            threshold_for_precision(labels, scores, wanted)


def test_no_score_changes_sides_where_it_is_rounded_otherwise():
    gold = Judgement("1", "human:a", verdicts=(Verdict(Span(3, 7), 1.0),))
    scored = Judgement("1", "me", verdicts=(Verdict(Span(0, 2), 0.3), Verdict(Span(3, 7), 0.6)))
    labels, scores = [0, 1], np.array([0.3, 0.6])
    for chosen in (
        threshold_for_f1(labels, scores),
        threshold_for_balanced_accuracy(labels, scores),
        threshold_for_precision(labels, scores, 1.0),
        threshold_for_f1_sp([(Example(Case("1", "In Rome"), gold), scored)]),
    ):
        assert chosen == pytest.approx(0.45)
        for rounding in (-1e-6, 1e-6):
            assert (scores + rounding >= chosen).tolist() == [False, True]


def test_neighbouring_floats_are_told_apart():
    lower = float(np.nextafter(0.5, 0.0))
    assert threshold_for_f1([0, 1], [lower, 0.5]) == 0.5


def test_the_middle_of_the_class_means_is_the_same_seen_from_the_probability_of_being_right():
    labels, scores = [0, 0, 1, 1, 1], np.array([0.1, 0.3, 0.5, 0.9, 1.0])
    # means 0.2 and 0.8
    assert threshold_between_means(labels, scores) == pytest.approx(0.5)
    right = 1 - scores
    assert 1 - threshold_between_means(labels, right) == pytest.approx(0.5)


def test_flagging_everything_is_in_reach():
    labels, scores = [1, 1, 1, 0], [0.0, 0.0, 1.0, 0.0]
    assert threshold_for_f1(labels, scores) == 0.0  # F1 6/7; from 1.0 it is 1/2


def test_no_threshold_separates_anything_where_all_scores_are_zero():
    with pytest.raises(UndefinedMetricError, match="all scores are 0"):
        threshold_for_f1([0, 1], [0.0, 0.0])
