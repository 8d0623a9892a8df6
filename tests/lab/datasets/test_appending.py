"""An interrupted file of lines goes on where it stopped."""

from pathlib import Path

import pytest

from veridical.io.jsonl import Line
from veridical.records.errors import DataError, OutputError
from veridical_lab.datasets.appending import append_lines, recover


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
