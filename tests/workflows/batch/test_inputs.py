"""Rows of every format: read from any of them on, and each that cannot be read with its place and reason."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical.io.rows import Columns, RowForm, RowReader
from veridical.io.tables import csv_table, objects_in, parquet_table
from veridical.records.errors import DataError, InputError
from veridical.records.types import Case
from veridical.workflows.batch import inputs
from veridical.workflows.batch.inputs import BatchReader, ShardRange, input_paths, plan


def read(
    path: Path, columns: Columns | None = None, max_bytes: int = 1000, encoding: str = "utf-8"
) -> list[Case | str]:
    """Each row's case, or why there is none."""
    form = RowForm(columns or Columns(), encoding, max_bytes=max_bytes)
    files, shards = plan(input_paths([path]), form, 10)
    rows: list[Case | str] = []
    reader = BatchReader(files, form)
    for shard in shards:
        for row in reader.read(shard.first, shard.rows):
            try:
                rows.append(row.case()[0])
            except InputError as error:
                rows.append(str(error))
    return rows


def case_of(row: Case | str) -> Case:
    assert isinstance(row, Case), row
    return row


def parquet(path: Path, columns: dict[str, list[Any]], **options: Any) -> Path:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table(columns), path, **options)
    return path


def test_cells_with_quotes_line_breaks_and_commas(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(
        "\ufeffid,answer,context\r\n"
        '1,"He said ""no"", twice.\r\nThen left.","a,b"\r\n'
        "\r\n"
        "2,short\r\n"
        "3,café,\r\n".encode()
        + b"4,caf\xe9,c\r\n"
    )
    first, second, third, fourth = read(path, Columns("answer", ("context",)))
    assert (case_of(first).id, case_of(first).response) == ("1", 'He said "no", twice.\r\nThen left.')
    assert [(source.id, source.text) for source in case_of(first).sources] == [("context", "a,b")]
    assert second == f"{path}:5: 2 cells, and the first line has 3 (quote cells that hold line breaks, quotes or ',')"
    assert (case_of(third).response, case_of(third).sources[0].text) == ("café", "")
    assert fourth == f"{path}:7: not utf-8 text (name its encoding with --encoding, such as --encoding cp1252)"


@pytest.mark.parametrize("content", [b"response\na\n", "response\na\n".encode("utf-16") + b"\0\xd8\0"])
def test_a_table_whose_characters_cannot_be_found_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"rows\.csv:\d: not utf-16 text \(name its encoding"):
        read(path, encoding="utf-16")


def test_a_quote_that_is_never_closed_loses_no_row_before_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text('response\tsources\none\ta\n"two\tb\nthree\tc\n')
    first, second = read(path)
    case_of(first)
    assert "not CSV: unexpected end of data" in str(second)


def test_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    lines = [
        {"response": "a", "sources": ["b", {"text": "c", "must_cover": True}]},
        {"response": None},
        {"response": "a", "sources": [3]},
        {"response": "a", "colour": "red"},
        {"response": "a" * 1000},
        {"response": "z", "id": "last"},
    ]
    with gzip.open(path, "wt") as file:
        file.write("\n\n".join(map(json.dumps, lines)) + '\n{"response": "\\ud800"}\nnull\n{}')
    first, null, number, unknown, long, last, half, not_object, empty = read(path)
    assert (case_of(first).id, case_of(first).sources[1].must_cover, case_of(last).id) == ("1", True, "last")
    assert case_of(null).response == ""
    assert "case.sources[0]: should be an object" in str(number)
    assert "unknown field 'colour'" in str(unknown)
    assert long == f"{path}:9: a line of more than 1,000 characters (split it, or raise the limit (--max-mb))"
    assert "surrogate" in str(half)
    assert "found a JSON null, not an object" in str(not_object)
    assert "response" in str(empty)


def test_columns_of_lines_that_are_no_cases(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [
        {"key": 7, "out": "a", "docs": ["b", "c"], "notes": None, "rest": {}},
        {"key": [7], "out": "a", "docs": [], "notes": "n"},
        {"key": 8, "out": None, "docs": "b", "notes": "n"},
        {"key": 9, "out": "a", "docs": 4, "notes": "n"},
        {"out": "a"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    first, bad_id, empty, bad_source, missing = read(path, Columns("out", ("docs",), ("notes",), id="key"))
    assert case_of(first).id == "7"
    assert [source.id for source in case_of(first).sources] == ["docs 1", "docs 2"]
    assert "the column 'key' holds a list (a text, a number, true or false)" in str(bad_id)
    assert (case_of(empty).id, case_of(empty).response) == ("8", "")
    assert "case.sources[0].text: should be a valid string" in str(bad_source)
    assert "no column 'docs' (columns: 'out')" in str(missing)


def test_a_group_is_taken_out_of_a_case(tmp_path: Path) -> None:
    def read_group(line: str, group: str) -> tuple[Case, str | None]:
        path = tmp_path / "rows.jsonl"
        path.write_text(line)
        reader = RowReader(path, RowForm(Columns(group=group)))
        return reader.case(next(reader.rows()), "1")

    case, group = read_group('{"response": "a", "system": 3}', "system")
    assert (case.response, group) == ("a", "3")
    case, group = read_group('{"response": "a", "question": "q"}', "question")
    assert (case.question, group) == ("q", "q")
    assert read_group('{"response": "a"}', "system")[1] is None


def test_parquet_with_lists_and_nulls(tmp_path: Path) -> None:
    table = {"text": ["a", None, "c"], "docs": [["b", "d"], [], None], "other": [1, 2, 3]}
    rows = read(parquet(tmp_path / "rows.parquet", table), Columns("text", ("docs",)))
    first, null, third = map(case_of, rows)
    assert [source.text for source in first.sources] == ["b", "d"]
    assert null.response == ""
    assert (third.id, third.sources) == ("3", ())


def test_parquet_whose_text_is_not_utf_8(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    bad = arrow.Array.from_buffers(
        arrow.string(), 2, [None, arrow.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), arrow.py_buffer(b"a\xff")]
    )
    path = parquet(tmp_path / "rows.parquet", {"response": bad})
    first, second = read(path)
    case_of(first)
    assert second == f"{path}:2: not UTF-8 text (write the column as UTF-8 text)"


@pytest.mark.parametrize(
    "name, content, columns, says",
    [
        ("rows.csv", "a,b\n1,2\n", Columns("answer"), r"rows\.csv:1: no column 'answer' \(columns: 'a', 'b'\)"),
        ("rows.csv", "response,b\n1,2\n", Columns(sources=("c",)), "no column 'c'"),
        ("rows.csv", "response,response\n1,2\n", Columns(), "two columns are called 'response'"),
        ("rows.csv", "", Columns(), "no rows in it"),
        ("rows.csv", "response,sources\n", Columns(), "no rows in it"),
        ("rows.jsonl", "\n \n", Columns(), "no rows in it"),
        ("rows.json", "[]", Columns(), "no rows in it"),
        ("rows.txt", "a", Columns(), r"the ending '\.txt' is not of a file of rows"),
        ("rows.csv", "response,b\nx,1\n", Columns("b", ("c",)), "no column 'c'"),
        ("rows.csv", "a,b\n1,2\n", Columns(), "no column 'response'.*name yours with --response and --source"),
        ("rows.csv", "PK\3\4", Columns(), "a ZIP archive or office document, not text"),
        ("rows.xlsx", "PK\3\4", Columns(), "not a readable Excel file"),
        ("rows.parquet", "PAR1", Columns(), "not a readable Parquet file"),
        ("rows.csv.gz", "response\na\n", Columns(), "cannot be read|broken gzip"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: str, columns: Columns, says: str) -> None:
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=says):
        read(path, columns)


def test_a_text_that_parquet_holds_once_for_many_rows_is_not_repeated_in_memory(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    text = "It rains. " * 100_000
    path = parquet(tmp_path / "rows.parquet", {"response": ["a"] * 600, "sources": [text] * 600}, compression="zstd")
    assert path.stat().st_size < 10_000
    before = arrow.total_allocated_bytes()
    with closing(parquet_table(path, lambda names: names)) as rows:
        assert next(rows) == (1, {"response": "a", "sources": text})
        assert arrow.total_allocated_bytes() - before < 50e6


def test_a_cell_that_would_grow_in_memory_is_no_list() -> None:
    assert objects_in("{" + "1," * 1000 + "1}") == [{1}]
    assert objects_in("{" + "1," * 400_000 + "1}") is None
    assert objects_in("[" + "1," * 400_000 + "1]") is None


def test_the_first_line_of_a_table_may_be_long(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"response,{','.join(map(str, range(20_000)))}\na{',b' * 20_000}\n", "utf-8")
    ((place, row),) = csv_table(tmp_path / "a.csv")
    assert place == 2
    assert isinstance(row, dict)
    assert (row["response"], row["19999"]) == ("a", "b")


@pytest.mark.parametrize(
    ("name", "says"),
    [("answer", r"no column 'answer' \(columns: 'text', 'score'\)"), ("score", "'score' holds 0.5, not a text")],
)
def test_parquet_columns_that_are_refused(tmp_path: Path, name: str, says: str) -> None:
    path = parquet(tmp_path / "rows.parquet", {"text": ["a"], "score": [0.5]})
    with pytest.raises(DataError, match=says):
        read(path, Columns(name))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a folder without rows"):
        input_paths([tmp_path])
    with pytest.raises(DataError, match="no such file"):
        input_paths([tmp_path / "rows.csv"])
    for name in ("b.csv", "a.jsonl", "c.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in input_paths([tmp_path])] == ["a.jsonl", "b.csv"]


@pytest.fixture(scope="module")
def three_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "a.jsonl").write_text("".join(json.dumps({"response": f"r{i}"}) + "\n" for i in range(7)))
    (folder / "b.csv").write_text("response\n" + "".join(f"r{i}\n" for i in range(7, 12)))
    parquet(folder / "c.parquet", {"response": [f"r{i}" for i in range(12, 30)]}, row_group_size=4)
    return input_paths([folder])


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 29), st.integers(1, 30)), min_size=1, max_size=5))
def test_any_rows_can_be_read_at_any_time(three_files: list[Path], ranges: list[tuple[int, int]]) -> None:
    files, _ = plan(three_files, RowForm(), 10)
    reader = BatchReader(files, RowForm())
    assert [file.rows for file in files] == [7, 5, 18]
    for first, count in ranges:
        rows = list(reader.read(first, min(count, 30 - first)))
        ids = [row.case()[0].response for row in rows]
        assert ids == [f"r{row.number - 1}" for row in rows] == [f"r{i}" for i in range(first, min(first + count, 30))]


def test_shards_are_smaller_where_rows_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "SHARD_BYTES", 100)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"response": "x" * size}) + "\n" for size in (1, 1, 1, 1, 200, 1, 60, 60)))
    _, shards = plan([path], RowForm(), 3)
    assert shards == [ShardRange(0, 3), ShardRange(3, 2), ShardRange(5, 3)]


def test_input_that_shrinks_while_it_is_read(three_files: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"response": "a"}\n' * 3)
    files, _ = plan([path], RowForm(), 10)
    path.write_text('{"response": "a"}\n')
    with pytest.raises(DataError, match="the input was changed while it was read"):
        list(BatchReader(files, RowForm()).read(0, 3))
