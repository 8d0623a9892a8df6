"""Read JSON Lines with line numbers, append to them, and recover them after a crash.

Only a line feed ends a line, because a text may hold other line separators of Unicode.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from veridical.core.errors import DataError, OutputError
from veridical.core.files import decode_text, open_bytes

__all__ = ["Line", "OnBad", "append_lines", "json_error", "read_json", "read_lines", "recover", "refuse"]

OnBad: TypeAlias = Callable[[DataError], None] | None
T = TypeVar("T")


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


def read_lines(path: Path, *, max_bytes: int | None = None, on_bad: OnBad = None) -> Iterator[Line]:
    """Yield the lines of a file ("-" is standard input) that are not blank; the file is read as a stream.

    Args:
        path: A file of UTF-8 text.
        max_bytes: The longest line allowed; a longer one is never held in memory as a whole.
        on_bad: Called with the `DataError` of a line that is too long or not text, which is then skipped; None = raise.
    """
    with open_bytes(path) as file:
        number = 0
        while raw := file.readline(-1 if max_bytes is None else max_bytes + 1):
            number += 1
            if max_bytes is not None and len(raw) > max_bytes:
                message = f"a line of more than {max_bytes:,} bytes"
                hint = "split it, or raise the limit (--max-mb)"
                refuse(DataError(message, path=path, line=number, hint=hint), on_bad)
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(max_bytes)
                continue
            if not raw.strip():
                continue
            try:
                line = Line(path, number, decode_text(raw, path).removesuffix("\n"))
            except DataError as error:
                message = error.message.removeprefix(f"{path}: ")
                refuse(DataError(message, path=path, line=number, hint="JSON is UTF-8 text"), on_bad)
                continue
            yield line


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
        return DataError(f"not JSON: {error.msg} at column {error.colno}", path=path, line=line)
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
