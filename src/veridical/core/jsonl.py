"""Read JSON Lines with line numbers, append to them, and recover them after a crash.

Only a line feed ends a line, because a text may hold other line separators of Unicode.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeAlias, TypeVar

from veridical.core.errors import DataError, OutputError
from veridical.core.files import NAME_ENCODING, decode_text, not_text, open_text

__all__ = ["Line", "OnBad", "append_lines", "is_text", "json_error", "read_json", "read_lines", "recover", "refuse"]

OnBad: TypeAlias = Callable[[DataError], None] | None
T = TypeVar("T")
_UNDECODABLE = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, without its end; `number` counts from 1."""

    path: Path
    number: int
    text: str

    def error(self, message: str, *, hint: str | None = None) -> DataError:
        """Return a `DataError` with `message` that names the file and this line."""
        return DataError(message, path=self.path, line=self.number, hint=hint)


def refuse(error: DataError, on_bad: OnBad) -> None:
    """Raise `error`, or call `on_bad` with it if that is given."""
    if on_bad is None:
        raise error
    on_bad(error)


def read_lines(
    path: Path, *, max_bytes: int | None = None, on_bad: OnBad = None, encoding: str = "utf-8"
) -> Iterator[Line]:
    """Yield the lines of a file ("-" is standard input) that are not blank; the file is read as a stream.

    Args:
        path: A text file.
        max_bytes: The most characters in a line; a longer one is never held in memory as a whole.
        on_bad: Called with the `DataError` of a line that is too long or not text, which is then skipped; None = raise.
        encoding: Its encoding, where no byte-order mark says otherwise.
    """
    with open_text(path, encoding=encoding) as file:
        number = 0
        while text := _next_line(file, -1 if max_bytes is None else max_bytes + 1, path, number + 1, encoding):
            number += 1
            if max_bytes is not None and len(text) > max_bytes:
                message = f"a line of more than {max_bytes:,} characters"
                hint = "split it, or raise the limit (--max-mb)"
                refuse(DataError(message, path=path, line=number, hint=hint), on_bad)
                while text and not text.endswith("\n"):
                    text = file.readline(max_bytes)
            elif not is_text(text) or "\0" in text:
                refuse(DataError(not_text(encoding), path=path, line=number, hint=NAME_ENCODING), on_bad)
            elif text.strip():
                yield Line(path, number, text.removesuffix("\n"))


def _next_line(file: TextIO, most: int, path: Path, number: int, encoding: str) -> str:
    try:
        return file.readline(most)
    except UnicodeError:  # where the next character begins is unknown
        raise DataError(not_text(encoding), path=path, line=number, hint=NAME_ENCODING) from None


def is_text(text: str) -> bool:
    """Return whether no byte of `text`, as `open_text` reads it, was undecodable."""
    return text.isascii() or not _UNDECODABLE.search(text)


def read_json(path: Path, *, max_bytes: int | None = None, on_bad: OnBad = None) -> Iterator[tuple[Line, object]]:
    """Yield each line of a JSON Lines file with its value; lines that are not JSON are refused as in `read_lines`."""
    for line in read_lines(path, max_bytes=max_bytes, on_bad=on_bad):
        try:
            value = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            refuse(json_error(error, path, line.number), on_bad)
            continue
        yield line, value


def json_error(error: ValueError | RecursionError, path: Path, line: int) -> DataError:
    """Turn an error of the `json` module into a `DataError` with file and line."""
    if isinstance(error, json.JSONDecodeError):
        message = f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        return DataError(message, path=path, line=line)
    return DataError("JSON that is nested too deeply or holds too long a number", path=path, line=line)


def append_lines(path: Path, documents: Iterable[str]) -> None:
    """Append documents, one per line, and sync them to disk; `recover` keeps each whose line end was written.

    Raises `OutputError` if the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write("".join(document + "\n" for document in documents))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}", hint="choose another place") from None


def recover(path: Path, read: Callable[[Line], T | None]) -> list[T]:
    """Read back the lines that an interrupted run appended; return what `read` makes of each.

    The file is cut before an incomplete last line, or before the first line for which `read` returns None. If there
    is no file, the result is []. Raises what `read` raises, and `OutputError` if the file cannot be used.
    """
    if not path.exists():
        return []
    records: list[T] = []
    complete = 0
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                record = read(Line(path, number, decode_text(raw, path)[:-1])) if raw.endswith(b"\n") else None
                if record is None:
                    break
                records.append(record)
                complete += len(raw)
        os.truncate(path, complete)
    except OSError as error:
        raise OutputError(f"cannot use {path}: {error.strerror or error}", hint="choose another --out") from None
    return records
