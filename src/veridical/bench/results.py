"""One result row: a detector on a data set (or a group of it), its figures with intervals, and how they were made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from veridical.core.serialization import read_documents

__all__ = ["Asked", "Figure", "Row", "read_rows"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric over `n` counted cases, with its interval; `value` None where it is undefined, and why."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What language models were asked, in all: calls, tokens, and money where prices are known."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A detector on one data set, one part of it, one group; `metrics` by name.

    `unit` is a hash of all that determines the figures: the same unit made again gives the same figures. `n` cases of
    which `not_judged` could not be judged; `data_hash` is of the examples as read, not of files; `seconds` is
    judging alone, `peak_mb` the process's peak resident memory. `usage` is what language models were asked for these
    judgements, None where none was (replies from a cache count as nothing). `curves` are of the response-level scores
    (`veridical.bench.curves`).
    """

    unit: str
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
    metrics: dict[str, Figure]
    seconds: float
    peak_mb: float
    level: float
    resamples: int
    seed: int
    command: str
    date: str
    machine: str
    versions: dict[str, str] = field(default_factory=dict)
    usage: Asked | None = None
    curves: dict[str, list[list[float]]] = field(default_factory=dict)


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """The rows in files of rows; `DataError` with file and line for anything else.

    A later row of the same unit and group replaces an earlier one.
    """
    rows: dict[tuple[str, str | None], Row] = {}
    for path in paths:
        for _, row in read_documents(path, "row", hint="rows are written by `veridical bench --out`"):
            rows[row.unit, row.group] = row
    return list(rows.values())
