"""Lines come in one by one with their numbers, and an interrupted file goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from veridical.io.jsonl import Line, append_lines, read_json, read_lines, recover
from veridical.records.errors import DataError, OutputError


def test_lines_have_numbers_and_blank_ones_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf1\r\n\n  \n2")
    assert [(line.number, line.text.strip()) for line in read_lines(path)] == [(1, "1"), (4, "2")]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = "one\u2028two\x85three\x0bfour"
    append_lines(path, [json.dumps(text, ensure_ascii=False), "2"])
    assert [value for _, value in read_json(path)] == [text, 2]


def test_a_bad_line_is_raised_or_handed_on_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'1\n{"a": }\n\xff\n' + b"[" * 100_000 + b"\n5\n")
    with pytest.raises(DataError, match=r"a\.jsonl:2: not JSON: Expecting value at column 7"):
        list(read_json(path))
    bad: list[DataError] = []
    assert [value for _, value in read_json(path, on_bad=bad.append)] == [1, 5]
    assert [error.line for error in bad] == [2, 3, 4]


def test_a_line_of_any_length_needs_no_memory_of_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("1\n" + "2" * 101 + "\n")
    with pytest.raises(DataError, match=r"a\.jsonl:2: a line of more than 100 characters"):
        list(read_lines(path, max_bytes=100))


def test_a_torn_line_is_cut_off_and_appending_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert recover(path, lambda line: line.text) == []
    append_lines(path, ["1", "2"])
    with path.open("a") as file:
        file.write('{"torn')
    assert recover(path, lambda line: int(line.text)) == [1, 2]
    append_lines(path, ["3"])
    assert path.read_text() == "1\n2\n3\n"


def test_from_a_line_that_is_of_no_use_the_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append_lines(path, ["1", "two", "3"])
    assert recover(path, lambda line: int(line.text) if line.text.isdecimal() else None) == [1]
    assert path.read_text() == "1\n"


def test_what_the_reader_refuses_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append_lines(path, ["1", "two"])

    def read(line: Line) -> int:
        if not line.text.isdecimal():
            raise line.error("not a number")
        return int(line.text)

    with pytest.raises(DataError, match=r"a\.jsonl:2: not a number"):
        recover(path, read)
    assert path.read_text() == "1\ntwo\n"


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        append_lines(tmp_path / "none" / "a", ["1"])
    with pytest.raises(OutputError, match="cannot use"):
        recover(tmp_path, lambda line: line.text)


def test_a_link_that_the_user_did_not_name_is_neither_read_nor_extended(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("{}\nrest", "utf-8")
    link.symlink_to(target)
    with pytest.raises(OutputError, match=r"symbolic link|symlink"):
        append_lines(link, ["{}"], follow_link=False)
    with pytest.raises(OutputError, match=r"symbolic link|symlink"):
        recover(link, lambda line: line, follow_link=False)
    assert target.read_text("utf-8") == "{}\nrest"
