"""The records that a batch writes: its manifest, one per finished shard, one per judged row and one per failed row."""

from __future__ import annotations

from dataclasses import dataclass

from veridical.batch.inputs import InputFile
from veridical.core.types import Checked, Outcome
from veridical.rows.columns import Columns

__all__ = ["BatchManifest", "BatchOptions", "FailedRow", "JudgedRow", "JudgedShard", "UsedDetector", "judged_row"]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options that the results depend on, besides the input and the detectors. `thresholds` are by level."""

    columns: Columns
    shard_rows: int
    max_bytes: int
    thresholds: dict[str, float] | None = None
    explain: bool = False
    encoding: str = "utf-8"
    delimiter: str | None = None


@dataclass(frozen=True, slots=True)
class UsedDetector:
    """A detector's name, and the hash of everything its scores depend on (`core.detector.fingerprint_of`)."""

    name: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class JudgedShard:
    """A finished shard: a line of `shards.jsonl`.

    Attributes:
        results: The file of result documents ("check"), in the order of the rows.
        results_sha256: The hash of its bytes.
        scores: The file of the rows' scores ("batch_row"), in the same order.
        scores_sha256: The hash of its bytes.
        first: The number of rows before the shard.
        rows: The number of rows in it, including those that failed.
        failed: The number of its rows that could not be read or judged.
        failed_bytes: The size of `failed.jsonl` after this shard.
        failed_sha256: The hash of the bytes that this shard added to it.
    """

    results: str
    results_sha256: str
    scores: str
    scores_sha256: str
    first: int
    rows: int
    failed: int
    failed_bytes: int
    failed_sha256: str


@dataclass(frozen=True, slots=True)
class BatchManifest:
    """`manifest.json`: the input, options and detectors of a folder of results, and the version that began it."""

    inputs: tuple[InputFile, ...]
    options: BatchOptions
    detectors: tuple[UsedDetector, ...]
    versions: dict[str, str]
    rows: int


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """One row's scores.

    Attributes:
        row: The number of the row, from 1 over all inputs.
        id: The id of its case.
        outcome: The outcome of the check.
        group: Its group, None without one.
        hallucination: The highest response-level score among the detectors, None without one.
        omission: The highest score of omission.
        hallucinated: Whether anything in the response was flagged; None if nothing of it was judged.
        omitted: Whether anything was flagged as omitted; None if no detector judged coverage.
        flagged: The number of flagged spans of the response.
        left_out: The number of spans of the sources that were flagged as omitted.
        kinds: The kinds of error of the flagged spans, each once.
    """

    row: int
    id: str
    outcome: Outcome
    group: str | None = None
    hallucination: float | None = None
    omission: float | None = None
    hallucinated: bool | None = None
    omitted: bool | None = None
    flagged: int = 0
    left_out: int = 0
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that could not be read or judged, and why.

    Attributes:
        row: The number of the row, from 1 over all inputs.
        file: The file that holds it.
        place: Its line (JSON, CSV) or its number (Excel, Parquet) in that file, from 1.
        reason: The reason, in one line.
        id: The id of its case, if that could be read.
        content: The row as one JSON text, if it could be read.
    """

    row: int
    file: str
    place: int
    reason: str
    id: str | None = None
    content: str | None = None


def judged_row(row: int, group: str | None, checked: Checked) -> JudgedRow:
    """Return the scores of a checked row."""
    judged_response = judged_coverage = hallucinated = omitted = False
    kinds: set[str] = set()
    for judgement, decision in zip(checked.judgements, checked.decisions, strict=True):
        kinds |= {kind for i in decision.verdicts if (kind := judgement.verdicts[i].kind) is not None}
        judged_response |= judgement.hallucination is not None or bool(judgement.verdicts or judgement.judged)
        judged_coverage |= judgement.omission is not None or bool(judgement.omissions)
        hallucinated |= bool(decision.hallucination or decision.verdicts)
        omitted |= bool(decision.omission or decision.omissions)
    return JudgedRow(
        row,
        checked.case.id,
        checked.outcome,
        group,
        max((j.hallucination for j in checked.judgements if j.hallucination is not None), default=None),
        max((j.omission for j in checked.judgements if j.omission is not None), default=None),
        hallucinated if judged_response else None,
        omitted if judged_coverage else None,
        len(checked.flagged),
        sum(map(len, checked.omitted.values())),
        tuple(sorted(kinds)),
    )
