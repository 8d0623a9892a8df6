"""Result rows: every detector on every data set, as a whole and by group."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from veridical.bench.curves import curves
from veridical.bench.evaluation import Trial, identity, load_all, try_on
from veridical.bench.results import Asked, Figure, Row
from veridical.bench.settings import Loaded, Settings, load
from veridical.core.decide import unjudged
from veridical.core.detector import Detector, info_of, thresholds_of
from veridical.core.errors import InputError, UnknownNameError
from veridical.core.types import Example, Judgement, Usage
from veridical.datasets.split import document_of
from veridical.metrics import UndefinedMetricError
from veridical.metrics.measure import Metric, interval
from veridical.metrics.registry import METRICS

__all__ = ["row_of", "run"]

Pairs = Sequence[tuple[Example, Judgement]]


def run(settings: Settings, known: Mapping[str, list[Row]] | None = None) -> Iterator[list[Row]]:
    """The rows of each detector on each data set: one for all of it, then one a group.

    A unit that is in `known` is given back as it stands there, without judging anything.
    """
    detectors = load_all(settings)
    for name in settings.metrics or ():
        if name not in METRICS:
            raise UnknownNameError("metric", name, METRICS)
    for spec in settings.data:
        data = load(spec, settings)
        for detector in detectors:
            unit = _unit(detector, data, settings)
            if known and unit in known:
                yield known[unit]
            else:
                yield _rows(unit, detector, data, settings)


def _unit(detector: Detector, data: Loaded, settings: Settings) -> str:
    """A hash of all that determines the figures."""
    parts = (
        *(identity(detector), dict(thresholds_of(detector)), data.name, data.hash, data.split, settings.fit),
        *(settings.metrics and list(settings.metrics), list(settings.group_by), settings.threshold),
        *(settings.resamples, settings.level, settings.seed, version("veridical")),
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _rows(unit: str, detector: Detector, data: Loaded, settings: Settings) -> list[Row]:
    metrics = _metrics(detector, data, settings)
    groups = [("", range(len(data.examples))), *(g for key in settings.group_by for g in _groups(data.examples, key))]
    trial = try_on(detector, data, settings)
    return [row_of(unit, trial, settings, metrics, group, picked) for group, picked in groups]


def _groups(examples: Sequence[Example], key: str) -> list[tuple[str, Sequence[int]]]:
    found: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        value = dict(example.group).get(key)
        if value is not None:
            found.setdefault(f"{key}={value}", []).append(i)
    if not found:
        raise UnknownNameError("group", key, {name for example in examples for name, _ in example.group})
    return sorted(found.items())


def _metrics(detector: Detector, data: Loaded, settings: Settings) -> dict[str, Metric]:
    levels = info_of(detector).levels
    fits = {name: metric for name, metric in METRICS.items() if metric.fits(levels, data.levels)}
    if settings.metrics is None:
        return fits
    wanted = {name: METRICS[name] for name in settings.metrics if name in fits}
    if not wanted:
        raise InputError(
            f"none of the metrics {', '.join(settings.metrics)} fits {detector.name} on {data.name}",
            hint=f"these do: {', '.join(fits) or 'none'}",
        )
    return wanted


def row_of(
    unit: str, trial: Trial, settings: Settings, metrics: Mapping[str, Metric], group: str, picked: Sequence[int]
) -> Row:
    """The row of what came of a trial, on the examples `picked` by index, under the name `group` ("" for all)."""
    data = trial.data
    pairs = [(data.examples[i], trial.judgements[i]) for i in picked]
    return Row(
        unit=unit,
        detector=trial.detector.name,
        data=data.name,
        split=data.split,
        group=group or None,
        n=len(pairs),
        documents=len({document_of(example) for example, _ in pairs}),
        not_judged=sum(j.judged == () or bool(unjudged(e.case, j)) for e, j in pairs),
        skipped=data.skipped,
        data_hash=data.hash,
        thresholds=trial.thresholds,
        threshold_from=trial.threshold_from,
        metrics={name: _figure(metric, pairs, trial.thresholds, settings) for name, metric in metrics.items()},
        seconds=round(trial.seconds * len(pairs) / len(data.examples), 4),
        peak_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        level=settings.level,
        resamples=settings.resamples,
        seed=settings.seed,
        command=settings.command,
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{os.cpu_count()} x {platform.machine()} {sys.platform}",
        usage=_usage([judgement for _, judgement in pairs]),
        curves={} if group else curves(pairs),
        versions={name: version(name) for name in ("veridical", "numpy")} | {"python": platform.python_version()},
    )


def _usage(judgements: Sequence[Judgement]) -> Asked | None:
    """What the judgements cost; None where none of them says."""
    total = Usage.total(judgement.usage for judgement in judgements)
    return None if total is None else Asked(total.calls, total.prompt_tokens, total.completion_tokens, total.cost)


def _figure(metric: Metric, pairs: Pairs, thresholds: Mapping[str, float], settings: Settings) -> Figure:
    """The metric over the cases that count, with its interval by document; undefined is said, never made up."""
    threshold = thresholds[metric.level if metric.level in thresholds else "span"]
    rows = [metric.rows(example, judgement, threshold) for example, judgement in pairs]
    kept = [found for found in rows if found is not None]
    if not kept:
        return Figure(None, note="no case counts: not judged, or not labelled for it")
    documents = [document_of(example) for example, _ in pairs]
    try:
        value = float(metric.value(np.concatenate(kept)))
    except UndefinedMetricError as error:
        return Figure(None, n=len(kept), note=error.message)
    try:
        low, high = interval(
            metric, rows, documents, resamples=settings.resamples, seed=settings.seed, level=settings.level
        )
    except UndefinedMetricError as error:
        return Figure(value, n=len(kept), note=f"no interval: {error.message}")
    return Figure(value, float(low), float(high), len(kept))
