"""Result rows: a detector on a data set, or on a group of it, with its metrics, intervals and how they were made."""

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
    """A detector on one data set, one part of it, or one group.

    Attributes:
        run_id: A hash of all that determines the figures: a run with the same id gives the same figures.
        detector: The detector's name.
        data: The data set's name.
        split: The part of it that was measured, in words.
        group: The group of examples, such as "task=qa"; None for all.
        n: The number of cases.
        documents: The number of documents.
        not_judged: The number of cases that could not be judged, or only in part.
        skipped: The number of rows of the data that could not be read and were left out.
        data_hash: The hash of the examples as read (not of files).
        thresholds: The threshold of each level of the detector and, if fitted, of each level of a metric.
        threshold_from: Where the thresholds come from, in words.
        metrics: The value of each metric with its interval.
        seconds: The time that judging alone took.
        peak_mb: The peak resident memory of the process; None where the system does not tell.
        level: The level of the intervals, in (0, 1).
        resamples: The number of bootstrap samples.
        seed: The seed of the bootstrap and of the split by document.
        command: The command that made the row.
        date: The date, as YYYY-MM-DD.
        machine: The number and kind of processors, and the system.
        versions: The versions of the packages that the figures may depend on.
        usage: What the chat models used for these judgements; None if none was asked. Replies from a cache cost
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
    """Read the rows in files of results; raise `DataError` with file and line for anything else.

    A later row of the same run and group replaces an earlier one.
    """
    rows: dict[tuple[str, str | None], ResultRow] = {}
    for path in paths:
        for _, row in read_documents(path, "row", hint="rows are written by `veridical bench --out`"):
            rows[row.run_id, row.group] = row
    return list(rows.values())
