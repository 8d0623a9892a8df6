"""What the tests of commands share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from veridical import cli


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process and gives back its exit code and what it wrote on each stream."""

    def call(name: str, *arguments: str) -> tuple[int, str, str]:
        if name not in cli.COMMANDS:
            cli.app.command(name)(getattr(import_module(f"veridical.cli.{name}"), f"{name}_command"))
        code = cli.main([name, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
