"""The page on causes works as written: its commands run on the bundled log and print the tables that it shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.processes import python
from veridical.detectors.default.detector import PACKAGED

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"^```console\n(.*?)^```$", (ROOT / "docs" / "causes.md").read_text("utf-8"), re.M | re.S)


@pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")
def test_the_page_works_as_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("plugins"))
    options = {"cwd": tmp_path, "env": {**os.environ, "COLUMNS": "100"}, "encoding": "utf-8"}
    ran = 0
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(BLOCKS), re.MULTILINE):
        program, *arguments = shlex.split(command)
        assert program == "veridical"
        done = python("-m", "veridical", *arguments, **options)
        assert done.returncode == (1 if arguments[0] == "batch" else 0), (command, done.stderr)
        assert rows_of(shown) == rows_of(done.stdout)[: len(rows_of(shown))]
        ran += 1
    assert ran == 3
    assert "ranked too low" in done.stdout
    assert len((tmp_path / "causes.jsonl").read_text("utf-8").splitlines()) == 30


def rows_of(table: str) -> list[list[str]]:
    """The cells of the lines of a table, without its frame."""
    return [[cell.strip() for cell in line.strip("│ ").split("│")] for line in table.splitlines() if line[:1] == "│"]
