"""Rows of JSON Lines, CSV and Parquet files as a stream, over one or many files, in bounded memory.

Reading can start at any row.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from veridical.batch.columns import Columns
from veridical.core.errors import DataError, InputError, MissingExtraError
from veridical.core.files import MAX_BYTES, open_bytes
from veridical.core.jsonl import read_lines

__all__ = [
    "ENDINGS",
    "InputFile",
    "InputRow",
    "RowReader",
    "ShardRange",
    "Unchanged",
    "input_paths",
    "is_table",
    "plan",
]

ENDINGS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
SHARD_BYTES = 16 * 1024 * 1024
_PARQUET_ROWS = 256  # rows that are decoded at once

# a line of JSON, the values of a table's row by column, or the error of a row that cannot be read
Content: TypeAlias = "str | Mapping[str, Any] | DataError"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file, with the hash of its bytes and its number of rows at the start of the run."""

    path: str
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row. `number` counts rows from 1 over all files, `place` counts lines or rows from 1 within its file."""

    number: int
    path: str
    place: int
    content: Content


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
        inside = sorted(file for file in path.iterdir() if _ending(file) in ENDINGS) if path.is_dir() else [path]
        if not inside:
            raise DataError("a folder without rows", path=path, hint=f"files that end in {', '.join(ENDINGS)}")
        paths += inside
    for path in paths:
        if _ending(path) not in ENDINGS:
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


def is_table(path: str | Path) -> bool:
    """Return whether a file is a table with a header, rather than a file of JSON objects."""
    return _ending(Path(path)) in (".csv", ".tsv", ".parquet")


def plan(
    paths: Sequence[Path], columns: Columns, shard_rows: int, max_bytes: int = MAX_BYTES, encoding: str = "utf-8"
) -> tuple[list[InputFile], list[ShardRange]]:
    """Read everything once; return the files with their hashes and numbers of rows, and the shards.

    A shard ends after `shard_rows` rows or `SHARD_BYTES` bytes, whichever comes first. Raises `DataError` for a table
    that lacks a named column, or for files without any row.
    """
    files: list[InputFile] = []
    shards: list[ShardRange] = []
    first = rows = size = 0
    for path in paths:
        before = first + rows
        for row_size in _sizes(path, columns, max_bytes, encoding):
            rows += 1
            size += row_size
            if rows >= shard_rows or size >= SHARD_BYTES:
                shards.append(ShardRange(first, rows))
                first, rows, size = first + rows, 0, 0
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files.append(InputFile(str(path), digest, first + rows - before))
    if rows:
        shards.append(ShardRange(first, rows))
    if not shards:
        raise DataError("no rows in it", path=", ".join(map(str, paths)), hint="there is nothing to check")
    return files, shards


class RowReader:
    """Reads rows by their numbers; continuing where the last call ended costs nothing extra.

    Args:
        files: The files, with their numbers of rows.
        columns: Which columns of tables to read.
        max_bytes: The longest line of JSON, or cell, that is read.
        encoding: The encoding of CSV and TSV files; JSON Lines and Parquet are always UTF-8.
    """

    def __init__(
        self, files: Sequence[InputFile], columns: Columns, max_bytes: int = MAX_BYTES, encoding: str = "utf-8"
    ) -> None:
        self.files = files
        self.columns = columns
        self.max_bytes = max_bytes
        self.encoding = encoding
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
                rows = _rows(Path(file.path), self.columns, self.max_bytes, self.encoding, skipped)
                for i, (place, content) in enumerate(islice(rows, file.rows - skipped), number + skipped + 1):
                    yield InputRow(i, file.path, place, content)
            number += file.rows


def _ending(path: Path) -> str:
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix if not name.endswith(".parquet.gz") else ".gz"


def _rows(path: Path, columns: Columns, max_bytes: int, encoding: str, skip: int) -> Iterator[tuple[int, Content]]:
    """Yield the place and the content of each row after the first `skip`."""
    if _ending(path) == ".parquet":
        return _parquet_rows(path, columns, skip)
    rows = _csv_rows(path, columns, max_bytes, encoding) if is_table(path) else _json_rows(path, max_bytes)
    return islice(rows, skip, None)


def _sizes(path: Path, columns: Columns, max_bytes: int, encoding: str) -> Iterator[int]:
    """Yield the approximate size of each row in bytes; for Parquet, the mean of its row group."""
    if _ending(path) == ".parquet":
        for count, size in _parquet_groups(path, columns):
            yield from (size // count for _ in range(count))
        return
    for _, content in _rows(path, columns, max_bytes, encoding, 0):
        if isinstance(content, str):
            yield len(content)
        else:
            yield 0 if isinstance(content, DataError) else sum(map(len, content.values()))


def _json_rows(path: Path, max_bytes: int) -> Iterator[tuple[int, Content]]:
    bad: list[DataError] = []
    for line in read_lines(path, max_bytes=max_bytes, on_bad=bad.append):
        yield from ((error.line or 0, error) for error in bad)
        bad.clear()
        yield line.number, line.text
    yield from ((error.line or 0, error) for error in bad)


def _csv_rows(path: Path, columns: Columns, max_bytes: int, encoding: str) -> Iterator[tuple[int, Content]]:
    hint = "name its encoding with --encoding, such as --encoding cp1252"
    with open_bytes(path) as binary:
        codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        text = io.TextIOWrapper(binary, codec, errors="surrogateescape", newline="")
        csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
        reader = csv.reader(text, delimiter="\t" if _ending(path) == ".tsv" else ",", strict=True)
        try:
            head = next(reader, None)
        except csv.Error as error:
            raise DataError(f"its first line is not CSV: {error}", path=path) from None
        except UnicodeError:
            raise DataError(f"not {encoding} text", path=path, line=1, hint=hint) from None
        if head is None:
            return
        if len(set(head)) < len(head):
            duplicate = next(name for name, count in Counter(head).items() if count > 1)
            raise DataError(f"two columns are called {duplicate!r}", path=path, line=1)
        try:
            read_names = columns.read_from(head)
        except InputError as error:
            raise DataError(error.message, path=path, line=1, hint=error.hint) from None
        while True:
            place = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield place, DataError(f"not CSV: {error}", path=path, line=place)
                continue
            except UnicodeError:  # stop: the beginning of the next character is unknown
                raise DataError(f"not {encoding} text", path=path, line=place, hint=hint) from None
            if not cells:  # an empty line
                continue
            if len(cells) != len(head):
                message = f"{len(cells)} cells, and the first line has {len(head)}"
                yield place, DataError(message, path=path, line=place, hint="quote cells that hold commas or quotes")
                continue
            values = {name: cell for name, cell in zip(head, cells, strict=True) if name in read_names}
            if any("\udc80" <= c <= "\udcff" for cell in values.values() if not cell.isascii() for c in cell):
                yield place, DataError(f"not {encoding} text", path=path, line=place, hint=hint)
                continue
            yield place, values


def _parquet(path: Path, columns: Columns) -> tuple[Any, list[str]]:
    """Open a Parquet file; return it and the names of the columns to read."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("reading Parquet files", "parquet") from None
    try:
        file = parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"not a readable Parquet file: {error}", path=path) from None
    schema = file.schema_arrow
    try:
        read_names = columns.read_from(schema.names)
    except InputError as error:
        raise DataError(error.message, path=path, hint=error.hint) from None
    response = schema.field(columns.response or "response").type
    kind = response.value_type if arrow.types.is_dictionary(response) else response
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind) or str(kind) == "string_view"):
        name = columns.response or "response"
        raise DataError(f"the column {name!r} holds {kind}, not text", path=path, hint="name another with --response")
    return file, read_names


def _parquet_groups(path: Path, columns: Columns) -> Iterator[tuple[int, int]]:
    """Yield the number of rows and the uncompressed size in bytes of each row group that is not empty."""
    file, _ = _parquet(path, columns)
    with file:
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    yield from ((group.num_rows, group.total_byte_size) for group in groups if group.num_rows)


def _parquet_rows(path: Path, columns: Columns, skip: int) -> Iterator[tuple[int, Content]]:
    import pyarrow as arrow

    file, read_names = _parquet(path, columns)
    with file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        group = place = 0
        while group < len(sizes) and place + sizes[group] <= skip:
            place += sizes[group]
            group += 1
        groups = list(range(group, len(sizes)))
        try:
            for batch in file.iter_batches(_PARQUET_ROWS, row_groups=groups, columns=read_names, use_threads=False):
                for i, values in enumerate(_values(batch), place + 1):
                    if i > skip:
                        bad = DataError("not UTF-8 text", path=path, line=i, hint="write the column as UTF-8 text")
                        yield i, bad if values is None else values
                place += batch.num_rows
        except (arrow.ArrowException, OSError) as error:
            raise DataError(f"cannot be read on from row {place + 1}: {error}", path=path) from None


def _values(batch: Any) -> list[dict[str, Any] | None]:
    """Return the rows of a batch of Parquet data, with None for a row whose text is not UTF-8."""
    try:
        return batch.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return (
            [None]
            if batch.num_rows == 1
            else [row for i in range(batch.num_rows) for row in _values(batch.slice(i, 1))]
        )
