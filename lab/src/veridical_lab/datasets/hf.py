"""Reads any labelled set of the Hugging Face `datasets` library, by name or folder and a mapping of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from veridical.core.errors import DataError, InputError, MissingExtraError, UnknownNameError
from veridical.core.spans import Span
from veridical.core.telemetry import import_without_telemetry
from veridical.core.types import Case, Example, Judgement, Level, Source, Verdict
from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows, text_id

__all__ = ["COLUMNS", "INFO", "REMOTE", "read", "read_columns"]

REMOTE = True  # the text after "hf:" need not be a path
COLUMNS = ("id", "response", "sources", "question", "label", "spans", "document")
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
        "question, label, spans, document) to columns; hallucinated=VALUE says which label means hallucinated "
        "(default 1). `sources` is a text or a list of texts, `spans` a list of objects with start and end. Needs "
        "the `data` extra; code that comes with a set is never run."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Yield the rows of "NAME_OR_FOLDER?response=…&label=…"; without `split`, of all splits in turn."""
    name, _, query = str(path).partition("?")
    columns = dict(parse_qsl(query, keep_blank_values=True))
    hallucinated = columns.pop("hallucinated", "1")
    yield from read_columns(name, split, columns=columns, hallucinated=hallucinated, on_bad=on_bad)


def read_columns(
    name: str,
    split: str | None = None,
    *,
    columns: Mapping[str, str],
    hallucinated: str = "1",
    on_bad: OnBad = None,
) -> Iterator[Example]:
    """Yield the rows of a set as examples.

    Args:
        name: A data set's name, or a folder.
        split: One split; None reads all in turn.
        columns: The set's own name for any of `COLUMNS`; those left out have the same name in the set.
        hallucinated: The label, as text, of a hallucinated response.
        on_bad: Gets the error of a bad row, which is then skipped; None raises it.

    Raises:
        MissingExtraError: Without the `datasets` library.
        UnknownNameError: For a column that is not in `COLUMNS`, or a split that does not exist.
    """
    for ours in columns:
        if ours not in COLUMNS:
            raise UnknownNameError("column", ours, COLUMNS)
    for part, rows in _load(name, split).items():
        numbered = (Row(Path(f"{name}[{part}]"), i, row, i) for i, row in enumerate(rows, 1))
        yield from read_rows(numbered, partial(_example, part, columns, hallucinated), on_bad)


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


def _example(part: str, columns: Mapping[str, str], hallucinated: str, row: Row) -> list[Example]:
    def has(ours: str) -> bool:
        return row.values.get(columns.get(ours, ours)) is not None

    def column(ours: str) -> str:
        return columns.get(ours, ours)

    for ours in columns:
        row.get(column(ours))  # a column that was named must be there
    texts: list[str] = []
    if has("sources"):
        value = row.get(column("sources"))
        texts = [value] if isinstance(value, str) else row.texts(column("sources"))
    sources = tuple(Source(str(i), text) for i, text in enumerate(texts, 1))
    name = row.name(column("id")) if has("id") else str(row.number)
    question = row.text(column("question")) if has("question") else None
    case = Case(f"{part}/{name}", row.text(column("response")), sources, question)
    verdicts: list[Verdict] = []
    for item in row.rows(column("spans")) if has("spans") else ():
        start, end = item.numeric("start", low=0), item.numeric("end", low=0)
        if start > end or start % 1 or end % 1:
            raise InputError(f"a span from {start:g} to {end:g}")
        verdicts.append(Verdict(Span(int(start), int(end)), 1.0))
    if not has("label") and not has("spans"):
        raise row.bad("neither a label nor spans", hint="name their columns: label=COLUMN or spans=COLUMN")
    label = float(bool(verdicts))
    if has("label"):
        value = row.get(column("label"))
        shown = str(int(value)) if isinstance(value, bool) else str(value)
        label = float(hallucinated in (shown, str(value)))
    document = row.name(column("document")) if has("document") else text_id(texts[0]) if texts else None
    gold = Judgement(case.id, "human:label", label, verdicts=tuple(verdicts))
    return [Example(case, gold, document, (("part", part),))]
