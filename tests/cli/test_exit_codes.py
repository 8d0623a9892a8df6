"""Exit code 1 means "flagged" and nothing else, whatever happens to the process and its streams."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes import python

TEXT = "Η Αθήνα είναι 雅典 😀 œ."
CHECK = ("check", "answer.txt", "source.txt", "-d", "overlap")
COMMANDS = [
    CHECK,
    (*CHECK, "--json"),
    ("--help",),
    ("check", "--help"),
    ("detectors",),
    ("schema", "case"),
    ("--version",),
]
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "answer.txt").write_text(TEXT, "utf-8")
    (tmp_path / "source.txt").write_text(TEXT, "utf-8")
    (tmp_path / "other.txt").write_text("Rome.")
    return tmp_path


def veridical(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[Any]:
    environment = {**os.environ, "COLUMNS": "80", "PYTHONUNBUFFERED": "", **options.pop("environment", {})}
    return python("-m", "veridical", *arguments, cwd=folder, env=environment, **options)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_every_encoding_of_standard_output(folder: Path, encoding: str) -> None:
    environment = {"PYTHONIOENCODING": encoding}
    done = veridical(folder, *CHECK, "--json", environment=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode(encoding))["case"]["response"] == TEXT
    done = veridical(folder, *CHECK, environment=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    done = veridical(folder, "check", "answer.txt", "other.txt", "-d", "overlap", environment=environment)
    assert (done.returncode, done.stderr) == (1, b"")
    athens = "Αθήνα" if encoding == "utf-8" else "\\u0391\\u03b8\\u03ae\\u03bd\\u03b1"
    assert athens in done.stdout.decode(encoding)


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk(folder: Path, arguments: tuple[str, ...], unbuffered: str) -> None:
    environment = {"PYTHONUNBUFFERED": unbuffered}
    with FULL.open("w") as full:
        done = veridical(
            folder, *arguments, capture_output=False, stdout=full, stderr=subprocess.PIPE, environment=environment
        )
    assert done.returncode == 2
    assert done.stderr == b"veridical: input or output failed: No space left on device\n"


@needs_full
@pytest.mark.parametrize("arguments", [(*CHECK, "--html", "page.html"), ("check", "none.txt"), ("check", "--nonsense")])
def test_a_full_standard_error(folder: Path, arguments: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done = veridical(folder, *arguments, capture_output=False, stdout=subprocess.DEVNULL, stderr=full)
    assert done.returncode == 2


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_output_without_a_reader(folder: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = veridical(folder, *arguments, capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b"veridical: the reader of the output went away\n"


def test_an_error_without_a_reader(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = veridical(folder, "check", "none.txt", capture_output=False, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    assert done.returncode == 2


@pytest.mark.parametrize(("source", "code"), [("source.txt", 0), ("other.txt", 1), ("none.txt", 2)])
def test_streams_that_the_caller_closed(folder: Path, source: str, code: int) -> None:
    def close() -> None:
        for number in (0, 1, 2):
            os.close(number)

    arguments = ("check", "answer.txt", source, "-d", "overlap")
    assert veridical(folder, *arguments, capture_output=False, preexec_fn=close).returncode == code
    assert veridical(folder, "check", "-", capture_output=False, preexec_fn=close).returncode == 2


PANIC = "type('Panic', (BaseException,), {})('x')"  # what extensions in Rust raise is no Exception


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        ("ImportError('x')", 70, "internal error: ImportError"),
        (PANIC, 70, "internal error: Panic"),
        ("SystemExit(1)", 70, "internal error: SystemExit"),
        ("KeyboardInterrupt", 130, ""),
    ],
)
def test_a_library_that_cannot_be_imported(folder: Path, error: str, code: int, says: str) -> None:
    (folder / "typer.py").write_text(f"raise {error}\n")
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = veridical(folder, "--version", text=True, environment={"PYTHONPATH": paths})
    assert done.returncode == code
    assert says in done.stderr
    assert ("Traceback" in done.stderr) is (code == 70)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        ("ValueError('x')", 70, "internal error: ValueError"),
        ("MemoryError", 70, "internal error: MemoryError"),
        (PANIC, 70, "internal error: Panic"),
        ("OSError(5, 'broken')", 2, "veridical: input or output failed: broken"),
        ("OSError(5, 'broken', 'weights')", 2, "veridical: weights: broken"),
        ("OSError('no\\nmodel')", 2, "veridical: input or output failed: no model"),
        ("KeyboardInterrupt", 130, "interrupted"),
    ],
)
def test_an_error_that_nobody_foresaw(folder: Path, error: str, code: int, says: str) -> None:
    (folder / "breaks.py").write_text(
        f"class Breaks:\n    name = 'breaks'\n    def judge(self, cases):\n        raise {error}\n"
    )
    about = folder / "breaks-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: breaks\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[veridical.detectors]\nbreaks = breaks:Breaks\n")
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = veridical(
        folder, "check", "answer.txt", "source.txt", "-d", "breaks", text=True, environment={"PYTHONPATH": paths}
    )
    assert done.returncode == code
    assert says in done.stderr.splitlines()[-1]
    assert ("Traceback" in done.stderr) is (code == 70)


def test_the_installed_program_is_this_one() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["scripts"] == {"veridical": "veridical.__main__:main"}
