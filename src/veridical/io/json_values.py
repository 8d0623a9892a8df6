"""Read the JSON values of a file as a stream.

The values may be one per line, or spread over any number of lines, or the items of an array. Each value comes with its
position in the file, so that an editor can show a finding there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from veridical.io.files import NAME_ENCODING, not_text, open_text
from veridical.io.jsonl import is_text, json_error
from veridical.io.strict_json import STRICT
from veridical.records.errors import DataError, InputError

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*("?)|[\[{]|[\]}]')
_SPACE = re.compile(r"[\s\ufeff]*")
_GAP = re.compile(r"[\s,]*")
_MOST_SKIPPED = 16  # the length of a line that is skipped, as a multiple of the limit


@dataclass(frozen=True, slots=True)
class JsonPlace:
    """The position of a JSON value in a file.

    Attributes:
        text: The lines of the file that contain the value.
        at: The index in `text` at which the value begins.
        start: The position in the file, in characters, at which `text` begins.
        line: The number of the line at which `text` begins, from 1.
    """

    text: str
    at: int
    start: int
    line: int


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value of a file, with its position.

    Attributes:
        line: The line on which it begins, from 1.
        value: The value, or a `DataError` if it cannot be parsed.
        text: The JSON text of the value.
        place: Its position in the file.
    """

    line: int
    value: Any
    text: str
    place: JsonPlace


def json_values(
    path: Path, *, max_bytes: int | None = None, encoding: str = "utf-8", on_constant: Callable[[], None] | None = None
) -> Iterator[JsonValue]:
    """Yield the JSON values of a file. If the file begins with an array, yield its items.

    Args:
        path: The text file to read. "-" is standard input.
        max_bytes: The maximum number of characters in a value or a line. A longer line is yielded as an error, and is
            never loaded into memory in full. A line of more than 16 times this limit raises a `DataError`. None sets no
            limit.
        encoding: The encoding of a file without a byte-order mark.
        on_constant: A function that is called for each NaN or infinite number, which is then parsed as null. If None,
            such a number is an error.
    """
    return _Reader(path, max_bytes, on_constant).read(encoding)


class _Reader:
    """Splits text into values line by line. A value that spans lines is collected until its brackets are closed."""

    def __init__(self, path: Path, max_bytes: int | None, on_constant: Callable[[], None] | None) -> None:
        self.path, self.max_bytes = path, max_bytes
        hooks = dict(STRICT)
        if on_constant is not None:

            def number(text: str) -> float | None:
                value = float(text)
                return value if isfinite(value) else on_constant()

            hooks |= {"parse_constant": lambda name: on_constant(), "parse_float": number}
        self._decoder = json.JSONDecoder(**hooks)
        self._in_array = self._begun = False
        self._open: list[str] = []  # the lines of a value that is not closed yet
        self._place = JsonPlace("", 0, 0, 0)  # where it begins
        self._size = self._depth = 0

    def read(self, encoding: str) -> Iterator[JsonValue]:
        start = number = 0
        limit = -1 if self.max_bytes is None else self.max_bytes + 1
        with open_text(self.path, encoding=encoding) as file:
            while True:
                try:
                    text = file.readline(limit)
                except UnicodeError:  # where the next character begins is unknown
                    raise self._error(not_text(encoding), number + 1, hint=NAME_ENCODING) from None
                if not text:
                    break
                number += 1
                if self.max_bytes is not None and len(text) > self.max_bytes:
                    hint = "split it, or raise the limit (--max-mb)"
                    error = self._error(f"a line of more than {self.max_bytes:,} characters", number, hint=hint)
                    begin = start
                    while text and not text.endswith("\n"):
                        start += len(text)
                        if start - begin > _MOST_SKIPPED * self.max_bytes:
                            raise error  # a small compressed file can hold a line without an end
                        text = file.readline(limit)
                    yield self._bad(error, "", start)
                elif "\0" in text:
                    raise self._error("binary data, not text", number)
                elif not is_text(text):
                    yield self._bad(self._error(not_text(encoding), number, hint=NAME_ENCODING), "", start)
                else:
                    yield from self._line(text, start, number)
                start += len(text)
        if self._open:
            yield self._not_closed()
        elif self._in_array:
            yield self._bad(self._error("not JSON: the array is not closed", number))

    def _line(self, line: str, start: int, number: int) -> Iterator[JsonValue]:
        if self._open and line[:1] in ("{", "[") and not self._in_array and self._begins_row(line):
            yield self._not_closed()
        if not self._open:
            yield from self._values(line, 0, start, number)
            return
        self._open.append(line)
        self._size += len(line)
        if self.max_bytes is not None and self._size > self.max_bytes:
            raise self._error(f"a value of more than {self.max_bytes:,} characters", self._place.line)
        end = self._scan(line, 0)
        if end is not None:
            place = replace(self._place, text="".join(self._open))
            self._open = []
            yield self._value(place, len(place.text))[0]
            yield from self._values(line, end, start, number)

    def _values(self, line: str, at: int, start: int, number: int) -> Iterator[JsonValue]:
        """Yield the values that end on this line, from index `at` on. Keep the start of a value that continues."""
        while (at := _after(_GAP if self._in_array else _SPACE, line, at)) < len(line):
            if line[at] == "[" and not self._begun:
                self._begun = self._in_array = True
                at += 1
            elif line[at] == "]" and self._in_array:
                self._in_array = False
                at += 1
            else:
                self._begun = True
                place = JsonPlace(line, at, start, number)
                value, end = self._value(place, None)
                if end is None:
                    self._open, self._size, self._place = [line], len(line), place
                    return
                yield value
                at = end

    def _value(self, place: JsonPlace, end: int | None) -> tuple[JsonValue, int | None]:
        """Return the value at `place` and the index after it.

        If the value is not JSON, the index is `end`. If `end` is None, the brackets show where the value ends, and the
        index is None if they are not closed.
        """
        try:
            value, after = self._decoder.raw_decode(place.text, place.at)
        except (ValueError, RecursionError, InputError) as error:
            if end is None:
                self._depth = 0
                end = self._scan(place.text, place.at) if place.text[place.at] in "[{" else len(place.text)
                if end is None:
                    return JsonValue(place.line, None, "", place), None
            after = end
            if isinstance(error, InputError):  # a repeated key, or a number that JSON does not have
                value = self._error(error.message, place.line, hint=error.hint)
            else:
                value = json_error(error, self.path, place.line + getattr(error, "lineno", 1) - 1)
        return JsonValue(place.line, value, place.text[place.at : after].strip(), place), after

    def _scan(self, line: str, at: int) -> int | None:
        """Count the brackets of `line`. Return the index after the end of the value, or None if the value goes on.

        A string that is not closed on its line is not JSON, so it ends the value, too.
        """
        for token in _TOKEN.finditer(line, at):
            mark = token[0][0]
            if mark == '"' and not token[1]:
                return len(line)
            if mark != '"':
                self._depth += 1 if mark in "[{" else -1
                if self._depth == 0:
                    return token.end()
        return None

    def _not_closed(self) -> JsonValue:
        text, self._open = "".join(self._open), []
        return self._bad(self._error("not JSON: a value is not closed", self._place.line), text, self._place.start)

    def _begins_row(self, line: str) -> bool:
        """Return whether `line` is the next row after one that is cut off, rather than an object inside that row."""
        if not self._open[-1].rstrip().endswith((",", "[", ":")):
            return True
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and bool(value)  # inside a row, `json.dump` puts only empty objects on one line

    def _error(self, message: str, line: int, *, hint: str | None = None) -> DataError:
        return DataError(message, path=self.path, line=line, hint=hint)

    def _bad(self, error: DataError, text: str = "", start: int = 0) -> JsonValue:
        line = error.line or 1
        return JsonValue(line, error, text.strip(), JsonPlace(text, 0, start, line))


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
