"""Find the place of a span in the file that its case was read from, as character offsets, lines and columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from veridical.io.documents import CONVERTED_ENDINGS
from veridical.io.files import STDIN
from veridical.io.json_positions import JsonString, find_string, find_value
from veridical.io.json_values import JsonPlace
from veridical.io.rows import RowForm, RowReader
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a file, from character `start` up to, but not including, `end`, with its `text`.

    Lines and columns are counted from 1, `end_column` is exclusive, and a line ends with a line feed. A byte-order mark
    is not counted.
    """

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    @classmethod
    def of(cls, text: str, span: Span, *, start: int = 0, line: int = 1) -> Region:
        r"""Compute the region of a span in `text`. The text begins at character `start` of its file, on line `line`.

        >>> Region.of("one\ntwo three", Span(8, 13))
        Region(start=8, end=13, line=2, column=5, end_line=2, end_column=10, text='three')
        """
        first, last = line + text.count("\n", 0, span.start), line + text.count("\n", 0, span.end)
        column, end_column = (offset - text.rfind("\n", 0, offset) for offset in (span.start, span.end))
        return cls(start + span.start, start + span.end, first, column, last, end_column, span.of(text))


@dataclass(frozen=True, slots=True)
class Location:
    """A file and a region of it.

    The region is None if the file was converted to text or has changed since it was read, or if the text cannot be told
    apart from the rest of its row. In the last case, `line` is the first line of the row, if there is one.
    """

    path: Path
    region: Region | None
    line: int | None = None


class CaseLocations(Protocol):
    """The locations of the texts of one case."""

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Find the location of `span` in a source of `case`, or in the response if `source_id` is None.

        Return None if the text does not come from a file.
        """


@dataclass(frozen=True, slots=True)
class FileLocations:
    """Locates the texts of a case whose response and sources each have a file of their own."""

    response: Path
    sources: tuple[Path, ...]

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Find the location of `span`. Return None if the text comes from standard input."""
        path, text = self.response, case.response
        if source_id is not None:
            i = [source.id for source in case.sources].index(source_id)
            path, text = self.sources[i], case.sources[i].text
        if path == STDIN:
            return None
        converted = source_id is not None and path.suffix.lower() in CONVERTED_ENDINGS
        return Location(path, None if converted else Region.of(text, span))


@dataclass(frozen=True, slots=True)
class RowLocations:
    """Locates the texts of a case that is a row of a file: a JSON object at `place`, or a row of a table.

    `line` is the first line of the row, or None if the file has no lines. `case` is the case that is in the file now,
    if there is one.
    """

    path: Path
    line: int | None
    place: JsonPlace | None
    case: Case | None

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Find the location of `span`. In JSON, the region covers the text as written, with its escapes."""
        i = None if source_id is None else [source.id for source in case.sources].index(source_id)
        text = _text_of(case, i)
        if self.case is None or _text_of(self.case, i) != text:  # the file has changed since it was read
            return Location(self.path, None)
        string = None if self.place is None else _string(self.place, text, i)
        if self.place is None or string is None:
            return Location(self.path, None, self.line)
        region = Region.of(self.place.text, string.place(span), start=self.place.start, line=self.place.line)
        return Location(self.path, region)


def _text_of(case: Case, source_i: int | None) -> str | None:
    if source_i is None:
        return case.response
    return case.sources[source_i].text if source_i < len(case.sources) else None


def _string(place: JsonPlace, text: str | None, source_i: int | None) -> JsonString | None:
    """Find the JSON string of a response or source: in its usual field, or else the only equal string in the row."""
    keys = ("response",) if source_i is None else ("sources", source_i, "text")
    at = find_value(place.text, keys, place.at)
    if at is not None and place.text[at] == '"':
        string = JsonString.read(place.text, at)
        if string.value == text:
            return string
    at = None if text is None else find_string(place.text, text, place.at)
    return None if at is None else JsonString.read(place.text, at)


def locate_cases(path: Path, form: RowForm) -> Iterator[RowLocations]:
    """Yield the locations of each case in a file, in the order of `io.rows.read_cases`.

    A compressed file has no locations.
    """
    ending = path.suffix.lower()
    if ending != ".gz":
        reader = RowReader(path, form)
        for row in reader.rows():
            cases: list[Case | None] = [None]
            with suppress(InputError):  # the file has changed since it was read
                cases = [*reader.cases(row, "")]
            line = None if ending in (".xlsx", ".parquet") else row.place
            yield from (RowLocations(path, line, row.json, case) for case in cases)
