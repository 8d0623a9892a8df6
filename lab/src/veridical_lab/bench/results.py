"""Result rows: the metrics of a detector on a data set, or on a group of it, with intervals and how they were made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from veridical.io.serialization import read_documents
from veridical.metrics.measure import Measured
from veridical.records.types import Usage

__all__ = ["ResultRow", "read_result_rows"]


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The result of a detector on one data set, one part of it, or one group.

    Attributes:
        run_id: A hash of everything that determines the figures. A run with the same id gives the same figures.
        detector: The name of the detector.
        data: The name of the data set.
        split: The part of the data set that was measured, in words.
        group: The group of examples, such as "task=qa". None for all examples.
        n: The number of cases.
        documents: The number of documents.
        not_judged: The number of cases that could not be judged, or only in part.
        skipped: The number of rows of the data that could not be read and were left out.
        data_hash: The hash of the examples as read (not of files).
        thresholds: The threshold of each level of the detector and, if fitted, of each level of a metric.
        threshold_from: Where the thresholds come from, in words.
        metrics: The value of each metric with its interval.
        seconds: The time for judging alone, in seconds.
        peak_mb: The peak resident memory of the process, in megabytes. None if the system does not tell.
        level: The confidence level of the intervals, in (0, 1).
        resamples: The number of bootstrap samples.
        seed: The seed of the bootstrap and of the split by document.
        command: The command that made the row.
        date: The date, as YYYY-MM-DD.
        machine: The number and kind of processors, and the system.
        versions: The versions of the packages that the figures may depend on.
        usage: The usage of chat models for these judgements. None if no chat model was asked. Replies from a cache cost
            nothing.
        foreign: The number of other documents whose sources were put around those of each case.
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
    """Read the rows in files of results. A later row of the same run and group replaces an earlier row.

    Raises:
        DataError: A line is not a result row. The error names the file and the line.
    """
    rows: dict[tuple[str, str | None], ResultRow] = {}
    for path in paths:
        for _, row in read_documents(path, "row", hint="rows are written by `veridical bench --out`"):
            rows[row.run_id, row.group] = row
    return list(rows.values())
