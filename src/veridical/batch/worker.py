"""One shard after another, judged by detectors that are loaded once: what each process of an engine does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from veridical.batch.columns import Columns, as_case
from veridical.batch.inputs import InputFile, InputRow, RowReader, ShardRange, is_table
from veridical.batch.records import FailedRow, judged_row
from veridical.checking import check_cases
from veridical.core.detector import Detector
from veridical.core.errors import DataError, InputError, VeridicalError, WireError
from veridical.core.serialization import encode
from veridical.core.text import shorten
from veridical.core.types import Case, Checked

__all__ = ["ShardTexts", "WorkerSettings", "batches", "check_each", "shard_texts"]

BATCH_CASES = 64
BATCH_CHARACTERS = 1_000_000
STOP_AFTER = 16  # rows of one batch that all fail: then it is not the rows
# what a detector may raise over a text that it cannot take; all else (no memory, no disk) is not about the row
ABOUT_A_ROW = (
    *(VeridicalError, ValueError, LookupError, TypeError),
    *(ArithmeticError, AttributeError, RuntimeError, AssertionError),
)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker reads and how it judges; it can be sent to another process. `detectors` are specs."""

    files: tuple[InputFile, ...]
    columns: Columns
    detectors: tuple[str, ...]
    threshold: float | Mapping[str, float] | None
    explain: bool
    encoding: str
    max_bytes: int

    def reader(self) -> RowReader:
        """A reader of the input."""
        return RowReader(self.files, self.columns, self.max_bytes, self.encoding)

    def load(self) -> list[Detector]:
        """The detectors."""
        from veridical.detectors import load_detector

        return [load_detector(spec) for spec in self.detectors]


@dataclass(frozen=True, slots=True)
class ShardTexts:
    """The lines of a judged shard, as UTF-8: result documents, scores of rows, rows that failed."""

    results: bytes
    scores: bytes
    failed: bytes
    failures: int


def shard_texts(
    reader: RowReader,
    shard: ShardRange,
    detectors: Sequence[Detector],
    work: WorkerSettings,
    progress: Callable[[int], None] = lambda rows: None,
) -> ShardTexts:
    """Judge one shard; every row of it is in the results or among those that failed.

    Args:
        reader: Where the rows come from.
        shard: Which rows.
        detectors: The detectors.
        work: How they judge.
        progress: Called with how many rows of the shard are done.
    """
    readable: list[tuple[InputRow, Case, str | None]] = []
    failed: dict[int, FailedRow] = {}
    for row in reader.read(shard.first, shard.rows):
        try:
            if isinstance(row.content, DataError):
                raise row.content
            case, group = as_case(row.content, reader.columns, default_id=str(row.number), table=is_table(row.path))
            readable.append((row, case, group))
        except InputError as error:
            failed[row.number] = _failed_row(row, str(error).removeprefix(f"{row.path}:{row.place}: "))
    judged: dict[int, tuple[str, str]] = {}
    for batch in batches([case for _, case, _ in readable]):
        outcomes = check_each([readable[i][1] for i in batch], detectors, work.threshold, explain=work.explain)
        for i, outcome in zip(batch, outcomes, strict=True):
            row, case, group = readable[i]
            try:
                if isinstance(outcome, str):
                    failed[row.number] = _failed_row(row, outcome, case.id)
                else:
                    judged[row.number] = encode(outcome), encode(judged_row(row.number, group, outcome))
            except WireError as error:
                failed[row.number] = _failed_row(row, str(error), case.id)
        progress(len(failed) + len(judged))
    in_order = [judged[number] for number in sorted(judged)]
    return ShardTexts(
        "".join(f"{result}\n" for result, _ in in_order).encode(),
        "".join(f"{scores}\n" for _, scores in in_order).encode(),
        "".join(f"{encode(failed[number])}\n" for number in sorted(failed)).encode(),
        len(failed),
    )


def batches(cases: Sequence[Case]) -> Iterator[list[int]]:
    """The indices of the cases in batches of similar length, for detectors that pad, and of bounded size."""
    sizes = [len(case.response) + sum(len(source.text) for source in case.sources) for case in cases]
    batch: list[int] = []
    total = 0
    for i in sorted(range(len(cases)), key=sizes.__getitem__):
        if batch and (len(batch) == BATCH_CASES or total + sizes[i] > BATCH_CHARACTERS):
            yield batch
            batch, total = [], 0
        batch.append(i)
        total += sizes[i]
    if batch:
        yield batch


def check_each(
    cases: Sequence[Case],
    detectors: Sequence[Detector],
    threshold: float | Mapping[str, float] | None,
    *,
    explain: bool = False,
) -> list[Checked | str]:
    """Each case checked, or why it could not be; one case that fails leaves the others of its batch as they are.

    Raises what a detector raises where that is not about a row, or where every case of a large batch fails.
    """
    try:
        return list(check_cases(cases, detectors, threshold=threshold, explain=explain))
    except ABOUT_A_ROW as error:
        if len(cases) == 1:
            name = "" if isinstance(error, VeridicalError) else f"{type(error).__name__}: "
            return [name + shorten(str(error), 300)]
        half = len(cases) // 2
        parts = (cases[:half], cases[half:])
        outcomes = [outcome for part in parts for outcome in check_each(part, detectors, threshold, explain=explain)]
        if len(cases) >= STOP_AFTER and all(isinstance(outcome, str) for outcome in outcomes):
            raise
        return outcomes


def _failed_row(row: InputRow, reason: str, id: str | None = None) -> FailedRow:
    content: str | None = None
    if isinstance(row.content, str):
        content = row.content
    elif isinstance(row.content, Mapping):
        content = json.dumps(row.content, ensure_ascii=False, default=str)
    if content is not None and not _is_text(content):
        content = None
    return FailedRow(row.number, row.path, row.place, " ".join(reason.split()), id, content)


def _is_text(content: str) -> bool:
    try:
        content.encode()
    except UnicodeEncodeError:
        return False
    return True
