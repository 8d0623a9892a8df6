"""Test whether two detectors differ on the same cases.

Areas under ROC curves are compared by Hanley and McNeil's test, and other metrics by paired permutation tests. Each
pair of detectors is compared on the characters that both judged. P-values are also given with Bonferroni's correction
for the number of pairs, for hallucinations and omissions together (Chang et al. 2024, §5.1, §5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from veridical.io.serialization import read_documents
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.measure import FunctionOfSums, resampled_values
from veridical.metrics.significance import bonferroni, percentile_interval
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spans import intersection
from veridical.records.types import Case, Judgement, SourceSpan, judged_source_spans, judged_spans
from veridical_lab.bench.evaluation import Evaluation, evaluate, load_all
from veridical_lab.bench.settings import BenchSettings, load_data
from veridical_lab.metrics.areas import hanley_mcneil
from veridical_lab.metrics.pairs import pair_outcomes
from veridical_lab.metrics.permutation import (
    permutation_accuracy,
    permutation_f1,
    permutation_f1_counts,
    permutation_of_sums,
    permutation_sum,
)
from veridical_lab.metrics.registry import METRICS

DEFAULT_METRICS = (
    "accuracy",
    "f1",
    "roc_auc",
    "pair_accuracy",
    "token_f1",
    "f1_sp",
    "word_roc_auc",
    "coverage_roc_auc",
    "source_word_roc_auc",
)


@dataclass(frozen=True, slots=True)
class DetectorComparison:
    """Two detectors compared by one metric, on the `n` cases that count for both.

    `difference` is the value of `b` minus the value of `a`, with a paired bootstrap interval from `low` to `high`. If
    the test is undefined, `p` is None.
    """

    a: str
    b: str
    metric: str
    test: str
    value_a: float | None
    value_b: float | None
    p: float | None
    p_bonferroni: float | None
    n: int
    data: str
    split: str
    data_hash: str
    command: str
    note: str | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None


# a function that takes the rows of each case under either system, and returns the name of the test and its p-value
Test = Callable[[Sequence[Floats], Sequence[Floats]], tuple[str, float]]

_EXACT = "exact paired permutation"
_AREAS = "Hanley-McNeil"


def _decisions(test: Callable[..., float]) -> Test:
    def tested(a: Sequence[Floats], b: Sequence[Floats]) -> tuple[str, float]:
        one, two = np.concatenate(a) > 0, np.concatenate(b) > 0
        return _EXACT, test(one[:, 0], one[:, 1], two[:, 1])

    return tested


def _areas(a: Sequence[Floats], b: Sequence[Floats]) -> tuple[str, float]:
    one, two = np.concatenate(a), np.concatenate(b)
    return _AREAS, hanley_mcneil(one[:, 0] > 0, one[:, 1], two[:, 1]).p


def _pairs(a: Sequence[Floats], b: Sequence[Floats]) -> tuple[str, float]:
    one, two = (pair_outcomes(np.concatenate(rows)) for rows in (a, b))
    return _EXACT, permutation_sum(2 * one[:, 0], 2 * two[:, 0])  # outcomes are multiples of 0.5


def _counts(a: Sequence[Floats], b: Sequence[Floats]) -> tuple[str, float]:
    try:
        return _EXACT, permutation_f1_counts(*(np.concatenate(rows).astype(np.int64) for rows in (a, b)))
    except UndefinedMetricError:
        raise
    except InputError:  # too many states for the exact test
        return _sums("token_f1")(a, b)


def _sums(name: str) -> Test:
    """Make the permutation test of a metric that depends only on sums."""
    statistic = METRICS[name].statistic
    assert isinstance(statistic, FunctionOfSums)

    def tested(a: Sequence[Floats], b: Sequence[Floats]) -> tuple[str, float]:
        sums = [np.stack([statistic.terms(rows).sum(axis=0) for rows in system]) for system in (a, b)]
        result = permutation_of_sums(sums[0], sums[1], statistic.values)
        return _EXACT if result.exact else f"paired permutation, {result.assignments:,} draws", result.p

    return tested


_TESTS: Mapping[str, Test] = {
    "accuracy": _decisions(permutation_accuracy),
    "f1": _decisions(permutation_f1),
    "token_f1": _counts,
    "pair_accuracy": _pairs,
    **dict.fromkeys(("roc_auc", "word_roc_auc", "coverage_roc_auc", "source_word_roc_auc"), _areas),
}
_TESTABLE = {*_TESTS, *(name for name, metric in METRICS.items() if isinstance(metric.statistic, FunctionOfSums))}

# omission metrics, each with the hallucination metric in the same Bonferroni correction
_FAMILIES = {"coverage_roc_auc": "roc_auc", "source_word_roc_auc": "word_roc_auc"}


def compare_detectors(settings: BenchSettings) -> Iterator[list[DetectorComparison]]:
    """Compare each pair of detectors on each data set, and yield one list of comparisons per data set.

    Two detectors are compared by every metric that fits both of them.
    """
    detectors = load_all(settings)
    if len(detectors) < 2:
        raise InputError(f"{len(detectors)} detector is named", hint="a comparison takes two or more")
    names = settings.metrics or DEFAULT_METRICS
    for name in names:
        if name not in _TESTABLE:
            raise UnknownNameError("metric with a test", name, _TESTABLE)
    for spec in settings.data:
        data = load_data(spec, settings)
        evaluations = [evaluate(detector, data, settings) for detector in detectors]
        comparisons = []
        for name in names:
            fitting = [e for e in evaluations if METRICS[name].fits(e.levels, e.data.levels)]
            comparisons += [compare_pair(a, b, name, settings) for a, b in combinations(fitting, 2)]
        yield correct(comparisons)


def correct(comparisons: Sequence[DetectorComparison]) -> list[DetectorComparison]:
    """Add p-values with Bonferroni's correction for all pairs that are compared by the same metric.

    The ROC areas of omissions and hallucinations are corrected together, as if they were one metric.
    """
    families: dict[str, list[float]] = {}
    for comparison in comparisons:
        if comparison.p is not None:
            families.setdefault(_FAMILIES.get(comparison.metric, comparison.metric), []).append(comparison.p)
    corrected = {family: iter(bonferroni(values)) for family, values in families.items()}
    return [
        c if c.p is None else replace(c, p_bonferroni=next(corrected[_FAMILIES.get(c.metric, c.metric)]))
        for c in comparisons
    ]


def compare_pair(a: Evaluation, b: Evaluation, name: str, settings: BenchSettings) -> DetectorComparison:
    """Test whether two evaluations on the same cases differ, without a correction for the number of pairs.

    Args:
        a: The evaluation of one detector.
        b: The evaluation of the other detector, on the same examples in the same order.
        name: The name of a metric.
        settings: The settings for the bootstrap of the difference, and the command to record.
    """
    metric = METRICS[name]
    thresholds = a.threshold_for(metric), b.threshold_for(metric)
    rows_a: list[Floats] = []
    rows_b: list[Floats] = []
    documents: list[str | None] = []
    for example, *both in zip(a.data.examples, a.judgements, b.judgements, strict=True):
        if any(metric.rows(example, j, t) is None for j, t in zip(both, thresholds, strict=True)):
            continue
        same = _restricted(example.case, *both)
        one, two = (metric.rows(example, j, t) for j, t in zip(same, thresholds, strict=True))
        if one is not None and two is not None:
            rows_a.append(one)
            rows_b.append(two)
            documents.append(example.document)
    values: list[float | None] = [None, None]
    p, difference, low, high, note = None, None, None, None, None
    test = _AREAS if _TESTS.get(name) is _areas else "paired permutation"
    try:
        if rows_a:
            value_a, value_b = (metric.value(np.concatenate(rows)) for rows in (rows_a, rows_b))
            values, difference = [value_a, value_b], value_b - value_a
            test, p = (_TESTS[name] if name in _TESTS else _sums(name))(rows_a, rows_b)
            (drawn_a, drawn_b), count = resampled_values(
                metric,
                (rows_a, rows_b),
                documents,
                resamples=settings.resamples,
                seed=settings.seed,
                level=settings.level,
            )
            low, high = percentile_interval(drawn_b - drawn_a, count, settings.level)
    except (UndefinedMetricError, InputError) as error:
        note = error.message
    return DetectorComparison(
        a=a.name,
        b=b.name,
        metric=name,
        test=test,
        value_a=values[0],
        value_b=values[1],
        p=p,
        p_bonferroni=None,
        n=len(rows_a),
        data=a.data.name,
        split=a.data.split,
        data_hash=a.data.hash,
        command=settings.command,
        note=note,
        difference=difference,
        low=low,
        high=high,
    )


def _restricted(case: Case, a: Judgement, b: Judgement) -> tuple[Judgement, Judgement]:
    """Restrict both judgements to the characters that they both cover."""
    if a.judged is not None or b.judged is not None:
        shared = tuple(intersection(judged_spans(case, a), judged_spans(case, b)))
        a, b = replace(a, judged=shared), replace(b, judged=shared)
    if a.judged_sources is not None or b.judged_sources is not None:
        one, two = judged_source_spans(case, a), judged_source_spans(case, b)
        shared_sources = tuple(SourceSpan(id, span) for id in one for span in intersection(one[id], two[id]))
        a, b = replace(a, judged_sources=shared_sources), replace(b, judged_sources=shared_sources)
    return a, b


def read_comparisons(path: Path) -> list[DetectorComparison]:
    """Read the comparisons in a file.

    Raises:
        DataError: A line is not a comparison.
    """
    hint = "comparisons are written by `veridical bench compare --out`"
    return [comparison for _, comparison in read_documents(path, "comparison", hint=hint)]


def without_repeats(comparisons: Iterable[DetectorComparison]) -> list[DetectorComparison]:
    """Remove comparisons that were made twice, with the same command on the same data.

    The later comparison is kept, in the place of the first.
    """
    figures: dict[str, Any] = dict.fromkeys(
        ("value_a", "value_b", "p", "p_bonferroni", "note", "difference", "low", "high")
    )
    return list({replace(each, n=0, **figures): each for each in comparisons}.values())
