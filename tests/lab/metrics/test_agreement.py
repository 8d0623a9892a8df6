"""Agreement on published worked examples."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.metrics import UndefinedMetricError
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical_lab.metrics import agreement
from veridical_lab.metrics.spans import f1_sp

N = None
# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", §C: four observers, twelve units, 0.743
KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
# the example of Wikipedia's article on Fleiss' kappa: ten items, fourteen raters, five categories, 0.210
FLEISS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def test_alpha_of_the_published_example():
    assert agreement.krippendorff_alpha(KRIPPENDORFF) == pytest.approx(0.743, abs=0.0005)


def test_kappa_of_the_published_example():
    items = [[label for label, times in enumerate(row) for _ in range(times)] for row in FLEISS]
    assert agreement.fleiss_kappa(list(zip(*items, strict=True))) == pytest.approx(0.210, abs=0.0005)


@given(st.lists(st.lists(st.sampled_from([N, "a", "b", "c"]), min_size=3, max_size=3), min_size=1, max_size=6))
def test_alpha_is_one_minus_observed_over_expected_disagreement(items):
    pairable = [[label for label in item if label is not N] for item in items]
    pairable = [item for item in pairable if len(item) > 1]
    every = [label for item in pairable for label in item]
    ratings = list(zip(*items, strict=True))
    if len(set(every)) < 2:
        with pytest.raises(UndefinedMetricError):
            agreement.krippendorff_alpha(ratings)
        return
    observed = sum(sum(a != b for a, b in permutations(item, 2)) / (len(item) - 1) for item in pairable) / len(every)
    expected = sum(a != b for a, b in permutations(every, 2)) / (len(every) * (len(every) - 1))
    assert agreement.krippendorff_alpha(ratings) == pytest.approx(1 - observed / expected)


def test_perfect_and_opposed():
    assert agreement.krippendorff_alpha([[0, 1], [0, 1]]) == 1
    assert agreement.fleiss_kappa([[0, 1], [0, 1]]) == 1
    assert agreement.fleiss_kappa([[0, 1], [1, 0]]) == -1
    assert agreement.krippendorff_alpha([[0, 1], [1, 0]]) < 0


def test_span_agreement_is_the_mean_of_pairs():
    a, b, c = [[Span(0, 4)], []], [[Span(0, 4)], [Span(1, 2)]], [[], []]
    expected = (f1_sp(a, b) + 0 + 0) / 3
    assert agreement.pairwise_span_f1([a, b, c]) == pytest.approx(expected)
    assert agreement.pairwise_span_f1([a, c, c]) == 0  # the pair that marked nothing is left out


@pytest.mark.parametrize("function", [agreement.krippendorff_alpha, agreement.fleiss_kappa])
def test_one_label_everywhere_is_undefined(function):
    with pytest.raises(UndefinedMetricError, match="the same"):
        function([[1, 1, 1], [1, 1, 1]])


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InputError, match=r"items have 1, 2 labels"):
        agreement.fleiss_kappa([[1, 1], [1, N]])
    with pytest.raises(InputError, match=r"annotators have \[1, 2\] items"):
        agreement.krippendorff_alpha([[1, 1], [1]])
    with pytest.raises(UndefinedMetricError, match="no item has two labels"):
        agreement.krippendorff_alpha([[1, N], [N, 1]])
    with pytest.raises(UndefinedMetricError, match="no annotator"):
        agreement.pairwise_span_f1([[[]], [[]]])
    with pytest.raises(InputError, match="1 annotators"):
        agreement.pairwise_span_f1([[[]]])
