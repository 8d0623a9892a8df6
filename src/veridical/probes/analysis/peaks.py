"""Where a curve over sublayers peaks, and the first sublayer that reaches 95 % of that (D §6), with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from veridical.bench.evaluation import Trial
from veridical.datasets.split import document_of
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.registry import METRICS
from veridical.metrics.significance import bootstrap
from veridical.probes.analysis.dataset import Plan
from veridical.probes.analysis.probing import HALVES, Probing, Trials, headline
from veridical.probes.analysis.results import At, Peak

__all__ = ["SHARE", "peak_of", "peaks_of"]

SHARE = 0.95  # D §6


def peaks_of(
    analysis: str,
    found: Probing,
    trials: Trials,
    floor: Trial,
    plan: Plan,
    at: At,
    *,
    halves: Sequence[str] = (*HALVES, "all"),
) -> list[Peak]:
    """The peaks of attention, of feed-forward and of all, for the paper's metric and for an area under the curve."""
    single = [(view, trial) for view, trial in trials if view.mix is None]
    objective = found.probes.objective
    made = []
    for metric in (headline(objective), "roc_auc" if objective == "response" else "word_roc_auc"):
        for half in halves:
            mine = [(v, t) for v, t in single if half in (v.half, "all")]
            if not mine:
                continue
            sublayers = [found.probes.sublayers[v.places[0]] for v, _ in mine]
            chosen = int(np.argmax([found.f1[v.places[0]] for v, _ in mine]))
            peak = peak_of(analysis, metric, sublayers, [t for _, t in mine], floor, plan, chosen=chosen, at=at)
            if peak is not None:
                made.append(replace(peak, half=half, objective=objective))
    return made


class _Curve:
    """A metric by sublayer as a function of how often each document counts."""

    def __init__(self, name: str, trials: Sequence[Trial]) -> None:
        self.metric = METRICS[name]
        documents = [document_of(example) for example in trials[0].data.examples]
        place = {document: i for i, document in enumerate(dict.fromkeys(documents))}
        self.documents = list(place)
        self.tables: list[tuple[Floats, np.ndarray]] = []
        self.n = 0
        for trial in trials:
            threshold = next(iter(trial.thresholds.values()))
            pairs = zip(trial.data.examples, trial.judgements, strict=True)
            rows = [self.metric.rows(e, j, threshold) for e, j in pairs]
            kept = [(r, place[d]) for r, d in zip(rows, documents, strict=True) if r is not None]
            if not kept:
                raise UndefinedMetricError(f"{name} is not defined: no case counts")
            self.n = len(kept)
            of = np.concatenate([np.full(len(r), d, dtype=np.int64) for r, d in kept])
            self.tables.append((np.concatenate([r for r, _ in kept]), of))

    def values(self, weight: Floats) -> list[float]:
        """The metric of each trial, given a weight for each of `documents`."""
        return [self.metric.value(table, weight[of]) for table, of in self.tables]

    def first(self, values: Sequence[float], floor: float = 0.0) -> int:
        """The index of the first that covers `SHARE` of the way from `floor` to the highest."""
        wanted = floor + SHARE * (max(values) - floor)
        return next(i for i, value in enumerate(values) if value >= wanted - 1e-12)


def peak_of(
    analysis: str,
    metric: str,
    sublayers: Sequence[int],
    trials: Sequence[Trial],
    floor: Trial,
    plan: Plan,
    *,
    chosen: int = 0,
    at: At | None = None,
) -> Peak | None:
    """The peak of `metric` over the trials of `sublayers`; None where it is not defined.

    The peak is that of the test part, as in the paper, so it flatters: `chosen` (an index) is the honest choice.
    """
    try:
        curve = _Curve(metric, trials)
        values = curve.values(np.ones(len(curve.documents)))
    except UndefinedMetricError:
        return None
    low: float | None = None
    high: float | None = None
    with suppress(UndefinedMetricError):  # an interval that is not defined is left out
        low, high = bootstrap(
            lambda weight: float(curve.first(curve.values(weight))),
            curve.documents,
            resamples=plan.resamples,
            seed=plan.options.seed,
            level=plan.level,
        )
    bottom = _value(metric, floor)
    above = None if bottom is None or max(values) <= bottom else sublayers[curve.first(values, bottom)]
    data = trials[0].data
    return Peak(
        analysis,
        data.name,
        data.hash,
        objective="",
        metric=metric,
        half="all",
        at=at or {},
        peak=max(values),
        peak_sublayer=sublayers[int(np.argmax(values))],
        share=SHARE,
        first=sublayers[curve.first(values)],
        low=None if low is None else sublayers[int(np.floor(low))],
        high=None if high is None else sublayers[int(np.ceil(high))],
        floor=bottom,
        first_above_floor=above,
        chosen=sublayers[chosen],
        chosen_value=values[chosen],
        n=curve.n,
        resamples=plan.resamples,
        seed=plan.options.seed,
        command=plan.command,
    )


def _value(metric: str, trial: Trial) -> float | None:
    try:
        curve = _Curve(metric, [trial])
        return curve.values(np.ones(len(curve.documents)))[0]
    except UndefinedMetricError:
        return None
