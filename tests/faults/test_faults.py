"""The suite of faults itself: it can start, and the docs speak of faults that it has."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("resource")
from tests.faults import upstreams
from tests.faults.__main__ import ROWS, main
from tests.faults.growth import PATHS, is_steep
from tests.faults.harness import FAULTS, Found


def test_the_rows_of_the_docs_are_of_faults_and_paths_that_are_tried() -> None:
    rows = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    assert {row["fault"] for row in rows if "fault" in row} <= set(FAULTS)
    assert {row["growth"] for row in rows if "growth" in row} <= {p.__name__.replace("_", " ") for p in PATHS}


@pytest.mark.timeout(100)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_the_time_of_each_path_is_linear(path: Callable[[int], Callable[[], object]]) -> None:
    assert not is_steep(path, PATHS[path] // 8)


def test_a_false_reply_that_is_annotated_is_not_clear(tmp_path: Path) -> None:
    result = upstreams._tried(Random(7), "annotate", 12)
    assert (result.tried, result.lost, result.wrong) == (12, 0, 0), result.notes


def test_one_fault_replaces_only_its_own_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "faults.jsonl"
    old, other = {"fault": "a kill", "tried": 1}, {"growth": "a path", "seconds": [1, 2, 4]}
    file.write_text("".join(json.dumps(row) + "\n" for row in (old, other)), "utf-8")
    monkeypatch.setattr("tests.faults.__main__.ROWS", file)
    monkeypatch.setattr("tests.faults.__main__.FAULTS", {"a kill": lambda draw, folder: Found(tried=7)})
    monkeypatch.setattr(sys, "argv", ["faults", "--only", "kill", "--write"])
    assert main() == 0
    first, second = map(json.loads, file.read_text("utf-8").splitlines())
    assert (first["fault"], first["tried"]) == ("a kill", 7)
    assert second == other
