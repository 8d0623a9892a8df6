"""Read the rows of a file as cases, one at a time, from JSON in any arrangement, CSV, Excel or Parquet.

A row is a row of a table, or a value of a JSON file. It contains one case, or a conversation.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from veridical.io.columns import LABELS, Columns, as_case, own_case, own_turns
from veridical.io.conversations import named_messages
from veridical.io.files import MAX_BYTES, ending_of
from veridical.io.json_values import JsonPlace, json_values
from veridical.io.serialization import HALF_CHARACTER
from veridical.io.strict_json import named
from veridical.io.tables import csv_table, parquet_table, xlsx_table
from veridical.records.errors import DataError, InputError
from veridical.records.types import Case

__all__ = ["Columns", "Content", "RowForm", "RowReader", "SourceRow", "is_table", "read_cases"]

_TABLES = (".csv", ".tsv", ".tab", ".xlsx", ".parquet")

Content: TypeAlias = "Mapping[str, Any] | DataError"
"""The values of a row by column, or the error if the row cannot be parsed."""


@dataclass(frozen=True, slots=True)
class RowForm:
    """The user's options for reading files of rows, such as column names and encoding.

    Attributes:
        columns: The columns that contain the parts of a case.
        encoding: The encoding of text files without a byte-order mark.
        delimiter: The delimiter of text tables, such as ";". Default: it is detected.
        max_bytes: The maximum number of characters in a JSON line or a cell.
        also: Columns to read from tables in addition to those of the case and of labels.
    """

    columns: Columns = field(default_factory=Columns)
    encoding: str = "utf-8"
    delimiter: str | None = None
    max_bytes: int = MAX_BYTES
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of a file of rows.

    Attributes:
        place: The line of the file on which it begins, or in an Excel or Parquet file the number of the row, from 1.
        content: Its values by column, or the error if it cannot be parsed.
        text: Its JSON text. None for a row of a table.
        json: The position of this text in the file. None for a row of a table.
    """

    place: int
    content: Content
    text: str | None = None
    json: JsonPlace | None = None


def is_table(path: str | Path) -> bool:
    """Return whether a file is a table (CSV, TSV, Excel or Parquet) by its extension, and not a file of JSON values."""
    return ending_of(path) in _TABLES


class RowReader:
    """Reads the rows of one file, and converts them to cases.

    Attributes:
        notes: How often each kind of content was ignored so far, such as "sources that are null, left out".
        layout: A line for the user that says which columns were recognised, or that no column of sources is known. None
            if the file has Veridical's own columns.
    """

    def __init__(self, path: Path, form: RowForm) -> None:
        self.path, self.form = path, form
        self.notes: Counter[str] = Counter()
        self.layout: str | None = None
        self._layout: str | None = None
        self._names: list[str] = []  # of all columns of a table, read or not

    def rows(self) -> Iterator[SourceRow]:
        """Yield the rows of the file, which is read as a stream.

        A row that cannot be parsed has an error as its content.

        Raises:
            DataError: The file cannot be read, or is a table that lacks a required column.
        """
        form, ending = self.form, ending_of(self.path)
        if ending == ".parquet":
            rows = parquet_table(self.path, self._choose, max_bytes=form.max_bytes)
        elif ending == ".xlsx":
            rows = xlsx_table(self.path, self._choose, max_bytes=form.max_bytes)
        elif is_table(self.path):
            rows = csv_table(
                self.path,
                self._choose,
                encoding=form.encoding,
                delimiter=form.delimiter,
                max_bytes=form.max_bytes,
            )
        else:
            yield from self._json_rows()
            return
        for line, content in rows:
            yield SourceRow(line, content)

    def _json_rows(self) -> Iterator[SourceRow]:
        def note() -> None:
            self.notes["numbers that JSON does not have, such as NaN, read as null"] += 1

        form = self.form
        values = json_values(self.path, max_bytes=form.max_bytes, encoding=form.encoding, on_constant=note)
        for value in values:
            content = value.value
            if self._is_message(content):  # the file is one conversation
                messages = [content, *(other.value for other in values)]
                problems = (message for message in messages if isinstance(message, DataError))
                content = next(problems, {"messages": messages})
            if "\\ud" in value.text.lower() and not _is_unicode(content):
                content = DataError(HALF_CHARACTER, path=self.path, line=value.line)
            if not isinstance(content, dict | DataError):
                kind = named(content)
                hint = 'a row is an object, such as {"response": "…", "sources": ["…"]}'
                content = DataError(f"found a JSON {kind}, not an object", path=self.path, line=value.line, hint=hint)
            if not isinstance(content, DataError):
                content = named_messages(content)
            yield SourceRow(value.line, content, value.text, value.place)

    def _choose(self, names: list[str]) -> list[str]:
        """Choose which columns of a table to read."""
        columns, self._names = self.form.columns, names
        try:
            columns.resolve(dict.fromkeys(names, ""))
        except InputError as error:
            if columns.response or not {"output", "outputs"} & set(names):  # their parts are recognised row by row
                raise DataError(error.message, path=self.path, line=1, hint=error.hint) from None
        needed = set(columns.needed(names))
        return [name for name in names if name in needed or name in (*LABELS, *self.form.also)]

    def _resolved(self, row: Mapping[str, Any]) -> tuple[Columns, str | None]:
        """Find the columns of a row and the name of their layout."""
        columns, layout = self.form.columns.resolve(row, self._layout)
        if layout is not None and self._layout is None:
            self._layout = layout
            self.layout = f"{self.path}: columns as in {layout}: {columns.describe()}"
        elif self.layout is None and self._is_table and not (columns.sources or columns.must_cover):
            names = ", ".join(map(repr, (self._names or list(row))[:20]))
            self.layout = f"{self.path}: no column of sources is known (columns: {names}; name yours with --source)"
        return columns, layout

    def case(self, row: SourceRow, default_id: str) -> tuple[Case, str | None]:
        """Convert a row to a case. Return the case, and the row's value in the column `group` (None if there is none).

        If the row is a conversation, the case is its last assistant turn. `default_id` is the id for a row without one.

        Raises:
            DataError: The row contains no case. The error names the file and the line.
        """
        values = row.content
        if isinstance(values, DataError):
            raise values
        columns = None
        try:
            columns = self._columns_of_table(values)
            if columns is None:
                return own_case(values, self.form.columns, default_id=default_id, notes=self.notes)
            return as_case(values, columns, default_id=default_id, notes=self.notes)
        except InputError as error:
            hint, form = error.hint, self.form.columns
            is_own = columns is None and not (form.maps or is_table(self.path))
            if is_own and not form.is_own_case(values) and "messages" not in values:
                hint = f"{hint + '; ' if hint else ''}name columns of your own with --response and --source"
            raise DataError(error.message, path=self.path, line=row.place, hint=hint) from None

    @property
    def _is_table(self) -> bool:
        """Whether to read the rows as those of a table: the file is a table, or you named columns."""
        return self.form.columns.maps or is_table(self.path)

    def _columns_of_table(self, values: Mapping[str, Any]) -> Columns | None:
        """Return the columns of a row, or None if the row is a case or a conversation in Veridical's own form."""
        if self._is_table:
            return self._resolved(values)[0]
        if self.form.columns.is_own_case(values):
            return None
        try:
            columns, layout = self._resolved(values)
        except InputError:  # read it as a case, whose errors are more helpful
            return None
        return None if layout is None else columns

    def _is_message(self, value: object) -> bool:
        """Return whether a JSON value is a message of a conversation, not a case or a row of a known layout."""
        if not isinstance(value, dict) or "role" not in value or {"content", "parts", "blocks"}.isdisjoint(value):
            return False
        return {"response", "messages"}.isdisjoint(value) and self._columns_of_table(value) is None

    def cases(self, row: SourceRow, default_id: str) -> list[Case]:
        """Convert a row to cases: one case, or for a conversation one case for each assistant turn.

        `default_id` is the id for a row without one. In a conversation, the id of a case is the id of the row together
        with the number of the message.
        """
        case, _ = self.case(row, default_id)
        content = row.content
        if isinstance(content, DataError) or "messages" not in content or self._columns_of_table(content) is not None:
            return [case]
        return own_turns(content, self.form.columns, default_id=default_id)

    def remarks(self) -> list[str]:
        """Return the remarks for the user on the rows so far, one per line.

        They say which columns were recognised, and which kinds of content were ignored how often.
        """
        left_out = [f"{self.path}: {what}: {count:,}" for what, count in self.notes.items() if count]
        return ([self.layout] if self.layout else []) + left_out


def _is_unicode(content: object) -> bool:
    """Return whether no text in a JSON value contains a lone surrogate."""
    try:
        json.dumps(content, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_cases(
    path: Path, form: RowForm | None = None, *, remark: Callable[[str], None] = lambda line: None
) -> Iterator[Case]:
    """Read the cases in a file of rows one at a time, so that the file may have any size.

    The path "-" stands for standard input, which is read as JSON. If a case has no id, its number is used.

    A conversation gives one case for each assistant turn. If a text contains a lone surrogate, the row becomes a case
    without texts, which no detector judges, and the function `remark` gets the reason. After the last row, `remark`
    gets the remarks on the file (`RowReader.remarks`), one line per call.

    Raises:
        DataError: A row is not a case, an id is repeated, or the file contains no cases. The error names the file and
            the line.
    """
    reader = RowReader(path, form or RowForm())
    place_of: dict[str, int] = {}
    for number, row in enumerate(reader.rows(), 1):
        half = isinstance(row.content, DataError) and row.content.message.endswith(HALF_CHARACTER)
        if half:
            remark(f"{row.content}, so this row is not judged")
        for case in [Case(str(number), "")] if half else reader.cases(row, str(number)):
            if case.id in place_of:
                message = f"the case id {case.id!r} was there before, at {place_of[case.id]}"
                raise DataError(message, path=path, line=row.place)
            place_of[case.id] = row.place
            yield case
    if not place_of:
        raise DataError("no cases in it", path=path, hint='one per line, such as {"response": "…", "sources": ["…"]}')
    for line in reader.remarks():
        remark(line)
