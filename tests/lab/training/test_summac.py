"""The layer of SummaC Conv, from labelled data to a detector."""

from pathlib import Path

import numpy as np
import pytest

from tests.lab.detectors.feature_examples import examples
from tests.lab.files import saved
from veridical.cli import main
from veridical.detectors import load_detector
from veridical.detectors.entailment.artifact import load_layer
from veridical.detectors.entailment.comparison import compare
from veridical.detectors.entailment.detector import Entailment
from veridical.detectors.entailment.forms import histograms
from veridical.detectors.entailment.scorers import ClassifierScorer, ScorerOptions
from veridical.models.load import load
from veridical.records.errors import DataError, InputError
from veridical_lab.models.testing import tiny
from veridical_lab.training.summac import train_summac
from veridical_lab.training.token_options import TokenTraining
from veridical_lab.training.tokens import train_tokens

NLI = {0: "entailment", 1: "neutral", 2: "contradiction"}


def test_a_layer_is_trained_and_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nli = tiny("bert", tmp_path / "nli", head="SequenceClassification", id2label=NLI)
    labelled, out = examples(80), tmp_path / "summac"
    data = saved(tmp_path / "d.jsonl", labelled)
    command = ["train", "summac", data, "--model", str(nli), "--out", str(out), "--dtype", "fp32"]
    assert main(command) == 0
    assert f"use it as entailment:{out}" in capsys.readouterr().err
    trained = load_layer(out)
    form, layer = trained.form, trained.layer
    assert trained.labels == "entailment|neutral|contradiction"
    assert (form.bins, form.premise, len(layer.weight)) == (50, "sentence", 50)
    detector = load_detector(f"entailment:{out},dtype=fp32")
    assert isinstance(detector, Entailment)
    cases = [example.case for example in labelled[:6]]
    scorer = ClassifierScorer(nli, ScorerOptions(dtype="fp32"))
    for judgement, compared in zip(detector.judge(cases), compare(scorer, form, cases), strict=True):
        logits = histograms(compared.matrix.entailment, form.bins) @ layer.weight + layer.bias
        assert judgement.hallucination == pytest.approx(1 / (1 + np.exp(-logits.mean())), abs=1e-6)
    with pytest.raises(InputError, match="form is fixed by the training"):
        load_detector(f"entailment:{out},form=nli")
    other = tiny("bert", tmp_path / "other", head="SequenceClassification", id2label=NLI, seed=1)
    with pytest.raises(InputError, match="the weights differ"):
        load_detector(f"entailment:{out},dtype=fp32,model={other}").judge(cases)
    with pytest.raises(InputError, match="nothing can be learned"):
        train_summac(scorer, [example for example in labelled if example.gold.hallucination == 0.0])
    nli.rename(tmp_path / "moved")
    with pytest.raises(InputError, match="say where it is: entailment:"):
        load_detector(f"entailment:{out}")
    assert load_detector(f"entailment:{out},model={tmp_path / 'moved'}")
    description = (out / "detector.json").read_text("utf-8")
    (out / "detector.json").write_text(description.replace('"bins": 50', '"bins": 9'), "utf-8")
    with pytest.raises(DataError, match="no layer for 9 bins"):
        load_detector(f"entailment:{out}")


def test_a_layer_on_a_classifier_of_train_tokens(tmp_path: Path) -> None:
    """Any folder that `entailment:FOLDER` reads can be the model of the layer, also one that `train tokens` wrote."""
    data, out = saved(tmp_path / "d.jsonl", examples(80)), tmp_path / "summac"
    for name, seed in (("classifier", 0), ("other", 1)):
        base = load(tiny("bert", tmp_path / f"{name}-base", seed=seed), dtype="fp32", kinds=("encoder",))
        options = TokenTraining(epochs=1, hidden=0, seed=seed)
        train_tokens(base, {"set": examples(80)}, options, out=tmp_path / name)
    classifier = str(tmp_path / "classifier")
    command = ["train", "summac", data, "--model", classifier, "--out", str(out)]
    assert main([*command, "--dtype", "fp32"]) == 0
    assert load_layer(out).labels == ""
    cases = [example.case for example in examples(6)]
    judgements = load_detector(f"entailment:{out},dtype=fp32").judge(cases)
    assert len({judgement.hallucination for judgement in judgements}) > 1
    with pytest.raises(InputError, match="the weights differ"):
        load_detector(f"entailment:{out},dtype=fp32,model={tmp_path / 'other'}").judge(cases)
