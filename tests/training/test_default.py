"""The recipe of the default detector: its parts, the mean of two classifiers, and what is learned from a teacher."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.detectors.feature_examples import examples
from tests.detectors.token_examples import trained_tokens
from veridical.core.types import Case, Judgement, Outcome, Source
from veridical.detectors.tokens.artifact import load_tokens
from veridical.detectors.tokens.detector import Tokens

torch = pytest.importorskip("torch")

from veridical.checking import check_cases  # noqa: E402
from veridical.detectors.default.detector import Default  # noqa: E402
from veridical.models.testing import tiny  # noqa: E402
from veridical.training import default  # noqa: E402
from veridical.training.checkpoint import TrainingStopped  # noqa: E402
from veridical.training.default import DefaultTraining, average, train_default  # noqa: E402
from veridical.training.default_data import some_of_each  # noqa: E402

CASE = Case("1", "The bridge was opened in 1983.", (Source("s", "The bridge over the Elbe was opened in 1893."),))


def test_the_mean_of_two_classifiers(tmp_path: Path) -> None:
    later, earlier = (trained_tokens(tmp_path / str(epochs), hidden=0, epochs=epochs) for epochs in (2, 1))
    mean = average(later, earlier, tmp_path / "mean", share=0.25)
    weights = [list(Tokens(folder, dtype="fp32").backbone().model.parameters()) for folder in (mean, later, earlier)]
    assert any(not torch.equal(own, other) for _, own, other in zip(*weights, strict=True))
    for found, own, other in zip(*weights, strict=True):
        assert torch.allclose(found, 0.75 * own + 0.25 * other, atol=1e-6)
    heads = [load_tokens(folder)[2].tensors for folder in (mean, later, earlier)]
    for name in heads[0]:
        assert heads[0][name] == pytest.approx(0.75 * heads[1][name] + 0.25 * heads[2][name], abs=1e-6)
    same = average(later, earlier, tmp_path / "same", share=0.0)
    scores = [
        [v.score for v in Tokens(folder, dtype="fp32").judge([CASE])[0].verdicts] for folder in (same, later, mean)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert scores[2] != pytest.approx(scores[1], abs=1e-6)


def test_text_for_research_is_left_out_unless_asked_for() -> None:
    assert DefaultTraining(without=("wice",)).left_out == ("bump", "wice", "xsum_token")
    assert DefaultTraining(without=("wice",), research_text=True).left_out == ("wice",)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parts of the training data, made of a few examples."""

    def part(name: str, size: int) -> Any:
        def made(*_: object, part: str = "train", **__: object) -> dict[str, Any]:
            found = examples(size if part == "train" else 24)
            swapped = [replace(e, gold=Judgement(e.case.id, "human:a", float(bool(e.gold.verdicts)))) for e in found]
            return {name: found, f"{name}_swapped": swapped}

        return made

    monkeypatch.setattr(default, "general_part", part("pairs", 48))
    monkeypatch.setattr(default, "labelled_part", part("measured", 24))
    silent = [replace(e, gold=Judgement(e.case.id, "nobody", judged=())) for e in examples(4)]
    monkeypatch.setattr(default, "unlabelled_part", lambda *_: {"leads": silent})


def test_a_teacher_is_learned_from(small_parts: None, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    small, large = tiny("bert", tmp_path / "small"), tiny("mpnet", tmp_path / "large")
    options = DefaultTraining(
        teacher=large,
        max_tokens=96,
        soft_labels=(8, 24),
        rates=(1e-3, 1e-3, 1e-3),
        teacher_rate=1e-3,
        bf16=False,
    )
    lines: list[str] = []

    def stop() -> bool:  # when the first set has soft labels
        return lines[-1] == "pairs: soft labels of 8 examples"

    with pytest.raises(TrainingStopped):
        train_default(small, tmp_path, tmp_path / "out", options, stop=stop, progress=lines.append)
    began = len(lines)
    out = train_default(small, tmp_path, tmp_path / "out", options, progress=lines.append)
    assert not any(line.startswith(("general:", "labelled:", "teacher:", "pairs: soft")) for line in lines[began:])
    assert "measured_swapped: soft labels of 24 examples" in lines[began:]
    assert "leads: 4 examples to train on (4 windows, 4 with labelled words), 0 to validate on" in lines[began:]
    stages = out / "stages"
    description = json.loads((out / "detector.json").read_text(encoding="utf-8"))
    assert description["training"]["teacher"] == Tokens(stages / "teacher").fingerprint()["tokens"]
    assert len(description["training"]["soft_labels"]) == 64
    trained = json.loads((stages / "distilled-2" / "detector.json").read_text(encoding="utf-8"))["training"]
    assert trained["options"]["soft_labels"] is True
    assert trained["examples"]["train"] == 8 + 8 + 24 + 24 + 4
    weights = [load_tokens(stages / name)[2].tensors for name in ("taught", "distilled-1", "distilled-2", "mean")]
    for name, tensor in weights[0].items():
        expected = sum(share * each[name] for share, each in zip((0.4, 0.4, 0.2), weights[1:], strict=True))
        assert tensor == pytest.approx(expected, abs=1e-6)
    assert any(abs(weights[1][name] - weights[2][name]).max() > 0 for name in weights[0])
    packed = json.loads((out / "encoder" / "detector.json").read_text(encoding="utf-8"))
    assert packed["training"]["data"] == trained["data"]  # the encoder of the detector is the one that learned last
    assert next(check_cases([CASE], Default(out))).outcome in (Outcome.CLEAR, Outcome.FLAGGED)


def test_without_a_teacher_there_is_no_third_part(small_parts: None, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    out = train_default(
        tiny("bert", tmp_path / "small"),
        tmp_path,
        tmp_path / "out",
        DefaultTraining(layers=1, max_tokens=96, bf16=False),
    )
    assert sorted(folder.name for folder in (out / "stages").iterdir()) == ["general", "labelled", "mean", "pretrained"]
    assert json.loads((out / "encoder" / "backbone" / "config.json").read_text())["num_hidden_layers"] == 1
    assert "teacher" not in json.loads((out / "detector.json").read_text(encoding="utf-8"))["training"]


def test_a_set_is_cut_where_its_responses_have_too_many_words() -> None:
    found = examples(40)
    lengths = [len(e.case.response.split()) for e in found]
    assert some_of_each({"a": found}, 10)["a"] == some_of_each({"a": found}, 10, most_words=10_000)["a"]
    (cut,) = some_of_each({"a": found}, 40, most_words=sum(lengths[:7]) + 1).values()
    assert cut == found[:7]
