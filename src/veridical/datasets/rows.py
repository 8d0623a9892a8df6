"""Read your own labelled data from any file of rows: texts with a label, or `example/1` documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from veridical.core.errors import DataError, InputError, UnknownNameError
from veridical.core.jsonl import json_error, refuse
from veridical.core.serialization import TAG, decode
from veridical.core.spans import Span
from veridical.core.types import Case, Example, Judgement, Level, Verdict
from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows, text_id
from veridical.rows import ENDINGS, Columns, RowForm, RowReader, SourceRow, ending_of
from veridical.rows.columns import LABELS

__all__ = ["COLUMNS", "HALLUCINATED", "JSONL", "ROWS", "SUPPORTED", "Labels", "OwnData", "columns_and_labels"]

COLUMNS = ("id", "response", "sources", "question", "label", "spans", "document")
"""Names in a spec for columns of the data."""
HALLUCINATED = (
    "1",
    "1.0",
    "true",
    "yes",
    "hallucinated",
    "hallucination",
    "unsupported",
    "flagged",
    "fail",
    "not_faithful",
)
SUPPORTED = ("0", "0.0", "false", "no", "supported", "faithful", "grounded", "clear", "pass")


@dataclass(frozen=True, slots=True)
class Labels:
    """Which columns hold the gold of a row.

    Attributes:
        label: The column of the label; None: the first of `LABELS` that a row has.
        spans: The column of the hallucinated spans: objects with start and end.
        document: The column of the document; without one, it is the first source.
        hallucinated: The label, as text, of a hallucinated response; None: one of `HALLUCINATED`.
        required: Whether a row without a column for gold is refused, rather than not labelled.
    """

    label: str | None = None
    spans: str | None = None
    document: str | None = None
    hallucinated: str | None = None
    required: bool = field(default=True, kw_only=True)

    def example(self, row: Row, case: Case, group: tuple[tuple[str, str], ...] = ()) -> Example:
        """Return the example of a case and the gold in its row; raise `DataError` for a row without a column for it."""
        names = (self.label,) if self.label else tuple(name for name in LABELS[:4] if name in row.values)
        spans = self.spans or ("spans" if row.values.get("spans") is not None else None)
        if self.required and not names and spans is None:
            hint = "name their columns: ?label=COLUMN or ?spans=COLUMN; a label is 1 where the response is hallucinated"
            raise row.bad("a case without gold: neither a label nor spans", hint=hint)
        if spans and isinstance(row.get(spans), str):  # the cell of a table
            row = replace(row, values={**row.values, spans: json_in(row, spans)})
        verdicts = tuple(self._verdict(item) for item in (row.rows(spans) if spans else ()))
        value = row.get(names[0]) if names else bool(verdicts) if spans else None
        document = self.document or ("document" if row.values.get("document") is not None else None)
        about = row.name(document) if document else text_id(case.sources[0].text) if case.sources else None
        if value is None or value == "":
            return Example(case, Judgement(case.id, "human:label", judged=(), notes=("no label",)), about, group)
        return Example(
            case, Judgement(case.id, "human:label", self._score(row, value), verdicts=verdicts), about, group
        )

    def _score(self, row: Row, value: Any) -> float:
        texts = {str(value), str(value).strip().lower(), str(int(value)) if isinstance(value, bool) else ""}
        if self.hallucinated is not None:
            return float(self.hallucinated in texts)
        if not texts & {*HALLUCINATED, *SUPPORTED}:
            hint = f"1 (or {', '.join(HALLUCINATED[2:])}), 0 (or {', '.join(SUPPORTED[2:])}); else ?hallucinated=VALUE"
            raise row.bad(f"the label is {value!r}", hint=hint)
        return float(bool(texts & {*HALLUCINATED}))

    @staticmethod
    def _verdict(item: Row) -> Verdict:
        start, end = item.numeric("start", low=0), item.numeric("end", low=0)
        if start > end or start % 1 or end % 1:
            raise InputError(f"a span from {start:g} to {end:g}")
        return Verdict(Span(int(start), int(end)), 1.0)


def json_in(row: Row, column: str) -> Any:
    """Return the value of a cell that holds JSON."""
    try:
        return json.loads(row.text(column))
    except ValueError as error:
        raise json_error(error, row.path, row.line) from None


def columns_and_labels(query: Mapping[str, str], *, unlabelled: bool = False) -> tuple[Columns, Labels]:
    """Return what "response=COLUMN&label=COLUMN…" names; raise `UnknownNameError` for any other name."""
    for name in query:
        if name not in (*COLUMNS, "hallucinated"):
            raise UnknownNameError("column", name, (*COLUMNS, "hallucinated"))
    sources = (query["sources"],) if "sources" in query else ()
    columns = Columns(query.get("response"), sources, id=query.get("id"), question=query.get("question"))
    names = ("label", "spans", "document", "hallucinated")
    return columns, Labels(*(query.get(name) for name in names), required=not unlabelled)


@dataclass
class OwnData:
    """The reader of your own data."""

    INFO: Info
    REMOTE = True  # the text after the name may end in "?response=COLUMN…"
    UNLABELLED = True

    def read(
        self, path: Path, split: str | None = None, *, on_bad: OnBad = None, unlabelled: bool = False
    ) -> Iterator[Example]:
        """Return the example in each row of PATH?response=…&label=…; refuse rows without gold unless `unlabelled`."""
        name, _, query = (str(path), "", "") if path.exists() else str(path).partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True))
        encoding, delimiter = given.pop("encoding", "utf-8"), given.pop("delimiter", None)
        columns, labels = columns_and_labels(given, unlabelled=unlabelled)
        form = RowForm(
            columns, encoding, delimiter, also=tuple(filter(None, (labels.label, labels.spans, labels.document)))
        )
        files = _files(Path(name), split)
        rows = (row for file in files for row in _rows(RowReader(file, form), on_bad))
        return read_rows(rows, partial(_examples, labels), on_bad)


ROWS = OwnData(
    Info(
        name="rows",
        title="Your own data: any file of rows with a label",
        licence="yours",
        citation="",
        levels=(Level.RESPONSE, Level.SPAN, Level.COVERAGE),
        languages=(),
        document="the `document` column, else the first source (by its hash)",
        notes=(
            "rows:PATH, or the path alone: JSON, CSV, Excel or Parquet, or a folder with a file for each split. "
            "rows:PATH?response=COLUMN&sources=COLUMN&label=COLUMN … names columns (id, response, sources, question, "
            "label, spans, document); those left out are recognised. A label is 1 where the response is hallucinated; "
            "hallucinated=VALUE says which other label means that. Also encoding=… and delimiter=…"
        ),
    )
)
JSONL = OwnData(replace(ROWS.INFO, name="jsonl", title="The same: the name that other commands print for their files"))


def _files(path: Path, split: str | None) -> list[Path]:
    if not path.exists():
        raise DataError("no such file or folder", path=path)
    files = {path.stem: path}
    if path.is_dir():
        endings = [ending for ending in ENDINGS if ending != ".json"]  # in a folder, that describes the data
        files = {file.stem: file for file in sorted(path.iterdir()) if ending_of(file) in endings}
        if not files:
            raise DataError(
                "a folder without any file of rows", path=path, hint=f"files that end in {', '.join(endings)}"
            )
    if split is not None and split not in files:
        raise UnknownNameError(f"split in {path}:", split, files)
    return list(files.values()) if split is None else [files[split]]


@dataclass(frozen=True, slots=True)
class _OwnRow(Row):
    """A row with the reader that makes a case of it."""

    source: SourceRow | None = None
    reader: RowReader | None = None


def _rows(reader: RowReader, on_bad: OnBad) -> Iterator[_OwnRow]:
    number = 0
    for number, row in enumerate(reader.rows(), 1):
        if isinstance(row.content, DataError):
            refuse(row.content, on_bad)
        else:
            yield _OwnRow(reader.path, row.place, row.content, number, source=row, reader=reader)
    if number == 0:
        raise DataError("the file is empty", path=reader.path)


def _examples(labels: Labels, row: Row) -> list[Example]:
    assert isinstance(row, _OwnRow)
    assert row.source is not None
    assert row.reader is not None
    tag = str(row.values.get(TAG, ""))
    if tag.startswith("example/") or "gold" in row.values:
        return [decode(row.values, "example")]
    if tag and not tag.startswith("case/"):
        raise row.bad(f"found {tag!r}, not an example", hint='"veridical": "example/1"')
    return [labels.example(row, row.reader.case(row.source, str(row.number))[0])]
