"""Lines come in one by one with their numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from veridical.io.jsonl import read_json, read_lines
from veridical.records.errors import DataError


def test_lines_have_numbers_and_blank_ones_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf1\r\n\n  \n2")
    assert [(line.number, line.text.strip()) for line in read_lines(path)] == [(1, "1"), (4, "2")]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = "one\u2028two\x85three\x0bfour"
    path.write_text(json.dumps(text, ensure_ascii=False) + "\n2\n", "utf-8")
    assert [value for _, value in read_json(path)] == [text, 2]


def test_a_bad_line_is_raised_or_handed_on_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'1\n{"a": }\n\xff\n' + b"[" * 100_000 + b"\n5\n")
    with pytest.raises(DataError, match=r"a\.jsonl:2: not JSON: Expecting value at column 7"):
        list(read_json(path))
    bad: list[DataError] = []
    assert [value for _, value in read_json(path, on_bad=bad.append)] == [1, 5]
    assert [error.line for error in bad] == [2, 3, 4]
