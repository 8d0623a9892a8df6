"""The recipe of the default detector: the mean of two classifiers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.detectors.token_examples import trained_tokens
from veridical.core.types import Case, Source
from veridical.detectors.tokens.artifact import load_tokens
from veridical.detectors.tokens.detector import Tokens

torch = pytest.importorskip("torch")

from veridical.training.default import DefaultTraining, average  # noqa: E402

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
