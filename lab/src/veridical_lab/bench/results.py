"""Result rows: a detector's metrics on a data set or a group in it, and how they were measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from veridical.io.serialization import read_documents
from veridical.metrics.measure import Measured
from veridical.records.types import Usage


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The result of a detector on one data set, one part of a data set, or one group.

    Attributes:
        run_id: A hash of everything that determines the results. Runs with the same id give the same results.
        detector: The name of the detector.
        data: The name of the data set.
        split: The measured part of the data set, in words.
        group: The group of examples, such as "task=qa". None for all examples.
        n: The number of measured cases.
        documents: The number of documents to which the cases belong.
        not_judged: The number of cases that could not be judged, or only in part.
        skipped: The number of rows of the data that could not be read and were left out.
        data_hash: The hash of the examples as read (not of files).
        thresholds: The threshold of each level of the detector. If thresholds were fitted, also the threshold of each
            level of a metric.
        threshold_from: The origin of the thresholds, in words.
        metrics: The value of each metric with an interval.
        seconds: The time that judging took, in seconds, without loading or measuring.
        peak_mb: The peak memory of the process, in megabytes. None if the system does not report it.
        level: The confidence level of the intervals, in (0, 1).
        resamples: The number of bootstrap samples.
        seed: The seed of the bootstrap and of the split by document.
        command: The command that made the row.
        date: The date, as YYYY-MM-DD.
        machine: The number and kind of processors, and the system.
        versions: The versions of the packages on which the results may depend.
        usage: The usage of chat models for these judgements. None if no chat model was called. Cached replies cost
            nothing.
        foreign: The number of other documents whose sources were mixed with the sources of each case.
        curves: Points of the curves of response-level scores (`veridical_lab.bench.curves`).
    """

    run_id: str
    detector: str
    data: str
    split: str
    group: str | None
    n: int
    documents: int
    not_judged: int
    skipped: int
    data_hash: str
    thresholds: dict[str, float]
    threshold_from: str
    metrics: dict[str, Measured]
    seconds: float
    peak_mb: float | None
    level: float
    resamples: int
    seed: int
    command: str
    date: str
    machine: str
    versions: dict[str, str] = field(default_factory=dict)
    usage: Usage | None = None
    curves: dict[str, list[list[float]]] = field(default_factory=dict)
    foreign: int = 0


def read_result_rows(paths: Iterable[Path]) -> list[ResultRow]:
    """Read the rows in files of results. If two rows have the same run and group, the later one is kept.

    Raises:
        DataError: A line is not a result row. The error names the file and the line.
    """
    rows: dict[tuple[str, str | None], ResultRow] = {}
    for path in paths:
        for _, row in read_documents(path, "row", hint="rows are written by `veridical bench --out`"):
            rows[row.run_id, row.group] = row
    return list(rows.values())
