"""Adapting a detector to documents: what is trained on, the gate, and the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veridical.cli import main
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.adapt import adapting
from veridical_lab.adapt.adapting import Adapting, adapt, compared, material

NAMES = ["Anna", "Bruno", "Clara", "David", "Elena", "Frank", "Greta", "Hanna", "Ivan", "Julia", "Karl", "Lena"]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Twelve documents of some eighty words each."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for i, name in enumerate(NAMES):
        text = (
            f"{name} Weber founded the workshop in {1900 + i} in the town of Celle. It had {i + 3} workers and made "
            f"wooden chairs for schools. In {1950 + i} the workshop moved to Hanover and hired {name} Schmidt as a "
            f"manager. The new building cost {i + 2} million marks. It burnt down in {1970 + i} and was not rebuilt. "
            f"Today a museum shows {i + 40} chairs of the workshop. The museum is open on Sundays and costs {i + 5} "
            "euros. Children pay nothing, and groups of ten people get a guide."
        )
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


class Doubles:
    """Detectors whose scores are right but for some noise."""

    name = "double"

    def __init__(self, noise: float) -> None:
        self.noise = noise

    def scores(self, cases: list[Case]) -> Any:
        draw = np.random.default_rng(0)
        return np.array([float("wrong" in case.response) for case in cases]) + self.noise * draw.normal(size=len(cases))


def examples(count: int) -> list[Example]:
    made = []
    for i in range(count):
        case = Case(str(i), "It is wrong." if i % 2 else "It is right.", (Source("1", "It is."),))
        label = ("contradiction", "neutral")[i % 4 == 1] if i % 2 else "entailment"
        made.append(Example(case, Judgement(str(i), "h", float(i % 2)), f"d{i // 4}", (("label", label),)))
    return made


def test_rules_make_examples_of_every_part_and_no_document_is_in_two(documents: Path) -> None:
    parts, found, notes = material([documents])
    assert not found.written
    assert not notes
    of_parts = {part: {str(e.document).split("/")[0] for e in of_part} for part, of_part in parts.items()}
    assert set.union(*of_parts.values()) <= {f"{name}.txt" for name in NAMES}
    assert not of_parts["train"] & of_parts["test"]
    assert not of_parts["train"] & of_parts["valid"]
    assert all({bool(e.gold.hallucination) for e in of_part} == {True, False} for of_part in parts.values())


def test_a_few_documents_are_split_by_passage_with_a_note(documents: Path) -> None:
    texts = [path.read_text("utf-8") for path in sorted(documents.iterdir())]
    (documents.parent / "all.txt").write_text("\n".join(texts), "utf-8")
    assert any("passages are split" in note for note in material([documents.parent / "all.txt"])[2])


def test_documents_without_text_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Too short.")
    with pytest.raises(InputError, match="no passage"):
        material([tmp_path])
    with pytest.raises(InputError, match="there is no"):
        material([tmp_path / "nothing"])


@pytest.mark.parametrize(("after", "kept"), [((0.0, 0.9), True), ((0.9, 0.9), False), ((0.0, 3.0), False)])
def test_the_gate_keeps_what_is_better_here_and_no_worse_elsewhere(
    after: tuple[float, float], kept: bool, documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter(after)

    def figures(given: Any, *detectors: Any) -> dict[str, Any]:
        return compared(examples(200), Doubles(0.9), Doubles(next(measured)))  # type: ignore[arg-type]

    def train(*arguments: Any, **_: Any) -> None:
        arguments[3].mkdir(parents=True)
        (arguments[3] / "detector.json").write_text("{}")

    monkeypatch.setattr(adapting, "further_trained", train)
    monkeypatch.setattr(adapting, "_scores", lambda detector, cases: detector.scores(cases))
    monkeypatch.setattr(adapting, "Default", lambda folder: folder)
    monkeypatch.setattr(adapting, "compared", figures)
    out = tmp_path / "mine"
    report = adapt([documents], out, Adapting())
    assert report.kept is kept
    assert (out / "detector.json").exists() is kept
    stored = json.loads((tmp_path / "mine.work" / "adapted.json").read_text())
    assert stored["kept"] is kept
    assert set(stored["figures"]["documents"]["after"]) == {"roc_auc", "balanced_accuracy", "contradiction", "neutral"}
    if kept:
        with pytest.raises(InputError, match="exists"):
            adapt([documents], out)


def test_the_work_of_another_run_is_not_taken_for_this_one(documents: Path, tmp_path: Path) -> None:
    work = tmp_path / "mine.work"
    work.mkdir()
    (work / "run.txt").write_text("another")
    with pytest.raises(InputError, match="other documents or options"):
        adapt([documents], tmp_path / "mine")


def test_a_dry_run_counts_calls_and_writes_nothing(
    documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adapt", str(documents), "--out", str(tmp_path / "mine"), "--model", "m", "--dry-run"]) == 0
    assert "12 calls (write 12)" in capsys.readouterr().out
    assert not (tmp_path / "mine").exists()


def test_a_gain_has_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapting, "_scores", lambda detector, cases: detector.scores(cases))
    figures = compared(examples(200), Doubles(2.0), Doubles(0.0))  # type: ignore[arg-type]
    assert 0 < figures["gain"]["low"] < figures["gain"]["value"] < figures["gain"]["high"]
    assert figures["after"]["roc_auc"] == 1.0
    same = compared(examples(200), Doubles(2.0), Doubles(2.0))  # type: ignore[arg-type]
    assert same["gain"] == {"value": 0.0, "low": 0.0, "high": 0.0}
