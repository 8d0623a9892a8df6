"""Read labelled data in the publishers' own formats, with one module per data set or family of similar sets.

A reader is a module or object with `INFO` and `read(path, split=None, *, on_bad=None) -> Iterator[Example]`.

A row that cannot be read raises `DataError` with the file and the line. If you pass `on_bad`, it gets this error
instead, and the row is skipped. Rows with a known defect of the published set (see `INFO.notes`) are always skipped,
and `on_bad` gets an error for them, too. Readers clean the texts before they make a `Case`, and nothing changes the
texts afterwards.

A label for a whole response sets `hallucination` and adds no verdict, because such a label does not say where the error
is. A row without any label for the response has `judged=()`.

A reader can set two flags. With `REMOTE = True`, the text after "NAME:" need not be an existing path. `OWN = True` is
for the user's own data, and `read` then takes two more arguments: `unlabelled=True` accepts rows without a gold label,
and `remark` is called at the end with each line of notes on how the data were interpreted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from veridical.io.jsonl import OnBad
from veridical.records.errors import DataError, InputError
from veridical.records.registry import Registry
from veridical.records.types import Example, Level

__all__ = ["DATASETS", "Info", "OnBad", "Reader", "load_reader", "name_and_path", "read", "table"]


@dataclass(frozen=True, slots=True)
class Info:
    """Metadata of a labelled data set. Every reader has it as `INFO`.

    Attributes:
        name: The name by which you select the data set, in a spec "NAME:PATH" such as "xsum_token:data/xsum_token".
        title: The full name of the data set, for tables.
        licence: The licence under which the data set is published.
        citation: The paper to cite.
        levels: The levels that have gold labels, such as whole responses and spans of responses.
        unit: The unit of the labelled spans: "token", "sentence" or "claim". None if spans may have any length.
        pairs: If true, each case has a counterpart that differs from it only in the error.
        splits: The names of the published splits, such as "train" and "test".
        languages: The languages of the texts, as codes such as "en". Empty if the data may be in any language.
        document: A phrase that says what `Example.document` identifies, such as "the source text". Splits keep all
            examples of one document together.
        notes: Peculiarities, such as known defects.
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
    """Reads one labelled data set in its published format. A module or an object can implement this protocol."""

    INFO: Info

    def read(self, path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
        """Read the examples in a file or folder, laid out as published, in the order of the file.

        If `split` is given, only the examples of this split are read. If `on_bad` is given, it gets the error of each
        row that cannot be parsed, and the row is skipped. By default, the error is raised.
        """
        ...


DATASETS = Registry(
    "data set",
    {
        "rows": "veridical.datasets.rows:ROWS",
        "jsonl": "veridical.datasets.rows:JSONL",
    },
    group="veridical.datasets",
)


def load_reader(name: str) -> Reader:
    """Import the reader of the data set called `name`.

    Raises:
        UnknownNameError: There is no such data set.
    """
    return cast(Reader, DATASETS.load(name))


def name_and_path(spec: str) -> tuple[str, str]:
    """Split a data spec "NAME:PATH" into the name of a data set and a path.

    A path without a name belongs to the data set "rows", which reads your own data from a table or JSON Lines file.
    """
    from veridical.io.files import ROW_ENDINGS, ending_of

    name, colon, path = spec.partition(":")
    file = Path(spec.partition("?")[0])
    is_path = file.exists() or (not colon and ending_of(file) in ROW_ENDINGS)
    return ("rows", spec) if name not in DATASETS and is_path else (name, path)


def read(
    spec: str,
    split: str | None = None,
    *,
    on_bad: OnBad = None,
    unlabelled: bool = False,
    remark: Callable[[str], None] = lambda line: None,
) -> Iterator[Example]:
    """Read the labelled examples that a data spec names.

    Args:
        spec: "NAME:PATH", such as "xsum_token:data/xsum_token", or only the path of your own data (`name_and_path`).
        split: The split to read. Default: all examples.
        on_bad: Called with the error of each row that cannot be parsed, which is then skipped. By default, the error
            is raised.
        unlabelled: If true, rows of your own data need no gold label.
        remark: Called at the end with each line of notes on how your own data were interpreted.

    Raises:
        InputError: The spec has no path.
        UnknownNameError: There is no such data set.
        DataError: The path does not exist, or a row cannot be parsed.
    """
    name, path = name_and_path(spec)
    reader = load_reader(name)
    if not path:
        raise InputError(f"data {spec!r} names no path", hint="write NAME:PATH, such as xsum_token:data/xsum_token")
    if not getattr(reader, "REMOTE", False) and not Path(path).exists():
        raise DataError("no such file or folder", path=path)
    more: dict[str, Any] = {"unlabelled": unlabelled, "remark": remark} if getattr(reader, "OWN", False) else {}
    return reader.read(Path(path), split, on_bad=on_bad, **more)


def table() -> str:
    """Make a Markdown table with one row of metadata (`Info`) for each registered data set."""
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
