"""Text files in, whole, with one clear line for each way that can fail; text files out, whole or not at all."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, cast

from veridical.core.errors import DataError, OutputError

__all__ = ["MAX_BYTES", "STDIN", "decode_text", "open_bytes", "read_bytes", "read_text", "replacing", "write_whole"]

MAX_BYTES = 256 * 1024 * 1024
STDIN = Path("-")

_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_BINARY = {b"%PDF-": "a PDF", b"PK\x03\x04": "a ZIP archive or office document", b"\x1f\x8b": "gzip data"}


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input for "-"; `DataError` where it cannot be opened or read.

    A file whose name ends in ".gz" is decompressed as it is read.
    """
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise DataError("standard input is closed", path=path)
            yield sys.stdin.buffer
        elif path.suffix == ".gz":
            with gzip.open(path, "rb") as packed:
                yield cast(BinaryIO, packed)
        else:
            with path.open("rb") as file:
                yield file
    except FileNotFoundError:
        raise DataError("no such file", path=path, hint="check the path") from None
    except IsADirectoryError:
        raise DataError("a folder, where a file is expected", path=path) from None
    except (EOFError, zlib.error) as error:
        raise DataError(f"broken gzip data: {error}", path=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from None


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """All bytes of a file ("-" is standard input); `DataError` for more than `max_bytes`."""
    with open_bytes(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise DataError(f"larger than {max_bytes:,} bytes", path=path, hint="split it, or raise the limit (--max-mb)")
    return data


def read_text(path: Path, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES) -> str:
    """The text of a file exactly as it is, line ends included; a byte-order mark is not part of it."""
    return decode_text(read_bytes(path, max_bytes=max_bytes), path, encoding=encoding)


def decode_text(data: bytes, path: Path, *, encoding: str = "utf-8") -> str:
    """`data` as text; `DataError` (naming `path`) for binary data, another encoding or an unknown one."""
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), encoding)
    for magic, what in _BINARY.items():
        if data.startswith(magic):
            raise DataError(f"{what}, not text", path=path, hint="give it its usual file ending, or the text itself")
    try:
        text = data.decode(encoding)
    except LookupError:
        raise DataError(f"unknown encoding {encoding!r}", path=path, hint="utf-8, latin-1, cp1252 …") from None
    except UnicodeDecodeError as error:
        if b"\0" in data[:4096]:
            raise DataError("binary data, not text", path=path) from None
        raise DataError(
            f"not {encoding} text: byte {error.start} is 0x{data[error.start]:02x}",
            path=path,
            hint="name its encoding with --encoding, such as --encoding cp1252",
        ) from None
    if "\0" in text:
        raise DataError("binary data, not text", path=path)
    return text.removeprefix("\ufeff")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file (a text as UTF-8) that appears whole or not at all; `OutputError` leaves what was there before."""
    try:
        data = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError:
        raise OutputError(f"cannot write {path}: half of a surrogate pair stands alone in the text") from None
    try:
        with replacing(path) as part:
            part.write_bytes(data)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}", hint="choose another place") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file next to `path` for the block to fill, which replaces `path` once the block ends without an error.

    What was at `path` stays as it is until then, and keeps its permissions; a new file gets the usual ones. A device is
    given as it is, to be written to directly. Raises `OSError` like any writing.
    """
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()  # a link stays a link
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    part = path.with_name(f".{path.name[:40]}.{token_hex(6)}.part")
    # the system subtracts the umask: to read it, a process would have to change it for all of its threads
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode))
    try:
        yield part
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        if mode is not None:
            part.chmod(mode)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
