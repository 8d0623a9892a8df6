"""The records that a batch writes: a manifest, and one record for each finished shard, judged row and failed row."""

from __future__ import annotations

from dataclasses import dataclass

from veridical.io.columns import Columns
from veridical.records.types import Checked, Outcome
from veridical.workflows.batch.inputs import InputFile


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options that change the results, apart from the input and the detectors.

    `thresholds` maps each level, or "all", to its threshold.
    """

    columns: Columns
    shard_rows: int
    max_bytes: int
    thresholds: dict[str, float] | None = None
    explain: bool = False
    encoding: str = "utf-8"
    delimiter: str | None = None


@dataclass(frozen=True, slots=True)
class UsedDetector:
    """A detector's name, and a hash of all that its scores depend on (`records.detector.fingerprint_of`)."""

    name: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class JudgedShard:
    """A finished shard, as one line of `shards.jsonl`.

    Attributes:
        results: The file of result documents ("check"), in the order of the rows.
        results_sha256: The SHA-256 hash of that file.
        scores: The file with the scores of the rows ("batch_row"), in the same order.
        scores_sha256: The SHA-256 hash of that file.
        first: How many rows come before the shard.
        rows: How many rows the shard has, including rows that failed.
        failed: How many rows of the shard could not be read or judged.
        failed_bytes: The size of `failed.jsonl` in bytes, including the failed rows of this shard.
        failed_sha256: The SHA-256 hash of the bytes that this shard added to `failed.jsonl`.
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
    """Describes a folder of results in `manifest.json`: input, options, detectors and version."""

    inputs: tuple[InputFile, ...]
    options: BatchOptions
    detectors: tuple[UsedDetector, ...]
    versions: dict[str, str]
    rows: int


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """The scores of one row.

    Attributes:
        row: The number of the row, from 1 over all inputs.
        id: The id of the row's case.
        outcome: The outcome of the check.
        group: The group of the row. None if the row has no group.
        hallucination: The highest response-level score among the detectors. None if there is no such score.
        omission: The highest omission score among the detectors. None if there is no such score.
        hallucinated: Whether anything in the response was flagged. None if nothing in the response was judged.
        omitted: Whether anything was flagged as omitted. None if no detector judged coverage.
        flagged: How many spans of the response were flagged.
        left_out: How many spans of sources were flagged as omitted.
        kinds: The kinds of error of the flagged spans, each listed once.
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
    """A row that could not be read or judged, and the reason why.

    Attributes:
        row: The number of the row, from 1 over all inputs.
        file: The file that contains the row.
        place: The line (JSON, CSV) or the row number (Excel, Parquet) within the file, from 1.
        reason: The reason, in one line.
        id: The id of the row's case, if it could be read.
        content: The row as one JSON text, if it could be read.
    """

    row: int
    file: str
    place: int
    reason: str
    id: str | None = None
    content: str | None = None


def judged_row(row: int, group: str | None, checked: Checked) -> JudgedRow:
    """Summarise the result of a check as the scores of row number `row` (from 1)."""
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
