"""The small commands, and the help."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import veridical
from tests.processes import python
from veridical.cli import COMMANDS, LAB_COMMANDS, main
from veridical.io.serialization import KINDS, tag_of
from veridical.records.registry import Registry


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == veridical.__version__


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_sleep(monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    main(["--version"])
    assert os.environ["OMP_WAIT_POLICY"] == expected


def test_a_command_imports_no_other() -> None:
    code = "import sys; from veridical.cli import main; main(['schema']); print(*sys.modules)"
    loaded = set(python("-c", code, text=True, check=True).stdout.split())
    assert {name for name in COMMANDS if f"veridical.cli.{name}" in loaded} == {"schema"}


@pytest.mark.parametrize("kind", list(KINDS))
def test_schema(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert main(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["veridical"] == {"const": tag_of(kind)}


def test_the_kinds_of_documents_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out.split() == list(KINDS)


def test_detectors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detectors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    overlap = next(i for i, line in enumerate(lines) if line.startswith("overlap"))
    assert lines[overlap + 1].strip() == "scores response, span, coverage, source; needs sources"


@pytest.mark.parametrize("arguments", [["-h"], *([name, "--help"] for name in COMMANDS)])
def test_help_teaches(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 0
    assert "Usage:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chekc"], "Did you mean 'check'"),
        (["--nope"], "No such option"),
        (["schema", "cas"], "did you mean case"),
        (["check"], "Missing argument"),
    ],
)
def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_command_of_the_laboratory_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = tomllib.loads((Path(__file__).parents[2] / "lab" / "pyproject.toml").read_text("utf-8"))
    assert lab["project"]["entry-points"]["veridical.commands"].keys() == LAB_COMMANDS
    monkeypatch.setattr("veridical.cli.COMMANDS", Registry("command", COMMANDS.table, group="nobody"))
    assert main(["bench", "overlap"]) == 2
    assert capsys.readouterr().err == (
        "veridical: bench is a command of veridical-lab, which is not installed (from a checkout: pip install ./lab)\n"
    )


def test_nothing_shows_the_help_and_is_wrong_usage() -> None:
    assert main([]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_no_file_name_adds_a_line(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    named = str(tmp_path / "a\tb\nveridical: all is well.txt")
    Path(named).write_bytes(b"The tower is 330 m tall.")
    Path(f"{named}.pdf").write_bytes(b"%PDF-1.4")
    (tmp_path / "source.txt").write_bytes(b"The tower is 330 m tall.")
    check = ("check", "-d", "overlap", named)
    written = command(*check, str(tmp_path / "source.txt"), "--html", f"{named}.html")
    assert written[0] == 0
    assert "a␉b␊veridical: all is well.txt.html" in written[2]
    unread = command(*check, f"{named}.pdf"), command(*check, "none"), command("batch", named, "--out", f"{named}.out")
    for _, _, stderr in (written, *unread):
        assert len(stderr.splitlines()) == 1, stderr
