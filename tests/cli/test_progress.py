"""What stands on standard error while results go elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import LIMIT, start_python

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


def test_a_count_for_who_watches_and_nothing_in_the_results() -> None:
    out, seen = watched("check", "examples/demo.jsonl", "--detector", "overlap", "--json")
    assert "cases" in seen
    assert "3/3" in seen
    assert '"veridical"' not in seen
    assert [line[:23] for line in out.splitlines()] == ['{"veridical": "check/2"'] * 3
