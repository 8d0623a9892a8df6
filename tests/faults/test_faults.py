"""The suite of faults itself: it can start, and the docs speak of faults that it has."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("resource")
from tests.faults import upstreams
from tests.faults.__main__ import ROWS, main
from tests.faults.growth import PATHS
from tests.faults.harness import FAULTS


def test_the_rows_of_the_docs_are_of_faults_and_paths_that_are_tried() -> None:
    rows = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    assert {row["fault"] for row in rows if "fault" in row} <= set(FAULTS)
    assert {row["growth"] for row in rows if "growth" in row} <= {p.__name__.replace("_", " ") for p in PATHS}


def test_each_path_that_may_grow_runs() -> None:
    for path in PATHS:
        path(2)()


def test_a_false_reply_that_is_annotated_is_not_clear(tmp_path: Path) -> None:
    result = upstreams._tried(Random(7), "annotate", 12)
    assert (result.tried, result.lost, result.wrong) == (12, 0, 0), result.notes


def test_some_faults_do_not_replace_the_rows_of_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["faults", "--only", "growth", "--write"])
    with pytest.raises(SystemExit) as error:
        main()
    assert error.value.code == 2
    assert "leave out --only" in capsys.readouterr().err
