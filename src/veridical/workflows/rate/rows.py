"""Read the rows of a run from a folder that `veridical batch` wrote, or from a JSON Lines file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veridical.io.columns import as_case
from veridical.io.jsonl import read_json
from veridical.io.rows import Columns, RowForm
from veridical.io.serialization import TAG, decode
from veridical.records.decide import decide
from veridical.records.errors import DataError, InputError, WireError
from veridical.records.types import DEFAULT_THRESHOLD, Case, Checked, Judgement, Outcome
from veridical.workflows.batch.folder import read_manifest, read_shards
from veridical.workflows.batch.inputs import BatchReader
from veridical.workflows.batch.records import BatchManifest, JudgedRow, judged_row

PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}
_HINT = (
    "a folder that `veridical batch` wrote, or a JSON Lines file of results, judgements or rows with flagged or score"
)


@dataclass(frozen=True, slots=True)
class RunRow:
    """One judged answer of a run.

    Attributes:
        row: The number of the row in the run, from 1.
        id: The id of the row's case.
        outcome: The detector's decision, such as `Outcome.FLAGGED`.
        score: The detector's score in [0, 1]. None if the row has no score.
        columns: The values by which the results are grouped, by column, such as {"model": "a"}. A column without a
            value is not in the dict.
        place: The file and the line (from 1) that contain the answer.
    """

    row: int
    id: str
    outcome: Outcome
    score: float | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    place: tuple[Path, int] = (Path(), 0)


@dataclass(frozen=True, slots=True)
class Run:
    """A run: the answers that a detector judged, without their texts.

    Attributes:
        name: The path of the folder or file of the run.
        rows: The judged answers, in order.
        failed: The number of further rows, which could not be read or judged.
    """

    name: str
    rows: tuple[RunRow, ...]
    failed: int = 0

    def answers(self, rows: Iterable[RunRow]) -> dict[int, Mapping[str, str]]:
        """Load the texts of some rows from the files of the run, so that people can label them.

        The result maps the number of each row to a dict with the keys "question", "response" and "sources". If the file
        contains no texts, this dict is empty.
        """
        wanted = {row.place: row.row for row in rows}
        texts: dict[int, Mapping[str, str]] = {}
        for path in sorted({file for file, _ in wanted}):
            for line, value in read_json(path):
                if (path, line.number) in wanted and isinstance(value, dict):
                    texts[wanted[path, line.number]] = _texts(value)
        return texts


def read_run(path: Path, by: Sequence[str] = ()) -> Run:
    """Load the rows of a run, which is a set of answers that a detector judged.

    Args:
        path: A folder that `veridical batch` wrote, or a JSON Lines file of results or judgements. The lines of the
            file may also come from another tool, if they have the key `score` or `flagged`.
        by: Columns by which results will be grouped, such as "model". "NAME:day", "NAME:week" and "NAME:month" convert
            the times in the column NAME to days, weeks or months. For a folder, the columns are loaded from the files
            that were judged, so these files must still exist, unchanged.

    Raises:
        InputError: There are no rows, a column is missing, or a value is not a time.
        DataError: A file cannot be read, or a line is of another kind.
    """
    run = _read_folder(path, by) if path.is_dir() else _read_file(path, by)
    if not run.rows:
        raise DataError("no judged rows in it", path=path, hint=_HINT)
    for column in by:
        if not any(column in row.columns for row in run.rows):
            hint = "a column of the files that were judged, or a key of plain rows"
            raise DataError(f"no row has a value for {column!r}", path=path, hint=hint)
    return run


def _read_folder(path: Path, by: Sequence[str]) -> Run:
    manifest = read_manifest(path)
    shards = read_shards(path)
    if manifest is None:
        raise DataError("a folder without results", path=path, hint=_HINT)
    if sum(shard.rows for shard in shards) < manifest.rows:
        raise DataError("the batch is not finished", path=path, hint="repeat the command that began it")
    rows = []
    for shard in shards:
        for line, value in read_json(path / shard.scores):
            assert isinstance(value, dict)
            judged: JudgedRow = decode(value)
            rows.append(_row(judged, (path / shard.results, line.number)))
    if by:
        values = dict(_input_columns(manifest, by))
        rows = [replace(row, columns=values.get(row.row, {})) for row in rows]
    return Run(str(path), tuple(rows), manifest.rows - len(rows))


def highest_score(judged: JudgedRow | Judgement) -> float | None:
    """Return the higher of the hallucination and the omission score, or None if there is neither."""
    return max((score for score in (judged.hallucination, judged.omission) if score is not None), default=None)


def _row(judged: JudgedRow, place: tuple[Path, int]) -> RunRow:
    return RunRow(judged.row, judged.id, judged.outcome, highest_score(judged), place=place)


def _input_columns(manifest: BatchManifest, by: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the columns `by` of the files that were judged, and yield the number of each row with its values."""
    for file in manifest.inputs:
        try:
            with open(file.path, "rb") as data:
                same = hashlib.file_digest(data, "sha256").hexdigest() == file.sha256
        except OSError:
            same = False
        if not same:
            hint = f"{', '.join(by)} is read from it: put it back, or run the command in the folder of the batch"
            raise DataError("the file that was judged is gone or was changed", path=file.path, hint=hint)
    options = manifest.options
    names = tuple(dict.fromkeys(map(_name, by)))
    form = RowForm(options.columns, options.encoding, options.delimiter, options.max_bytes, also=names)
    for row in BatchReader(manifest.inputs, form).read(0, manifest.rows):
        content = row.row.content
        yield row.number, {} if isinstance(content, DataError) else _columns(content, by, f"row {row.number}")


def _read_file(path: Path, by: Sequence[str]) -> Run:
    rows: list[RunRow] = []
    for line, value in read_json(path):
        try:
            row = _row_of(value, len(rows) + 1, by, f"line {line.number}")
        except InputError as error:
            raise line.error(error.message, hint=error.hint) from None
        rows.append(replace(row, place=(path, line.number)))
    return Run(str(path), tuple(rows))


def _row_of(value: object, number: int, by: Sequence[str], where: str) -> RunRow:
    if not isinstance(value, dict):
        raise WireError("not a JSON object", hint=_HINT)
    if TAG not in value:
        return _plain_row(value, number, by, where)
    record = decode(value)
    if isinstance(record, Checked):
        return _row(judged_row(number, None, record), (Path(), 0))
    if isinstance(record, JudgedRow):
        return _row(record, (Path(), 0))
    if isinstance(record, Judgement):
        outcome = decide(Case(record.case_id, ""), record).outcome
        if outcome is Outcome.UNJUDGED and record.judged is None:  # None: all of the response, whose text is not here
            outcome = Outcome.CLEAR
        return RunRow(number, record.case_id, outcome, highest_score(record))
    raise WireError(f"{value[TAG]!r} is no result of a check", hint=_HINT)


def _plain_row(value: Mapping[str, Any], number: int, by: Sequence[str], where: str) -> RunRow:
    """Read a row that another tool wrote, with `score`, `flagged` (true, false, or null for "not judged"), or both."""
    score, flagged = value.get("score"), value.get("flagged")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1):
        raise InputError(f"score is {score!r}", hint="a number from 0 to 1; 1 = wrong")
    if flagged is not None and not isinstance(flagged, bool):
        raise InputError(f"flagged is {flagged!r}", hint="true, false, or null for an answer that was not judged")
    if "flagged" not in value:
        if score is None:
            raise InputError("neither score nor flagged", hint=_HINT)
        flagged = score >= DEFAULT_THRESHOLD
    outcome = Outcome.UNJUDGED if flagged is None else Outcome.FLAGGED if flagged else Outcome.CLEAR
    id = value.get("id", number)
    return RunRow(number, str(id), outcome, None if score is None else float(score), _columns(value, by, where))


def _name(by: str) -> str:
    """Return the column that a breakdown reads.

    >>> _name("created:week"), _name("model")
    ('created', 'model')
    """
    name, _, period = by.rpartition(":")
    return name if name and period in PERIODS else by


def _columns(values: Mapping[str, Any], by: Sequence[str], where: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    for each in by:
        name = _name(each)
        value = values.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, str | int | float | datetime):
            raise InputError(f"{where}: {name!r} holds a {type(value).__name__}", hint="a text, a number or a time")
        columns[each] = str(value) if each == name else _period(value, each.rpartition(":")[2], where)
    return columns


def _period(value: str | float | datetime, period: str, where: str) -> str:
    """Convert a time, given in ISO 8601 or in seconds since 1970, to its day, week or month.

    >>> _period("2026-11-27T03:00:00Z", "week", "row 1"), _period(0, "month", "row 1")
    ('2026-W48', '1970-01')
    """
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value.strip())
        elif isinstance(value, datetime):
            time = value
        else:
            time = datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{where}: {value!r} is no time", hint="2026-11-27, 2026-11-27T03:00, or seconds") from None
    return time.strftime(PERIODS[period])


def _texts(value: Mapping[str, Any]) -> dict[str, str]:
    """Read the texts in a result, or in a row of another tool. Return {} if there are none."""
    if TAG in value:
        record = decode(value)
        if not isinstance(record, Checked):
            return {}
        case = record.case
    else:
        try:
            case, _ = as_case(value, Columns().resolve(value)[0], default_id="")
        except InputError:
            return {}
    sources = "\n\n".join(source.text for source in case.sources if source.text)
    return {"question": case.question or "", "response": case.response, "sources": sources}
