"""Files of rows in any arrangement give the same rows, with the line of each and of everything that is wrong."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.io import tables
from veridical.io.json_values import json_values
from veridical.io.rows import RowForm, RowReader, read_cases
from veridical.records.errors import DataError, InputError, MissingExtraError
from veridical.records.types import Case

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), min_size=1, max_size=4)
FORMS = {
    "lines": lambda rows: "\n".join(map(json.dumps, rows)),
    "one after another": lambda rows: "".join(map(json.dumps, rows)),
    "pretty": lambda rows: "\n".join(json.dumps(row, indent=2) for row in rows),
    "without indent": lambda rows: "\n".join(json.dumps(row, indent=0) for row in rows),
    "array": lambda rows: json.dumps(rows),
    "pretty array": lambda rows: json.dumps(rows, indent=1, ensure_ascii=False),
}


def values_of(path: Path, text: str | bytes, **options: Any) -> list[Any]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return [value.value for value in json_values(path, **options)]


@pytest.mark.parametrize("form", FORMS)
@given(rows=OBJECTS)
def test_json_in_any_arrangement(tmp_path_factory: pytest.TempPathFactory, form: str, rows: list[Any]) -> None:
    assert values_of(tmp_path_factory.getbasetemp() / "rows.json", FORMS[form](rows)) == rows


@given(rows=OBJECTS, form=st.sampled_from(sorted(FORMS)))
def test_the_place_of_a_value_is_its_place_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], form: str
) -> None:
    path, text = tmp_path_factory.getbasetemp() / "places.json", FORMS[form](rows)
    path.write_bytes(text.encode())
    for value in json_values(path):
        at = value.place.start + value.place.at
        assert json.JSONDecoder().raw_decode(text, at)[0] == value.value
        assert value.place.line == 1 + text.count("\n", 0, value.place.start)


@pytest.mark.parametrize(
    ("text", "values", "lines"),
    [
        ('{"a": 1}\n{"a": \n{"a": 2}', [{"a": 1}, "a value is not closed", {"a": 2}], [1, 2, 3]),
        ('{\n{\n{"a": 2}', ["a value is not closed", "a value is not closed", {"a": 2}], [1, 2, 3]),
        ('{"a": "x\n{"a": 2}', ["Invalid control character", {"a": 2}], [1, 2]),
        ('[{"a": 1},', [{"a": 1}, "the array is not closed"], [1, 1]),
        ('{\n"a": 1\n"b": 2\n}\n{"c": 3}', [":3: not JSON: Expecting ',' delimiter", {"c": 3}], [1, 5]),
        ('{"a": 1, "a": 2}\n{"c": 3}', ["the key 'a' stands twice", {"c": 3}], [1, 2]),
        ('{"a": NaN}\n{"c": 3}', ["found NaN", {"c": 3}], [1, 2]),
    ],
)
def test_what_is_wrong_costs_no_other_row(tmp_path: Path, text: str, values: list[Any], lines: list[int]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    read = list(json_values(path))
    assert [value.line for value in read] == lines
    for value, expected in zip(read, values, strict=True):
        assert expected in str(value.value) if isinstance(expected, str) else value.value == expected


def test_a_value_of_any_length_needs_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    with pytest.raises(DataError, match="a value of more than 100 characters"):
        values_of(path, "{\n" + '"a": 1,\n' * 40, max_bytes=100)


def cases_in(path: Path, text: str, **form: Any) -> list[Case]:
    path.write_text(text, "utf-8")
    return list(read_cases(path, RowForm(**form)))


TABLE = [("response", "sources"), ("It is red; or not.", "It is\nblue."), ("Is it, 1|2?", "a\tb")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    text = "\r\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in TABLE)
    path.write_bytes(text.encode(encoding))
    cases = list(read_cases(path, RowForm(encoding="cp1252" if encoding == "cp1252" else "utf-8")))
    assert [(case.response, case.sources[0].text) for case in cases] == TABLE[1:]


def test_the_delimiter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    for first, options in (("sep=:\n", {}), ("", {"delimiter": ":"})):
        (case,) = cases_in(path, f"{first}response:sources\na,b;c:d\n", **options)
        assert (case.response, case.sources[0].text) == ("a,b;c", "d")
    with pytest.raises(DataError, match=r"rows\.csv:4: 1 cells, and the first line has 2"):
        cases_in(path, "sep=:\nresponse:sources\n\na\n")


def test_a_cell_over_the_limit_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("response,sources\n" + "x" * 150 + ",a\nb,c\n" + '"' + "y\n" * 400)
    form = RowForm(max_bytes=100)
    with pytest.raises(DataError, match=r":2: a cell of more than 100 characters"):
        list(read_cases(path, form))
    reader = RowReader(path, form)
    rows = reader.rows()
    assert isinstance(next(rows).content, DataError)
    assert next(rows).content == {"response": "b", "sources": "c"}
    with pytest.raises(DataError, match=r":4: not CSV: field larger than field limit"):
        next(rows)


def test_a_cell_larger_than_the_sample_for_the_delimiter(tmp_path: Path) -> None:
    large = "It rains; " * 20_000
    cases = cases_in(tmp_path / "rows.csv", f'response,sources\n"{large}","a"\nb,c\n')
    assert [case.response for case in cases] == [large, "b"]


def test_excel(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.create_sheet("answers")  # the first sheet is empty
    for row in ([None] * 3, ["id", "answer", "context"], [7.0, "It is red.", 3.5], [None] * 3, ["x", None, "c"]):
        sheet.append(row)
    path = tmp_path / "rows.xlsx"
    book.save(path)
    first, second = read_cases(path)
    assert (first.id, first.response, first.sources[0].text) == ("7", "It is red.", "3.5")
    assert (second.id, second.response, second.sources[0].text) == ("x", "", "c")


def test_excel_without_its_library_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(read_cases(tmp_path / "none.xlsx"))
    (tmp_path / "rows.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"veridical\[documents\]"):
        list(read_cases(tmp_path / "rows.xlsx"))


def test_an_unknown_encoding(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown encoding 'klingon'"):
        cases_in(tmp_path / "rows.csv", "response\na\n", encoding="klingon")


def test_a_damaged_sheet_is_refused_in_one_line(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["response", "sources"])
    book.active.append(["It is red.", "It is blue."])
    book.save(tmp_path / "whole.xlsx")
    with ZipFile(tmp_path / "whole.xlsx") as whole, ZipFile(tmp_path / "rows.xlsx", "w") as damaged:
        for name in whole.namelist():
            data = whole.read(name)
            damaged.writestr(name, data[: len(data) // 2] if "sheet1" in name else data)
    with pytest.raises(DataError, match="not a readable Excel file"):
        list(read_cases(tmp_path / "rows.xlsx"))


@pytest.mark.parametrize(
    ("limit", "rows", "message"),
    [
        ("_MOST_ROWS", '<row r="99999999999"><c r="A1"/></row>', "more than 9 rows"),
        ("_MOST_ROWS", '<row r="1e400"><c r="A1"/></row>', "more than 9 rows"),
        ("_MOST_ROWS", "<row/>" * 10, "more than 9 rows"),
        ("_MOST_INSIDE", "<row>" + "<c/>" * 10 + "</row>", "more than 9 elements in a row or text"),
        ("_MOST_OUTSIDE", "<a/>" * 10, "more than 9 elements beside its rows and texts"),
        ("_MOST_TEXTS", "<si/>" * 10, "more than 9 texts"),
        ("_MOST_CELLS", '<row r="3"><c r="J3"/></row>', "more than 9 cells, with empty ones"),
    ],
)
def test_a_sheet_that_would_grow_in_memory_or_take_hours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, rows: str, message: str
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook(write_only=True)  # names no size of the sheet
    book.create_sheet().append(["response", "sources"])
    book.save(tmp_path / "whole.xlsx")
    with ZipFile(tmp_path / "whole.xlsx") as whole, ZipFile(tmp_path / "rows.xlsx", "w") as grown:
        for name in whole.namelist():
            text = whole.read(name).decode()
            grown.writestr(name, text.replace("</sheetData>", rows + "</sheetData>") if "sheet1" in name else text)
    monkeypatch.setattr(tables, limit, 9)
    with pytest.raises(DataError, match=rf"{message} \(split it, or save it as CSV\)"):
        list(read_cases(tmp_path / "rows.xlsx"))


def test_logged_conversations_have_fields_that_are_left_out(tmp_path: Path) -> None:
    chat = {"messages": [["tool", "It is red."], ["assistant", "Red."]], "label": 1}
    logged = {**chat, "system": "Be brief.", "model": "m", "tools": [], "question": "Which colour?"}
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, (logged, logged, chat))), encoding="utf-8")
    remarks: list[str] = []
    cases = list(read_cases(path, remark=remarks.append))
    assert [(case.id, len(case.sources)) for case in cases] == [(f"{i} message 2", 1) for i in (1, 2, 3)]
    assert remarks == [
        f"{path}: fields that are no part of a case or conversation, left out: 6",
        f"{path}: system prompts, of which only a marked context is a source: 2",
    ]


@pytest.mark.parametrize("name", ["response", "contexts", "source"])
def test_parts_of_a_case_beside_a_conversation_are_not_left_out(tmp_path: Path, name: str) -> None:
    row = {"messages": [["user", "Hi."], ["assistant", "Hello."]], "model": "m", name: "It is red."}
    with pytest.raises(DataError, match=f"unknown field '{name}'") as error:
        cases_in(tmp_path / "rows.jsonl", json.dumps(row))
    assert "--response" not in str(error.value)


def test_a_column_of_messages_beside_those_of_a_layout(tmp_path: Path) -> None:
    row = {"question": "What colour?", "answer": "Red.", "contexts": ["Blue."], "messages": [{"role": "user"}]}
    (case,) = cases_in(tmp_path / "rows.jsonl", json.dumps(row))
    assert (case.question, case.response, case.sources[0].text) == ("What colour?", "Red.", "Blue.")
    assert len(case.sources) == 1


def test_readers_of_csv_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    path.write_text("response,sources\n" + f"a,{'b ' * 100_000}\n" * 4)
    limit = csv.field_size_limit()
    first, second = read_cases(path), read_cases(path)
    assert next(first) == next(second)
    first.close()
    assert len(list(second)) == 3
    assert csv.field_size_limit() == limit


def test_no_table_is_read_whole_before_its_size_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("response,sources\n" + "a" * 9000, "a" * 9000, "a\n" + "a," * 4500):
        with pytest.raises(DataError, match="not CSV: a line larger than 4,000 characters"):
            cases_in(tmp_path / "a.csv", text, max_bytes=1000)
    path = tmp_path / "a.xlsx"
    with ZipFile(path, "w") as parts:
        parts.writestr("xl/sharedStrings.xml", "a" * 20_000)
    monkeypatch.setattr(tables, "excel_sheets", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(DataError, match="more than 16,000 bytes in its parts"):
        list(read_cases(path, RowForm(max_bytes=1000)))


def test_rows_of_parquet_that_are_too_large_are_not_decoded(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"response": ["a" * 40_000], "sources": ["a"]})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    with pytest.raises(DataError, match=r"rows of 4.* bytes on average"):
        list(read_cases(path, RowForm(max_bytes=1000)))


def test_a_row_of_parquet_that_would_grow_in_memory_is_not_decoded(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    text = arrow.DictionaryArray.from_arrays(arrow.array([0] * 9_001, arrow.int32()), arrow.array(["x" * 1000]))
    nulls = arrow.nulls(2_000_000, arrow.string())
    references = arrow.ListArray.from_arrays(arrow.array([0, 1, 9_001, 9_001], arrow.int32()), text)
    lists = arrow.ListArray.from_arrays(arrow.array([0, 0, 0, 2_000_000], arrow.int32()), nulls)
    maps = arrow.array([[("a", ["b", "c"])], None, []], arrow.map_(arrow.string(), arrow.list_(arrow.string())))
    table = arrow.table({"response": ["a", "b", "c"], "sources": references, "more": lists, "maps": maps})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    assert path.stat().st_size < 10_000
    rows = tables.parquet_table(path, lambda names: names, max_bytes=200_000)
    (_, first), (_, second), (_, third) = rows
    assert first == {"response": "a", "sources": ["x" * 1000], "more": [], "maps": [("a", ["b", "c"])]}
    for row, place in ((second, 2), (third, 3)):
        assert isinstance(row, DataError)
        assert row.message.endswith("more than 400,000 values, or 800,000 bytes of text")
        assert row.line == place
