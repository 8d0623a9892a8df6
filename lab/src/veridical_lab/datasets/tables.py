"""Read data sets of statements about tables.

The source is the table written as text, with one line per row: "header: value; header: …".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical.records.types import Case, Evidence, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import found_file, split_files
from veridical_lab.datasets.marks import diff_spans
from veridical_lab.datasets.reading import csv_rows, group, json_rows, read_json_object


@dataclass(frozen=True, slots=True)
class TableText:
    """A table as text. `cells[row][column]` is the span that the value of a cell has in `text`."""

    text: str
    cells: Sequence[Sequence[Span]]


def linearise(rows: Iterable[Iterable[tuple[str, str]]], title: str | None = None) -> TableText:
    """Write a table as text: the title, then one line for each row of (header, value) cells.

    >>> table = linearise([[("name", "Ada"), ("born", "1815")]], "people")
    >>> table.text, table.cells[0][1].of(table.text)
    ('people\\nname: Ada; born: 1815', '1815')
    """
    lines, cells, size = ([title], [], len(title) + 1) if title else ([], [], 0)
    for row in rows:
        line, spans = "", []
        for header, value in row:
            line += f"{'; ' if line else ''}{header}: "
            spans.append(Span(size + len(line), size + len(line) + len(value)))
            line += value
        lines.append(line)
        cells.append(spans)
        size += len(line) + 1
    return TableText("\n".join(lines), cells)


@dataclass(frozen=True)
class TableSet:
    """Reads one set of statements about tables. The tables are in a separate file.

    Attributes:
        INFO: The description of the set.
        files: The file of each split.
        rows: A function that reads the rows of one file.
        make: A function that makes the examples of one row from the name of the split, the object with all tables, and
            the row.
        tables: Where the file of tables may be, relative to the folder of the statements or one of the two folders
            above.
    """

    INFO: Info
    files: Mapping[str, str]
    rows: Callable[[Path, OnBad], Iterable[Row]]
    make: Callable[[str, Row, Row], Iterable[Example]]
    tables: Sequence[str] = ("tables.json",)

    def read(self, path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
        """Read the statements in all files in `path`, or only those of one split.

        `on_bad` is also called for the rows that are left out.
        """
        files = split_files(self.INFO, path, split, self.files)
        near = [folder / name for folder in list(files[0][1].absolute().parents)[:3] for name in self.tables]
        tables_file = next(filter(None, map(found_file, near)), None)
        if tables_file is None:
            raise DataError("no tables.json in its folder or above it", path=path, hint="the tables are in that file")
        tables = read_json_object(tables_file)
        for part, file in files:
            yield from read_rows(self.rows(file, on_bad), partial(self.make, part, tables), on_bad)


def _delimited(tables: Row, id: str, title: str | None = None) -> TableText | None:
    """Read the table with this id, which is stored as lines of cells divided by "#". Return None if it is missing."""
    if id not in tables.values:
        return None
    header, *rows = [line.split("#") for line in tables.text(id).replace("\r\n", "\n").split("\n") if line.strip()]
    return linearise([zip(header, row, strict=False) for row in rows], title)


def _statement(
    id: str, table: TableText, table_id: str, text: str, *, by: str, label: str, version: str | None = None
) -> Example:
    case = Case(id, text, (Source(table_id, table.text),))
    gold = Judgement(id, f"human:{by}", float(label != "entailment"))
    return Example(case, gold, table_id, group(label=label, version=version))


def _tabfact(part: str, tables: Row, row: Row) -> list[Example]:
    table_id, texts = row.text("table"), {"true": row.text("true"), "false": row.text("false")}
    table = _delimited(tables, table_id)
    if table is None:
        raise row.unfit(f"the table {table_id!r} is missing")
    if texts["false"] == "borries-ileigh":
        raise row.unfit("the false statement is a placeholder")
    labels = {"true": "entailment", "false": "contradiction"}
    return [
        _statement(f"{part}/{row.number}/{v}", table, table_id, text, by="tabfact", label=labels[v], version=v)
        for v, text in texts.items()
    ]


def _logicnlg(part: str, tables: Row, row: Row) -> Iterator[Example]:
    table_id = row.text("table")
    sides = {version: row.items(version) for version in ("pos", "neg")}
    if any([type(value) for value in side] != [str, list, str, str] for side in sides.values()):
        raise row.bad("'pos' and 'neg' are not [text, columns, title, template]")
    before, after = sides["pos"][0], sides["neg"][0]
    table = _delimited(tables, table_id, sides["pos"][2])
    if table is None:
        raise row.unfit(f"the table {table_id!r} is missing")
    marked = diff_spans(before, after)
    if not marked:
        raise row.unfit("both statements are the same")
    for version, spans in (("pos", [Span(0, len(before))]), ("neg", marked)):
        text, columns = sides[version][:2]
        case = Case(f"{part}/{row.number}/{version}", text, (Source(table_id, table.text),))
        score, label = (0.0, "entailment") if version == "pos" else (1.0, "contradiction")
        evidence = tuple(Evidence(table_id, cell) for cell in _linked_cells(row, table, columns, text))
        verdicts = tuple(Verdict(span, score, label, evidence=evidence) for span in spans)
        gold = Judgement(case.id, "human:logicnlg", score, verdicts=verdicts)
        yield Example(case, gold, table_id, group(label=label, version=version))


def _linked_cells(row: Row, table: TableText, columns: Sequence[object], text: str) -> list[Span]:
    """Find the cells in the labelled columns whose values occur in the statement."""
    if not all(type(column) is int and column >= 0 for column in columns):
        raise row.bad(f"a column is not a whole number: {columns}")
    cells = [cells[c] for cells in table.cells for c in columns if isinstance(c, int) and c < len(cells)]
    words = f" {text.lower()} "
    return [cell for cell in cells if len(cell) and f" {cell.of(table.text).lower()} " in words]


def _infotabs(part: str, tables: Row, row: Row) -> list[Example]:
    table_id = row.text("table_id")
    labels = {"E": "entailment", "N": "neutral", "C": "contradiction"}
    row.choice("label", dict.fromkeys(labels, 0.0))
    if table_id not in tables.values:
        raise row.unfit(f"the table {table_id!r} is missing")
    fields = tables.row(table_id)
    title = ", ".join(fields.texts("title")) if "title" in fields.values else None
    lines = [[(key, ", ".join(fields.texts(key)))] for key in fields.values if key != "title"]
    table, label = linearise(lines, title), labels[row.get("label")]
    id = f"{part}/{row.number}"
    return [_statement(id, table, table_id, row.text("hypothesis"), by="infotabs", label=label)]


def _by_table(path: Path, on_bad: OnBad) -> Iterator[Row]:
    """Read an object that has a list of rows for each table, and number all rows in one sequence."""
    tables, number = read_json_object(path), 0
    for table_id in tables.values:
        for row in tables.rows(table_id):
            number += 1
            yield Row(path, row.line, {**row.values, "table": table_id}, number, row.within)


TABFACT = TableSet(
    Info(
        name="tabfact",
        title="TabFact, pairs of statements",
        licence="MIT; CC BY 4.0 (tables: Wikipedia, CC BY-SA)",
        citation="Chen et al. 2020, TabFact: A Large-scale Dataset for Table-based Fact Verification",
        levels=(Level.RESPONSE,),
        pairs=True,
        document="the table (its id)",
        notes="A true and a close false statement on a table. Left out: placeholders and pairs without their table.",
    ),
    {"all": "pairwise_data/all_positive_negative_pairs.json"},
    partial(json_rows, names=("table", "true", "false")),
    _tabfact,
)
LOGICNLG = TableSet(
    Info(
        name="logicnlg",
        title="LogicNLG, pairs of statements",
        licence="MIT (tables: Wikipedia, CC BY-SA)",
        citation="Chen et al. 2020, Logical Natural Language Generation from Open-Domain Tables",
        levels=(Level.RESPONSE, Level.SPAN),
        pairs=True,
        splits=("val", "test"),
        document="the table (its id, the same as in tabfact)",
        notes=(
            "A true statement and a false edit of it. Spans are the word-level difference; evidence are the cells of "
            "the labelled columns whose value the statement holds. The tables are TabFact's: its tables.json lies "
            "beside the files or in ../tabfact. Pairs of twice the same statement are left out."
        ),
    ),
    {split: f"{split}_lm_pos_neg.json" for split in ("val", "test")},
    _by_table,
    _logicnlg,
    ("tables.json", "../tabfact/tables.json", "tabfact/tables.json"),
)
_PARTS = ("train", "dev", "test_alpha1", "test_alpha2", "test_alpha3")
INFOTABS = TableSet(
    Info(
        name="infotabs",
        title="InfoTabS",
        licence="Apache-2.0 (tables: Wikipedia, CC BY-SA)",
        citation="Gupta et al. 2020, INFOTABS: Inference on Tables as Semi-structured Data",
        levels=(Level.RESPONSE,),
        splits=_PARTS,
        document="the table (table_id)",
        notes=(
            "A Wikipedia infobox and a sentence about it; tables.json holds the infoboxes by id. data/maindata is "
            "read; data/validation repeats rows of it."
        ),
    ),
    {part: f"data/maindata/infotabs_{part}.tsv" for part in _PARTS},
    partial(csv_rows, delimiter="\t", quoted=False),
    _infotabs,
)
