"""Compute metrics and their confidence intervals.

Every metric first converts each case to rows of numbers, such as one row of label and score for each response, and then
computes one value from all rows. A bootstrap sample of documents only changes the weights of the rows. A case that
cannot be measured, because it was not judged or has no labels, has None instead of rows (see `alignment` and
`coverage`).

Before you measure, call `Metric.fits` with the levels of the detector and of the data set. Judgements alone do not show
whether a detector scores the level of the metric, or whether the data set has labels for this level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridical.metrics import UndefinedMetricError
from veridical.metrics.alignment import as_decided
from veridical.metrics.arrays import Floats, as_weight
from veridical.metrics.significance import draw_documents, percentile_interval
from veridical.records.errors import InputError
from veridical.records.types import DEFAULT_THRESHOLD, Example, Judgement, Level, Thresholds, check_threshold

Project: TypeAlias = Callable[[Example, Judgement, float], "Floats | None"]

_DRAWN_WEIGHTS = 4_000_000  # the most weights held at once while a ranking metric is resampled, about 32 MB

# for each level of a metric: levels of which a detector must score at least one, and a data set label at least one
METRIC_LEVELS: dict[str, tuple[set[Level], set[str]]] = {
    "response": ({Level.RESPONSE, Level.SPAN}, {"response", "span", "pair"}),
    "pair": ({Level.RESPONSE, Level.SPAN}, {"pair"}),
    "token": ({Level.SPAN}, {"span"}),
    "character": ({Level.SPAN}, {"span"}),
    "span": ({Level.SPAN}, {"span"}),
    "coverage": ({Level.COVERAGE, Level.SOURCE}, {"coverage"}),
    "source": ({Level.SOURCE}, {"coverage"}),
}


class Statistic(Protocol):
    """Computes the value of a metric from rows of numbers (`Metric.rows`), and its values in bootstrap samples."""

    def value(self, rows: Floats, weight: Floats) -> float:
        """Compute the value of the metric over `rows`, where a row of weight 2 counts as two equal rows.

        *Shape:* `rows` is (n, columns), and `weight` is (n,).

        Raises:
            UndefinedMetricError: The metric has no value on these rows.
        """
        ...

    def resampled(self, rows: Floats, document: NDArray[np.int64], times: Floats) -> Floats:
        """Compute the value in each bootstrap sample of documents.

        Row i belongs to document `document[i]`, which counts `times[s, document[i]]` times in sample s. The result has
        *shape* (samples,). It is NaN for samples in which the value is undefined.
        """
        ...


@dataclass(frozen=True, slots=True)
class FunctionOfSums:
    """A statistic that is computed from sums over the rows.

    Accuracy is an example: the rows are (label, flagged), and the sums are the four counts of the confusion matrix.

    Attributes:
        terms: A function that converts rows, *shape* (n, columns), to the summands of each row, *shape* (n, k).
        formula: A function that computes the value from the k sums, or raises `UndefinedMetricError` if there is no
            value.
    """

    terms: Callable[[Floats], Floats]
    formula: Callable[[Floats], float]

    def value(self, rows: Floats, weight: Floats) -> float:
        """Compute the value of the metric over `rows`, where a row of weight 2 counts as two equal rows."""
        return float(self.formula(weight @ self.terms(rows)))

    def resampled(self, rows: Floats, document: NDArray[np.int64], times: Floats) -> Floats:
        """Compute the value in each bootstrap sample of documents, *shape* (samples,), or NaN where it is undefined.

        Row i belongs to document `document[i]`, which counts `times[s, document[i]]` times in sample s.
        """
        columns = self.terms(rows).T
        per_document = np.stack([np.bincount(document, column, minlength=times.shape[1]) for column in columns], axis=1)
        return self.values(times @ per_document)

    def values(self, sums: Floats) -> Floats:
        """Apply `formula` to each row of `sums`, which has *shape* (m, k): one row of k sums for each sample.

        The result has *shape* (m,), with NaN for undefined values.
        """
        values = np.full(len(sums), np.nan)
        for i, row in enumerate(sums):
            try:
                values[i] = self.formula(row)
            except UndefinedMetricError:
                continue
        return values


@dataclass(frozen=True, slots=True)
class RankingArea:
    """A statistic that is an area under a curve, such as ROC AUC, computed from rows of label and score.

    Attributes:
        area: A function that computes the area from labels, scores and one weight per row.
        areas: A function that computes many areas from weights of *shape* (samples, n). The area is NaN for samples in
            which all items have the same label.
    """

    area: Callable[[ArrayLike, ArrayLike, ArrayLike], float]
    areas: Callable[[ArrayLike, ArrayLike, Floats], Floats]

    def value(self, rows: Floats, weight: Floats) -> float:
        """Compute the value of the metric over `rows`, where a row of weight 2 counts as two equal rows."""
        return self.area(rows[:, 0] > 0, rows[:, 1], weight)

    def resampled(self, rows: Floats, document: NDArray[np.int64], times: Floats) -> Floats:
        """Compute the value in each bootstrap sample of documents, *shape* (samples,), or NaN where it is undefined.

        Row i belongs to document `document[i]`, which counts `times[s, document[i]]` times in sample s.
        """
        step = max(1, _DRAWN_WEIGHTS // len(rows))
        chunks = (times[start : start + step][:, document] for start in range(0, len(times), step))
        return np.concatenate([self.areas(rows[:, 0] > 0, rows[:, 1], weights) for weights in chunks])


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, such as F1 of responses. To measure it, pass the rows of each case to `measure_rows`.

    Attributes:
        name: The name of the metric, such as "f1".
        level: The items that it counts, such as "response", "token" or "source" (a key of `METRIC_LEVELS`).
        definition: What it measures, in one line.
        source: The paper that defines it.
        project: A function that converts an example, a judgement and a threshold to rows of numbers.
        statistic: Computes the value from the rows of all cases.
        low: The lowest possible value.
        high: The highest possible value.
        higher_is_better: False for errors and rates of false alarms.
        needs_threshold: False for metrics of scores, such as ROC AUC.
    """

    name: str
    level: str
    definition: str
    source: str
    project: Project
    statistic: Statistic
    low: float = 0.0
    high: float = 1.0
    higher_is_better: bool = True
    needs_threshold: bool = True

    def rows(
        self, example: Example, judgement: Judgement, threshold: float | Thresholds | None = None
    ) -> Floats | None:
        """Convert one case to rows of numbers, *shape* (k, columns), from its gold labels and a detector's judgement.

        Return None if the case cannot be measured, because it was not judged or has no labels for this metric.

        If `threshold` is a single number, it applies to scores at the metric's level. If it is a `Thresholds`, a
        response metric flags a response as `records.decide` does, by the score of the response or by a verdict. Other
        metrics use the threshold of their own level.

        Raises:
            InputError: The metric needs a threshold, but `threshold` is None.

        >>> from veridical.records.types import Case
        >>> from veridical.metrics.registry import METRICS
        >>> example = Example(Case("1", "In Rome"), Judgement("1", "human:a", hallucination=1.0))
        >>> METRICS["accuracy"].rows(example, Judgement("1", "me", hallucination=0.3), 0.5)
        array([[1., 0.]])
        """
        if self.needs_threshold and threshold is None:
            raise InputError(f"the metric {self.name!r} needs a threshold", hint="one fitted on validation data")
        if isinstance(threshold, Thresholds):
            if self.level == "response" and self.needs_threshold:
                return self.project(example, as_decided(example, judgement, threshold), 1.0)
            threshold = threshold[Level(self.level) if self.level in set(Level) else Level.SPAN]
        return self.project(example, judgement, DEFAULT_THRESHOLD if threshold is None else check_threshold(threshold))

    def value(self, rows: ArrayLike, weight: ArrayLike | None = None) -> float:
        """Compute the metric over the rows of all cases (`Metric.rows`). A row of weight 2 counts as two equal rows.

        *Shape:* `rows` is (n, columns), and `weight` is (n,).

        Raises:
            UndefinedMetricError: The metric has no value on these rows.

        >>> from veridical.metrics.registry import METRICS
        >>> METRICS["accuracy"].value([[1, 0], [1, 1]], weight=[1, 3])
        0.75
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim != 2 or not len(table):
            raise UndefinedMetricError(f"{self.name} is not defined: no case counts")
        return self.statistic.value(table, as_weight(weight, len(table)))

    def fits(self, detector: Collection[str], data: Collection[str]) -> bool:
        """Return whether the metric can be computed for a detector on a data set.

        `detector` are the levels that the detector scores, and `data` the levels that the data set labels.

        >>> from veridical.metrics.registry import METRICS
        >>> METRICS["f1"].fits(["coverage"], ["span"]), METRICS["f1"].fits(["span"], ["span"])
        (False, True)
        """
        scored, labelled = METRIC_LEVELS[self.level]
        return not scored.isdisjoint(map(Level, detector)) and not labelled.isdisjoint(data)


@dataclass(frozen=True, slots=True)
class Measured:
    """The value of a metric over `n` cases, with its confidence interval from `low` to `high`.

    If the value is undefined, `value` is None. If there is no interval, `low` and `high` are None. In both cases,
    `note` says why.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    note: str | None = None


def interval(
    metric: Metric,
    rows_per_case: Sequence[Floats | None],
    documents: Sequence[Hashable],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Compute the percentile bootstrap interval of a metric by resampling documents (`significance.bootstrap`).

    Documents without any measurable case are never drawn.

    Args:
        metric: The metric to measure.
        rows_per_case: The result of `Metric.rows` for each case: its rows, or None if it cannot be measured.
        documents: The document of each case. None makes the case a document of its own.
        resamples: The number of bootstrap samples, 1 or more.
        seed: The seed of the random samples. The same seed gives the same interval.
        level: The confidence level of the interval, in (0, 1).

    Returns:
        The lower and the upper bound.

    Raises:
        UndefinedMetricError: No case can be measured, there is only one document, or the metric is undefined in more
            than a tenth of the samples.

    >>> from veridical.metrics.registry import METRICS
    >>> interval(METRICS["accuracy"], [np.array([[1.0, 1.0]]), None, np.array([[1.0, 0.0]])], ["a", "a", "b"])
    (0.0, 1.0)
    """
    (values,), count = resampled_values(metric, [rows_per_case], documents, resamples=resamples, seed=seed, level=level)
    return percentile_interval(values, count, level)


def resampled_values(
    metric: Metric,
    systems: Sequence[Sequence[Floats | None]],
    documents: Sequence[Hashable],
    *,
    resamples: int,
    seed: int,
    level: float,
) -> tuple[list[Floats], int]:
    """Compute the metric of several systems in the same bootstrap samples, so that their values can be compared.

    Args:
        metric: The metric to measure.
        systems: For each system, the result of `Metric.rows` for each case.
        documents: The document of each case. None makes the case a document of its own.
        resamples: The number of bootstrap samples, 1 or more.
        seed: The seed of the random samples.
        level: The confidence level of the interval that you will compute. It is only checked.

    Returns:
        The values of each system, *shape* (resamples,), and the number of documents from which samples are drawn.

    Raises:
        UndefinedMetricError: A system has no case that can be measured, or there is only one document.
    """
    for rows_per_case in systems:
        if len(rows_per_case) != len(documents):
            raise InputError(f"{len(rows_per_case)} cases, {len(documents)} documents")
    names = [("case", i) if name is None else ("document", name) for i, name in enumerate(documents)]
    counted = [
        [(rows, name) for rows, name in zip(rows_per_case, names, strict=True) if rows is not None]
        for rows_per_case in systems
    ]
    if not all(counted):
        raise UndefinedMetricError(f"{metric.name} is not defined: no case counts")
    drawn = dict.fromkeys(name for of_system in counted for rows, name in of_system if len(rows))
    index = {name: i for i, name in enumerate(drawn)}
    times = draw_documents(len(index), resamples=resamples, seed=seed, level=level)
    values = []
    for of_system in counted:
        document = np.array([index[name] for rows, name in of_system for _ in range(len(rows))], dtype=np.int64)
        table = np.concatenate([rows for rows, _ in of_system])
        values.append(metric.statistic.resampled(table, document, times))
    return values, len(index)


def measure_rows(
    metric: Metric,
    rows_per_case: Sequence[Floats | None],
    documents: Sequence[Hashable],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Measured:
    """Compute a metric over the rows of all cases (`Metric.rows`), and its bootstrap interval over documents.

    Args:
        metric: The metric to measure.
        rows_per_case: The result of `Metric.rows` for each case: its rows, or None if it cannot be measured.
        documents: The document of each case. None makes the case a document of its own.
        resamples: The number of bootstrap samples, 1 or more.
        seed: The seed of the random samples. The same seed gives the same interval.
        level: The confidence level of the interval, in (0, 1).

    Returns:
        The value, its interval, and the number of cases that could be measured. An undefined value or interval is None,
        and a note says why.

    >>> from veridical.metrics.registry import METRICS
    >>> measure_rows(METRICS["accuracy"], [np.array([[1.0, 1.0]]), None], ["a", "b"])
    Measured(value=1.0, low=None, high=None, n=1, note='no interval: one document only')
    """
    counted = [rows for rows in rows_per_case if rows is not None]
    if not counted:
        return Measured(None, note="no case counts: not judged, or not labelled for it")
    try:
        value = float(metric.value(np.concatenate(counted)))
    except UndefinedMetricError as error:
        return Measured(None, n=len(counted), note=error.message)
    try:
        low, high = interval(metric, rows_per_case, documents, resamples=resamples, seed=seed, level=level)
    except UndefinedMetricError as error:
        return Measured(value, n=len(counted), note=f"no interval: {error.message}")
    return Measured(value, low, high, len(counted))
