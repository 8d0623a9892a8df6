"""Read the rows of published data files, with their line numbers.

`Row` reads the fields of one record, and raises an error with the file and the line if a field is missing or wrong.
`read_rows` makes examples from rows, and checks that no id occurs twice. It raises the error of a bad row, or passes
the error to `on_bad`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from veridical.io.jsonl import OnBad, read_json, refuse
from veridical.records.errors import DataError, InputError
from veridical.records.types import Example


class UnfitRow(DataError):
    """Raised for a row that is a known defect of the published set.

    `read_rows` skips such a row. It passes the error to the function `on_bad` if there is one, and never raises it.
    """


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a data file. Its methods read single fields, and their errors name the file and the line.

    Attributes:
        path: The data file.
        line: The line of the record, from 1. A nested record has the line of the record that contains it.
        values: The fields of the record, by name.
        number: The number of the record in the file, or of a nested record in its list, from 1.
        within: Where a nested record is in the outer record, for example "annotations 3". "" for an outer record.
    """

    path: Path
    line: int
    values: Mapping[str, Any]
    number: int = 1
    within: str = ""

    def bad(self, message: str, *, hint: str | None = None, kind: type[DataError] = DataError) -> DataError:
        """Make the error, of the class `kind`, that reports `message` for this row. It is returned, not raised."""
        where = f"{self.within}: " if self.within else ""
        return kind(where + message, path=self.path, line=self.line, hint=hint)

    def unfit(self, message: str) -> DataError:
        """Make an error for a row with a known defect of the published data set. `read_rows` then skips the row."""
        return self.bad(message, kind=UnfitRow)

    def get(self, key: str) -> Any:
        """Return the value of a field.

        Raises:
            DataError: The field is missing. The message lists the fields of the row.
        """
        if key not in self.values:
            fields = ", ".join(list(self.values)[:12]) or "none"
            raise self.bad(f"no field {key!r}", hint=f"the row's fields: {fields}; is the file of this data set?")
        return self.values[key]

    def text(self, key: str, *, blank: bool = False) -> str:
        """Return the text of a field unchanged.

        Raises:
            DataError: The field is not a text, or it is blank and `blank` is False.
        """
        value = self.get(key)
        if not isinstance(value, str):
            raise self.bad(f"{key!r} is {shown(value)}, not a text")
        if not blank and not value.strip():
            raise self.bad(f"{key!r} is empty")
        return value

    def optional(self, key: str) -> str | None:
        """Return the trimmed text of a field, or None if the field is missing, null or blank.

        Raises:
            DataError: The field is not a text.
        """
        if self.values.get(key) is None:
            return None
        return self.text(key, blank=True).strip() or None

    def name(self, key: str) -> str:
        """Return the name in a field, which may be given as a text or as a whole number."""
        value = self.get(key)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else self.text(key)

    def numeric(self, key: str, *, low: float = -math.inf, high: float = math.inf) -> float:
        """Return the number in a field, which may also be given as a text.

        Raises:
            DataError: The field is not a number from `low` to `high`.
        """
        value = self.get(key)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not low <= number <= high:
            between = "" if low == -math.inf and high == math.inf else f" from {low:g} to {high:g}"
            raise self.bad(f"{key!r} is {shown(value)}, not a number{between}")
        return number

    def choice(self, key: str, allowed: Mapping[Any, float]) -> float:
        """Return the number that the value of a field stands for, such as 1.0 for "yes", by the mapping `allowed`.

        Raises:
            DataError: The mapping does not contain the value. The message lists its keys.
        """
        value = self.get(key)
        if isinstance(value, list | dict) or value not in allowed:
            raise self.bad(f"{key!r} is {shown(value)}", hint=f"allowed: {', '.join(map(repr, allowed))}")
        return allowed[value]

    def items(self, key: str) -> list[Any]:
        """Return the list in a field."""
        value = self.get(key)
        if not isinstance(value, list):
            raise self.bad(f"{key!r} is {shown(value)}, not a list")
        return value

    def texts(self, key: str) -> list[str]:
        """Return the list of texts in a field."""
        for item in self.items(key):
            if not isinstance(item, str):
                raise self.bad(f"{key!r} holds {shown(item)}, not a text")
        return self.items(key)

    def flags(self, key: str) -> list[bool]:
        """Return the list of booleans in a field. They may be written as 0/1 or as false/true."""
        for item in self.items(key):
            if not isinstance(item, bool) and item not in (0, 1):
                raise self.bad(f"{key!r} holds {shown(item)}, not 0 or 1")
        return [bool(item) for item in self.items(key)]

    def row(self, key: str) -> Row:
        """Return the JSON object in a field as a nested row, with the line and the number of this row."""
        value = self.get(key)
        if not isinstance(value, dict):
            raise self.bad(f"{key!r} is {shown(value)}, not an object")
        return replace(self, values=value, within=f"{self.within} {key}".strip())

    def rows(self, key: str) -> list[Row]:
        """Return the JSON objects of the list in a field as nested rows, with the line of this row."""
        for item in self.items(key):
            if not isinstance(item, dict):
                raise self.bad(f"{key!r} holds {shown(item)}, not an object")
        return [
            Row(self.path, self.line, item, i, f"{self.within} {key} {i}".strip())
            for i, item in enumerate(self.items(key), 1)
        ]


def text_id(text: str) -> str:
    """Return a short id for a text, which is the first 12 hexadecimal digits of its SHA-256 hash."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def shown(value: object) -> str:
    """Show a value in at most 40 characters, for an error message."""
    return "missing" if value is None else repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:37]}..."


def read_rows(rows: Iterable[Row], make: Callable[[Row], Iterable[Example]], on_bad: OnBad = None) -> Iterator[Example]:
    """Convert each row to examples with `make`, and yield the examples in order.

    A row is bad if `make` raises an `InputError` for it (such as for a span outside its text, or for two sources with
    the same id), or if the id of an example occurred in an earlier row. A bad row yields no examples. A `DataError`
    with the file and the line is raised for it, or passed to `on_bad` if you give that function.

    If `make` raises `UnfitRow`, the row is always skipped, and only `on_bad` gets the error.
    """
    seen: dict[str, int] = {}
    for row in rows:
        try:
            examples = list(make(row))
            for example in examples:
                if example.case.id in seen:
                    raise row.bad(f"the id {example.case.id!r} was on line {seen[example.case.id]} already")
        except DataError as error:
            if on_bad is not None or not isinstance(error, UnfitRow):
                refuse(error, on_bad)
            continue
        except InputError as error:
            refuse(row.bad(error.message, hint=error.hint), on_bad)
            continue
        seen.update((example.case.id, row.line) for example in examples)
        yield from examples


def jsonl_rows(path: Path, on_bad: OnBad = None) -> Iterator[Row]:
    """Yield one row for each JSON object of a JSON Lines file. The file is streamed, and blank lines are skipped.

    If a line is not a JSON object, its `DataError` is passed to the function `on_bad`, or raised if `on_bad` is None.
    """
    number = 0

    def count_bad(error: DataError) -> None:
        nonlocal number
        number += 1
        refuse(error, on_bad)

    for line, value in read_json(path, on_bad=count_bad):
        number += 1
        yield from object_rows(path, line.number, number, value, on_bad, escapes="\\u" in line.text)
    if number == 0:
        raise DataError("the file is empty", path=path)


def object_rows(path: Path, line: int, number: int, value: object, on_bad: OnBad, *, escapes: bool) -> Iterator[Row]:
    """Yield a parsed JSON value as a row if it is an object. Any other value is an error.

    An object that contains a lone surrogate (half of a UTF-16 pair) is an error, too. JSON can only contain one as a
    `\\u` escape, so this is checked only if you set `escapes`. The error is passed to the function `on_bad`, or raised
    if `on_bad` is None.
    """
    try:
        if escapes:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        refuse(DataError("half of a surrogate pair stands alone in a text", path=path, line=line), on_bad)
        return
    if isinstance(value, dict):
        yield Row(path, line, value, number)
    else:
        refuse(DataError(f"found {shown(value)}, not a JSON object", path=path, line=line), on_bad)
