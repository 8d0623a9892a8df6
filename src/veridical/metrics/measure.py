"""Measure any metric in two steps: rows for each case, then one value of all rows.

One loop measures every metric, and a bootstrap by document only changes how often rows count. The rows are None if a
case does not count (`alignment` and `coverage` say when). First ask `Metric.fits` whether the detector scores, and the
data set labels, the metric's level: a single judgement does not show that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridical.core.errors import InputError
from veridical.core.types import DEFAULT_THRESHOLD, Example, Judgement, Level, Thresholds, check_threshold
from veridical.metrics import UndefinedMetricError
from veridical.metrics.alignment import as_decided
from veridical.metrics.arrays import Floats, as_weight
from veridical.metrics.significance import draw_documents, percentile_interval

__all__ = [
    "METRIC_LEVELS",
    "FunctionOfSums",
    "Measured",
    "Metric",
    "Project",
    "RankingArea",
    "Statistic",
    "difference_interval",
    "interval",
    "measure",
    "measure_rows",
]

Project: TypeAlias = Callable[[Example, Judgement, float], "Floats | None"]

_DRAWN_WEIGHTS = 4_000_000  # the most weights held at once while a ranking metric is resampled, about 32 MB

# for each level of a metric: what a detector must score and a data set must label; one item of each set is enough
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
    """Computes a metric's value from rows, once and under resampling of documents."""

    def value(self, rows: Floats, weight: Floats) -> float:
        """Compute the value of rows *(n, columns)*, each counted `weight` times; may raise `UndefinedMetricError`."""
        ...

    def resampled(self, rows: Floats, document: NDArray[np.int64], times: Floats) -> Floats:
        """Compute the value in each sample, *shape* (samples,); NaN where it is undefined.

        Row i belongs to document `document[i]`, which counts `times[s, document[i]]` times in sample s.
        """
        ...


@dataclass(frozen=True, slots=True)
class FunctionOfSums:
    """A statistic that is a function of sums over the rows.

    `terms` turns rows *(n, columns)* into their terms in the sums, *(n, k)*; `formula` turns the k sums into the value
    and raises `UndefinedMetricError` if it is undefined.
    """

    terms: Callable[[Floats], Floats]
    formula: Callable[[Floats], float]

    def value(self, rows: Floats, weight: Floats) -> float:
        """Compute the value of weighted rows."""
        return float(self.formula(weight @ self.terms(rows)))

    def resampled(self, rows: Floats, document: NDArray[np.int64], times: Floats) -> Floats:
        """Compute the value in each sample of documents."""
        columns = self.terms(rows).T
        per_document = np.stack([np.bincount(document, column, minlength=times.shape[1]) for column in columns], axis=1)
        return self.values(times @ per_document)

    def values(self, sums: Floats) -> Floats:
        """Compute the value for each row of `sums` *(m, k)*, *shape* (m,); NaN where it is undefined."""
        values = np.full(len(sums), np.nan)
        for i, row in enumerate(sums):
            try:
                values[i] = self.formula(row)
            except UndefinedMetricError:
                continue
        return values


@dataclass(frozen=True, slots=True)
class RankingArea:
    """An area under a curve over (label, score) rows.

    `area` computes it from labels, scores and one weight per row; `areas` from weights of *shape* (samples, n), with
    NaN for samples of one class only.
    """

    area: Callable[[ArrayLike, ArrayLike, ArrayLike], float]
    areas: Callable[[ArrayLike, ArrayLike, Floats], Floats]

    def value(self, rows: Floats, weight: Floats) -> float:
        """Compute the value of weighted rows."""
        return self.area(rows[:, 0] > 0, rows[:, 1], weight)

    def resampled(self, rows: Floats, document: NDArray[np.int64], times: Floats) -> Floats:
        """Compute the value in each sample of documents."""
        step = max(1, _DRAWN_WEIGHTS // len(rows))
        chunks = (times[start : start + step][:, document] for start in range(0, len(times), step))
        return np.concatenate([self.areas(rows[:, 0] > 0, rows[:, 1], weights) for weights in chunks])


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name, its definition, and its two steps (`project` makes rows, `statistic` the value).

    `level` is one of `METRIC_LEVELS`: it names the counted units and the threshold that applies to them.
    `low` and `high` are the range of the value.
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
        """Return the rows of one case, *shape* (k, columns); None if the case does not count.

        A single number applies to the scores of the metric's level. With `Thresholds`, a metric of responses flags as
        `core.decide` does, by the response's score or by a verdict; other metrics use the threshold of their level.
        Raises `InputError` if the metric needs a threshold and none is given.

        >>> from veridical.core.types import Case
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
        """Compute the metric over rows *(n, columns)*, each counted `weight` times; may raise `UndefinedMetricError`.

        >>> from veridical.metrics.registry import METRICS
        >>> METRICS["accuracy"].value([[1, 0], [1, 1]], weight=[1, 3])
        0.75
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim != 2 or not len(table):
            raise UndefinedMetricError(f"{self.name} is not defined: no case counts")
        return self.statistic.value(table, as_weight(weight, len(table)))

    def fits(self, detector: Collection[str], data: Collection[str]) -> bool:
        """Return whether the metric applies to a detector and a data set with these `levels`.

        >>> from veridical.metrics.registry import METRICS
        >>> METRICS["f1_sp"].fits(["response"], ["span"]), METRICS["f1"].fits(["span"], ["span"])
        (False, True)
        """
        scored, labelled = METRIC_LEVELS[self.level]
        return not scored.isdisjoint(map(Level, detector)) and not labelled.isdisjoint(data)


@dataclass(frozen=True, slots=True)
class Measured:
    """A value over `n` counted cases, with its interval.

    `value` is None if it is undefined, `low` and `high` are None if there is no interval; `note` then says why.
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
    """Compute the percentile bootstrap interval of `metric` by resampling documents (`significance.bootstrap`).

    Args:
        metric: The metric.
        rows_per_case: The rows of each case (`Metric.rows`), None if it does not count.
        documents: The document of each case; None = the case is a document of its own.
        resamples: The number of bootstrap samples, 1 or more.
        seed: The seed of the samples; the same seed gives the same interval.
        level: The level of the interval, in (0, 1).

    Returns:
        The lower and the upper bound. Only documents with a case that counts are drawn.

    Raises:
        UndefinedMetricError: No case counts, there is one document only, or too many samples have no value.

    >>> from veridical.metrics.registry import METRICS
    >>> interval(METRICS["accuracy"], [np.array([[1.0, 1.0]]), None, np.array([[1.0, 0.0]])], ["a", "a", "b"])
    (0.0, 1.0)
    """
    (values,), count = _resampled(metric, [rows_per_case], documents, resamples=resamples, seed=seed, level=level)
    return percentile_interval(values, count, level)


def difference_interval(
    metric: Metric,
    systems: tuple[Sequence[Floats | None], Sequence[Floats | None]],
    documents: Sequence[Hashable],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Compute the percentile interval of the second system's value minus the first's, on the same document samples.

    Arguments and errors are those of `interval`; `systems` holds the rows per case of both systems.

    >>> from veridical.metrics.registry import METRICS
    >>> right, wrong = np.array([[1.0, 1.0]]), np.array([[1.0, 0.0]])
    >>> difference_interval(METRICS["accuracy"], ([wrong, wrong], [right, right]), ["a", "b"])
    (1.0, 1.0)
    """
    values, count = _resampled(metric, systems, documents, resamples=resamples, seed=seed, level=level)
    return percentile_interval(values[1] - values[0], count, level)


def _resampled(
    metric: Metric,
    systems: Sequence[Sequence[Floats | None]],
    documents: Sequence[Hashable],
    *,
    resamples: int,
    seed: int,
    level: float,
) -> tuple[list[Floats], int]:
    """Return the values of each system in the same bootstrap samples, and the number of documents drawn from."""
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


def measure(
    metric: Metric,
    examples: Sequence[Example],
    judgements: Sequence[Judgement],
    *,
    threshold: float | Thresholds | None = None,
    documents: Sequence[Hashable] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Measured:
    """Measure `metric` over paired examples and judgements, with its interval by document.

    Args:
        metric: The metric.
        examples: The labelled cases.
        judgements: The judgement of each case, in the same order.
        threshold: The score from which an item is flagged, if the metric needs one (`Metric.rows`).
        documents: The document of each example; None = `Example.document`.
        resamples: The number of bootstrap samples, 1 or more.
        seed: The seed of the samples.
        level: The level of the interval, in (0, 1).

    Returns:
        The value, its interval, and the number of counted cases; an undefined value or interval is None, with a note.

    >>> from veridical.core.types import Case
    >>> from veridical.metrics.registry import METRICS
    >>> examples = [Example(Case(i, "a"), Judgement(i, "human:a", hallucination=float(i))) for i in "01"]
    >>> judgements = [Judgement("0", "me", hallucination=0.2), Judgement("1", "me", judged=())]
    >>> measure(METRICS["accuracy"], examples, judgements, threshold=0.5)
    Measured(value=1.0, low=None, high=None, n=1, note='no interval: one document only')
    """
    if len(examples) != len(judgements):
        raise InputError(f"{len(examples)} examples, {len(judgements)} judgements")
    rows = [metric.rows(e, j, threshold) for e, j in zip(examples, judgements, strict=True)]
    names = [example.document for example in examples] if documents is None else documents
    return measure_rows(metric, rows, names, resamples=resamples, seed=seed, level=level)


def measure_rows(
    metric: Metric,
    rows_per_case: Sequence[Floats | None],
    documents: Sequence[Hashable],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Measured:
    """Measure `metric` over rows made before; arguments as in `interval`, result as in `measure`."""
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
