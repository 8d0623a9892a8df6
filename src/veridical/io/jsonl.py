"""Read JSON Lines with line numbers, append to them, and recover them after a crash.

Lines are split only at line feeds, because texts may contain other Unicode line separators.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeAlias, TypeVar

from veridical.io.files import NAME_ENCODING, decode_text, not_text, open_no_link, open_text
from veridical.records.errors import DataError, OutputError

__all__ = ["Line", "OnBad", "append_lines", "is_text", "json_error", "read_json", "read_lines", "recover", "refuse"]

OnBad: TypeAlias = Callable[[DataError], None] | None
T = TypeVar("T")
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
    """Raise `error`, or pass it to `on_bad` if that function is given."""
    if on_bad is None:
        raise error
    on_bad(error)


def read_lines(
    path: Path, *, max_bytes: int | None = None, on_bad: OnBad = None, encoding: str = "utf-8"
) -> Iterator[Line]:
    """Yield the lines of a file that are not blank. The file is read as a stream.

    Args:
        path: The text file to read. "-" is standard input.
        max_bytes: The largest number of characters in a line. Longer lines are never held in memory as a whole.
        on_bad: A function that receives the `DataError` of each line that is too long or cannot be decoded. The line is
            then skipped. None raises the error instead.
        encoding: The encoding of the file, if no byte-order mark states it.
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
    """Return whether every byte of `text`, as read by `open_text`, could be decoded."""
    return text.isascii() or not _UNDECODABLE.search(text)


def read_json(path: Path, *, max_bytes: int | None = None, on_bad: OnBad = None) -> Iterator[tuple[Line, object]]:
    """Yield each line of a JSON Lines file with its value.

    Lines that are not JSON are treated as bad lines of `read_lines`.
    """
    for line in read_lines(path, max_bytes=max_bytes, on_bad=on_bad):
        try:
            value = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            refuse(json_error(error, path, line.number), on_bad)
            continue
        yield line, value


def json_error(error: ValueError | RecursionError, path: Path, line: int) -> DataError:
    """Turn an error of the `json` module into a `DataError` that names the file and the line."""
    if isinstance(error, json.JSONDecodeError):
        message = f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        return DataError(message, path=path, line=line)
    return DataError("JSON that is nested too deeply or holds too long a number", path=path, line=line)


def append_lines(path: Path, documents: Iterable[str], *, follow_link: bool = True) -> None:
    """Append documents to a file, one per line, and sync the file to disk.

    After a crash, `recover` keeps each document whose line end was written.

    Raises:
        OutputError: The file cannot be written, or it is a symbolic link and `follow_link` is False.
    """
    try:
        with open(path, "a", encoding="utf-8", newline="", opener=None if follow_link else open_no_link) as file:
            file.write("".join(document + "\n" for document in documents))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}", hint="choose another place") from None


def recover(path: Path, read: Callable[[Line], T | None], *, follow_link: bool = True) -> list[T]:
    """Read back the lines that an interrupted run appended, and return the result of `read` for each line.

    If the last line is incomplete, it is removed from the file. If `read` returns None for a line, the file is cut
    before this line. Errors that `read` raises are not caught. If there is no file, the result is empty.

    Raises:
        OutputError: The file cannot be read or cut, or it is a symbolic link and `follow_link` is False.
    """
    if not path.exists():
        return []
    records: list[T] = []
    complete = 0
    try:
        with open(path, "r+b", opener=None if follow_link else open_no_link) as file:
            for number, raw in enumerate(file, 1):
                record = read(Line(path, number, decode_text(raw, path)[:-1])) if raw.endswith(b"\n") else None
                if record is None:
                    break
                records.append(record)
                complete += len(raw)
            file.truncate(complete)
    except OSError as error:
        raise OutputError(f"cannot use {path}: {error.strerror or error}", hint="choose another --out") from None
    return records
