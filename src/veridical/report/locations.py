"""Find the position of a span in the file that its case was read from, as character offsets, lines and columns.

SARIF reports need these positions, so that editors can show a finding in the file.
"""

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
    """A part of a text file.

    Lines and columns are counted from 1. A line ends with a line feed. A byte-order mark is not counted.

    Attributes:
        start: The offset of the first character, from 0.
        end: The offset after the last character.
        line: The line of the first character.
        column: The column of the first character.
        end_line: The line of the end.
        end_column: The column after the last character.
        text: The characters.
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
        r"""Compute the region of `span`, which is a span of `text`, in a file.

        In the file, `text` begins at the character offset `start`, at the beginning of line `line`.

        >>> Region.of("one\ntwo three", Span(8, 13))
        Region(start=8, end=13, line=2, column=5, end_line=2, end_column=10, text='three')
        """
        first, last = line + text.count("\n", 0, span.start), line + text.count("\n", 0, span.end)
        column, end_column = (offset - text.rfind("\n", 0, offset) for offset in (span.start, span.end))
        return cls(start + span.start, start + span.end, first, column, last, end_column, span.of(text))


@dataclass(frozen=True, slots=True)
class Location:
    """The position of a span: a file, and the region in it if that is known.

    The region is unknown if the file was converted to text (such as a PDF), if the file has changed since it was read,
    or if the text cannot be found in its row. In the last case, the line of the row is given.

    Attributes:
        path: The file.
        region: The region. None if it is unknown.
        line: The first line of the row that contains the text, if the region is unknown and the file has lines.
    """

    path: Path
    region: Region | None
    line: int | None = None


class CaseLocations(Protocol):
    """Finds the positions of spans of one case in the files that the case was read from."""

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Find the location of `span` in a source of `case`, or in the response if `source_id` is None.

        Return None if the text does not come from a file.
        """


@dataclass(frozen=True, slots=True)
class FileLocations:
    """Finds the positions of spans of a case whose response and sources were each read from a file of their own.

    Attributes:
        response: The file of the response.
        sources: The file of each source, in the order of the case.
    """

    response: Path
    sources: tuple[Path, ...]

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Find the location of `span` in the file of a source, or of the response if `source_id` is None.

        A file that was converted to text, such as a PDF, has no region. Return None for a text from standard input.
        """
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
    """Finds the positions of spans of a case that was read from a row of a file: a JSON object, or a row of a table.

    Attributes:
        path: The file.
        line: The first line of the row. None if the file has no lines (Excel, Parquet).
        place: The JSON object in the file. None for a row of a table.
        case: The case that is in the row now, to detect changes of the file. None if the row contains no case any more.
    """

    path: Path
    line: int | None
    place: JsonPlace | None
    case: Case | None

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Find the location of `span` in a source of `case`, or in the response if `source_id` is None.

        In JSON, the region covers the text as it is written in the file, with its escapes. A table has no region.
        """
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
    """Read a file of cases again, and yield one `RowLocations` for each case, in the order of the cases in the file.

    For a compressed file, nothing is yielded, because its offsets would not help.
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
