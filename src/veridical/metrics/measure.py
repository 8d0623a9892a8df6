"""One form for every metric, and how any of them is measured: rows of a case, the value of all rows with weights.

So one loop measures anything, and a bootstrap by document only changes weights. `rows` is None where a case does not
count (`records`, `coverage` say when). Whether a detector and a data set speak of a metric's level at all is not seen
from one judgement: ask `Metric.fits` with the levels that both declare, before any rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from veridical.core.errors import InputError
from veridical.core.types import DEFAULT_THRESHOLD, Example, Judgement, check_threshold
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats, as_weight
from veridical.metrics.significance import bootstrap

__all__ = ["Measured", "Metric", "Project", "Statistic", "interval", "measure"]

Project: TypeAlias = Callable[[Example, Judgement, float], "Floats | None"]
Statistic: TypeAlias = Callable[[Floats, Floats], float]

# What a detector has to score, and a data set to label, for a level to mean anything; either of a set is enough.
_NEEDS = {
    "response": ({"response", "span"}, {"response", "span", "token", "claim", "pair"}),
    "token": ({"span"}, {"span", "token"}),
    "character": ({"span"}, {"span", "token"}),
    "span": ({"span"}, {"span", "token"}),
    "coverage": ({"coverage"}, {"coverage"}),
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: what it is called, says and means, and its two functions (`project` for rows, `statistic` for value).

    `level` is "response", "token", "character", "span" or "coverage"; `low` and `high` are its range.
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

    def rows(self, example: Example, judgement: Judgement, threshold: float | None = None) -> Floats | None:
        """What the case adds, *shape* (k, columns), or None where it does not count; `InputError` without a threshold
        where one is needed.

        >>> from veridical.core.types import Case
        >>> from veridical.metrics.registry import METRICS
        >>> example = Example(Case("1", "In Rome"), Judgement("1", "human:a", hallucination=1.0))
        >>> METRICS["accuracy"].rows(example, Judgement("1", "me", hallucination=0.3), 0.5)
        array([[1., 0.]])
        """
        if self.needs_threshold and threshold is None:
            raise InputError(f"the metric {self.name!r} needs a threshold", hint="one fitted on validation data")
        return self.project(example, judgement, DEFAULT_THRESHOLD if threshold is None else check_threshold(threshold))

    def value(self, rows: ArrayLike, weight: ArrayLike | None = None) -> float:
        """The metric over rows *(n, columns)*, each counted `weight` times; `UndefinedMetricError` where it has none.

        >>> from veridical.metrics.registry import METRICS
        >>> METRICS["accuracy"].value([[1, 0], [1, 1]], weight=[1, 3])
        0.75
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim != 2 or not len(table):
            raise UndefinedMetricError(f"{self.name} is not defined: no case counts")
        return self.statistic(table, as_weight(weight, len(table)))

    def fits(self, detector: Collection[str], data: Collection[str]) -> bool:
        """Whether it can be measured, given the `levels` that a detector scores and those that a data set labels.

        >>> from veridical.metrics.registry import METRICS
        >>> METRICS["f1_sp"].fits(["response"], ["span"]), METRICS["f1"].fits(["span"], ["token"])
        (False, True)
        """
        scored, labelled = _NEEDS[self.level]
        return not scored.isdisjoint(detector) and not labelled.isdisjoint(data)


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric's value, its interval, how many cases counted, and how many were not judged (by either side)."""

    value: float
    low: float
    high: float
    counted: int
    not_judged: int


def interval(
    metric: Metric,
    rows_per_case: Sequence[Floats | None],
    documents: Sequence[Hashable],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """The percentile bootstrap interval of `metric` under resampling of documents (`significance.bootstrap`).

    `documents[i]` names the document of case i, None = the case is its own. Only documents with a case that counts
    are drawn from.

    >>> from veridical.metrics.registry import METRICS
    >>> interval(METRICS["accuracy"], [np.array([[1.0, 1.0]]), None, np.array([[1.0, 0.0]])], ["a", "a", "b"])
    (0.0, 1.0)
    """
    if len(rows_per_case) != len(documents):
        raise InputError(f"{len(rows_per_case)} cases, {len(documents)} documents")
    own = (("case", i) if name is None else ("document", name) for i, name in enumerate(documents))
    kept = [(rows, name) for rows, name in zip(rows_per_case, own, strict=True) if rows is not None]
    if not kept:
        raise UndefinedMetricError(f"{metric.name} is not defined: no case counts")
    table = np.concatenate([rows for rows, _ in kept])
    names = [name for rows, name in kept for _ in range(len(rows))]
    value = partial(metric.value, table)
    return bootstrap(value, names, resamples=resamples, seed=seed, level=level)


def measure(
    metric: Metric,
    examples: Sequence[Example],
    judgements: Sequence[Judgement],
    *,
    threshold: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Measured:
    """`metric` over paired examples and judgements, with its 95 % interval by document.

    >>> from veridical.core.types import Case
    >>> from veridical.metrics.registry import METRICS
    >>> examples = [Example(Case(i, "a"), Judgement(i, "human:a", hallucination=float(i))) for i in "01"]
    >>> judgements = [Judgement("0", "me", hallucination=0.2), Judgement("1", "me", judged=())]
    >>> measure(METRICS["accuracy"], examples, judgements, threshold=0.5)
    Measured(value=1.0, low=1.0, high=1.0, counted=1, not_judged=1)
    """
    if len(examples) != len(judgements):
        raise InputError(f"{len(examples)} examples, {len(judgements)} judgements")
    rows = [metric.rows(e, j, threshold) for e, j in zip(examples, judgements, strict=True)]
    kept = [found for found in rows if found is not None]
    if not kept:
        raise UndefinedMetricError(f"{metric.name} is not defined: none of {len(rows)} cases counts")
    value = metric.value(np.concatenate(kept))
    low, high = interval(metric, rows, [e.document for e in examples], resamples=resamples, seed=seed)
    return Measured(value, low, high, len(kept), len(rows) - len(kept))
