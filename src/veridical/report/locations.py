"""Locations: from a span in a text of a case to its place in the file the case was read from.

A place is given by character offsets, lines and columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from veridical.core.errors import InputError
from veridical.core.files import STDIN
from veridical.core.json_places import JsonString, find_value
from veridical.core.spans import Span
from veridical.core.types import Case
from veridical.documents import CONVERTED_ENDINGS
from veridical.rows import RowForm, RowReader
from veridical.rows.json_values import JsonPlace

__all__ = ["CaseLocations", "FileLocations", "Location", "Region", "RowLocations", "locate_cases"]


@dataclass(frozen=True, slots=True)
class Region:
    """Characters `start` to `end` of a file, not counting a byte-order mark, and their `text`.

    Lines and columns count from 1, and a line ends with a line feed. The character at `end_column` is not included.
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
        """Return the region of `span` in `text`, which begins at character `start` of its file, the first of `line`.

        >>> Region.of("one\\ntwo three", Span(8, 13))
        Region(start=8, end=13, line=2, column=5, end_line=2, end_column=10, text='three')
        """
        first, last = line + text.count("\n", 0, span.start), line + text.count("\n", 0, span.end)
        column, end_column = (offset - text.rfind("\n", 0, offset) for offset in (span.start, span.end))
        return cls(start + span.start, start + span.end, first, column, last, end_column, span.of(text))


@dataclass(frozen=True, slots=True)
class Location:
    """A file and a region of it; the region is None if the file was converted to text, or has changed since."""

    path: Path
    region: Region | None


class CaseLocations(Protocol):
    """The locations of the texts of one case."""

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Return the location of `span` in a source of `case`, or in its response if `source_id` is None.

        Return None if the text comes from no file.
        """


@dataclass(frozen=True, slots=True)
class FileLocations:
    """A response and the sources of its case, each in a file of its own."""

    response: Path
    sources: tuple[Path, ...]

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Return the location of `span`; None for standard input."""
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
    """A case that is a row of a file: an object of JSON, which has regions, or a row of a table, which has none."""

    path: Path
    place: JsonPlace | None

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Return the location of `span`; its region includes the escapes of JSON."""
        if self.place is None:
            return Location(self.path, None)
        text, keys = case.response, ("response",)  # type: str, tuple[str | int, ...]
        if source_id is not None:
            i = [source.id for source in case.sources].index(source_id)
            text, keys = case.sources[i].text, ("sources", i, "text")
        json_text = self.place.text
        try:
            offset = find_value(json_text, keys, self.place.at)
            string = None if offset is None else JsonString.read(json_text, offset)
        except (ValueError, IndexError):  # the file has changed since it was read
            string = None
        if string is None or string.value != text:
            return Location(self.path, None)
        region = Region.of(json_text, string.place(span), start=self.place.start, line=self.place.line)
        return Location(self.path, region)


def locate_cases(path: Path, form: RowForm) -> Iterator[RowLocations]:
    """Yield the locations of each case in a file, in the order of `rows.read_cases`; none in a compressed file."""
    if path.suffix.lower() != ".gz":
        reader = RowReader(path, form)
        for row in reader.rows():
            try:
                count = len(reader.cases(row, ""))
            except InputError:  # the file has changed since it was read
                count = 1
            yield from [RowLocations(path, row.json)] * count
