"""Where in the files that a case was read from a span of its texts is: character offsets, lines and columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from veridical.core.files import STDIN
from veridical.core.json_places import JsonString, find_value
from veridical.core.spans import Span
from veridical.core.types import Case
from veridical.documents import CONVERTED_ENDINGS, CasePlace, case_places

__all__ = ["CaseLocations", "FileLocations", "JsonLocations", "Location", "Region", "locate_cases"]


@dataclass(frozen=True, slots=True)
class Region:
    """Characters `start` to `end` of a file (a byte-order mark is none of them), and the `text` that they are.

    Lines and columns count from 1 and end with a line feed; the character at `end_column` is not part of it.
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
        """`span` of `text`, which begins at character `start` of its file, the first one of `line`.

        >>> Region.of("one\\ntwo three", Span(8, 13))
        Region(start=8, end=13, line=2, column=5, end_line=2, end_column=10, text='three')
        """
        first, last = line + text.count("\n", 0, span.start), line + text.count("\n", 0, span.end)
        column, end_column = (place - text.rfind("\n", 0, place) for place in (span.start, span.end))
        return cls(start + span.start, start + span.end, first, column, last, end_column, span.of(text))


@dataclass(frozen=True, slots=True)
class Location:
    """A file, and the part of it; None where the file was converted into the text, or changed since it was read."""

    path: Path
    region: Region | None


class CaseLocations(Protocol):
    """Where the texts of one case are."""

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Where `span` of a source of `case` is, of its response for None; None where it is in no file."""


@dataclass(frozen=True, slots=True)
class FileLocations:
    """A response and the sources of its case, each in a file of its own."""

    response: Path
    sources: tuple[Path, ...]

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Where `span` is; None for standard input."""
        path, text = self.response, case.response
        if source_id is not None:
            i = [source.id for source in case.sources].index(source_id)
            path, text = self.sources[i], case.sources[i].text
        if path == STDIN:
            return None
        converted = source_id is not None and path.suffix.lower() in CONVERTED_ENDINGS
        return Location(path, None if converted else Region.of(text, span))


@dataclass(frozen=True, slots=True)
class JsonLocations:
    """A case that is an object in a file of JSON."""

    path: Path
    place: CasePlace

    def find(self, case: Case, source_id: str | None, span: Span) -> Location | None:
        """Where the characters are that `span` has in the file, escapes included."""
        text, keys = case.response, ("response",)  # type: str, tuple[str | int, ...]
        if source_id is not None:
            i = [source.id for source in case.sources].index(source_id)
            text, keys = case.sources[i].text, ("sources", i, "text")
        written = self.place.text
        try:
            at = find_value(written, keys, self.place.at)
            string = None if at is None else JsonString.read(written, at)
        except (ValueError, IndexError):  # another file than the one that was read
            string = None
        if string is None or string.value != text:
            return Location(self.path, None)
        region = Region.of(written, string.place(span), start=self.place.start, line=self.place.line)
        return Location(self.path, region)


def locate_cases(path: Path) -> Iterator[JsonLocations]:
    """Where each case in a file is, in the order of `documents.read_cases`; none in a compressed file."""
    if path.suffix.lower() != ".gz":
        yield from (JsonLocations(path, place) for place in case_places(path))
