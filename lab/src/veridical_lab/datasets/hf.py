"""Read any labelled set with the Hugging Face `datasets` library. You give its name or folder and name its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.datasets.rows import Labels, columns_and_labels
from veridical.inference.telemetry import import_without_telemetry
from veridical.io.columns import Columns, as_case
from veridical.records.errors import DataError, MissingExtraError, UnknownNameError
from veridical.records.types import Example, Level

REMOTE = True  # the text after "hf:" need not be a path
OWN = True
INFO = Info(
    name="hf",
    title="Hugging Face data sets",
    licence="the set's own",
    citation="",
    levels=(Level.RESPONSE, Level.SPAN),
    languages=(),
    document="the `document` column, else the first source (by its hash)",
    notes=(
        "hf:NAME_OR_FOLDER?response=COLUMN&sources=COLUMN&label=COLUMN … maps our names (id, response, sources, "
        "question, label, spans, document, group) to columns, as for `rows`; hallucinated=VALUE says which label "
        "means hallucinated (default: 1, true and the like). `sources` is a text or a list of texts, `spans` a list "
        "of objects with start and end. Needs the `data` extra; code that comes with a set is never run."
    ),
)


def read(
    path: Path,
    split: str | None = None,
    *,
    on_bad: OnBad = None,
    unlabelled: bool = False,
    remark: Callable[[str], None] = lambda line: None,
) -> Iterator[Example]:
    """Read the rows of "NAME_OR_FOLDER?response=…&label=…". If you do not pass `split`, all splits are read in turn.

    Raises:
        MissingExtraError: The `datasets` library is not installed.
        UnknownNameError: A column is not one of ours, or a split does not exist.
    """
    name, _, query = str(path).partition("?")
    columns, labels = columns_and_labels(dict(parse_qsl(query, keep_blank_values=True)), unlabelled=unlabelled)
    for part, rows in _load(name, split).items():
        numbered = (Row(Path(f"{name}[{part}]"), i, row, i) for i, row in enumerate(rows, 1))
        yield from read_rows(numbered, partial(_example, part, columns, labels), on_bad)
    for line in labels.remarks(name):
        remark(line)


def _load(name: str, split: str | None) -> dict[str, Iterable[dict[str, Any]]]:
    """Load the rows of each split."""
    try:
        library = import_without_telemetry("datasets")
    except ImportError:
        raise MissingExtraError("reading Hugging Face data sets", "data", "veridical-lab") from None
    folder = Path(name)
    saved = any((folder / mark).is_file() for mark in ("dataset_dict.json", "state.json"))
    try:
        loaded = library.load_from_disk(name) if saved else library.load_dataset(name)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be loaded: {error}", path=name) from None
    parts = dict(loaded.items()) if isinstance(loaded, dict) else {"all": loaded}
    if split is not None and split not in parts:
        raise UnknownNameError(f"split of {name}", split, parts)
    return parts if split is None else {split: parts[split]}


def _example(part: str, columns: Columns, labels: Labels, row: Row) -> list[Example]:
    for name in columns.named:
        row.get(name)  # a column that was named must be there
    case, _ = as_case(row.values, columns.resolve(row.values)[0], default_id=str(row.number))
    return [labels.example(row, replace(case, id=f"{part}/{case.id}"), (("part", part),))]
