"""Save a detector's settings as JSON (`detector.json`) in a folder."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from veridical.inference.artifact import DETECTOR
from veridical.io.files import write_whole
from veridical.io.serialization import encode
from veridical.records.errors import OutputError


def versions() -> dict[str, str]:
    """Return the installed versions of Python and of packages that affect results, such as torch, by name."""
    installed = {"python": platform.python_version()}
    for name in ("veridical", "torch", "transformers", "tokenizers", "numpy"):
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def save_record(record: Any, folder: str | Path) -> Path:
    """Write `record`, the settings of a detector, as `detector.json` to a folder, and return the folder.

    `io.serialization.encode` must be able to encode the record.

    Raises:
        OutputError: The folder cannot be written.
    """
    folder = make_folder(folder)
    write_whole(folder / DETECTOR, encode(record, indent=1) + "\n", follow_link=False)
    return folder


def make_folder(folder: str | Path) -> Path:
    """Create `folder` if it is missing, and return its path.

    Raises:
        OutputError: The folder cannot be created.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}", hint="choose another place") from None
    return folder


def check_folder(folder: str | Path) -> None:
    """Check that files can be written to `folder`, or to its closest existing parent if `folder` is missing.

    Call this before long work. It leaves no files behind.

    Raises:
        OutputError: The folder cannot be written.
    """
    folder = Path(folder)
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists() or place.is_symlink())
        with TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}", hint="choose another place") from None
