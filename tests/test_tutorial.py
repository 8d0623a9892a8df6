"""The tutorial works as written: its files are saved, its commands run in order, and they print what it shows."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.processes import python
from veridical.detectors.default.detector import PACKAGED

TUTORIAL = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text("utf-8")
BLOCKS = re.findall(r'^```(python|console)(?: title="([^"]+)")?\n(.*?)^```$', TUTORIAL, re.MULTILINE | re.DOTALL)
NOT_RUN = ("python -m venv", "pip install", "mkdir", "veridical serve")
PROGRAMS: dict[str, list[str]] = {"python": [], "veridical": ["-m", "veridical"]}
CODES = {"veridical check": 1}  # something is flagged


@pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")
def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONIOENCODING": "utf-8"}, "encoding": "utf-8"}
    ran = 0
    for language, title, text in BLOCKS:
        if language == "python":
            (tmp_path / title).write_text(text, encoding="utf-8")
            continue
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            if command.startswith(NOT_RUN):
                continue
            program, *arguments = shlex.split(command)
            done = python(*PROGRAMS[program], *arguments, **options)
            code = next((code for start, code in CODES.items() if command.startswith(start)), 0)
            assert done.returncode == code, (command, done.stderr)
            assert not shown or done.stdout.strip() == shown.strip()
            ran += 1
    assert ran >= 6
    failures = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", **options)
    assert "2 failed, 1 passed" in failures.stdout, failures.stdout
