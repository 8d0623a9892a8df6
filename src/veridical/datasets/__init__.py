"""Readers of labelled data in its publishers' own formats: one file per data set, or per family of similar sets.

An entry is a module or object with `INFO` and `read(path, split=None, *, on_bad=None) -> Iterator[Example]`. A row that
cannot be read raises `DataError` with file and line; where `on_bad` is given it is called with that error instead and
the row is skipped. Rows that are known to be unfit in the published set (`INFO.notes` names them) are left out without
an error, and handed to `on_bad` as well. Texts are cleaned here, before they become a `Case`, and never after.

A gold that labels the whole response has `hallucination` and no verdict: it does not say where. `judged=()` marks a
row without any label for the response. A module whose `REMOTE` is true reads more than paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from veridical.core.errors import DataError, InputError
from veridical.core.jsonl import OnBad
from veridical.core.registry import Registry
from veridical.core.types import Example, Level

__all__ = ["DATASETS", "Info", "OnBad", "Reader", "load_reader", "read", "table"]


@dataclass(frozen=True, slots=True)
class Info:
    """What a data set is.

    Attributes:
        name: What it is called in "NAME:PATH".
        title: Its title.
        licence: Its licence.
        citation: The paper to cite.
        levels: What its labels are about.
        unit: The unit of the labelled spans, where it is fixed: "token", "sentence", "claim".
        pairs: Whether each case has a counterpart that differs in the error alone.
        splits: The names of its splits.
        languages: The languages of its texts.
        document: What counts as one document.
        notes: What is special about it.
    """

    name: str
    title: str
    licence: str
    citation: str
    levels: tuple[Level, ...]
    unit: str | None = None
    pairs: bool = False
    splits: tuple[str, ...] = ()
    languages: tuple[str, ...] = ("en",)
    document: str = "the source text"
    notes: str = ""


class Reader(Protocol):
    """The module of one data set, or an object like it."""

    INFO: Info

    def read(self, path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
        """The examples under `path` (a file or folder as published), in the file's order."""
        ...


DATASETS = Registry(
    "data set",
    {
        "jsonl": "veridical.datasets.jsonl",
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
    if not getattr(reader, "REMOTE", False) and not Path(path).exists():
        raise DataError("no such file or folder", path=path)
    return reader.read(Path(path), split, on_bad=on_bad)


def table() -> str:
    """A Markdown table of the registered data sets, made from their `INFO`."""
    lines = [
        "| name | data set | labels | splits | languages | a document is | licence |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in DATASETS:
        info = load_reader(name).INFO
        unit = f" ({info.unit})" if info.unit else ""
        labels = [f"{level}{unit}" if level is Level.SPAN else str(level) for level in info.levels]
        cells = (
            f"`{name}`",
            f"{info.title} ({info.citation})" if info.citation else info.title,
            ", ".join([*labels, "pair"] if info.pairs else labels) or "none",
            ", ".join(f"`{split}`" for split in info.splits) or "-",
            ", ".join(info.languages) or "any",
            info.document,
            info.licence,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
