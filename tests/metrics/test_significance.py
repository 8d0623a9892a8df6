"""Bootstrap intervals, against replication."""

from __future__ import annotations

import numpy as np
import pytest

from tests.metrics.arrays import value
from veridical.metrics import UndefinedMetricError, significance
from veridical.metrics.ranking import roc_auc
from veridical.records.errors import InputError


def test_an_interval_by_document_equals_copying_the_documents():
    generator = np.random.default_rng(2)
    documents = np.repeat(np.arange(20), generator.integers(1, 6, 20))
    labels, flagged = generator.random((2, documents.size)) < 0.5
    found = significance.bootstrap(
        lambda weight: value("accuracy", labels, flagged, weight), documents.tolist(), resamples=200, seed=9
    )
    again = np.random.default_rng(9)
    values = []
    for _ in range(200):
        times = again.multinomial(20, np.full(20, 1 / 20))
        items = np.concatenate([np.flatnonzero(documents == d) for d, k in enumerate(times) for _ in range(k)])
        values.append((labels[items] == flagged[items]).mean())
    assert found == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))


def test_documents_that_hang_together_widen_the_interval():
    generator = np.random.default_rng(4)
    right = np.repeat(generator.random(30) < 0.6, 10)

    def width(documents):
        low, high = significance.bootstrap(lambda w: value("accuracy", right, np.ones(300, bool), w), documents)
        return high - low

    assert width([i // 10 for i in range(300)]) > 2 * width(list(range(300)))


def test_the_seed_decides():
    def run(seed):
        return significance.bootstrap(lambda w: float(w @ np.arange(9)) / 9, list(range(9)), resamples=50, seed=seed)

    assert run(1) == run(1) != run(2)


def test_a_value_that_is_often_undefined_has_no_interval():
    labels = np.array([True] + [False] * 9)  # the one positive is missing from a third of the samples
    with pytest.raises(UndefinedMetricError, match=r"undefined in \d+ of 200 bootstrap samples of 10 documents"):
        significance.bootstrap(lambda w: roc_auc(labels, np.arange(10), w), list(range(10)), resamples=200)


@pytest.mark.parametrize("options", [{"resamples": 0}, {"level": 1.0}])
def test_nonsense_is_refused(options):
    with pytest.raises(InputError):
        significance.bootstrap(lambda _: 0.0, ["a"], **options)
    with pytest.raises(InputError):
        significance.bonferroni([1.5])


def test_an_error_of_the_callers_own_passes_through():
    def broken(_):
        raise InputError("mine")

    with pytest.raises(InputError, match="mine"):
        significance.bootstrap(broken, ["a", "b"])


def test_bonferroni():
    assert significance.bonferroni([0.001, 0.02, 0.9]) == pytest.approx([0.003, 0.06, 1.0])
