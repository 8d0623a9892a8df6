"""One result row: a detector on a data set (or a group of it), its metrics with intervals, and how they were made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from veridical.core.serialization import read_documents
from veridical.core.types import Usage
from veridical.metrics.measure import Measured

__all__ = ["ResultRow", "read_result_rows"]


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A detector on one data set, one part of it, one group.

    Attributes:
        run_id: A hash of all that determines the figures: the same id made again gives the same figures.
        detector: The detector's name.
        data: The data set's name.
        split: The part of it that was measured, in words.
        group: The group of examples, such as "task=qa"; None for all.
        n: The number of cases.
        documents: The number of documents.
        not_judged: How many cases could not be judged, or not as a whole.
        skipped: How many rows of the data could not be read and were left out.
        data_hash: The hash of the examples as read (not of files).
        thresholds: The threshold for each level of a detector and, where fitted, of a metric.
        threshold_from: Where the thresholds come from, in words.
        metrics: Each metric's value with its interval.
        seconds: The time that judging alone took.
        peak_mb: The peak resident memory of the process; None where the system does not tell.
        level: The level of the intervals, in (0, 1).
        resamples: The number of bootstrap samples.
        seed: The seed of the bootstrap and of the split by document.
        command: The command that made the row.
        date: The date, as YYYY-MM-DD.
        machine: The number and kind of processors, and the system.
        versions: The versions of what the figures may depend on.
        usage: What language models were asked for these judgements; None where none was (replies from a cache count
            as nothing).
        foreign: How many other documents' sources were put around those of each case.
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
    """The rows in files of rows; `DataError` with file and line for anything else.

    A later row of the same run and group replaces an earlier one.
    """
    rows: dict[tuple[str, str | None], ResultRow] = {}
    for path in paths:
        for _, row in read_documents(path, "row", hint="rows are written by `veridical bench --out`"):
            rows[row.run_id, row.group] = row
    return list(rows.values())
