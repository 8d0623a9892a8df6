"""Read the rows of one or more files in sequence, starting at any row, in bounded memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from veridical.io.files import ROW_ENDINGS, ending_of
from veridical.io.rows import RowForm, RowReader, SourceRow, is_table
from veridical.records.errors import DataError, InputError
from veridical.records.types import Case

SHARD_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InputFile:
    """The state of an input file at the start of a batch job, from which a later run detects changes.

    Attributes:
        path: The path of the file.
        sha256: The SHA-256 hash of its bytes, in hexadecimal digits.
        rows: The number of its rows.
    """

    path: str
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of the input of a batch job, which is parsed as a case when `case` is called.

    Attributes:
        number: The number of the row, from 1 over all files.
        reader: The reader of the file that contains the row.
        row: The row as the reader yields it.
    """

    number: int
    reader: RowReader
    row: SourceRow

    def case(self) -> tuple[Case, str | None]:
        """Parse the row as a case. Return the case and the row's group (None if the row has no group).

        The group is the value of the column by which results are broken down, such as the name of a system.

        Raises:
            DataError: The row contains no case.
        """
        return self.reader.case(self.row, str(self.number))

    def text(self) -> str | None:
        """Return the row as one JSON text, for the file of failed rows.

        A row of a JSON file is returned exactly as in the file, and a row of a table as JSON. The result is None for a
        row of a table that could not be parsed.
        """
        if self.row.text is not None or isinstance(self.row.content, DataError):
            return self.row.text
        return json.dumps(self.row.content, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class ShardRange:
    """A shard: a range of input rows that are judged and stored together.

    Attributes:
        first: The index of the first row, from 0 over all files.
        rows: The number of rows.
    """

    first: int
    rows: int


def input_paths(given: Sequence[Path]) -> list[Path]:
    """List the files to read. A folder stands for its files with an extension in `ROW_ENDINGS`, sorted by name.

    Raises:
        DataError: A file is missing or has another extension, or a folder contains no files with these extensions.
    """
    paths: list[Path] = []
    for path in given:
        inside = sorted(file for file in path.iterdir() if ending_of(file) in ROW_ENDINGS) if path.is_dir() else [path]
        if not inside:
            raise DataError("a folder without rows", path=path, hint=f"files that end in {', '.join(ROW_ENDINGS)}")
        paths += inside
    for path in paths:
        if ending_of(path) not in ROW_ENDINGS:
            hint = f"one of {', '.join(ROW_ENDINGS)} (text files may be gzipped: .csv.gz)"
            raise DataError(f"the ending {path.suffix!r} is not of a file of rows", path=path, hint=hint)
        if not path.is_file():
            raise DataError("no such file", path=path, hint="check the path")
    return paths


class Unchanged:
    """Detects whether input files change during a batch job, by their size and modification time.

    Create it before the files are read, and call `check` before results are stored.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._states = {path: _state(path) for path in paths}

    def check(self) -> None:
        """Check that the files have not changed.

        Raises:
            DataError: A file has changed.
        """
        for path, state in self._states.items():
            if _state(path) != state:
                hint = "rows judged since are dropped: run the command again, with a new folder if the content is new"
                raise DataError("the input was changed during the run", path=path, hint=hint)


def _state(path: Path) -> tuple[int, int] | None:
    """Return the size of a file in bytes and its modification time in ns, or None if the file cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def plan(
    paths: Sequence[Path], form: RowForm, shard_rows: int, remark: Callable[[str], None] = lambda line: None
) -> tuple[list[InputFile], list[ShardRange]]:
    """Prepare a batch job: read all input files once, hash them, count their rows, and divide the rows into shards.

    A shard is a portion of the rows that is judged and stored together. It ends after `shard_rows` rows or
    `SHARD_BYTES` characters, whichever comes first.

    Args:
        paths: The input files.
        form: How to read the rows.
        shard_rows: The largest number of rows in a shard.
        remark: Called with a line for each column layout that was recognised, and for each kind of content that is
            ignored.

    Returns:
        The files with their hashes and numbers of rows, and the shards, in order.

    Raises:
        DataError: A table lacks a named column or has no row with texts, or the files have no rows.
    """
    files: list[InputFile] = []
    shards: list[ShardRange] = []
    first = rows = size = 0
    for path in paths:
        before = first + rows
        reader = RowReader(path, form)
        problem: InputError | None = None
        readable = False
        for row in reader.rows():
            rows += 1
            try:
                case, _ = reader.case(row, "1")
                size += len(case.response) + sum(len(source.text) for source in case.sources)
                readable = True
            except InputError as error:
                problem = problem or error
            if rows >= shard_rows or size >= SHARD_BYTES:
                shards.append(ShardRange(first, rows))
                first, rows, size = first + rows, 0, 0
        if problem is not None and not readable and is_table(path):
            raise problem
        for line in reader.remarks():
            remark(line)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files.append(InputFile(str(path), digest, first + rows - before))
    if rows:
        shards.append(ShardRange(first, rows))
    if not shards:
        raise DataError("no rows in it", path=", ".join(map(str, paths)), hint="there is nothing to check")
    return files, shards


class BatchReader:
    """Reads ranges of rows from the input files of a batch job.

    Reading is sequential, so it is fast to continue at the end of the previous range or later. For an earlier row, the
    file is read again from its beginning.

    Args:
        files: The files to read, with their correct numbers of rows.
        form: How to read the rows.
    """

    def __init__(self, files: Sequence[InputFile], form: RowForm) -> None:
        self.files = files
        self.form = form
        self._next = 0
        self._rows: Iterator[InputRow] = iter(())
        self._begun = False

    def read(self, first: int, count: int) -> Iterator[InputRow]:
        """Yield `count` rows, starting at the index `first` (from 0 over all files).

        Raises:
            DataError: The files have fewer rows than before.
        """
        if first < self._next or not self._begun:
            self._rows, self._next, self._begun = self._from(first), first, True
        for _ in islice(self._rows, first - self._next):
            self._next += 1
        read = 0
        for row in islice(self._rows, count):
            self._next += 1
            read += 1
            yield row
        if read < count:
            raise DataError("the input was changed while it was read", hint="begin again, in another folder")

    def _from(self, skip: int) -> Iterator[InputRow]:
        number = 0
        for file in self.files:
            skipped = min(max(skip - number, 0), file.rows)
            if skipped < file.rows:
                reader = RowReader(Path(file.path), self.form)
                for i, row in enumerate(islice(reader.rows(), skipped, file.rows), number + skipped + 1):
                    yield InputRow(i, reader, row)
            number += file.rows
