"""Read your own labelled data from any file of rows, as texts with a label or as `example/1` documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows, text_id
from veridical.io.columns import LABELS
from veridical.io.files import ROW_ENDINGS, ending_of
from veridical.io.jsonl import refuse
from veridical.io.rows import Columns, RowForm, RowReader, SourceRow
from veridical.io.serialization import TAG, decode
from veridical.io.tables import objects_in
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Verdict

COLUMNS = ("id", "response", "sources", "question", "label", "spans", "document", "group")
"""The columns that a spec can name."""
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
_SHOWN_LABELS = 12
SUPPORTED = ("0", "0.0", "false", "no", "supported", "faithful", "grounded", "clear", "pass")


@dataclass(frozen=True, slots=True)
class Labels:
    """Reads the gold label of each row of your own data, from the columns that the data spec names.

    Attributes:
        label: The column with the label of the response. Default: the first column of `LABELS` that a row has.
        spans: The column of the hallucinated spans. Each span is an object with a start and an end (and perhaps a label
            and a text), or a pair of start and end. Default: the column "spans" if the row has one.
        document: The column with the name of the document that the row is about. Default: the column "document" if the
            row has one, or else a hash of the first source.
        hallucinated: The label that means "hallucinated", such as "bad". Every other label then means "supported".
            Default: the well-known labels in `HALLUCINATED` and `SUPPORTED` are accepted.
        group: The columns by which results can be grouped.
        values: The number of rows with each label so far, by (label, True if it means "hallucinated"). Only counted if
            `hallucinated` is given. Used by `remarks`.
        required: If true, a row that has neither a label nor spans is an error. If false, it is an unlabelled example.
    """

    label: str | None = None
    spans: str | None = None
    document: str | None = None
    hallucinated: str | None = None
    group: tuple[str, ...] = ()
    values: Counter[tuple[str, bool]] = field(default_factory=Counter, compare=False)
    required: bool = field(default=True, kw_only=True)

    def example(self, row: Row, case: Case, group: tuple[tuple[str, str], ...] = ()) -> Example:
        """Build an example from a case and the gold label in its row.

        `group` has pairs of key and value by which results can be grouped, in addition to the columns in `self.group`.

        Raises:
            DataError: The row has no gold column, or its label or spans cannot be read.
            InputError: A span begins after its end, or runs past the end of the response.
        """
        names = (self.label,) if self.label else tuple(name for name in LABELS[:4] if name in row.values)
        spans = self.spans or ("spans" if row.values.get("spans") is not None else None)
        if self.required and not names and spans is None:
            hint = "name their columns: ?label=COLUMN or ?spans=COLUMN; a label is 1 where the response is hallucinated"
            raise row.bad("a case without gold: neither a label nor spans", hint=hint)
        if spans and isinstance(row.get(spans), str):  # the cell of a table
            found = objects_in(row.text(spans))
            if found is None:
                raise row.bad(f"not a list of spans: {row.text(spans)!r:.80}", hint='in JSON: [{"start": 0, "end": 5}]')
            row = replace(row, values={**row.values, spans: found})
        verdicts = tuple(_verdict(item, case) for item in (_span_rows(row, spans) if spans else ()))
        value = row.get(names[0]) if names else bool(verdicts) if spans else None
        document = self.document or ("document" if row.values.get("document") is not None else None)
        values = {name: row.get(name) for name in self.group}
        of_row = ((name, str(value)) for name, value in values.items() if value is not None and value != "")
        group = tuple(sorted({*group, *of_row}))
        about = row.name(document) if document else text_id(case.sources[0].text) if case.sources else None
        if value is None or value == "":
            return Example(case, Judgement(case.id, "human:label", judged=(), notes=("no label",)), about, group)
        if self.hallucinated is None and names == ("label",) and _is_turned(row, case, value):
            hint = "add ?hallucinated=0, or ?hallucinated=1 if yours is the other way round; or read aggrefact:FILE"
            raise row.bad("a label of 1 means supported in rows with 'doc' and 'claim', as of MiniCheck", hint=hint)
        return Example(
            case, Judgement(case.id, "human:label", self._score(row, value), verdicts=verdicts), about, group
        )

    def _score(self, row: Row, value: Any) -> float:
        texts = _texts(value)
        if self.hallucinated is not None:
            hallucinated = not texts.isdisjoint(_texts(self.hallucinated))
            self.values[str(value).strip(), hallucinated] += 1
            return float(hallucinated)
        if not texts & {*HALLUCINATED, *SUPPORTED}:
            hint = f"1 (or {', '.join(HALLUCINATED[2:])}), 0 (or {', '.join(SUPPORTED[2:])}); else ?hallucinated=VALUE"
            raise row.bad(f"the label is {value!r}", hint=hint)
        return float(bool(texts & {*HALLUCINATED}))

    def remarks(self, path: str | Path) -> list[str]:
        """Return a note, in one line, that lists the labels that were counted as "supported".

        Such a note lets users notice a label that they did not mean. If there are fewer than two such labels, the
        result is [].

        Raises:
            DataError: All labels were read as supported, so that `hallucinated` may be misspelt.
        """
        supported = [(text, count) for (text, wrong), count in self.values.most_common() if not wrong]
        shown = ", ".join(f"{text!r} ({count:,})" for text, count in supported[:_SHOWN_LABELS])
        shown += f" and {len(supported) - _SHOWN_LABELS:,} more" if len(supported) > _SHOWN_LABELS else ""
        if supported and len(supported) == len(self.values):
            raise DataError(f"no row has the label {self.hallucinated!r}", path=path, hint=f"the labels: {shown}")
        if len(supported) < 2:
            return []
        hint = "rows with an empty label count in no metric"
        return [f"{path}: labels other than {self.hallucinated!r}, read as supported: {shown}; {hint}"]


def _texts(value: Any) -> set[str]:
    """Return the ways to write the label `value`: in lower case, and as a whole number."""
    text = str(value).strip().lower()
    return {text, text.removesuffix(".0"), *([str(int(value))] if isinstance(value, bool) else [])}


def _is_turned(row: Row, case: Case, value: Any) -> bool:
    """Check whether a row with the label 0 or 1 looks like MiniCheck or LLM-AggreFact, where 1 means supported."""
    return "doc" in row.values and row.values.get("claim") == case.response and not _texts(value).isdisjoint("01")


def _span_rows(row: Row, column: str) -> list[Row]:
    """Return the spans in a field, each as a row with start and end. A pair of numbers is a span, too."""
    items = [
        dict(zip(("start", "end"), item, strict=True)) if isinstance(item, list | tuple) and len(item) == 2 else item
        for item in row.items(column)
    ]
    return replace(row, values={column: items}).rows(column)


def _verdict(item: Row, case: Case) -> Verdict:
    """Make the verdict on a labelled span. Raise `InputError` if the span is given with a text that differs from it."""
    start, end = item.numeric("start", low=0), item.numeric("end", low=0)
    if start > end or start % 1 or end % 1:
        raise InputError(f"a span from {start:g} to {end:g}")
    span = Span(int(start), int(end))
    text, labelled = span.of(case.response), item.values.get("text")
    if isinstance(labelled, str) and labelled != text:
        hint = "start and end count characters of the response from 0, and end is the first one after the span"
        raise item.bad(f"the text {labelled!r}, but the response has {text!r} from {start:g} to {end:g}", hint=hint)
    labels = (item.values.get(name) for name in ("label", "label_type"))
    return Verdict(span, 1.0, label=next((label for label in labels if isinstance(label, str) and label), None))


def columns_and_labels(query: Mapping[str, str], *, unlabelled: bool = False) -> tuple[Columns, Labels]:
    """Interpret the query "response=COLUMN&label=COLUMN…" of a data spec, given as a dict from name to value.

    Return the columns with the parts of a case, and the reader of the gold labels. If `unlabelled` is set, this reader
    accepts rows without a label.

    Raises:
        UnknownNameError: The query has an unknown name.
    """
    for name in query:
        if name not in (*COLUMNS, "hallucinated"):
            raise UnknownNameError("column", name, (*COLUMNS, "hallucinated"))
    sources = (query["sources"],) if "sources" in query else ()
    columns = Columns(query.get("response"), sources, id=query.get("id"), question=query.get("question"))
    label, spans, document, hallucinated = map(query.get, ("label", "spans", "document", "hallucinated"))
    group = tuple(name.strip() for name in query.get("group", "").split(",") if name.strip())
    return columns, Labels(label, spans, document, hallucinated, group, required=not unlabelled)


def _with_remarks(
    examples: Iterator[Example], labels: Labels, path: str | Path, remark: Callable[[str], None]
) -> Iterator[Example]:
    """Yield `examples`. At the end, call `remark` with each line of notes on their labels."""
    yield from examples
    for line in labels.remarks(path):
        remark(line)


@dataclass
class OwnData:
    """Reads your own labelled data. Its instances `ROWS` and `JSONL` serve the data sets "rows" and "jsonl"."""

    INFO: Info
    REMOTE = True  # the text after the name may end in "?response=COLUMN…"
    OWN = True

    def read(
        self,
        path: Path,
        split: str | None = None,
        *,
        on_bad: OnBad = None,
        unlabelled: bool = False,
        remark: Callable[[str], None] = lambda line: None,
    ) -> Iterator[Example]:
        """Read one example from each row of a file, or of the files in a folder, with one file per split.

        Args:
            path: The file or folder. It may be followed by a query that names columns, such as
                "answers.csv?response=answer&label=verdict".
            split: The name of the split to read, which is a file name without extension. Default: all files.
            on_bad: Called with the error of each row that cannot be read, which is then skipped. By default, the error
                is raised.
            unlabelled: If true, rows need no gold label.
            remark: Called at the end with each line of notes on how the labels were interpreted.
        """
        name, _, query = (str(path), "", "") if path.exists() else str(path).partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True))
        encoding, delimiter = given.pop("encoding", "utf-8"), given.pop("delimiter", None)
        columns, labels = columns_and_labels(given, unlabelled=unlabelled)
        also = tuple(filter(None, (labels.label, labels.spans, labels.document, *labels.group)))
        form = RowForm(columns, encoding, delimiter, also=also)
        files = _files(Path(name), split)
        rows = (row for file in files for row in _rows(RowReader(file, form), on_bad))
        return _with_remarks(read_rows(rows, partial(_examples, labels), on_bad), labels, name, remark)


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
            "label, spans, document, group=COLUMN[,COLUMN]); those left out are recognised. A label is 1 where the "
            "response is hallucinated; hallucinated=VALUE says which other label means that. Also encoding=… and "
            "delimiter=…"
        ),
    )
)
JSONL = OwnData(replace(ROWS.INFO, name="jsonl", title="The same: the name that other commands print for their files"))


def _files(path: Path, split: str | None) -> list[Path]:
    if not path.exists():
        raise DataError("no such file or folder", path=path)
    files = {path.stem: path}
    if path.is_dir():
        endings = [ending for ending in ROW_ENDINGS if ending != ".json"]  # in a folder, that describes the data
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
    """A row, together with the reader that makes a case from it."""

    source: SourceRow | None = None
    reader: RowReader | None = None


@contextmanager
def _hint_on_specs() -> Iterator[None]:
    """Replace command-line options in the hints of errors by the spec that names the columns of the data."""
    try:
        yield
    except InputError as error:
        in_spec = "rows:FILE?response=COLUMN&sources=COLUMN"
        error.hint = error.hint and error.hint.replace("--response and --source", in_spec)
        raise


def _rows(reader: RowReader, on_bad: OnBad) -> Iterator[_OwnRow]:
    number = 0
    with _hint_on_specs():
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
    with _hint_on_specs():
        case, _ = row.reader.case(row.source, str(row.number))
    return [labels.example(row, case)]
