"""Are two detectors different on the same cases? Exact permutation tests for accuracy and F1, Hanley–McNeil for AUC.

Every pair of the named detectors is compared; p-values are also given after Bonferroni's correction for the number of
pairs (A §5.1, D §5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from veridical.bench.evaluation import Trial, load_all, try_on
from veridical.bench.settings import Settings, load
from veridical.core.detector import info_of
from veridical.core.errors import InputError, UnknownNameError
from veridical.core.serialization import read_documents
from veridical.metrics import UndefinedMetricError
from veridical.metrics.permutation import permutation_accuracy, permutation_f1, permutation_f1_counts
from veridical.metrics.registry import METRICS
from veridical.metrics.significance import bonferroni, hanley_mcneil

__all__ = ["TESTS", "Comparison", "compare", "pair_of", "read_comparisons"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two detectors under one metric on the `n` cases that count for both; `p` None where the test is undefined."""

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


Rows = list[np.ndarray]


def _decisions(a: Rows, b: Rows, test: Callable[..., float]) -> float:
    one, two = np.concatenate(a) > 0, np.concatenate(b) > 0
    return test(one[:, 0], one[:, 1], two[:, 1])


def _areas(a: Rows, b: Rows) -> float:
    one, two = np.concatenate(a), np.concatenate(b)
    return hanley_mcneil(one[:, 0] > 0, one[:, 1], two[:, 1]).p


# metric -> the name of its test, and the test on the rows of both
TESTS: Mapping[str, tuple[str, Callable[[Rows, Rows], float]]] = {
    "accuracy": ("exact paired permutation", lambda a, b: _decisions(a, b, permutation_accuracy)),
    "f1": ("exact paired permutation", lambda a, b: _decisions(a, b, permutation_f1)),
    "token_f1": (
        "exact paired permutation",
        lambda a, b: permutation_f1_counts(*(np.concatenate(x).astype(np.int64) for x in (a, b))),
    ),
    "roc_auc": ("Hanley-McNeil", _areas),
    "word_roc_auc": ("Hanley-McNeil", _areas),
}


def compare(settings: Settings) -> Iterator[list[Comparison]]:
    """The comparisons of all pairs of detectors, one list a data set; each metric of `TESTS` that fits both."""
    detectors = load_all(settings)
    if len(detectors) < 2:
        raise InputError(f"{len(detectors)} detector is named", hint="a comparison takes two or more")
    wanted = settings.metrics or list(TESTS)
    for name in wanted:
        if name not in TESTS:
            raise UnknownNameError("metric with a test", name, TESTS)
    for spec in settings.data:
        data = load(spec, settings)
        trials = [try_on(detector, data, settings) for detector in detectors]
        yield [comparison for metric in wanted for comparison in _all_pairs(trials, metric, settings)]


def _all_pairs(trials: list[Trial], metric: str, settings: Settings) -> list[Comparison]:
    fitting = [t for t in trials if METRICS[metric].fits(info_of(t.detector).levels, t.data.levels)]
    made = [pair_of(a, b, metric, settings) for a, b in combinations(fitting, 2)]
    raw = [comparison.p for comparison in made if comparison.p is not None]
    corrected = iter(bonferroni(raw))
    return [c if c.p is None else replace(c, p_bonferroni=next(corrected)) for c in made]


def pair_of(a: Trial, b: Trial, name: str, settings: Settings) -> Comparison:
    """Two trials on the same cases under a metric of `TESTS`; not corrected for the number of pairs."""
    metric, (test, p_value) = METRICS[name], TESTS[name]
    rows = []
    for trial in (a, b):
        threshold = trial.thresholds[metric.level if metric.level in trial.thresholds else "span"]
        pairs = zip(trial.data.examples, trial.judgements, strict=True)
        rows.append([metric.rows(example, judgement, threshold) for example, judgement in pairs])
    both = [(x, y) for x, y in zip(*rows, strict=True) if x is not None and y is not None and len(x) == len(y)]
    one, two = [x for x, _ in both], [y for _, y in both]
    values: list[float | None] = [None, None]
    p, note = None, None
    try:
        values = [metric.value(np.concatenate(side)) if side else None for side in (one, two)]
        p = p_value(one, two) if both else None
    except (UndefinedMetricError, InputError) as error:
        note = error.message
    return Comparison(
        a=a.detector.name,
        b=b.detector.name,
        metric=name,
        test=test,
        value_a=values[0],
        value_b=values[1],
        p=p,
        p_bonferroni=None,
        n=len(both),
        data=a.data.name,
        split=a.data.split,
        data_hash=a.data.hash,
        command=settings.command,
        note=note,
    )


def read_comparisons(path: Path) -> list[Comparison]:
    """The comparisons in a file; `DataError` with its line for anything else."""
    hint = "comparisons are written by `veridical bench compare --out`"
    return [comparison for _, comparison in read_documents(path, "comparison", hint=hint)]
