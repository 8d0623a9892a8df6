"""Read JSON Lines with line numbers.

Lines are split only at line feeds, because texts may contain other Unicode line separators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from veridical.io.files import NAME_ENCODING, not_text, open_text
from veridical.records.errors import DataError

OnBad: TypeAlias = Callable[[DataError], None] | None
_UNDECODABLE = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, without its line end. Its `number` counts from 1."""

    path: Path
    number: int
    text: str

    def error(self, message: str, *, hint: str | None = None) -> DataError:
        """Return a `DataError` with `message` that names the file and this line."""
        return DataError(message, path=self.path, line=self.number, hint=hint)


def refuse(error: DataError, on_bad: OnBad) -> None:
    """Report a line that cannot be used: pass `error` to the function `on_bad`, or raise it if `on_bad` is None."""
    if on_bad is None:
        raise error
    on_bad(error)


def read_lines(path: Path, *, on_bad: OnBad = None) -> Iterator[Line]:
    """Yield the lines of a file that are not blank. The file is read as a stream.

    Args:
        path: The text file to read, in UTF-8 or with a byte-order mark. "-" is standard input.
        on_bad: A function that receives the `DataError` of each line that cannot be decoded. The line is then skipped.
            If None, the error is raised.
    """
    number = 0
    undecodable = partial(DataError, not_text("utf-8"), path=path, hint=NAME_ENCODING)
    with open_text(path) as file:
        try:
            for number, text in enumerate(file, 1):
                if not is_text(text) or "\0" in text:
                    refuse(undecodable(line=number), on_bad)
                elif text.strip():
                    yield Line(path, number, text.removesuffix("\n"))
        except UnicodeError:  # where the next character begins is unknown
            raise undecodable(line=number + 1) from None


def is_text(text: str) -> bool:
    """Return whether every byte of `text`, as read by `open_text`, could be decoded."""
    return text.isascii() or not _UNDECODABLE.search(text)


def read_json(path: Path, *, on_bad: OnBad = None) -> Iterator[tuple[Line, object]]:
    """Yield each line of a JSON Lines file with its parsed value. Blank lines are skipped.

    The error of a line that is not JSON is passed to `on_bad`, or raised if `on_bad` is None.
    """
    for line in read_lines(path, on_bad=on_bad):
        try:
            value = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            refuse(json_error(error, path, line.number), on_bad)
            continue
        yield line, value


def json_error(error: ValueError | RecursionError, path: Path, line: int) -> DataError:
    """Convert an exception of the `json` module to a `DataError` that names the file and the line."""
    if isinstance(error, json.JSONDecodeError):
        message = f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        return DataError(message, path=path, line=line)
    return DataError("JSON that is nested too deeply or holds too long a number", path=path, line=line)
