"""Read whole files with a clear error for each failure, and write files completely or not at all."""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, TextIO, cast

from veridical.records.errors import DataError, InputError, OutputError

MAX_BYTES = 256 * 1024 * 1024
STDIN = Path("-")
ROW_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".xlsx", ".parquet")
"""The extensions of files that contain many cases, as rows of a table or as JSON values."""

_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
NAME_ENCODING = "name its encoding with --encoding, such as --encoding cp1252"
_USUAL_ENDING = "PDF, .docx, .xlsx, HTML and Markdown sources are read by their file ending; save others as text"
_BINARY = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "a ZIP archive or office document",
    b"\x1f\x8b": "gzip data",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"{\\rtf": "an RTF document",
}


def ending_of(path: str | Path) -> str:
    """Return the file extension that determines how a file is read.

    If the file ends in ".gz", this is the extension before ".gz". Parquet and Excel files cannot be read compressed, so
    for them the result stays ".gz".

    >>> ending_of("rows.CSV.gz"), ending_of("a.parquet")
    ('.csv', '.parquet')
    """
    name = Path(path).name.lower()
    unpacked = name.removesuffix(".gz")
    return ".gz" if unpacked != name and unpacked.endswith((".parquet", ".xlsx")) else Path(unpacked).suffix


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file, or standard input if the path is "-", to read bytes.

    A file whose name ends in ".gz" is decompressed as it is read.

    Raises:
        DataError: The file cannot be opened or read.
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
        hint = "check the path; a text has to be in a file" if " " in path.name else "check the path"
        raise DataError("no such file", path=path, hint=hint) from None
    except IsADirectoryError:
        raise DataError("a folder, where a file is expected", path=path) from None
    except (EOFError, zlib.error) as error:
        raise DataError(f"broken gzip data: {error}", path=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from None


@contextmanager
def open_text(path: Path, *, encoding: str = "utf-8", newline: str = "\n") -> Iterator[TextIO]:
    """Open a file, or standard input if the path is "-", to read text as a stream.

    A byte-order mark is dropped. A byte that cannot be decoded becomes a lone surrogate instead of raising an error.
    The caller can then reject only the line or cell with this byte (`jsonl.is_text`). By default, only a line feed ends
    a line.

    Raises:
        DataError: The file cannot be opened, is binary, or its encoding is unknown.
    """
    with open_bytes(path) as file:
        peekable = file if hasattr(file, "peek") else io.BufferedReader(file)  # type: ignore[type-var]
        start = peekable.peek(64)[:64]
        _refuse_binary(start, path)
        codec = _encoding_of(start, encoding)
        check_encoding(codec)
        codec = "utf-8-sig" if codecs.lookup(codec).name == "utf-8" else codec
        yield io.TextIOWrapper(peekable, codec, errors="surrogateescape", newline=newline)


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Read all bytes of a file, or of standard input if the path is "-".

    Raises:
        DataError: The file cannot be read, or has more than `max_bytes` bytes.
    """
    with open_bytes(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise DataError(f"larger than {max_bytes:,} bytes", path=path, hint="split it, or raise the limit (--max-mb)")
    return data


def read_text(path: Path, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES) -> str:
    """Read the text of a file unchanged, including its line ends but without a byte-order mark."""
    return decode_text(read_bytes(path, max_bytes=max_bytes), path, encoding=encoding)


def decode_text(data: bytes, path: Path, *, encoding: str = "utf-8") -> str:
    """Decode bytes to text. `path` names the file in error messages.

    Raises:
        DataError: The data is binary, the encoding does not fit, or Python does not know the encoding.
    """
    _refuse_binary(data, path)
    codec = _encoding_of(data, encoding)
    check_encoding(codec)
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as error:
        if b"\0" in data[:4096] and codec == encoding:
            raise DataError("binary data, not text", path=path) from None
        detail = f": byte {error.start} is 0x{data[error.start]:02x}"
        raise DataError(not_text(codec) + detail, path=path, hint=NAME_ENCODING) from None
    if "\0" in text:
        raise DataError("binary data, not text", path=path)
    return text.removeprefix("\ufeff")


def expanded(path: str | Path) -> Path:
    """Replace "~" in a path by the home folder.

    If the system does not know the home folder, the path stays unchanged, and opening it fails like a missing file.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def is_one_of(path: Path, others: Iterable[Path]) -> bool:
    """Return whether `path` is the same regular file as one of `others`, even under another name or through a link."""
    return path.is_file() and any(other.is_file() and path.samefile(other) for other in others)


def not_text(encoding: str) -> str:
    """Return the error message for bytes that cannot be decoded in `encoding`, such as "not utf-8 text"."""
    return f"not {encoding} text"


def check_encoding(encoding: str) -> None:
    """Check that Python knows `encoding` as an encoding of text.

    Raises:
        InputError: Python does not know the encoding.
    """
    try:
        "".encode(encoding)
    except (LookupError, ValueError):  # the second for a NUL
        raise InputError(f"unknown encoding {encoding!r}", hint="utf-8, latin-1, cp1252 …") from None


def _refuse_binary(start: bytes, path: Path) -> None:
    for magic, what in _BINARY.items():
        if start.startswith(magic):
            hint = "unpack it" if path.suffix == ".gz" else "give it a name that ends in .gz"
            raise DataError(f"{what}, not text", path=path, hint=hint if what == "gzip data" else _USUAL_ENDING)


def _encoding_of(start: bytes, encoding: str) -> str:
    """Detect the encoding by a byte-order mark, or by the zero bytes of Latin text in UTF-16. Default: `encoding`."""
    sample = start[:64]
    if len(sample) >= 4 and encoding == "utf-8":
        for zeros, others, name in ((1, 0, "utf-16-le"), (0, 1, "utf-16-be")):
            if not any(sample[zeros::2]) and all(sample[others::2]):
                return name
    return next((name for bom, name in _BOMS if start.startswith(bom)), encoding)


def write_whole(path: Path, content: str | bytes, *, follow_link: bool = True) -> None:
    """Write a file completely or not at all. Text is written as UTF-8.

    If `path` is a symbolic link, the target of the link is replaced. If the user did not choose the name of the file,
    set `follow_link` to False to reject symbolic links, because someone else may have put a link with this name into
    the folder.

    Raises:
        OutputError: The file cannot be written. An old file with this name stays unchanged.
    """
    try:
        data = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError:
        raise OutputError(f"cannot write {path}: half of a surrogate pair stands alone in the text") from None
    try:
        with replacing(path, follow_link=follow_link) as part:
            part.write_bytes(data)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}", hint="choose another place") from None


def open_no_link(path: str, flags: int) -> int:
    """Open a file like `os.open`, but refuse symbolic links. Pass this function to `open` as `opener`."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


@contextmanager
def replacing(path: Path, *, follow_link: bool = True) -> Iterator[Path]:
    """Yield the path of a temporary file next to `path`, which replaces `path` when the block ends without an error.

    Write to the temporary file inside the block. Until it ends, the old file stays unchanged. The new file gets the
    permissions of the old one. If `path` is a device, such as /dev/stdout, `path` itself is yielded.

    Raises:
        OSError: The file cannot be written, or `path` is a symbolic link and `follow_link` is False.
    """
    if not follow_link and path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link")
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve() if follow_link else path  # replace the target of a link, not the link
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    part = path.with_name(f".{path.name[:40]}.{token_hex(6)}.part")
    # let the system apply the umask: a process can only read it by changing it, for all of its threads
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
