"""Rows with line numbers: what is read, what is refused and where, and that `on_bad` loses nothing else."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.datasets import Info, reading
from veridical.datasets.reading import Row, jsonl_rows, read_rows
from veridical.records.errors import DataError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical_lab.datasets.files import split_files
from veridical_lab.datasets.reading import csv_rows, json_rows

CELLS = st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=8)


def example(name: str) -> Example:
    return Example(Case(name, "a"), Judgement(name, "human:a"))


def written(folder: Path, text: str, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_json_lines_know_their_line_and_number(tmp_path: Path) -> None:
    rows = list(jsonl_rows(written(tmp_path, '\n{"a": 1}\r\n\n{"a": "\u2028"}')))
    assert [(r.line, r.number, r.values["a"]) for r in rows] == [(2, 1, 1), (4, 2, "\u2028")]


def test_a_json_array_knows_the_line_of_each_object(tmp_path: Path) -> None:
    rows = list(json_rows(written(tmp_path, '[{"a":\n1},\n\n {"a": [2,\n3]} , {"a": 4}\n]\n')))
    assert [(r.line, r.number) for r in rows] == [(1, 1), (4, 2), (5, 3)]


def test_an_array_inside_an_object_knows_the_line_of_each_object(tmp_path: Path) -> None:
    text = '{"v": {"rows": [0]},\n "rows" : [\n{"a": 1, "b": [\n{"c": 2}]},\n{"a": 3}\n], "rest": [4]}\n'
    rows = list(json_rows(written(tmp_path, text), key="rows"))
    assert [(r.line, r.number, r.values["a"]) for r in rows] == [(3, 1, 1), (5, 2, 3)]
    (inner,) = rows[0].rows("b")
    with pytest.raises(DataError, match=r":3: b 1: no field 'd'"):
        inner.get("d")
    for bad, says in (('{"rows": [1', "not JSON"), ('{"rows": 1}', "not a list"), ("{}", "no field"), ("[]", "object")):
        with pytest.raises(DataError, match=says):
            list(json_rows(written(tmp_path, bad), key="rows"))


@given(st.lists(st.dictionaries(CELLS, CELLS, max_size=3), min_size=1, max_size=5), st.sampled_from([None, 1]))
def test_a_json_array_is_read_as_json_reads_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list, indent: int
) -> None:
    path = written(tmp_path_factory.mktemp("j"), json.dumps(rows, indent=indent))
    assert [r.values for r in json_rows(path)] == rows


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_a_table_is_read_as_csv_reads_it(tmp_path_factory: pytest.TempPathFactory, cells: list) -> None:
    made = io.StringIO(newline="")
    writer = csv.writer(made, quoting=csv.QUOTE_ALL)
    writer.writerows([("x", "y"), *cells])
    rows = list(csv_rows(written(tmp_path_factory.mktemp("c"), made.getvalue())))
    assert [(r.values["x"], r.values["y"]) for r in rows] == cells


def test_a_table_row_with_line_breaks_is_named_by_its_first_line(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    rows = list(csv_rows(written(tmp_path, 'x,y\n"a\nb",2\n\n3,' + "z" * 200_000 + "\n")))
    assert [(r.line, r.values["x"]) for r in rows] == [(2, "a\nb"), (5, "3")]
    assert csv.field_size_limit() == limit


BAD = {
    "half an object": ('{"a": 1}\n{"a": \n{"a": 2}\n', jsonl_rows, 2, "not JSON"),
    "a list for an object": ('{"a": 1}\n[1]\n{"a": 2}\n', jsonl_rows, 2, "not a JSON object"),
    "not UTF-8": ('{"a": 1}\n\udcff\n{"a": 2}\n', jsonl_rows, 2, "utf-8"),
    "too deep": ('{"a": 1}\n' + "[" * 100_000 + '\n{"a": 2}\n', jsonl_rows, 2, "JSON"),
    "half a character": ('{"a": 1}\n{"a": {"b": ["\\ud800"]}}\n{"a": 2}\n', jsonl_rows, 2, "surrogate"),
    "half a character in an array": ('[{"a": 1},\n{"\\ud800": 1},\n{"a": 2}]', json_rows, 2, "surrogate"),
    "a number in an array": ('[{"a": 1},\n3,\n{"a": 2}]', json_rows, 2, "not a JSON object"),
    "a short table row": ("a,b\n1,x\n2\n3,y\n", csv_rows, 3, "1 cells"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named_or_skipped(name: str, tmp_path: Path) -> None:
    text, rows, line, says = BAD[name]
    path = tmp_path / "file"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=says) as caught:
        list(rows(path))
    assert (caught.value.line, caught.value.path) == (line, path)
    assert str(caught.value).count(str(path)) == 1
    seen: list[DataError] = []
    assert [r.number for r in rows(path, seen.append)] == [1, 3]
    assert [e.line for e in seen] == [line]


WHOLE = {
    "empty JSON Lines": ("\n \n", jsonl_rows, "empty"),
    "empty array": ("[]", json_rows, "array is empty"),
    "empty JSON": ("", json_rows, "empty"),
    "empty table": ("", csv_rows, "empty"),
    "only a header": ("a,b\n", csv_rows, "without any row"),
    "no array": ('{"a": 1}', json_rows, "not a JSON array"),
    "an array that is not closed": ('[{"a": 1},', json_rows, "not closed"),
    "two objects side by side": ('[{"a": 1} {"a": 2}]', json_rows, "not closed"),
    "text after the array": ('[{"a": 1}] 2', json_rows, "text after"),
    "broken inside": ('[{"a": 1},\n{"a" 2}]', json_rows, "not JSON"),
    "binary": ("a,b\n\0,\1\n", csv_rows, "binary"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_is_no_such_file_is_refused_whatever_on_bad_says(name: str, tmp_path: Path) -> None:
    text, rows, says = WHOLE[name]
    with pytest.raises(DataError, match=says):
        list(rows(written(tmp_path, text), lambda error: None))


@pytest.mark.parametrize("rows", [jsonl_rows, json_rows, csv_rows])
def test_a_folder_or_nothing_is_refused(rows: object, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder"):
        list(rows(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        list(rows(tmp_path / "gone"))


def test_fields_are_checked() -> None:
    values = {"t": "x", "blank": " ", "n": 3, "b": True, "l": ["x", 1], "f": [0, True, 2], "nan": "nan"}
    row = Row(Path("f"), 7, values)
    assert (row.text("t"), row.text("blank", blank=True), row.name("n"), row.numeric("n")) == ("x", " ", "3", 3.0)
    for read in (
        lambda: row.text("gone"),
        lambda: row.text("n"),
        lambda: row.text("blank"),
        lambda: row.name("b"),
        lambda: row.numeric("t"),
        lambda: row.numeric("b"),
        lambda: row.numeric("nan"),
        lambda: row.numeric("n", high=2),
        lambda: row.choice("t", {"y": 1.0}),
        lambda: row.choice("l", {"y": 1.0}),
        lambda: row.items("t"),
        lambda: row.texts("l"),
        lambda: row.flags("f"),
        lambda: row.rows("l"),
        lambda: row.row("l"),
    ):
        with pytest.raises(DataError, match=r"^f:7: "):
            read()


def test_all_of_a_bad_row_is_refused_and_ids_stay_unique() -> None:
    rows = [Row(Path("f"), i, {}, i) for i in range(1, 5)]

    def make(row: Row) -> list[Example]:
        if row.line == 2:  # a span outside its text, behind a good example of the same row
            case = Case("late", "a", (Source("1", "x"),))
            return [example("b"), Example(case, Judgement("late", "h", verdicts=(Verdict(Span(0, 2), 1.0),)))]
        return [example("a" if row.line == 3 else f"x{row.line}"), *([example("a")] if row.line == 1 else [])]

    with pytest.raises(DataError, match=r"^f:2: "):
        list(read_rows(rows, make))
    seen: list[DataError] = []
    assert [e.case.id for e in read_rows(rows, make, seen.append)] == ["x1", "a", "x4"]
    assert [e.line for e in seen] == [2, 3]
    assert "line 1 already" in str(seen[1])


INFO = Info("toy", "Toy", "MIT", "", ("span",), splits=("train", "test"))
NAMES = {"train": "a/train.txt", "test": "a/test.txt"}


def test_files_of_splits(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    train = written(tmp_path / "a", "x", "train.txt")
    assert split_files(INFO, tmp_path, None, NAMES) == [("train", train)]
    assert split_files(INFO, train, None, NAMES) == [("train", train)]
    assert split_files(INFO, written(tmp_path, "x", "mine.txt"), None, NAMES)[0][0] == "mine"
    with pytest.raises(UnknownNameError, match="known: test, train"):
        split_files(INFO, tmp_path, "dev", NAMES)
    with pytest.raises(DataError, match=r"'test'.*a/test.txt"):
        split_files(INFO, tmp_path, "test", NAMES)
    with pytest.raises(DataError, match="without any file"):
        split_files(INFO, tmp_path / "a", None, NAMES)
    with pytest.raises(DataError, match="no such"):
        split_files(INFO, tmp_path / "gone", None, NAMES)


def test_a_text_has_one_id() -> None:
    assert reading.text_id("a") == reading.text_id("a") != reading.text_id("b")
    assert len(reading.text_id("\ud800")) == 12
