"""Find and read the files of a data set, in a folder as published or as a single file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.records.errors import DataError, UnknownNameError
from veridical.records.types import Example


@dataclass(frozen=True)
class FileSet:
    """Reads a data set that has one file per split.

    Attributes:
        INFO: The description of the set.
        files: The file of each split.
        rows: A function that reads the rows of one file.
        make: A function that makes the examples of one row from the name of the split and the row.
    """

    INFO: Info
    files: Mapping[str, str]
    rows: Callable[[Path, OnBad], Iterable[Row]]
    make: Callable[[str, Row], Iterable[Example]]

    def read(self, path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
        """Read the examples in all files in `path`, or only those of one split.

        `on_bad` is also called for the rows that are left out.
        """
        files = split_files(self.INFO, path, split, self.files)
        parts = (read_rows(self.rows(file, on_bad), partial(self.make, part), on_bad) for part, file in files)
        return chain.from_iterable(parts)


def check_split(info: Info, split: str | None) -> None:
    """Check that `split` is None or one of the splits of a data set.

    Raises:
        UnknownNameError: The data set has no such split. The message lists the splits.
    """
    if split is not None and split not in info.splits:
        raise UnknownNameError(f"split of {info.name}", split, info.splits or ["none: leave the split out"])


def split_files(info: Info, path: Path, split: str | None, names: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Find the files to read, each with its split. `names` gives the file of each split inside the folder `path`.

    If you do not pass `split`, all files that exist are returned. If `path` is itself a file, only this file is
    returned. Then the split is `split`, or the split whose file has the same name, or else the name of the file. Any
    file may be gzipped (NAME.gz).
    """
    check_split(info, split)
    if path.is_file():
        same_name = [s for s, name in names.items() if Path(name).name == path.name.removesuffix(".gz")]
        return [(split or (same_name[0] if len(same_name) == 1 else path.stem), path)]
    if not path.exists():
        raise DataError("no such file or folder", path=path, hint="check the path")
    splits = [split] if split is not None else list(names)
    files = [(s, file) for s in splits if (file := found_file(path / names[s]))]
    if not files:
        hint = f"{info.name} expects {', '.join(names[s] for s in splits[:6])} in it"
        what = "any file" if split is None else f"the split {split!r}"
        raise DataError(f"a folder without {what} of {info.name}", path=path, hint=hint)
    return files


def found_file(path: Path) -> Path | None:
    """Return `path`, or the same name plus ".gz", or None if neither is a file."""
    return next((file for file in (path, path.with_name(path.name + ".gz")) if file.is_file()), None)


def matching_files(info: Info, path: Path, split: str | None, pattern: str, what: str) -> list[Path]:
    """Return `path` itself, or the files in the folder `path` that match `pattern`, in order of name.

    If no file matches, the error says that there is no `what`.
    """
    check_split(info, split)
    files = [path] if path.is_file() else sorted(path.glob(pattern))
    if not files:
        raise DataError(f"no {what} in it", path=path)
    return files


def one_file(info: Info, path: Path, split: str | None, name: str) -> Path:
    """Return `path` itself, or the file `name` in the folder `path`. For data sets that consist of one file."""
    check_split(info, split)
    return split_files(info, path, None, {"all": name})[0][1]
