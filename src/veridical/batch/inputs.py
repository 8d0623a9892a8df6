"""The rows of one or many files as a stream, in bounded memory. Reading can start at any row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from veridical.core.errors import DataError, InputError
from veridical.core.types import Case
from veridical.rows import ENDINGS, RowForm, RowReader, SourceRow, ending_of, is_table

__all__ = ["BatchReader", "InputFile", "InputRow", "ShardRange", "Unchanged", "input_paths", "plan"]

SHARD_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file, with the hash of its bytes and its number of rows at the start of the run."""

    path: str
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row. `number` counts rows from 1 over all files; `reader` reads the file that holds it."""

    number: int
    reader: RowReader
    row: SourceRow

    def case(self) -> tuple[Case, str | None]:
        """Return the case in the row and its group; raise `DataError` for a row that is none."""
        return self.reader.case(self.row, str(self.number))

    def text(self) -> str | None:
        """Return the row as one JSON text, or the text that is not JSON; None if it cannot be shown."""
        if self.row.text is not None or isinstance(self.row.content, DataError):
            return self.row.text
        return json.dumps(self.row.content, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class ShardRange:
    """The rows of one shard: `rows` rows, with `first` rows before them."""

    first: int
    rows: int


def input_paths(given: Sequence[Path]) -> list[Path]:
    """Return the files to read: a folder stands for the files in it with one of `ENDINGS`, sorted by name.

    Raises `DataError` for a missing file, a file of another kind, or a folder without such files.
    """
    paths: list[Path] = []
    for path in given:
        inside = sorted(file for file in path.iterdir() if ending_of(file) in ENDINGS) if path.is_dir() else [path]
        if not inside:
            raise DataError("a folder without rows", path=path, hint=f"files that end in {', '.join(ENDINGS)}")
        paths += inside
    for path in paths:
        if ending_of(path) not in ENDINGS:
            hint = f"one of {', '.join(ENDINGS)} (text files may be gzipped: .csv.gz)"
            raise DataError(f"the ending {path.suffix!r} is not of a file of rows", path=path, hint=hint)
        if not path.is_file():
            raise DataError("no such file", path=path, hint="check the path")
    return paths


class Unchanged:
    """Remembers the size and the modification time of files, to notice a change during a run."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._states = {path: _state(path) for path in paths}

    def check(self) -> None:
        """Raise `DataError` if a file has changed since."""
        for path, state in self._states.items():
            if _state(path) != state:
                hint = "rows judged since are dropped: run the command again, with a new folder if the content is new"
                raise DataError("the input was changed during the run", path=path, hint=hint)


def _state(path: Path) -> tuple[int, int] | None:
    """Return the size of a file and the time of its last change (ns); None if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def plan(
    paths: Sequence[Path], form: RowForm, shard_rows: int, remark: Callable[[str], None] = lambda line: None
) -> tuple[list[InputFile], list[ShardRange]]:
    """Read everything once; return the files with their hashes and numbers of rows, and the shards.

    A shard ends after `shard_rows` rows or `SHARD_BYTES` characters, whichever comes first. `remark` gets one line for
    each layout of columns that was recognised, and for each kind of thing that was left out.

    Raises `DataError` for a table that lacks a named column, or has no row with texts; and for files without any row.
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
    """Reads rows by their numbers; continuing where the last call ended costs nothing extra.

    Args:
        files: The files, with their numbers of rows.
        form: How they are read.
    """

    def __init__(self, files: Sequence[InputFile], form: RowForm) -> None:
        self.files = files
        self.form = form
        self._next = 0
        self._rows: Iterator[InputRow] = iter(())
        self._begun = False

    def read(self, first: int, count: int) -> Iterator[InputRow]:
        """Yield `count` rows, skipping the first `first`; raise `DataError` if the files have become shorter."""
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
