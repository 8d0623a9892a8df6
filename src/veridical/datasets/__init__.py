"""Readers of labelled data in its publishers' own formats: one file a data set.

An entry is a module with `INFO` and `read(path, split=None, *, on_bad=None) -> Iterator[Example]`. A row that cannot
be read raises `DataError` with file and line; where `on_bad` is given it is called with that error instead and the
row is skipped. Texts are cleaned here, before they become a `Case`, and never after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from veridical.core.errors import DataError, InputError
from veridical.core.registry import Registry
from veridical.core.types import Example

__all__ = ["DATASETS", "Info", "OnBad", "Reader", "load_reader", "read"]

OnBad = Callable[[DataError], None] | None


@dataclass(frozen=True, slots=True)
class Info:
    """What a data set is. `levels` says what is labelled: "response", "span", "token", "claim", "coverage", "pair"."""

    name: str
    title: str
    licence: str
    citation: str
    levels: tuple[str, ...]
    splits: tuple[str, ...] = ()
    languages: tuple[str, ...] = ("en",)
    document: str = "the source text"
    notes: str = ""


class Reader(Protocol):
    """The module of one data set."""

    INFO: Info

    def read(self, path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
        """The examples under `path` (a file or folder as published), in the file's order."""
        ...


DATASETS = Registry(
    "data set",
    {
        "bump": "veridical.datasets.bump",
        "jsonl": "veridical.datasets.jsonl",
        "xsum_token": "veridical.datasets.xsum_token",
    },
    group="veridical.datasets",
)


def load_reader(name: str) -> Reader:
    """The module of the data set called `name`; `UnknownNameError` with near names otherwise."""
    return cast(Reader, DATASETS.load(name))


def read(spec: str, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """The examples of "NAME:PATH"."""
    name, _, path = spec.partition(":")
    reader = load_reader(name)
    if not path:
        raise InputError(f"data {spec!r} names no path", hint="write NAME:PATH, such as xsum_token:data/xsum_token")
    if not Path(path).exists():
        raise DataError("no such file or folder", path=path)
    return reader.read(Path(path), split, on_bad=on_bad)
