"""Read the rows of published JSON and CSV files, with their line numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from veridical.datasets.reading import Row, object_rows, shown
from veridical.io.files import read_text
from veridical.io.json_positions import after_space
from veridical.io.jsonl import OnBad, json_error, refuse
from veridical.io.tables import csv_table
from veridical.records.errors import DataError, InputError


def group(**pairs: object) -> tuple[tuple[str, str], ...]:
    """Make the `group` of an example from keywords, as sorted pairs of texts. Keywords with None are left out."""
    return tuple(sorted((key, str(value)) for key, value in pairs.items() if value is not None))


@contextmanager
def refusing(row: Row, on_bad: OnBad) -> Iterator[None]:
    """While the context lasts, pass an error about a row to `on_bad`, or raise it if `on_bad` is None.

    An error without a place gets the file and the line of `row`.
    """
    try:
        yield
    except DataError as error:
        refuse(error, on_bad)
    except InputError as error:
        refuse(row.bad(error.message, hint=error.hint), on_bad)


def json_rows(path: Path, on_bad: OnBad = None, *, key: str | None = None, names: Sequence[str] = ()) -> Iterator[Row]:
    """Read the objects in a JSON array, each with the line on which it begins.

    If you pass `key`, the file contains one object, and the array is the value of this field. If you pass `names`,
    items may also be lists with one value per name. The names become the fields of such an item.
    """
    text = read_text(path)
    if not text.strip():
        raise DataError("the file is empty", path=path)
    position = after_space(text, 0) if key is None else _start_of_array(text, key, path)
    if text[position] != "[":
        line = 1 + text.count("\n", 0, position)
        raise DataError("not a JSON array", path=path, line=line, hint="is it JSON Lines?")
    position = after_space(text, position + 1)
    decoder = json.JSONDecoder()
    line, counted, number = 1, 0, 0
    escapes = "\\u" in text
    while position < len(text) and text[position] != "]":
        line, counted, number = line + text.count("\n", counted, position), position, number + 1
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise json_error(error, path, getattr(error, "lineno", line)) from None
        if names and isinstance(value, list) and len(value) == len(names):
            value = dict(zip(names, value, strict=True))
        yield from object_rows(path, line, number, value, on_bad, escapes=escapes)
        position = after_space(text, end)
        if text[position : position + 1] == ",":
            position = after_space(text, position + 1)
        elif text[position : position + 1] != "]":
            raise DataError("not JSON: the array is not closed", path=path, line=1 + text.count("\n", 0, position))
    if key is None and text[position + 1 :].strip():
        raise DataError("there is text after the JSON array", path=path, line=1 + text.count("\n", 0, position))
    if position >= len(text):
        raise DataError("not JSON: the array is not closed", path=path, line=1 + text.count("\n"))
    if number == 0:
        raise DataError("the array is empty", path=path)


def _start_of_array(text: str, key: str, path: Path) -> int:
    """Find where in `text`, which is one JSON object, the value of `key` begins. This value must be an array."""
    Row(path, 1, _json_object(text, path)).items(key)  # raises unless the text is well-formed and has the field
    decoder = json.JSONDecoder()
    position = text.index("{") + 1
    while True:
        name, end = decoder.raw_decode(text, after_space(text, position))
        position = after_space(text, after_space(text, end) + 1)  # after the colon
        if name == key:
            return position
        _, end = decoder.raw_decode(text, position)
        position = after_space(text, end) + 1  # after the comma


def _json_object(text: str, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise json_error(error, path, getattr(error, "lineno", 1)) from None
    if not isinstance(value, dict):
        raise DataError(f"found {shown(value)}, not a JSON object", path=path, line=1)
    return value


def read_json_object(path: Path) -> Row:
    """Read a JSON file that holds one object."""
    text = read_text(path)
    if not text.strip():
        raise DataError("the file is empty", path=path)
    return next(object_rows(path, 1, 1, _json_object(text, path), None, escapes="\\u" in text))


def csv_rows(
    path: Path,
    on_bad: OnBad = None,
    *,
    delimiter: str = ",",
    quoted: bool = True,
    names: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Iterator[Row]:
    """Read the rows of a table, each with the line on which it begins. Quoted fields may contain line breaks.

    Args:
        path: The file to read.
        on_bad: A function that receives the error of each row that cannot be read.
        delimiter: The character between two fields.
        quoted: Whether a field may stand in double quotes.
        names: The names of the fields, for a table without a header.
        encoding: The encoding of the file.
    """
    table = csv_table(path, strict=False, encoding=encoding, delimiter=delimiter, quoted=quoted, names=names)
    number = 0
    for number, (line, values) in enumerate(table, 1):
        if isinstance(values, DataError):
            refuse(values, on_bad)
        else:
            yield Row(path, line, values, number)
    if number == 0:
        raise DataError("the file is empty, or a header without any row", path=path)
