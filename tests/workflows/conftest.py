"""What the tests of workflows share: the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from veridical import cli

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command; return its exit code and what it printed on standard output and error."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        code = cli.main([*map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
