"""Result rows: how a detector did on a data set or a group in it, by each metric, and how this was measured."""

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
        run_id: A hash of everything that determines the figures. A run with the same id gives the same figures.
        detector: The name of the detector.
        data: The name of the data set.
        split: The part of the data set that was measured, in words.
        group: The group of examples, such as "task=qa". None for all examples.
        n: How many cases were measured.
        documents: How many documents they belong to.
        not_judged: How many of the cases could not be judged, or only in part.
        skipped: How many rows of the data could not be read and were left out.
        data_hash: The hash of the examples as read (not of files).
        thresholds: The threshold of each level of the detector. If thresholds were fitted, also the threshold of each
            level of a metric.
        threshold_from: Where the thresholds come from, in words.
        metrics: The value of each metric with an interval.
        seconds: How many seconds judging took, without loading or measuring.
        peak_mb: The most memory that the process has held, in megabytes. None if the system does not tell.
        level: The confidence level of the intervals, in (0, 1).
        resamples: The number of bootstrap samples.
        seed: The seed of the bootstrap and of the split by document.
        command: The command that made the row.
        date: The date, as YYYY-MM-DD.
        machine: The number and kind of processors, and the system.
        versions: The versions of the packages on which the figures may depend.
        usage: What chat models used for these judgements. None if no chat model was asked. Replies from a cache cost
            nothing.
        foreign: How many other documents lent their sources to each case, mixed with its own sources.
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
