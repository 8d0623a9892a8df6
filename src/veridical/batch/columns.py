"""Reading a case from a row: `Columns` says which columns hold it, `as_case` makes the `Case` and the row's group.

A row is a row of a table or a line of JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from veridical.core.errors import InputError
from veridical.core.serialization import decode_case, parse
from veridical.core.types import Case

__all__ = ["Columns", "as_case"]

_PLAIN = ("id", "response", "sources", "question")  # the names that are read by default
_CASE_FIELDS = {field.name for field in fields(Case)}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that rows are read from.

    If only `group` or nothing is named, a JSON object is read as `veridical check` reads a case, and a table is read
    by the columns "response", "sources", "id" and "question".

    Attributes:
        response: The column of the response.
        sources: The columns of the sources, each a text or a list of texts.
        must_cover: The same, for sources that the response has to cover.
        id: The column of the row's id; without one the id is the row's number.
        question: The column of the question that the response answers.
        group: The column by which results are grouped.
    """

    response: str | None = None
    sources: tuple[str, ...] = ()
    must_cover: tuple[str, ...] = ()
    id: str | None = None
    question: str | None = None
    group: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The named columns, each once."""
        names = (self.response, *self.sources, *self.must_cover, self.id, self.question, self.group)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def maps(self) -> bool:
        """Whether any column but the group is named."""
        return any((self.response, self.sources, self.must_cover, self.id, self.question))

    def read_from(self, names: list[str]) -> list[str]:
        """Return the columns to read of a table with the columns `names`; raise `InputError` if one is missing."""
        needed = dict.fromkeys((self.response or "response", *self.named))
        for name in needed:
            if name not in names:
                raise InputError(f"no column {name!r}", hint=f"columns: {', '.join(map(repr, names))}")
        return [name for name in names if name in needed or name in _PLAIN]


def as_case(row: str | Mapping[str, Any], columns: Columns, *, default_id: str, table: bool) -> tuple[Case, str | None]:
    """Return the case in a row and the row's group (None without one).

    Args:
        row: A line of JSON, or values by column.
        columns: Which columns hold the case.
        default_id: The id of a case whose row has none.
        table: Whether the row comes from a table, of which only the named and the default columns are read.

    Raises:
        InputError: The row lacks a column, or a column holds something other than texts.
    """
    values: dict[str, Any] = parse(row) if isinstance(row, str) else dict(row)
    group = None
    if columns.group is not None and values.get(columns.group) is not None:
        group = _name(values[columns.group], columns.group)
    if not (table or columns.maps):
        if columns.group not in _CASE_FIELDS:
            values.pop(columns.group or "", None)
        return decode_case(values, default_id=default_id), group
    response = _value(values, columns.response or "response")
    id_column = columns.id or ("id" if values.get("id") is not None else None)
    id = None if id_column is None else _value(values, id_column)
    sources = columns.sources or (("sources",) if "sources" in values and not columns.must_cover else ())
    document: dict[str, Any] = {
        "id": default_id if id is None else _name(id, id_column),
        "response": response,
        "sources": [source for name in sources for source in _sources(values, name, False)]
        + [source for name in columns.must_cover for source in _sources(values, name, True)],
    }
    question = _value(values, columns.question) if columns.question else values.get("question")
    if question is not None:
        document["question"] = question
    return decode_case(document, default_id=default_id), group


def _value(values: Mapping[str, Any], column: str) -> Any:
    if column not in values:
        raise InputError(f"no column {column!r}", hint=f"columns: {', '.join(map(repr, list(values)[:20]))}")
    return values[column]


def _name(value: object, column: str | None) -> str:
    if not isinstance(value, str | int | float):
        raise InputError(f"the column {column!r} holds a {type(value).__name__}", hint="a text or a number")
    return str(value)


def _sources(values: Mapping[str, Any], column: str, must_cover: bool) -> Iterator[dict[str, Any]]:
    """Yield the sources in a column; their default id is its name, with a number if it holds a list; null is none."""
    value = _value(values, column)
    if value is None:
        return
    is_list = isinstance(value, list | tuple)
    for i, item in enumerate(value if is_list else [value], 1):
        document = dict(item) if isinstance(item, Mapping) else {"text": item}
        source = {"id": f"{column} {i}" if is_list else column, **document}
        yield {**source, "must_cover": True} if must_cover else source
