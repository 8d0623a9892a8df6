"""Cases from the files of rows that people have."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from veridical.io.json_values import json_values
from veridical.io.rows import read_cases
from veridical.records.errors import DataError
from veridical.records.types import Case, Source


def cases_of(tmp_path: Path, text: str | bytes, name: str = "cases.jsonl") -> list[Case]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_cases(path))


def test_cases_one_a_line(tmp_path: Path) -> None:
    first = '{"response": "a", "sources": ["b", {"id": "k", "text": "c", "must_cover": true}]}'
    text = first + '\n\n{"id": "z", "response": ""}'
    assert cases_of(tmp_path, text) == [
        Case("1", "a", (Source("1", "b"), Source("k", "c", must_cover=True))),
        Case("z", ""),
    ]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrap", [True, False])
def test_cases_as_one_json_value(tmp_path: Path, indent: int | None, wrap: bool) -> None:
    case = {"response": "a", "sources": ["b"]}
    text = json.dumps([case, case] if wrap else case, indent=indent)
    found = cases_of(tmp_path, text, "cases.json")
    assert [c.response for c in found] == ["a"] * (2 if wrap else 1)


def test_cases_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"response": "a"}\n')))
    assert [c.response for c in read_cases(Path("-"))] == ["a"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('{"response": "a"}\n{"response": }\n', 2, "not JSON"),
        ('{"response": "a"}\n[1]\n', 2, "found a JSON array"),
        ('{"response": "a", "id": "x"}\n\n{"response": "b", "id": "x"}', 3, "'x' was there before, at 1"),
        ('{"response": "a"}\n{"respones": "b"}', 2, "did you mean response"),
        ('{"response": "a"}\n{"response": "b", "sources": [{"text": "x", "must_covr": true}]}', 2, "must_covr"),
        ('{"response": "a", "sources": [{"id": "s", "text": "x"}, {"id": "s", "text": "y"}]}', 1, "share the id 's'"),
        ('{"veridical": "case/9", "response": "a"}', 1, "version '9'"),
        (b'{"response": "\xff"}', 1, "not utf-8 text"),
        ("", None, "no cases in it"),
        ("[]", None, "no cases in it"),
        ("[3]", 1, "found a JSON number, not an object"),
        ("[{]", 1, "not JSON"),
    ],
)
def test_bad_cases_name_file_and_line(tmp_path: Path, text: str | bytes, line: int | None, says: str) -> None:
    with pytest.raises(DataError, match=says) as error:
        cases_of(tmp_path, text)
    assert error.value.line == line
    assert "cases.jsonl" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_line_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("x" * 1500 + '\n{"response": "a"}')
    bad, good = json_values(path, max_bytes=100)
    assert isinstance(bad.value, DataError)
    assert good.value == {"response": "a"}
    path.write_text("x" * 1900 + '\n{"response": "a"}')
    with pytest.raises(DataError, match="a line of more than 100 characters"):
        list(json_values(path, max_bytes=100))
