"""Judge shards in one process of a batch, with detectors that are loaded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from veridical.io.rows import RowForm
from veridical.io.serialization import encode
from veridical.records.detector import Detector
from veridical.records.errors import InputError, VeridicalError, WireError
from veridical.records.strings import shorten
from veridical.records.types import Case, Checked
from veridical.workflows.batch.inputs import BatchReader, InputFile, InputRow, ShardRange
from veridical.workflows.batch.records import FailedRow, judged_row
from veridical.workflows.checking import check_cases

BATCH_CASES = 64
BATCH_CHARACTERS = 1_000_000
STOP_AFTER = 16  # if at least this many rows of one batch all fail, the rows are not the cause
# errors that a detector raises for a text that it cannot process; other errors (out of memory, disk full) are not the
# fault of a row
ABOUT_A_ROW = (
    *(VeridicalError, ValueError, LookupError, TypeError),
    *(ArithmeticError, AttributeError, RuntimeError, AssertionError),
)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker process needs to judge its part of a batch. It can be pickled, to be sent to the process.

    Attributes:
        files: The input files.
        form: How to parse the rows.
        detectors: The specs of the detectors, which each process loads for itself.
        threshold: The score in [0, 1] from which a finding is flagged, as one number or as a dict (see
            `veridical.check`). None for the detectors' own thresholds.
        explain: Whether to add to each flagged finding the closest passages of the sources, and what they say instead.
    """

    files: tuple[InputFile, ...]
    form: RowForm
    detectors: tuple[str, ...]
    threshold: float | Mapping[str, float] | None
    explain: bool

    def reader(self) -> BatchReader:
        """Make a reader of the rows of the input files."""
        return BatchReader(self.files, self.form)

    def load(self) -> list[Detector]:
        """Load the detectors."""
        from veridical.detectors import load_detector

        return [load_detector(spec) for spec in self.detectors]


@dataclass(frozen=True, slots=True)
class ShardTexts:
    """The output for a judged shard (a portion of the rows), as JSON Lines in UTF-8.

    Attributes:
        results: The results of the judged rows, for a file `results-*.jsonl`.
        scores: The scores of the judged rows, for a file `scores-*.jsonl`.
        failed: The rows that could not be read or judged, for `failed.jsonl`.
        failures: The number of failed rows.
    """

    results: bytes
    scores: bytes
    failed: bytes
    failures: int


def shard_texts(
    reader: BatchReader,
    shard: ShardRange,
    detectors: Sequence[Detector],
    work: WorkerSettings,
    progress: Callable[[int], None] = lambda rows: None,
) -> ShardTexts:
    """Judge the rows of one shard (a portion of the input), and return the lines to write for it.

    Every row ends up either in the results or among the failed rows.

    Args:
        reader: The reader of the input.
        shard: The rows to judge.
        detectors: The detectors to judge with.
        work: The settings. Only `threshold` and `explain` matter here.
        progress: Called with the number of rows of the shard that are finished.
    """
    readable: list[tuple[InputRow, Case, str | None]] = []
    failed: dict[int, FailedRow] = {}
    for row in reader.read(shard.first, shard.rows):
        try:
            case, group = row.case()
            readable.append((row, case, group))
        except InputError as error:
            failed[row.number] = _failed_row(row, str(error).removeprefix(f"{row.reader.path}:{row.row.place}: "))
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
    """Divide cases into batches of limited size, and yield the indices of the cases in each batch.

    Cases of similar length are put together, which helps detectors that pad their input.
    """
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
    """Check cases, and return for each case its result, or the reason (a text) why its check failed.

    A case fails if a detector raises one of the errors in `ABOUT_A_ROW` for it. The other cases are still checked. Any
    other error, such as a full disk, is raised. An error is also raised if there are `STOP_AFTER` or more cases and all
    of them fail, because then the cases are not the cause.
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
    content = row.text()
    if content is not None and not _is_text(content):
        content = None
    return FailedRow(row.number, str(row.reader.path), row.row.place, " ".join(reason.split()), id, content)


def _is_text(content: str) -> bool:
    try:
        content.encode()
    except UnicodeEncodeError:
        return False
    return True
