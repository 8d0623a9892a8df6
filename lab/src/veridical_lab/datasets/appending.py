"""Append documents to a JSON Lines file, and recover the complete ones after a crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from veridical.io.files import decode_text, open_no_link
from veridical.io.jsonl import Line
from veridical.records.errors import OutputError

T = TypeVar("T")


def append_lines(path: Path, documents: Iterable[str], *, follow_link: bool = True) -> None:
    """Append documents to a file, one per line, and make sure that they are on disk.

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
    """Read back the lines that an interrupted run appended, and return what `read` returns for each line.

    An incomplete last line is cut off the file. The file is also cut before the first line for which `read` returns
    None. Without a file, the result is empty. Errors that `read` raises are not caught.

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
