"""The records that a batch writes: a manifest, and one record for each finished shard, judged row and failed row."""

from __future__ import annotations

from dataclasses import dataclass

from veridical.io.columns import Columns
from veridical.records.types import Checked, Outcome
from veridical.workflows.batch.inputs import InputFile


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Settings of a batch job that affect its results. (So do input and detectors, which `BatchManifest` has itself.)

    A job can only be resumed with the same options.

    Attributes:
        columns: The columns to read from each row.
        shard_rows: The largest number of rows in a shard (a portion of the input that is judged and stored together).
        max_bytes: The largest number of characters in a JSON line or a cell.
        thresholds: The lowest scores that are flagged, such as {"span": 0.4} for spans of the response, or {"all": 0.4}
            for all scores. None for the detectors' own thresholds.
        explain: If true, flagged findings are explained by the closest passages.
        encoding: The encoding of text files without a byte-order mark.
        delimiter: The delimiter of text tables. None if it is detected.
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
    """Identifies a detector that judged a batch.

    Attributes:
        name: The name of the detector.
        fingerprint: A hash of everything that its scores depend on, such as weights and options
            (`records.detector.fingerprint_of`).
    """

    name: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class JudgedShard:
    """A finished shard (a portion of the rows), as one line of `shards.jsonl`.

    Attributes:
        results: The file with the results of the rows as JSON documents ("check"), in the order of the rows.
        results_sha256: The SHA-256 hash of that file.
        scores: The file with the scores of the rows ("batch_row"), in the same order.
        scores_sha256: The SHA-256 hash of that file.
        first: The index of the shard's first row, from 0 over all inputs.
        rows: The number of rows, including rows that failed.
        failed: The number of rows of the shard that could not be read or judged.
        failed_bytes: The size of `failed.jsonl` in bytes after the failed rows of this shard were appended.
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
    """Describes a batch job. It is stored as `manifest.json` in the folder of results, so that the job can be resumed.

    Attributes:
        inputs: The input files with their hashes.
        options: The settings that affect the results.
        detectors: The detectors with their fingerprints.
        versions: The version of Veridical, as {"veridical": VERSION}.
        rows: The number of rows in all input files.
    """

    inputs: tuple[InputFile, ...]
    options: BatchOptions
    detectors: tuple[UsedDetector, ...]
    versions: dict[str, str]
    rows: int


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """The scores of one judged row, as one line of a file `scores-*.jsonl`.

    Attributes:
        row: The number of the row, from 1 over all inputs.
        id: The id of the row's case.
        outcome: The outcome of the check.
        group: The value of the column by which results are broken down. None if the row has no such value.
        hallucination: The highest score of the whole response among the detectors. None if there is no such score.
        omission: The highest score among the detectors for what the response omits. None if there is no such score.
        hallucinated: True if the response or a span of it is flagged. None if nothing in the response was judged.
        omitted: True if an omission is flagged. None if no detector judged coverage.
        flagged: The number of flagged spans of the response.
        left_out: The number of spans of sources that are flagged as omitted.
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
    """Summarise the result of a check as a `JudgedRow`, with the highest scores and the numbers of flagged spans.

    Args:
        row: The number of the row, from 1.
        group: The value of the column by which results are broken down. None if the row has no such value.
        checked: The result of the check.
    """
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
