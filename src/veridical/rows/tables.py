"""Read the rows of tables as a stream: CSV with any delimiter, XLSX and Parquet. A row is a mapping of its columns."""

from __future__ import annotations

import csv
import json
import re
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

from veridical.core.errors import DataError, MissingExtraError
from veridical.core.files import MAX_BYTES, NAME_ENCODING, not_text, open_bytes, open_text, read_bytes
from veridical.core.jsonl import is_text

__all__ = [
    "DAMAGED_OFFICE_FILE",
    "Choose",
    "TableRow",
    "csv_table",
    "delimiter_of",
    "excel_rows",
    "list_in",
    "objects_in",
    "parquet_table",
    "xlsx_table",
]

Choose: TypeAlias = Callable[[list[str]], Sequence[str]]
"""Returns the columns to read from the names of all; raises `InputError` if one is missing."""
TableRow: TypeAlias = tuple[int, Mapping[str, Any] | DataError]
"""The line or number of a row, from 1, with its values or the reason why it cannot be read."""

DAMAGED_OFFICE_FILE = (BadZipFile, KeyError, ValueError, AttributeError, SyntaxError)
"""What readers of Word and Excel files raise for damaged archives and XML."""

DELIMITERS = ",;\t|"
_SAMPLE = 64 * 1024  # characters of which the delimiter is found
_PARQUET_ROWS = 256  # rows that are decoded at once
_SEP = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_ITEM = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|None|null|nan|NaN""", re.DOTALL)
_BETWEEN = re.compile(r"\s*,\s*|\s+|(?=\])")


def delimiter_of(sample: str, default: str = ",") -> str:
    r"""Return the delimiter of a table: the one with which most of its first rows have as many cells as the header.

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
    r"""Return the texts of a cell that holds a list of texts as JSON, Python or NumPy write it; None if it does not.

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
    """Return the objects of a cell that holds a list of them, or one, as JSON or Python write it; else None.

    >>> objects_in("[{'text': 'a', 'score': None}]"), objects_in('{"text": "a"}'), objects_in("[1] A note.")
    ([{'text': 'a', 'score': None}], [{'text': 'a'}], None)
    """
    text = cell.strip()
    if not (text.startswith("{") and text.endswith("}")) and not (text.startswith("[") and text.endswith("]")):
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
    """Yield the rows of a text table, each with the line on which it begins.

    Args:
        path: The file, or "-" for standard input.
        choose: Which columns to read.
        encoding: Its encoding, where no byte-order mark says otherwise.
        delimiter: The character between two cells; None: the one of its first line "sep=;", else the one found.
        quoted: Whether a cell may stand in double quotes.
        strict: Whether text after a closing quote is an error.
        names: The names of the columns of a table without a header.
        max_bytes: The most characters in a cell.
    """
    with open_text(path, encoding=encoding, newline="") as file:
        try:
            first = file.readline(_SAMPLE)
            sep = _SEP.fullmatch(first)
            before = 1 if sep else 0
            start = [] if sep else [first]
            if delimiter is None and sep:
                delimiter = sep[1]
            elif delimiter is None:
                start += file.readlines(_SAMPLE)
                usual = "\t" if path.name.lower().endswith((".tsv", ".tab")) else ","
                delimiter = delimiter_of("".join(start)[:_SAMPLE], usual)
        except UnicodeError:
            raise DataError(not_text(encoding), path=path, line=1, hint=NAME_ENCODING) from None
        # the limit applies to the whole process; beyond it a quote is open, and where the next row begins is unknown
        limit = csv.field_size_limit(4 * max_bytes)
        quote = '"' if quoted else None
        quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        reader = csv.reader(chain(start, file), delimiter=delimiter, quoting=quoting, quotechar=quote, strict=strict)
        try:
            yield from _cells(path, reader, before, choose, encoding, list(names), max_bytes)
        finally:
            csv.field_size_limit(limit)


def _cells(
    path: Path, reader: Any, before: int, choose: Choose, encoding: str, head: list[str], max_bytes: int
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
            hint = f"quote cells that hold line breaks, quotes or {reader.dialect.delimiter!r}"
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


def xlsx_table(path: Path, choose: Choose) -> Iterator[TableRow]:
    """Yield the rows of the first sheet of an Excel file that has any; numbers and dates become texts."""
    head: list[str] = []
    first = 0
    for sheet_i, place, cells in excel_rows(read_bytes(path), path):
        if not any(cells):
            continue
        if not head:
            first, head = sheet_i, [(text or "").strip() for text in cells]
            chosen = _chosen(path, head, choose)
        elif sheet_i > first:
            return
        else:
            yield place, {name: text for name, text in zip(head, cells, strict=False) if name in chosen}


def excel_rows(data: bytes, path: Path) -> Iterator[tuple[int, int, list[str | None]]]:
    """Yield each row of an Excel file: the index of its sheet, its number, and its cells as texts.

    Raises:
        DataError: The file is damaged, or no Excel file.
        MissingExtraError: openpyxl is not installed.
    """
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise MissingExtraError("reading Excel files", "documents") from None

    try:
        with closing(load_workbook(BytesIO(data), read_only=True, data_only=True)) as book:
            for sheet_i, sheet in enumerate(book.worksheets):
                for place, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                    yield sheet_i, place, [_shown(cell) for cell in cells]
    except (InvalidFileException, *DAMAGED_OFFICE_FILE) as error:
        raise DataError(f"not a readable Excel file: {error}", path=path) from None


def _shown(cell: object) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell or None
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def parquet_table(path: Path, choose: Choose) -> Iterator[TableRow]:
    """Yield the rows of a Parquet file; only the chosen columns are read."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("reading Parquet files", "parquet") from None
    try:
        with open_bytes(path):  # say as elsewhere why a file cannot be opened
            file = parquet.ParquetFile(path)
    except arrow.ArrowException as error:
        raise DataError(f"not a readable Parquet file: {error}", path=path) from None
    place = 0
    with file:
        columns = list(choose(file.schema_arrow.names))
        try:
            for batch in file.iter_batches(_PARQUET_ROWS, columns=columns, use_threads=False):
                for values in _values(batch):
                    place += 1
                    bad = DataError("not UTF-8 text", path=path, line=place, hint="write the column as UTF-8 text")
                    yield place, bad if values is None else values
        except (arrow.ArrowException, OSError) as error:
            raise DataError(f"cannot be read on from row {place + 1}: {error}", path=path) from None


def _values(batch: Any) -> list[dict[str, Any] | None]:
    """Return the rows of a batch of Parquet data, with None for a row whose text is not UTF-8."""
    try:
        return batch.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        if batch.num_rows == 1:
            return [None]
        return [row for i in range(batch.num_rows) for row in _values(batch.slice(i, 1))]
