"""What stands on standard error while results go elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")


def watched(*arguments: str) -> tuple[str, str]:
    """Standard output (a pipe) and standard error (a terminal) of a run."""
    reading, terminal = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "veridical", *arguments], stdout=subprocess.PIPE, stderr=terminal, cwd=ROOT, text=True
    )
    os.close(terminal)
    out, seen = run.communicate(timeout=60)[0], b""
    try:
        while piece := os.read(reading, 4096):
            seen += piece
    except OSError:  # how Linux ends a terminal whose other end is closed
        pass
    os.close(reading)
    return out, seen.decode()


def test_a_count_for_who_watches_and_nothing_in_the_results() -> None:
    out, seen = watched("check", "examples/demo.jsonl", "--json")
    assert "cases" in seen
    assert '"veridical"' not in seen
    assert [line[:23] for line in out.splitlines()] == ['{"veridical": "check/2"'] * 2
