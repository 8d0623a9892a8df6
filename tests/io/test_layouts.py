"""The columns that people have are recognised by name, said in one line, and overridden by options."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veridical.io.columns import value_at
from veridical.io.rows import Columns, RowForm, read_cases
from veridical.io.tables import list_in
from veridical.records.errors import DataError
from veridical.records.types import Case

RED, BLUE, Q = "It is red.", "It is blue.", "What is it like?"

# one row of each tool, as its current release writes it
ROWS: dict[str, dict[str, Any]] = {
    "RAGAS": {"user_input": Q, "retrieved_contexts": [BLUE], "response": RED, "reference": "r", "faithfulness": 0.5},
    "RAGAS 0.1": {"question": Q, "contexts": [BLUE], "answer": RED, "ground_truth": "r"},
    "DeepEval": {"input": Q, "actual_output": RED, "expected_output": "", "retrieval_context": [BLUE], "context": None},
    "DeepEval (JSON of a test run)": {"input": Q, "actualOutput": RED, "retrievalContext": [BLUE]},
    "TruLens": {"app_name": "a", "record_id": "1", "input": Q, "output": RED, "contexts": [BLUE]},
    "LangSmith": {"inputs": {"question": Q}, "outputs": {"answer": RED, "documents": [{"page_content": BLUE}]}},
    "LangSmith (data frame)": {"inputs.question": Q, "outputs.answer": RED, "outputs.contexts": [BLUE], "error": None},
    "Langfuse": {"id": "1", "name": "t", "input": {"query": Q, "context": BLUE}, "output": RED, "metadata": {}},
    "LlamaIndex": {"query": Q, "response": RED, "source_nodes": [{"node": {"id_": "n", "text": BLUE}, "score": 0.8}]},
    "Hugging Face": {"question": Q, "response": RED, "documents": [BLUE], "dataset_name": "x"},
}


def read(path: Path, form: RowForm | None = None) -> tuple[list[Case], list[str]]:
    remarks: list[str] = []
    return list(read_cases(path, form, remark=remarks.append)), remarks


def read_rows(folder: Path, *rows: Any) -> tuple[list[Case], list[str]]:
    """The cases and remarks of a file of rows, as JSON values or in writing."""
    path = folder / "rows.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return read(path)


def texts(case: Case) -> list[str]:
    return [source.text for source in case.sources]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_each_tool(name: str, tmp_path: Path) -> None:
    (case,), (remark,) = read_rows(tmp_path, ROWS[name])
    assert (case.response, case.question, texts(case)) == (RED, Q, [BLUE])
    assert remark.startswith(f"{tmp_path / 'rows.jsonl'}: columns as in {name.partition(' (')[0]}: response '")


@pytest.mark.parametrize("name", [name for name in ROWS if not name.startswith("LangSmith (")])
def test_a_table_of_each_tool(name: str, tmp_path: Path) -> None:
    """As `pandas.DataFrame.to_csv` writes it: lists and objects are text in a cell."""
    pandas = pytest.importorskip("pandas")
    row = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in ROWS[name].items()}
    path = tmp_path / "rows.csv"
    pandas.DataFrame([row]).to_csv(path, index=False, sep=";")
    (case,), _ = read(path)
    assert (case.response, case.question) == (RED, Q)
    assert BLUE in case.sources[0].text


def test_named_columns_come_before_recognised_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("question,answer,contexts,other,notes\nq,a,c,It is red.,It is blue.\n")
    (case,), remarks = read(path, RowForm(Columns("other", ("notes",))))
    assert (case.response, texts(case), case.question) == (RED, [BLUE], "q")
    assert remarks == []
    (case,), (remark,) = read(path, RowForm(Columns("other")))
    assert (case.response, case.sources[0].text) == (RED, "c")
    assert "response 'other', sources 'contexts'" in remark


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_a_table_without_a_known_column_of_sources_is_said(name: str, tmp_path: Path) -> None:
    path, columns = tmp_path / name, RowForm(Columns("mine"))
    row = '{"mine": "It is red.", "found": "It is blue."}'
    path.write_text("mine,found\nIt is red.,It is blue.\n" if name == "rows.csv" else row)
    (case,), remarks = read(path, columns)
    assert case.sources == ()
    assert remarks == [f"{path}: no column of sources is known (columns: 'mine', 'found'; name yours with --source)"]


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"answer": "It is red.", "contexts": [null, "It is blue.", NaN], "question": ["q"], "s": NaN}]')
    (case,), remarks = read(path)
    assert (texts(case), case.question) == ([BLUE], None)
    assert remarks[1:] == [
        f"{path}: numbers that JSON does not have, such as NaN, read as null: 2",
        f"{path}: sources that are null, left out: 2",
        f"{path}: questions that are not texts, left out: 1",
    ]


@pytest.mark.parametrize("form", ["case", "columns"])
@pytest.mark.parametrize(("id", "name"), [(7, "7"), (1.5, "1.5"), (True, "true"), (None, "1"), ("x", "x")])
def test_any_scalar_is_an_id(tmp_path: Path, form: str, id: object, name: str) -> None:
    row = {"id": id, "response": RED, "sources": [{"id": id, "text": BLUE}]}
    (case,), _ = read_rows(tmp_path, row if form == "case" else {"id": id, "answer": RED, "context": BLUE})
    assert case.id == name
    assert form == "columns" or case.sources[0].id == name


def test_fields_that_are_no_part_of_a_case_are_left_out_and_misspelt_ones_refused(tmp_path: Path) -> None:
    (case,), (remark,) = read_rows(tmp_path, {"response": "a", "sources": ["b"], "model": "m"})
    assert case.response == "a"
    assert remark.endswith("rows.jsonl: fields that are no part of a case or conversation, left out: 1")
    with pytest.raises(DataError, match=r"rows\.jsonl:1: case: unknown field 'qestion'"):
        read_rows(tmp_path, {"response": "a", "sources": ["b"], "qestion": "q"})


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ('["a", "b\\n"]', ["a", "b\n"]),
        ("['it\\'s', \"b's\", None, nan]", ["it's", "b's", None, None]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),
        ("[]", []),
        ("[1] A note, [2]", None),
        ("['a', 3]", None),
        ("['a'] and more", None),
        ("['a'", None),
        ("['\\x']", None),
    ],
)
def test_lists_in_cells(cell: str, texts: list[str | None] | None) -> None:
    assert list_in(cell) == texts


def test_paths_into_objects() -> None:
    row = {"a.b": 1, "a": {"c": {"d": 2}}, "t": '{"x": [3]}', "bad": "{"}
    assert [value_at(row, name) for name in ("a.b", "a.c.d", "t.x")] == [1, 2, [3]]
    for name in ("a.x", "t.y", "bad.x", "none", "a.b.c"):
        with pytest.raises(KeyError):
            value_at(row, name)


def test_documents_keep_what_a_source_has(tmp_path: Path) -> None:
    own = {"id": "a", "text": BLUE, "must_cover": True, "metadata": {"page": 3}}
    foreign = {"page_content": RED, "metadata": {"source": "b.pdf", "page": 4}, "id": None, "type": "Document"}
    (case,), _ = read_rows(tmp_path, {"answer": RED, "contexts": [own, foreign]})
    first, second = case.sources
    assert (first.id, first.text, first.must_cover, first.metadata) == ("a", BLUE, True, {"page": 3})
    assert (second.id, second.text, second.metadata) == ("b.pdf", RED, {"source": "b.pdf", "page": 4})


def test_chunks_of_one_document_get_numbers(tmp_path: Path) -> None:
    chunks = [{"page_content": text, "metadata": {"source": "b.pdf"}} for text in (RED, BLUE)]
    (case,), _ = read_rows(tmp_path, {"answer": RED, "contexts": [*chunks, {"id": "b.pdf", "text": BLUE}]})
    assert [source.id for source in case.sources] == ["b.pdf", "b.pdf (2)", "b.pdf (3)"]


def test_unknown_columns_say_how_to_name_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name columns of your own with --response and --source"):
        read_rows(tmp_path, {"output": {"text": RED}, "citations": [BLUE]})


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
@pytest.mark.parametrize(
    ("row", "sources"),
    [
        ({"actual_output": RED, "context": [BLUE], "retrieval_context": None}, [BLUE]),
        ({"actual_output": RED, "context": [RED], "retrieval_context": [BLUE]}, [BLUE]),
        ({"answer": None, "response": RED, "contexts": [BLUE]}, [BLUE]),
        ({"source": "CNN", "document": BLUE, "summary": RED}, [BLUE]),
    ],
)
def test_columns_with_a_value_come_first(name: str, row: dict[str, Any], sources: list[str], tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith(".csv"):
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame([row]).to_csv(path, index=False)
    else:
        path.write_text(json.dumps(row))
    (case,), _ = read(path)
    assert (case.response, texts(case)) == (RED, sources)


def test_an_empty_answer_stays_one(tmp_path: Path) -> None:
    cases, _ = read_rows(tmp_path, *({"answer": said, "contexts": [BLUE], "output": "log"} for said in (RED, "")))
    assert [case.response for case in cases] == [RED, ""]


@pytest.mark.parametrize(
    "rows",
    [
        [{"outputs": {"answer": RED, "contexts": [BLUE]}}, {"outputs": {"output": RED, "documents": [BLUE]}}],
        [{"output": RED, "input": {"context": BLUE}}, {"output": {"answer": RED}, "input": {"context": BLUE}}],
    ],
)
def test_each_row_of_a_log_is_read_by_its_own_parts(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    failed = {**rows[0], next(name for name in rows[0] if name.startswith("output")): None}
    cases, _ = read_rows(tmp_path, *rows, failed)
    assert [case.response for case in cases] == [RED, RED, ""]
    assert [texts(case) for case in cases[:2]] == [[BLUE], [BLUE]]


@pytest.mark.parametrize("write", [json.dumps, str, lambda documents: json.dumps(documents[0])])
def test_documents_in_cells(write: Callable[[list[Any]], str], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [["answer", "documents"], [RED, write([{"page_content": BLUE, "metadata": {"page": 300}}])]]
        )
    (case,), remarks = read(path)
    assert [(source.text, source.metadata) for source in case.sources] == [(BLUE, {"page": 300})]
    assert len(remarks) == 1


def test_cells_that_look_like_documents_are_said(tmp_path: Path) -> None:
    _, remarks = read_rows(tmp_path, {"answer": RED, "documents": "[Document(page_content='It is blue.')]"})
    assert any("documents that are neither JSON nor Python" in remark for remark in remarks)
    (case,), remarks = read_rows(tmp_path, {"answer": RED, "documents": '[{"colour": "blue"}]'})
    assert (case.sources[0].text, len(remarks)) == ('[{"colour": "blue"}]', 1)


def test_retrieved_passages_keep_their_other_fields(tmp_path: Path) -> None:
    (case,), _ = read_rows(tmp_path, {"answer": RED, "contexts": [{"text": BLUE, "score": 0.8, "title": "T"}]})
    assert (case.sources[0].text, case.sources[0].metadata) == (BLUE, {"score": 0.8, "title": "T"})
    (case,), _ = read_rows(tmp_path, {"response": RED, "sources": [{"page_content": BLUE}]})
    assert texts(case) == [BLUE]


def test_a_blank_id_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"id,response,sources\n,{RED},{BLUE}\n,{RED},{BLUE}\n")
    assert [case.id for case in read(path)[0]] == ["1", "2"]
