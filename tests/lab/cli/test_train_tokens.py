"""`veridical train tokens` and `veridical export`, from data to a check."""

import json
from pathlib import Path

import pytest

from tests.lab.detectors.feature_examples import examples
from tests.lab.files import saved
from veridical.cli import main
from veridical_lab.models.testing import tiny


@pytest.fixture
def data(tmp_path: Path) -> str:
    return saved(tmp_path / "d.jsonl", examples(60))


def test_train_export_check(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, out = str(tiny("bert", tmp_path / "base")), str(tmp_path / "classifier")
    command = ["train", "tokens", data, "--model", base, "--out", out, "--epochs", "1", "--hidden", "4"]
    assert main([*command, "--attention", "prefix"]) == 0
    said = capsys.readouterr().err
    assert "use it as tokens:" in said
    assert "validation AUC" in said
    assert main(["export", out, "--precision", "fp32"]) == 0
    assert "cosine similarity 1.0000" in capsys.readouterr().err
    response, source = tmp_path / "r.txt", tmp_path / "s.txt"
    response.write_text("Paris closed an old tunnel in 1889.")
    source.write_text("In 1889, Paris opened a new bridge.")
    scores = []
    for spec in (f"tokens:{out},dtype=fp32", f"tokens:{out},onnx=fp32"):
        assert main(["check", str(response), str(source), "--detector", spec, "--json"]) in (0, 1)
        (judgement,) = json.loads(capsys.readouterr().out)["judgements"]
        scores.append([judgement["hallucination"], *(verdict["score"] for verdict in judgement["verdicts"])])
    assert len(scores[0]) == 1 + 7
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    more = ["train", "tokens", data, "--model", out, "--out", str(tmp_path / "more"), "--epochs", "1", "--hidden", "4"]
    more += ["--attention", "prefix", "--validation", saved(tmp_path / "held_out.jsonl", examples(100)[60:])]
    assert main(more) == 0  # from the classifier
    training = json.loads((tmp_path / "more" / "detector.json").read_text())["training"]
    assert (training["examples"], training["fractions"]) == ({"train": 60, "valid": 40}, None)
    assert main([*more, "--seed", "3"]) == 2  # the folder holds another training
    assert "checkpoint of another training" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mode", "sometimes"], "mode"),
        (["--evidence", "some"], "evidence"),
        (["--pooling", "min"], "pooling"),
        (["--criterion", "best"], "criterion"),
        (["--template", "none"], "template"),
    ],
)
def test_a_wrong_option_is_refused(
    options: list[str], message: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = str(tiny("bert", tmp_path / "base"))
    assert main(["train", "tokens", data, "--model", base, "--out", str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "detector.json").exists()


def test_a_folder_without_a_classifier_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path)]) == 2
    assert "detector.json" in capsys.readouterr().err
