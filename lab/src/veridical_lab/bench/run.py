"""Run a benchmark: measure every detector on every data set, as a whole and by group, and make result rows."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from veridical.datasets.split import document_of
from veridical.io.files import write_whole
from veridical.io.serialization import encode
from veridical.metrics.arrays import Floats
from veridical.metrics.measure import Metric, measure_rows
from veridical.records.decide import unjudged
from veridical.records.detector import Detector, Fittable, digest_of, info_of, thresholds_of
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Example, Judgement, Usage
from veridical_lab.bench.curves import curves
from veridical_lab.bench.evaluation import CASES_AT_ONCE, Evaluation, detector_identity, evaluate, load_all
from veridical_lab.bench.results import ResultRow, read_result_rows
from veridical_lab.bench.settings import BenchSettings, Loaded, load_data
from veridical_lab.metrics.registry import METRICS

Group = tuple[str | None, Sequence[int]]  # a group's name (None for all examples), and the indices of its examples


def run_bench(settings: BenchSettings, known: Mapping[str, list[ResultRow]] | None = None) -> Iterator[list[ResultRow]]:
    """Measure each detector on each data set, and yield its rows: one for the data set, then one per group.

    Args:
        settings: What to run.
        known: Rows of earlier runs, by run id. These runs are not repeated.
    """
    detectors = load_all(settings)
    for name in settings.metrics or ():
        if name not in METRICS:
            raise UnknownNameError("metric", name, METRICS)
    for spec in settings.data:
        data = load_data(spec, settings)
        for detector in detectors:
            run_id = _run_id(detector, data, settings)
            if known and run_id in known:
                yield known[run_id]
                continue
            levels = info_of(detector).levels
            fitting = {name: metric for name, metric in METRICS.items() if metric.fits(levels, data.levels)}
            metrics = {name: fitting[name] for name in settings.metrics or fitting if name in fitting}
            if settings.metrics and not metrics:
                raise InputError(
                    f"none of the metrics {', '.join(settings.metrics)} fits {detector.name} on {data.name}",
                    hint=f"these do: {', '.join(fitting) or 'none'}",
                )
            groups: list[Group] = [(None, range(len(data.examples)))]
            groups += [group for key in settings.group_by for group in _groups(data.examples, key)]
            yield result_rows(run_id, evaluate(detector, data, settings), settings, metrics, groups)


def run_to_file(settings: BenchSettings, path: Path | None, *, replace: bool = False) -> list[ResultRow]:
    """Run a benchmark, add its rows to a file of results, and return the rows.

    Rows that are already in the file are not measured again. New rows are written after each pair of a detector and a
    data set, so an interrupted run continues where it stopped. At the end, the journal is removed.

    With `replace`, new rows replace the rows of the same detector and data, which may come from an earlier version of
    the detector.
    """
    in_file = read_result_rows([path]) if path and path.exists() else []
    by_run: dict[str, list[ResultRow]] = {}
    for row in in_file:
        by_run.setdefault(row.run_id, []).append(row)
    rows: list[ResultRow] = []
    for of_detector in run_bench(settings, by_run):
        rows += of_detector
        if path and of_detector[0].run_id not in by_run:
            old = [i for i, row in enumerate(in_file) if replace and _measured(row) == _measured(of_detector[0])]
            kept = [row for i, row in enumerate(in_file) if i not in old]
            start = min(old, default=len(kept))
            in_file = [*kept[:start], *of_detector, *kept[start:]]
            write_whole(path, "".join(encode(row) + "\n" for row in in_file))
    if settings.journal and settings.journal.is_dir():
        shutil.rmtree(settings.journal)
    return rows


def _measured(row: ResultRow) -> tuple[str | int, ...]:
    """Return the key of a measurement, that is, the detector and the data, without how they were measured."""
    return row.detector, row.data, row.split, row.data_hash, row.foreign


def dry_run_bench(settings: BenchSettings) -> None:
    """Count the requests that a benchmark would send, without sending any.

    Every detector that uses a chat model judges all cases, but the connection only counts the requests.
    """
    detectors = load_all(settings)
    for spec in settings.data:
        data = load_data(spec, settings)
        cases = [example.case for example in (*data.fitting, *data.examples)]
        for loaded in detectors:
            detector = loaded.fit(data.fitting) if data.fitting and isinstance(loaded, Fittable) else loaded
            if info_of(detector).needs_chat_model:
                for start in range(0, len(cases), CASES_AT_ONCE):
                    detector.judge(cases[start : start + CASES_AT_ONCE])


def _run_id(detector: Detector, data: Loaded, settings: BenchSettings) -> str:
    """Compute a hash of everything that determines the results."""
    parts = (
        *(detector_identity(detector), dict(thresholds_of(detector)), data.name, data.hash, data.split, settings.fit),
        *(settings.metrics and list(settings.metrics), list(settings.group_by), settings.threshold),
        *(settings.resamples, settings.level, settings.seed, _version("veridical")),
        *(() if settings.fits else ("responses are flagged by core.decide",)),
    )
    return digest_of(parts)


def _groups(examples: Sequence[Example], key: str) -> list[Group]:
    """Group the examples by their value of `key`. Each group "key=value" has the indices of its examples."""
    groups: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        value = dict(example.group).get(key)
        if value is not None:
            groups.setdefault(f"{key}={value}", []).append(i)
    if not groups and not any(example.group for example in examples):
        hint = "name the columns of groups of your own data: rows:FILE?group=COLUMN[,COLUMN]"
        raise InputError(f"the data have no group {key!r}", hint=hint)
    if not groups:
        raise UnknownNameError("group", key, {name for example in examples for name, _ in example.group})
    return [(name, groups[name]) for name in sorted(groups)]


def result_rows(
    run_id: str,
    evaluation: Evaluation,
    settings: BenchSettings,
    metrics: Mapping[str, Metric],
    groups: Sequence[Group] | None = None,
) -> list[ResultRow]:
    """Make the result rows of an evaluation, one per group of examples.

    Args:
        run_id: The id of the run to which the rows belong.
        evaluation: The judgements and thresholds.
        settings: How to bootstrap the intervals, and the command to record.
        metrics: The metrics by name.
        groups: The name of each group (None for all examples) and the indices of its examples. Default: one group of
            all examples.
    """
    data = evaluation.data
    documents = [document_of(example) for example in data.examples]
    bootstrap: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed, "level": settings.level}
    pairs = list(zip(data.examples, evaluation.judgements, strict=True))
    rows = {
        name: [metric.rows(example, judgement, evaluation.threshold_for(metric)) for example, judgement in pairs]
        for name, metric in metrics.items()
    }
    return [
        ResultRow(
            run_id=run_id,
            detector=evaluation.name,
            data=data.name,
            split=data.split,
            group=group,
            n=len(picked),
            documents=len({documents[i] for i in picked}),
            not_judged=sum(_incomplete(*pairs[i]) for i in picked),
            skipped=data.skipped,
            data_hash=data.hash,
            thresholds=dict(evaluation.thresholds),
            threshold_from=evaluation.threshold_from,
            metrics={
                name: measure_rows(
                    metric, [rows[name][i] for i in counted], [documents[i] for i in counted], **bootstrap
                )
                for name, metric in metrics.items()
                for counted in [_with_other_class(rows[name], picked) if group and name == "roc_auc" else picked]
            },
            seconds=round(evaluation.seconds * len(picked) / len(pairs), 4),
            peak_mb=_peak_mb(),
            **bootstrap,
            command=settings.command,
            date=datetime.now(UTC).date().isoformat(),
            machine=f"{os.cpu_count()} x {platform.machine()} {sys.platform}",
            foreign=settings.foreign,
            usage=Usage.total(pairs[i][1].usage for i in picked),
            curves=curves(pairs) if group is None else {},
            versions={name: _version(name) for name in ("veridical", "numpy")} | {"python": platform.python_version()},
        )
        for group, picked in groups or [(None, range(len(pairs)))]
    ]


def _incomplete(example: Example, judgement: Judgement) -> bool:
    """Return whether part of the response was not judged, or the judgement has neither scores nor verdicts."""
    if judgement.judged is not None:
        return not judgement.judged or bool(unjudged(example.case, judgement))
    return (judgement.hallucination, judgement.omission) == (None, None) and not (
        judgement.verdicts or judgement.omissions
    )


def _with_other_class(rows: Sequence[Floats | None], picked: Sequence[int]) -> Sequence[int]:
    """Return the cases of a group. If all have the same label, add all cases of the set with the other label."""
    labels = [None if row is None else bool(row[0, 0]) for row in rows]
    of_group = {labels[i] for i in picked} - {None}
    if len(of_group) != 1:
        return picked
    (label,) = of_group
    return [*picked, *(i for i, other in enumerate(labels) if other is not None and other != label)]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _peak_mb() -> float | None:
    """Return the peak resident memory of this process in MB, or None if the system does not report it (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024), 1)  # macOS counts bytes, Linux kB
