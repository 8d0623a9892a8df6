"""What stands on standard error while results go elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.processes import LIMIT, start_python
from veridical.cli.options import InputOptions

ROOT = Path(__file__).parents[2]

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")


def watched(*arguments: str) -> tuple[str, str]:
    """Standard output (a pipe) and standard error (a terminal) of a run."""
    reading, terminal = pty.openpty()
    run = start_python("-m", "veridical", *arguments, stdin=None, stderr=terminal, cwd=ROOT, text=True)
    os.close(terminal)
    out, seen = run.communicate(timeout=LIMIT)[0], b""
    try:
        while piece := os.read(reading, 4096):
            seen += piece
    except OSError:  # how Linux ends a terminal whose other end is closed
        pass
    os.close(reading)
    return out, seen.decode()


def test_the_total_is_that_of_cases_in_any_file(tmp_path: Path) -> None:
    turn = {"role": "user", "content": "What colour is it?"}, {"role": "assistant", "content": "It is red."}
    row = {"response": "It is red.", "sources": ["It is red."]}
    texts = {
        "a.json": json.dumps([row, row], indent=1),
        "a.csv": "response,sources\nIt is red.,It is red.\n",
        "a.jsonl": json.dumps({"messages": [*turn, *turn], "sources": ["It is red."]})
        + "\n\n"
        + json.dumps(row)
        + "\n",
        "bad.jsonl": '{"response": 1}\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    inputs = {name: InputOptions(response=tmp_path / name) for name in texts}
    assert {name: each.total() for name, each in inputs.items()} == {
        "a.json": 2,
        "a.csv": 1,
        "a.jsonl": 3,
        "bad.jsonl": None,
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_left_for_the_check(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cases.jsonl")
    inputs = InputOptions(response=tmp_path / "cases.jsonl")
    assert inputs.total() is None  # opening the pipe would wait for a writer
    assert list(inputs.locations()) == []


def test_a_count_for_who_watches_and_nothing_in_the_results() -> None:
    out, seen = watched("check", "examples/demo.jsonl", "--detector", "overlap", "--json")
    assert "cases" in seen
    assert "3/3" in seen
    assert '"veridical"' not in seen
    assert [line[:23] for line in out.splitlines()] == ['{"veridical": "check/2"'] * 3
