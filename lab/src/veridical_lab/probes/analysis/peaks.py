"""Find the sublayer where a metric peaks, and the first sublayer that reaches 95 % of the peak, with an interval.

This follows CH-Wang et al. 2024, §6.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from veridical.datasets.split import document_of
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.significance import bootstrap
from veridical_lab.bench.evaluation import Evaluation
from veridical_lab.metrics.registry import METRICS
from veridical_lab.probes.analysis.results import At, Peak
from veridical_lab.probes.analysis.sublayer_probes import (
    METRIC_NAMES,
    SUBLAYER_TYPES,
    ProbeSubset,
    SublayerProbes,
)

SHARE = 0.95


def peaks_of(
    analysis: str,
    fitted: SublayerProbes,
    evaluations: Sequence[tuple[ProbeSubset, Evaluation]],
    baseline: Evaluation,
    at: At,
    *,
    types: Sequence[str] = (*SUBLAYER_TYPES, "all"),
) -> list[Peak]:
    """Find the peak over sublayers of each type, for the paper's metric and for an area under the curve.

    Args:
        analysis: The name of the analysis.
        fitted: The probes of all sublayers.
        evaluations: The evaluations of these probes on the same examples. Evaluations of ensembles are ignored.
        baseline: The evaluation, on the same examples, of a baseline that flags everything.
        at: The place of the peaks in plots and tables.
        types: The types of sublayers.

    Returns:
        A peak for each metric and type for which it is defined. Peaks are found on the test part, as in the paper, so
        they are optimistic. `Peak.chosen` is the sublayer that is best on the validation part.
    """
    single = [(subset, evaluation) for subset, evaluation in evaluations if subset.sublayer is not None]
    first_metric, *_, area = METRIC_NAMES[fitted.probes.objective]
    peaks = []
    for metric in (first_metric, area):
        for sublayer_type in types:
            chosen = [(s, e) for s, e in single if sublayer_type in (s.sublayer_type, "all")]
            if chosen:
                peak = _peak(metric, fitted, chosen, baseline)
                if peak is not None:
                    peaks.append(replace(peak, analysis=analysis, half=sublayer_type, at=at))
    return peaks


def first_to_reach(values: Sequence[float], start: float = 0.0) -> int:
    """Return the index of the first value that covers `SHARE` of the way from `start` to the highest value.

    >>> first_to_reach([0.5, 0.96, 1.0]), first_to_reach([0.5, 0.96, 1.0], 0.5)
    (1, 2)
    """
    target = start + SHARE * (max(values) - start)
    return next(i for i, value in enumerate(values) if value >= target - 1e-12)


class _Curve:
    """Computes a metric for each sublayer, with weights for documents."""

    def __init__(self, name: str, evaluations: Sequence[Evaluation]) -> None:
        self.metric = METRICS[name]
        documents = [document_of(example) for example in evaluations[0].data.examples]
        index = {document: i for i, document in enumerate(dict.fromkeys(documents))}
        self.documents = list(index)
        self.tables: list[tuple[Floats, np.ndarray]] = []  # rows, and the document of each
        self.n = 0
        for evaluation in evaluations:
            pairs = zip(evaluation.data.examples, evaluation.judgements, strict=True)
            rows = [self.metric.rows(e, j, evaluation.threshold_for(self.metric)) for e, j in pairs]
            counted = [(r, index[d]) for r, d in zip(rows, documents, strict=True) if r is not None]
            if not counted:
                raise UndefinedMetricError(f"{name} is not defined: no case counts")
            self.n = len(counted)
            row_documents = np.concatenate([np.full(len(r), d, dtype=np.int64) for r, d in counted])
            self.tables.append((np.concatenate([r for r, _ in counted]), row_documents))

    def values(self, weight: Floats | None = None) -> list[float]:
        """Compute the metric of each evaluation. `weight` gives the weight of each document. Default: 1."""
        weight = np.ones(len(self.documents)) if weight is None else weight
        return [self.metric.value(table, weight[row_documents]) for table, row_documents in self.tables]


def _peak(
    metric: str,
    fitted: SublayerProbes,
    chosen: Sequence[tuple[ProbeSubset, Evaluation]],
    baseline: Evaluation,
) -> Peak | None:
    """Find the peak of `metric` over single probes, or None if it is undefined. The caller adds the place."""
    config = fitted.config
    sublayers = [fitted.probes.sublayers[subset.indices[0]] for subset, _ in chosen]
    best = int(np.argmax([fitted.f1[subset.indices[0]] for subset, _ in chosen]))
    try:
        curve = _Curve(metric, [evaluation for _, evaluation in chosen])
        values = curve.values()
    except UndefinedMetricError:
        return None
    floor: float | None = None
    with suppress(UndefinedMetricError):
        floor = _Curve(metric, [baseline]).values()[0]
    low: float | None = None
    high: float | None = None
    with suppress(UndefinedMetricError):  # an undefined interval is left out
        low, high = bootstrap(
            lambda weight: float(first_to_reach(curve.values(weight))),
            curve.documents,
            resamples=config.resamples,
            seed=config.options.seed,
            level=config.level,
        )
    above = None if floor is None or max(values) <= floor else sublayers[first_to_reach(values, floor)]
    return Peak(
        analysis="",
        data=baseline.data.name,
        data_hash=baseline.data.hash,
        objective=fitted.probes.objective,
        metric=metric,
        half="all",
        at={},
        peak=max(values),
        peak_sublayer=sublayers[int(np.argmax(values))],
        share=SHARE,
        first=sublayers[first_to_reach(values)],
        low=None if low is None else sublayers[int(np.floor(low))],
        high=None if high is None else sublayers[int(np.ceil(high))],
        floor=floor,
        first_above_floor=above,
        chosen=sublayers[best],
        chosen_value=values[best],
        n=curve.n,
        resamples=config.resamples,
        seed=config.options.seed,
        command=config.command,
    )
