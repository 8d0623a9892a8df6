"""Run detectors over data sets and make result rows. Judging is timed and journalled; figures come after it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from veridical.bench.journal import Journal
from veridical.bench.rows import Figure, Row
from veridical.core.decide import THRESHOLD, check_threshold, unjudged
from veridical.core.errors import CannotJudgeError, DataError, InputError, UnknownNameError
from veridical.core.types import Detector, Example, Judgement, check_judgement
from veridical.datasets import load_reader, read
from veridical.datasets.split import content_hash
from veridical.detectors import load_detector
from veridical.metrics import UndefinedMetricError
from veridical.metrics.catalogue import METRICS, Metric, interval

__all__ = ["Settings", "load", "run"]

BATCH = 64
# what a metric looks at -> what a detector must score for it to mean anything
NEEDS = {"response": "response", "token": "span", "character": "span", "span": "span", "coverage": "coverage"}
# … and what a data set must label for it
LABELS = {
    "response": {"response", "span", "token", "pair"},
    "token": {"span", "token", "pair"},
    "character": {"span", "token", "pair"},
    "span": {"span", "token", "pair"},
    "coverage": {"coverage"},
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What to run. `data` are NAME:PATH specs; `metrics` None takes all that fit the detector and the data."""

    detectors: Sequence[str]
    data: Sequence[str]
    metrics: Sequence[str] | None = None
    group_by: Sequence[str] = ()
    split: str | None = None
    threshold: float | None = None
    skip_bad: bool = False
    resamples: int = 1000
    level: float = 0.95
    seed: int = 0
    command: str = ""
    journal: Path | None = None
    progress: Callable[[str, int, int], None] = field(default=lambda label, done, total: None)


@dataclass(frozen=True, slots=True)
class Loaded:
    """One data set in memory: its name, examples, hash, what it labels, and how many rows were skipped."""

    name: str
    examples: list[Example]
    hash: str
    levels: tuple[str, ...]
    skipped: int


def load(spec: str, settings: Settings) -> Loaded:
    """The examples of NAME:PATH; `DataError` if there are none, or two share an id."""
    bad: list[DataError] = []
    examples = list(read(spec, settings.split, on_bad=bad.append if settings.skip_bad else None))
    name, _, path = spec.partition(":")
    if not examples:
        raise DataError("no examples in it", path=path, hint=f"{len(bad)} rows were skipped" if bad else None)
    ids = [example.case.id for example in examples]
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise DataError(f"the case id {twice!r} stands twice", path=path)
    return Loaded(name, examples, content_hash(examples), load_reader(name).INFO.levels, len(bad))


def run(settings: Settings, known: Mapping[str, list[Row]] | None = None) -> Iterator[list[Row]]:
    """The rows of each detector on each data set: one for all of it, then one a group.

    A unit that is in `known` is given back as it stands there, without judging anything.
    """
    detectors = [load_detector(spec) for spec in settings.detectors]
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
        *(detector.name, getattr(detector, "threshold", None), data.name, data.hash, settings.split),
        *(settings.metrics and list(settings.metrics), list(settings.group_by), settings.threshold),
        *(settings.resamples, settings.level, settings.seed, version("veridical")),
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _rows(unit: str, detector: Detector, data: Loaded, settings: Settings) -> list[Row]:
    groups: list[tuple[str | None, list[int]]] = [(None, list(range(len(data.examples))))]
    for key in settings.group_by:
        groups += _groups(data.examples, key)
    metrics = _metrics(detector, data, settings)
    judgements, seconds = _judge(detector, data, settings)
    share = seconds / len(data.examples)
    return [
        _row(
            unit,
            detector,
            data,
            settings,
            group,
            [(data.examples[i], judgements[i]) for i in picked],
            metrics,
            share,
        )
        for group, picked in groups
    ]


def _groups(examples: Sequence[Example], key: str) -> list[tuple[str | None, list[int]]]:
    found: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        value = dict(example.group).get(key)
        if value is not None:
            found.setdefault(f"{key}={value}", []).append(i)
    if not found:
        known = sorted({name for example in examples for name, _ in example.group})
        raise UnknownNameError("group", key, known)
    return sorted(found.items())


def _judge(detector: Detector, data: Loaded, settings: Settings) -> tuple[list[Judgement], float]:
    """All judgements and the seconds that they took, a journalled run's earlier seconds included."""
    label = f"{detector.name} on {data.name}"
    folder = settings.journal
    journal = Journal.open(folder, detector.name, data.name, data.hash) if folder else None
    judgements = list(journal.judgements) if journal else []
    seconds = journal.seconds if journal else 0.0
    cases = [example.case for example in data.examples]
    for at in range(len(judgements), len(cases), BATCH):
        settings.progress(label, at, len(cases))
        batch = cases[at : at + BATCH]
        begun = time.perf_counter()
        made = detector.judge(batch)
        spent = time.perf_counter() - begun
        if len(made) != len(batch):
            raise CannotJudgeError(f"detector {detector.name!r} gave {len(made)} judgements for {len(batch)} cases")
        for case, judgement in zip(batch, made, strict=True):
            check_judgement(case, judgement)
        if journal:
            journal.add(made, spent)
        judgements += made
        seconds += spent
    settings.progress(label, len(cases), len(cases))
    return judgements, seconds


def _metrics(detector: Detector, data: Loaded, settings: Settings) -> dict[str, Metric]:
    scored = set(getattr(detector, "levels", ("response", "span", "coverage")))
    fits = {
        name: metric
        for name, metric in METRICS.items()
        if NEEDS[metric.level] in scored and LABELS[metric.level] & set(data.levels)
    }
    if settings.metrics is None:
        return fits
    wanted = {name: METRICS[name] for name in settings.metrics if name in fits}
    if not wanted:
        raise InputError(
            f"none of the metrics {', '.join(settings.metrics)} fits {detector.name} on {data.name}",
            hint=f"these do: {', '.join(fits) or 'none'}",
        )
    return wanted


def _row(
    unit: str,
    detector: Detector,
    data: Loaded,
    settings: Settings,
    group: str | None,
    picked: list[tuple[Example, Judgement]],
    metrics: dict[str, Metric],
    seconds_a_case: float,
) -> Row:
    own = getattr(detector, "threshold", None)
    threshold = check_threshold(settings.threshold or own or THRESHOLD)
    return Row(
        unit=unit,
        detector=detector.name,
        data=data.name,
        split=settings.split or "all",
        group=group,
        n=len(picked),
        documents=len({_document(example) for example, _ in picked}),
        not_judged=sum(j.judged == () or bool(unjudged(e.case, j)) for e, j in picked),
        skipped=data.skipped,
        data_hash=data.hash,
        threshold=threshold,
        threshold_from="command" if settings.threshold else "detector" if own else "default",
        metrics={name: _figure(metric, picked, threshold, settings) for name, metric in metrics.items()},
        seconds=round(seconds_a_case * len(picked), 4),
        peak_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        level=settings.level,
        resamples=settings.resamples,
        seed=settings.seed,
        command=settings.command,
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{os.cpu_count()} x {platform.machine()} {sys.platform}",
        versions={
            "veridical": version("veridical"),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
    )


def _document(example: Example) -> str:
    return example.document or example.case.id


def _figure(
    metric: Metric, picked: Sequence[tuple[Example, Judgement]], threshold: float, settings: Settings
) -> Figure:
    """The metric over the cases that count, with its interval by document; undefined is said, never made up."""
    rows, documents = [], []
    for example, judgement in picked:
        part = metric.rows(example, judgement, threshold)
        if part is not None:
            rows.append(part)
            documents.append(_document(example))
    if not rows:
        return Figure(None, note="no case counts: not judged, or not labelled for it")
    try:
        value = metric.value(np.concatenate(rows))
    except UndefinedMetricError as error:
        return Figure(None, n=len(rows), note=error.message)
    low, high = interval(
        metric, rows, documents, resamples=settings.resamples, seed=settings.seed, level=settings.level
    )
    return Figure(float(value), float(low), float(high), len(rows))
