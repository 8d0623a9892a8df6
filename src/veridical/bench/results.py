"""One result row: a detector on a data set (or a group of it), its metrics with intervals, and how they were made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from veridical.core.jsonl import read_json
from veridical.core.types import Usage
from veridical.metrics.measure import Measured

__all__ = ["ResultRow", "encode_row", "read_rows"]


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
        curves: Points of the curves of response-level scores (`veridical.bench.curves`).
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


_ROW = TypeAdapter(ResultRow)


def encode_row(row: ResultRow) -> str:
    """A row as one line of JSON."""
    return json.dumps({"veridical": "row/1", **asdict(row)}, ensure_ascii=False)


def read_rows(paths: Iterable[Path]) -> list[ResultRow]:
    """The rows in files of rows; `DataError` with file and line for anything else.

    A later row of the same run and group replaces an earlier one.
    """
    rows: dict[tuple[str, str | None], ResultRow] = {}
    for path in paths:
        for line, value in read_json(path):
            body = dict(value) if isinstance(value, dict) else {}
            tag = body.pop("veridical", None)
            if tag != "row/1":
                raise line.error(f"not a result row: {tag!r}", hint='"veridical": "row/1" is expected')
            try:
                row = _ROW.validate_python(body)
            except ValidationError as error:
                problem = error.errors(include_url=False)[0]
                place = ".".join(str(part) for part in problem["loc"])
                raise line.error(f"{place}: {problem['msg']}") from None
            rows[row.run_id, row.group] = row
    return list(rows.values())
