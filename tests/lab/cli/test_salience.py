"""`veridical salience` writes what its file ending says, and nothing where it cannot."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.cli.conftest import Command
from veridical_lab.models.testing import tiny

Salience = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"{tiny('llama', tmp_path_factory.mktemp('model'))},dtype=fp32"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, list[Path]]:
    (tmp_path / "answer.txt").write_text("The cat sat on the mat.", "utf-8")
    (tmp_path / "a.txt").write_text("A cat likes a mat.", "utf-8")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.txt").write_text("Dogs bark.", "utf-8")
    return tmp_path / "answer.txt", [tmp_path / "a.txt", tmp_path / "b" / "a.txt"]


@pytest.fixture
def salience(command: Command, files: tuple[Path, list[Path]], model: str) -> Callable[..., tuple[int, str]]:
    """Runs `veridical salience` on the files and gives back the exit code and standard error."""

    def call(out: Path, *options: str) -> tuple[int, str]:
        response, sources = files
        arguments = (str(response), *map(str, sources), "--detector", f"salience:{model}", "--out", str(out), *options)
        code, printed, error = command("salience", *arguments)
        assert printed == ""
        return code, error

    return call


@pytest.mark.parametrize("name, start", [("x.svg", b"<svg"), ("x.HTML", b"<!doctype html>")])
def test_the_ending_says_what_is_written(salience: Salience, tmp_path: Path, name: str, start: bytes) -> None:
    out = tmp_path / name
    assert salience(out, "--threshold", "0.1") == (0, f"wrote {out}\n")
    assert out.read_bytes().startswith(start)
    text = out.read_text("utf-8")
    assert "likes" in text
    assert "bark" in text
    assert ("#d55e00" in text) or ("salience-flagged" in text)


def test_bars(salience: Salience, tmp_path: Path) -> None:
    out = tmp_path / "bars.svg"
    assert salience(out, "--bars")[0] == 0
    assert "contribution of source words" in out.read_text("utf-8")


def test_what_cannot_be_drawn_writes_nothing(salience: Salience, tmp_path: Path) -> None:
    out = tmp_path / "x.svg"
    (tmp_path / "answer.txt").write_text("and the of", "utf-8")
    code, error = salience(out)
    assert code == 3
    assert "no content words" in error
    assert not out.exists()


@pytest.mark.parametrize("name, bars", [("x.pdf", False), ("x", False), ("x.html", True)])
def test_other_endings_are_refused(salience: Salience, name: str, bars: bool) -> None:
    code, error = salience(Path(name), *(["--bars"] if bars else []))
    assert code == 2
    assert "it may end in" in error


def test_a_place_that_cannot_be_written(salience: Salience, tmp_path: Path) -> None:
    for name in ("x.html", "x.svg"):
        code, error = salience(tmp_path / "no" / "folder" / name)
        assert code == 2
        assert "cannot write" in error


def test_a_picture_that_cannot_be_written_leaves_the_old_one(salience: Salience, tmp_path: Path) -> None:
    (tmp_path / "x.svg").mkdir()
    assert salience(tmp_path / "x.svg")[0] == 2
    assert {path.name for path in tmp_path.iterdir()} == {"answer.txt", "a.txt", "b", "x.svg"}


def test_another_detector_is_refused(salience: Salience, tmp_path: Path) -> None:
    code, error = salience(tmp_path / "x.svg", "--detector", "overlap")
    assert code == 2
    assert "the detector 'overlap' is not salience" in error
