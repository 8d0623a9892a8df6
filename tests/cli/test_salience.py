"""`veridical salience` writes what its file ending says, and nothing where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from veridical.cli.salience import salience_command
from veridical.core.errors import CannotJudgeError, InputError, OutputError

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    from veridical.models.testing import tiny

    return f"{tiny('llama', tmp_path_factory.mktemp('model'))},dtype=fp32"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, list[Path]]:
    (tmp_path / "answer.txt").write_text("The cat sat on the mat.", "utf-8")
    (tmp_path / "a.txt").write_text("A cat likes a mat.", "utf-8")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.txt").write_text("Dogs bark.", "utf-8")
    return tmp_path / "answer.txt", [tmp_path / "a.txt", tmp_path / "b" / "a.txt"]


@pytest.mark.parametrize("name, start", [("x.svg", b"<svg"), ("x.png", b"\x89PNG"), ("x.HTML", b"<!doctype html>")])
def test_the_ending_says_what_is_written(files: tuple[Path, list[Path]], model: str, name: str, start: bytes) -> None:
    out = files[0].parent / name
    assert salience_command(*files, model=model, out=out, threshold=0.1) == 0
    assert out.read_bytes().startswith(start)
    if name != "x.png":
        text = out.read_text("utf-8")
        assert "likes" in text
        assert "bark" in text
        assert ("#d55e00" in text) or ("salience-flagged" in text)


def test_bars(files: tuple[Path, list[Path]], model: str) -> None:
    out = files[0].parent / "bars.svg"
    salience_command(*files, model=model, out=out, bars=True)
    assert "contribution of source words" in out.read_text("utf-8")


def test_what_cannot_be_drawn_writes_nothing(files: tuple[Path, list[Path]], model: str) -> None:
    out = files[0].parent / "x.svg"
    files[0].write_text("and the of", "utf-8")
    with pytest.raises(CannotJudgeError, match="no content words"):
        salience_command(*files, model=model, out=out)
    assert not out.exists()


@pytest.mark.parametrize("name, bars", [("x.pdf", False), ("x", False), ("x.png", True)])
def test_other_endings_are_refused(files: tuple[Path, list[Path]], name: str, bars: bool) -> None:
    with pytest.raises(InputError, match="it may end in"):
        salience_command(*files, model="nowhere", out=Path(name), bars=bars)


def test_a_place_that_cannot_be_written(files: tuple[Path, list[Path]], model: str) -> None:
    for name in ("x.png", "x.svg"):
        with pytest.raises(OutputError, match="cannot write"):
            salience_command(*files, model=model, out=files[0].parent / "no" / "folder" / name)
