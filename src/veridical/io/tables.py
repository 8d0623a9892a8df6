"""Read the rows of tables as a stream, from CSV with any delimiter, XLSX and Parquet.

A row is a mapping from column names to values.
"""

from __future__ import annotations

import csv
import json
import math
import re
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple, TextIO, TypeAlias
from xml.parsers.expat import ExpatError, ParserCreate
from zipfile import BadZipFile, ZipFile

from veridical.io.files import MAX_BYTES, NAME_ENCODING, not_text, open_bytes, open_text, read_bytes
from veridical.io.jsonl import is_text
from veridical.io.number_formats import shown
from veridical.io.strict_json import most_values
from veridical.io.unseen_cells import UnseenCells, unseen_cells
from veridical.records.errors import DataError, InputError, MissingExtraError

Choose: TypeAlias = Callable[[list[str]], Sequence[str]]
"""A function that takes the names of all columns of a table and returns the names of those to read.

It raises `InputError` if a required column is missing.
"""
TableRow: TypeAlias = tuple[int, Mapping[str, Any] | DataError]
"""The line or number of a row, from 1, with its values by column, or the error if it cannot be parsed."""

DAMAGED_OFFICE_FILE = (BadZipFile, KeyError, ValueError, AttributeError, SyntaxError)
"""The errors that readers of Word and Excel files raise for damaged archives and XML."""

DELIMITERS = ",;\t|"
_SAMPLE = 64 * 1024  # characters that are read to detect the delimiter
_MOST_VALUES = 400_000  # most values of a cell that is parsed as objects; each takes up to 500 bytes
_PARQUET_ROWS, _PARQUET_BYTES = 256, 64 * 1024 * 1024  # the most that are decoded at once
_MOST_UNPACKED = 16  # the size of an Excel file's parts, as a multiple of the largest cell
_ROW, _TEXT = (f"http://schemas.openxmlformats.org/spreadsheetml/2006/main {tag}" for tag in ("row", "si"))
_MOST_ROWS = 1_048_576  # most rows that Excel writes
_MOST_CELLS = 50_000_000  # most cells of a sheet, also empty ones: a row with only its last cell filled has 16,384
_MOST_TEXTS, _MOST_INSIDE, _MOST_OUTSIDE = 2_000_000, 200_000, 1_000_000  # elements take up to 400 bytes
_SEP = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_ITEM = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|None|null|nan|NaN""", re.DOTALL)
_BETWEEN = re.compile(r"\s*,\s*|\s+|(?=\])")


def delimiter_of(sample: str, default: str = ",") -> str:
    r"""Detect the delimiter of a CSV table from its first lines.

    The delimiter is the character that splits the largest number of the first rows into as many cells as the header. If
    no character splits the header, the result is `default`.

    >>> delimiter_of("response;sources\nYes, it is;a, b\n"), delimiter_of("response\na;b\n")
    (';', ',')
    """
    best, most = default, (0, 0)
    for delimiter in sorted(DELIMITERS, key=lambda mark: mark != default):
        rows = [cells for cells in csv.reader(sample.splitlines(keepends=True)[:200], delimiter=delimiter) if cells]
        width = len(rows[0]) if rows else 0
        alike = sum(len(cells) == width for cells in rows)
        if width > 1 and (alike, width) > most:
            best, most = delimiter, (alike, width)
    return best


def list_in(cell: str) -> list[str | None] | None:
    r"""Parse a cell that contains a list of texts, as JSON, Python or NumPy write it.

    Return None for any other cell.

    >>> list_in('["a", null]'), list_in("['a' \"b's\"]"), list_in("[1] A note.")
    (['a', None], ['a', "b's"], None)
    """
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    texts: list[str | None] = []
    at = len(text) - len(text[1:].lstrip())
    while text[at] != "]":
        item = _ITEM.match(text, at)
        gap = _BETWEEN.match(text, item.end()) if item else None
        if item is None or gap is None:
            return None
        try:
            texts.append(literal_eval(item[1]) if item[1] else None)
        except (ValueError, SyntaxError):  # a half of a surrogate pair, or an escape that Python does not know
            return None
        at = gap.end()
    return texts if at == len(text) - 1 else None


def objects_in(cell: str) -> list[Any] | None:
    """Parse a cell that contains an object or a list of objects, as JSON or Python write it.

    A single object gives a list with one item. Return None for any other cell.

    >>> objects_in("[{'text': 'a', 'score': None}]"), objects_in('{"text": "a"}'), objects_in("[1] A note.")
    ([{'text': 'a', 'score': None}], [{'text': 'a'}], None)
    """
    text = cell.strip()
    if not (text.startswith("{") and text.endswith("}")) and not (text.startswith("[") and text.endswith("]")):
        return None
    if most_values(text.encode(errors="replace")) > _MOST_VALUES:
        return None
    for read in (json.loads, literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        return value if isinstance(value, list) else [value]
    return None


def csv_table(
    path: Path,
    choose: Choose = lambda names: names,
    *,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    quoted: bool = True,
    strict: bool = True,
    names: Sequence[str] = (),
    max_bytes: int = MAX_BYTES,
) -> Iterator[TableRow]:
    """Yield the rows of a CSV or other delimited text file, each with the line on which it begins.

    A row that cannot be parsed has a `DataError` in place of its values.

    Args:
        path: The file to read. "-" is standard input.
        choose: A function that gets the names of all columns and returns those to read.
        encoding: The encoding of a file without a byte-order mark.
        delimiter: The delimiter, one character. Default: the one that a first line such as "sep=;" states, or else it
            is detected.
        quoted: If true, a cell may be in double quotes. If false, quotes are ordinary characters.
        strict: If true, text after a closing quote is an error.
        names: The names of the columns, for a table without a header.
        max_bytes: A cell may have at most this many characters, and a line four times as many.

    Raises:
        InputError: The delimiter is not a single character, or is a double quote, a line break or NUL.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        hint = "one character such as ; or |, and for a tab the file ending .tsv"
        raise InputError(f"the delimiter is {delimiter!r}", hint=hint)
    with open_text(path, encoding=encoding, newline="") as file:
        try:
            lines = _lines(file, 4 * max_bytes)
            first = next(lines, "")
            sep = _SEP.fullmatch(first)
            before = 1 if sep else 0
            start = [] if sep else [first]
            if delimiter is None and sep:
                delimiter = sep[1]
            elif delimiter is None:
                while sum(map(len, start)) < _SAMPLE and (line := next(lines, "")):
                    start.append(line)
                usual = "\t" if path.name.lower().endswith((".tsv", ".tab")) else ","
                delimiter = delimiter_of("".join(start)[:_SAMPLE], usual)
        except UnicodeError:
            raise DataError(not_text(encoding), path=path, line=1, hint=NAME_ENCODING) from None
        except csv.Error as error:
            raise DataError(f"not CSV: {error}", path=path, line=1) from None
        # a longer cell means an unclosed quote, so that the start of the next row is unknown
        reader = _CsvReader(chain(start, lines), 4 * max_bytes, delimiter=delimiter, quoted=quoted, strict=strict)
        yield from _cells(path, reader, before, choose, encoding, list(names), max_bytes)


def _lines(file: TextIO, most: int) -> Iterator[str]:
    """Yield the lines of a file. Raise `csv.Error` for a line of `most` or more characters, which is not read whole."""
    while line := file.readline(most):
        if len(line) == most:
            raise csv.Error(f"a line larger than {most:,} characters")
        yield line


class _CsvReader(Iterator[list[str]]):
    """Reads CSV records whose cells have up to `limit` characters, without affecting other readers.

    `csv.field_size_limit` holds for the whole process, so it is only changed while a record is read.
    """

    _lock = Lock()

    def __init__(self, lines: Iterable[str], limit: int, *, delimiter: str, quoted: bool, strict: bool) -> None:
        quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        quote = '"' if quoted else None
        self._reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, quotechar=quote, strict=strict)
        self._limit, self.delimiter = limit, delimiter

    @property
    def line_num(self) -> int:
        """The number of lines read so far."""
        return self._reader.line_num

    def __next__(self) -> list[str]:
        with self._lock:
            before = csv.field_size_limit(self._limit)
            try:
                return next(self._reader)
            finally:
                csv.field_size_limit(before)


def _cells(
    path: Path, reader: _CsvReader, before: int, choose: Choose, encoding: str, head: list[str], max_bytes: int
) -> Iterator[TableRow]:
    expected = f"{len(head)} are expected" if head else None
    chosen = frozenset(choose(head) if head else ())
    while True:
        place = before + reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            bad = DataError(f"not CSV: {error}", path=path, line=place)
            if not head or "larger than" in str(error):
                raise bad from None
            yield place, bad
            continue
        except UnicodeError:  # where the next character begins is unknown
            raise DataError(not_text(encoding), path=path, line=place, hint=NAME_ENCODING) from None
        if not cells:  # an empty line
            continue
        if not head:
            head = [cell.strip() for cell in cells]
            chosen = _chosen(path, head, choose)
            continue
        if len(cells) != len(head):
            expected = expected or f"the first line has {len(head)}"
            hint = f"quote cells that hold line breaks, quotes or {reader.delimiter!r}"
            yield place, DataError(f"{len(cells)} cells, and {expected}", path=path, line=place, hint=hint)
            continue
        values = {name: cell for name, cell in zip(head, cells, strict=True) if name in chosen}
        if any(len(cell) > max_bytes for cell in values.values()):
            hint = "split it, or raise the limit (--max-mb)"
            yield place, DataError(f"a cell of more than {max_bytes:,} characters", path=path, line=place, hint=hint)
        elif not all(map(is_text, values.values())):
            yield place, DataError(not_text(encoding), path=path, line=place, hint=NAME_ENCODING)
        elif any("\0" in cell for cell in values.values()):
            raise DataError("binary data, not text", path=path, line=place)
        else:
            yield place, values


def _chosen(path: Path, head: list[str], choose: Choose) -> frozenset[str]:
    name, count = Counter(head).most_common(1)[0]
    if count > 1 and name:
        raise DataError(f"two columns are called {name!r}", path=path, line=1)
    return frozenset(choose(head))


def xlsx_table(path: Path, choose: Choose, *, max_bytes: int = MAX_BYTES) -> Iterator[TableRow]:
    """Yield the rows of an Excel table, with cells as texts, from the first sheet that has rows and is not hidden.

    Each row comes with its number in the sheet, from 1. The first row with a value is the header. `choose` gets the
    names of all columns and returns those to read. A file that unzips to far more than `max_bytes` raises a
    `DataError`, because a small file can unzip to a huge size.
    """
    data = read_bytes(path)
    check_parts(data, path, _MOST_UNPACKED * max_bytes, hint="split it, or save it as CSV")
    for _, is_hidden, rows, _ in excel_sheets(data, path):
        head: list[str] = []
        chosen: frozenset[str] = frozenset()
        for place, cells in enumerate(rows if not is_hidden else (), 1):
            if not any(cells):
                continue
            if head:
                yield place, {name: text for name, text in zip(head, cells, strict=False) if name in chosen}
            else:
                head = [(text or "").strip() for text in cells]
                chosen = _chosen(path, head, choose)
        if head:
            return


def check_parts(data: bytes, path: Path, most: int, *, hint: str) -> None:
    """Check the ZIP entries of a Word or Excel file before they are unzipped, to reject files of a huge unzipped size.

    The declared sizes can be trusted, because no more of an entry is read than its declared size.

    Raises:
        DataError: All entries together have more than `most` bytes, or two entries have the same name, so that programs
            differ in which of them they show.
    """
    with suppress(BadZipFile), ZipFile(BytesIO(data)) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > most:
            raise DataError(f"more than {most:,} bytes in its parts", path=path, hint=hint)
        if len({part.filename for part in parts}) < len(parts):
            raise DataError("two of its parts have the same name", path=path, hint="open it and save it again")


def _check_elements(data: bytes, path: Path) -> None:
    """Check the XML of an Excel file as a stream, because a small file can hold millions of rows, cells and texts.

    Raises:
        DataError: A sheet has more rows than Excel writes, or a part has more elements than can be held in memory.
    """
    with ZipFile(BytesIO(data)) as archive:
        for name in archive.namelist():
            with suppress(ExpatError), archive.open(name) as part:
                _Elements(path).count(part)


class _Elements:
    """Counts the rows, shared texts and other elements of a part of an Excel file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = self._texts = self._inside = self._outside = 0
        self._is_inside = False  # inside a row or text, whose memory is freed once it is read

    def count(self, part: IO[bytes]) -> None:
        parser = ParserCreate(namespace_separator=" ")
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.ParseFile(part)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == _ROW:
            self._rows = max(self._rows + 1, math.ceil(min(float(attributes.get("r", 0)), _MOST_ROWS + 1)))
            self._check(self._rows, _MOST_ROWS, "rows")
        elif tag == _TEXT:
            self._texts += 1
            self._check(self._texts, _MOST_TEXTS, "texts")
        if self._is_inside:
            self._inside += 1
            self._check(self._inside, _MOST_INSIDE, "elements in a row or text")
        elif tag in (_ROW, _TEXT):
            self._is_inside, self._inside = True, 0
        else:
            self._outside += 1
            self._check(self._outside, _MOST_OUTSIDE, "elements beside its rows and texts")

    def _end(self, tag: str) -> None:
        if tag in (_ROW, _TEXT):
            self._is_inside = False

    def _check(self, number: int, most: int, what: str) -> None:
        if number > most:
            raise DataError(f"more than {most:,} {what}", path=self._path, hint="split it, or save it as CSV")


class ExcelSheet(NamedTuple):
    """A sheet of an Excel file.

    Attributes:
        name: The name of the sheet.
        is_hidden: True if a person does not see the sheet.
        rows: The cells of each row as Excel shows them, or None for an empty cell. Hidden rows are included.
        find_unseen: A function that finds hidden rows and columns, and formulas without a stored value.
    """

    name: str
    is_hidden: bool
    rows: Iterator[list[str | None]]
    find_unseen: Callable[[], UnseenCells]


def excel_sheets(data: bytes, path: Path) -> Iterator[ExcelSheet]:
    """Yield each sheet of an Excel file.

    Raises:
        DataError: The file is damaged, is not an Excel file, or has too many rows, cells or texts.
        MissingExtraError: openpyxl is not installed.
    """
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise MissingExtraError("reading Excel files", "documents") from None

    @contextmanager
    def readable() -> Iterator[None]:
        try:
            yield
        except DataError:
            raise
        except (InvalidFileException, *DAMAGED_OFFICE_FILE) as error:
            raise DataError(f"not a readable Excel file: {error}", path=path) from None

    def rows(sheet: Any) -> Iterator[list[str | None]]:
        count = 0
        with readable():
            for cells in sheet.iter_rows():
                count += len(cells)
                if count > _MOST_CELLS:
                    hint = "split it, or save it as CSV"
                    raise DataError(f"more than {_MOST_CELLS:,} cells, with empty ones", path=path, hint=hint)
                yield [shown(cell.value, getattr(cell, "number_format", "General")) for cell in cells]

    def unseen(sheet: Any) -> UnseenCells:
        if not hasattr(sheet, "_get_source"):  # a sheet with a chart only
            return UnseenCells()
        with readable(), sheet._get_source() as source:
            return unseen_cells(source)

    with readable():
        _check_elements(data, path)
        book = load_workbook(BytesIO(data), read_only=True, data_only=True)
    with closing(book):
        for sheet in book.worksheets:
            yield ExcelSheet(sheet.title, sheet.sheet_state != "visible", rows(sheet), partial(unseen, sheet))


def parquet_table(path: Path, choose: Choose, *, max_bytes: int = MAX_BYTES) -> Iterator[TableRow]:
    """Yield the rows of a Parquet file, each with its number from 1.

    `choose` gets the names of all columns and returns those to read.

    Very large rows are errors, to limit memory. If the rows of a row group are far larger than `max_bytes` on average,
    a `DataError` is raised. For a single row with too many values, or with texts of more than four times `max_bytes`,
    the error is yielded instead of its values.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("reading Parquet files", "parquet") from None
    try:
        with open_bytes(path), parquet.ParquetFile(path) as file:  # `open_bytes` raises the usual errors
            leaves = [file.schema.column(i) for i in range(len(file.schema))]
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        # keep dictionaries of repeated texts: a dictionary of a few kilobytes can expand to gigabytes
        texts = [
            leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type != "DECIMAL"
        ]
        file = parquet.ParquetFile(path, read_dictionary=texts)
    except arrow.ArrowException as error:
        raise DataError(f"not a readable Parquet file: {error}", path=path) from None
    largest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    if largest > _MOST_UNPACKED * max_bytes:
        raise DataError(f"rows of {largest:,} bytes on average", path=path, hint="split them")
    at_once = min(_PARQUET_ROWS, _PARQUET_BYTES // max(1, largest)) or 1
    place = 0
    with file:
        columns = list(choose(file.schema_arrow.names))
        try:
            for batch in file.iter_batches(at_once, columns=columns, use_threads=False):
                is_large = _too_large(batch, max_bytes)
                for i in range(batch.num_rows):
                    place += 1
                    # a few kilobytes can hold a list of millions of nulls, or of references to one long text
                    if is_large and _too_large(batch.slice(i, 1), max_bytes):
                        message = f"more than {_MOST_VALUES:,} values, or {4 * max_bytes:,} bytes of text"
                        yield place, DataError(message, path=path, line=place, hint="split it")
                        continue
                    hint = "write the column as UTF-8 text"
                    values: Any = DataError("not UTF-8 text", path=path, line=place, hint=hint)
                    with suppress(UnicodeDecodeError):
                        (values,) = batch.slice(i, 1).to_pylist()
                    yield place, values
        except (arrow.ArrowException, OSError) as error:
            raise DataError(f"cannot be read on from row {place + 1}: {error}", path=path) from None


def _too_large(batch: Any, max_bytes: int) -> bool:
    """Return whether the rows of a Parquet file would be too large as Python objects."""
    sizes = [_size_of(column) for column in batch.columns]
    return sum(count for count, _ in sizes) > _MOST_VALUES or sum(size for _, size in sizes) > 4 * max_bytes


def _size_of(column: Any) -> tuple[int, int]:
    """Return the number of values in a Parquet column, including values inside lists, and the bytes of its texts."""
    from pyarrow import ListArray, StructArray, compute, types

    if types.is_map(column.type):
        pairs = StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        column = ListArray.from_arrays(column.offsets, pairs)
    kind, size = column.type, 0
    if types.is_nested(kind):
        inner = column.flatten()
        sizes = [_size_of(part) for part in (inner if types.is_struct(kind) else [inner])]
        return len(column) + sum(count for count, _ in sizes), sum(size for _, size in sizes)
    if types.is_dictionary(kind):
        size = compute.sum(compute.binary_length(column.dictionary).take(column.indices)).as_py() or 0
    elif types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        size = compute.sum(compute.binary_length(column)).as_py() or 0
    return len(column), size
