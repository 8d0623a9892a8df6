"""The two tests of areas under ROC curves, against brute force and the printed table."""

import numpy as np
import pytest
import scipy.stats

from veridical.metrics import UndefinedMetricError
from veridical.metrics.ranking import roc_auc
from veridical_lab.metrics import areas

# entries of the table of Hanley & McNeil 1983: mean rating correlation, mean area, correlation of the areas
PRINTED = [
    (0.02, 0.700, 0.02),
    (0.10, 0.850, 0.08),
    (0.30, 0.700, 0.27),
    (0.30, 0.900, 0.23),
    (0.50, 0.700, 0.47),
    (0.50, 0.800, 0.45),
    (0.50, 0.900, 0.41),
    (0.50, 0.950, 0.37),
    (0.70, 0.750, 0.66),
    (0.70, 0.925, 0.60),
    (0.90, 0.700, 0.88),
    (0.90, 0.950, 0.84),
]


@pytest.fixture(scope="module")
def pair():
    """Labels and two correlated scores, with ties."""
    generator = np.random.default_rng(5)
    labels = generator.random(200) < 0.4
    shared = generator.normal(size=200)
    return labels, *((shared + generator.normal(size=200) + k * labels).round(1) for k in (1.5, 1.0))


@pytest.mark.parametrize("rating, area, printed", PRINTED)
def test_the_correlation_of_areas_is_the_printed_one(rating, area, printed):
    assert areas.area_correlation(rating, area) == pytest.approx(printed, abs=0.015)


def test_the_correlation_of_areas_at_its_ends():
    assert areas.area_correlation(0, 0.8) == 0
    assert areas.area_correlation(1, 0.8) == pytest.approx(1)
    assert areas.area_correlation(-0.5, 0.8) < 0
    assert 0 < areas.area_correlation(0.5, 1.0) < 0.5


def test_the_correlation_of_areas_is_that_of_the_binormal_model():
    z = scipy.stats.norm.ppf(0.8)

    def excess(c: float) -> float:
        return scipy.stats.multivariate_normal([0, 0], [[1, c], [c, 1]]).cdf([z, z]) - 0.64

    assert areas.area_correlation(0.6, 0.8) == pytest.approx(excess(0.3) / excess(0.5), abs=1e-4)


def test_hanley_mcneil_by_hand(pair):
    labels, a, b = pair
    m, n = labels.sum(), (~labels).sum()
    variances = []
    for area in (roc_auc(labels, a), roc_auc(labels, b)):
        q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
        spread = area * (1 - area) + (m - 1) * (q1 - area**2) + (n - 1) * (q2 - area**2)
        variances.append(spread / (m * n))
    rating = np.mean([np.corrcoef(a[side], b[side])[0, 1] for side in (labels, ~labels)])
    test = areas.hanley_mcneil(labels, a, b)
    r = areas.area_correlation(rating, (test.area_a + test.area_b) / 2)
    z = (test.area_a - test.area_b) / np.sqrt(sum(variances) - 2 * r * np.sqrt(np.prod(variances)))
    assert (test.z, test.correlation) == pytest.approx((z, r))
    assert test.p == pytest.approx(2 * scipy.stats.norm.sf(abs(z)))


def test_delong_equals_its_definition_by_placements(pair):
    labels, a, b = pair
    above, below = [], []
    for scores in (a, b):
        difference = scores[labels][:, None] - scores[~labels][None, :]
        right = (difference > 0) + (difference == 0) / 2
        above.append(right.mean(axis=1))
        below.append(right.mean(axis=0))
    covariance = np.cov(above) / labels.sum() + np.cov(below) / (~labels).sum()
    z = (np.mean(above[0]) - np.mean(above[1])) / np.sqrt(np.array([1, -1]) @ covariance @ [1, -1])
    test = areas.delong(labels, a, b)
    assert test.z == pytest.approx(z)
    assert test.p == pytest.approx(2 * scipy.stats.norm.sf(abs(z)))
    assert (test.area_a, test.area_b) == pytest.approx((roc_auc(labels, a), roc_auc(labels, b)))


@pytest.mark.parametrize("test", [areas.hanley_mcneil, areas.delong])
def test_both_tests_are_antisymmetric_and_agree_roughly(test, pair):
    labels, a, b = pair
    there, back, same = test(labels, a, b), test(labels, b, a), test(labels, a, a)
    assert there.z == pytest.approx(-back.z)
    assert there.p == pytest.approx(back.p)
    assert (same.z, same.p) == (0, 1)
    assert there.z == pytest.approx(areas.delong(labels, a, b).z, abs=0.6)
    with pytest.raises(UndefinedMetricError, match="both classes"):
        test([1, 1], [0.1, 0.2], [0.1, 0.3])


def test_delong_says_what_it_needs():
    with pytest.raises(UndefinedMetricError, match="1 positives, 2 negatives"):
        areas.delong([1, 0, 0], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    with pytest.raises(UndefinedMetricError, match="no spread"):
        areas.delong([1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1])
