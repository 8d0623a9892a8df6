"""Training of masked language models: a new head learns, the folder is Hugging Face's, a stopped training goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from veridical.cli import main  # noqa: E402
from veridical.core.errors import InputError  # noqa: E402
from veridical.models.load import LocalModel, load, unload  # noqa: E402
from veridical_lab.models.testing import tiny  # noqa: E402
from veridical_lab.training.checkpoint import CHECKPOINT, TrainingStopped  # noqa: E402
from veridical_lab.training.masked import MaskedTraining, train_masked, with_masked_head  # noqa: E402

TEXTS = [f"The cat sat on the mat near the lake in {1990 + i % 9}. The dogs slept in the house." for i in range(60)]
FAST = MaskedTraining(max_tokens=40, batch_tokens=640, epochs=24, learning_rate=3e-3, head_learning_rate=1e-2)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A tiny encoder without a language-model head, whose tokenizer has a mask."""
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    folder = tiny("bert", tmp_path / "with", head="MaskedLM")
    AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "encoder")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def loaded(folder: Path, kind: str = "encoder") -> LocalModel:
    return load(folder, dtype="fp32", device="cpu", kinds=(kind,))  # type: ignore[arg-type]


def test_a_new_head_learns_what_stands_where(encoder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForMaskedLM

    out = train_masked(loaded(encoder), TEXTS, FAST, out=tmp_path / "out")
    document = json.loads((out / "training.json").read_text("utf-8"))
    first, *_, last = document["validation"]
    assert last["loss"] < first["loss"] - 0.4
    assert last["accuracy"] > 0.3  # a sixth of the tokens is the most frequent one
    assert last["step"] == document["steps"]
    model, report = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    assert not report["missing_keys"]
    embeddings = model.get_input_embeddings().weight
    assert model.get_output_embeddings().weight is embeddings or torch.equal(
        model.get_output_embeddings().weight, embeddings
    )
    before = loaded(encoder).model.get_input_embeddings().weight
    assert not torch.equal(embeddings, before)
    assert not (out / CHECKPOINT).exists()
    assert not (out / "written").exists()
    assert loaded(out, "masked").tokenizer.mask_token == "<mask>"


def test_a_frozen_encoder_stays_as_it_is(encoder: Path, tmp_path: Path) -> None:
    options = MaskedTraining(max_tokens=40, batch_tokens=640, max_steps=3, frozen=True, evaluations=1)
    given = with_masked_head(loaded(encoder))
    attention = given.model.config._attn_implementation
    out = train_masked(given, TEXTS, options, out=tmp_path / "out")
    assert given.model.config._attn_implementation == attention != "eager"
    before, after = loaded(encoder).model.state_dict(), loaded(out, "masked").model.base_model.state_dict()
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())
    head = with_masked_head(loaded(encoder)).model.state_dict()
    trained = loaded(out, "masked").model.state_dict()
    assert any(not torch.equal(trained[name], tensor) for name, tensor in head.items() if name in trained)


def test_a_stopped_training_goes_on_as_if_it_had_not_been(encoder: Path, tmp_path: Path) -> None:
    options = MaskedTraining(max_tokens=40, batch_tokens=640, epochs=2, dropout=0.1)
    whole = train_masked(loaded(encoder), TEXTS, options, out=tmp_path / "whole")
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 3

    with pytest.raises(TrainingStopped, match="the same command goes on"):
        train_masked(loaded(encoder), TEXTS, options, out=tmp_path / "parts", stop=stop)
    assert not (tmp_path / "parts" / "config.json").exists()
    with pytest.raises(InputError, match="another training"):
        train_masked(loaded(encoder), TEXTS[1:], options, out=tmp_path / "parts")
    lines: list[str] = []
    parts = train_masked(loaded(encoder), TEXTS, options, out=tmp_path / "parts", progress=lines.append)
    assert any("continues from step 3" in line for line in lines)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    records = [json.loads((folder / "training.json").read_text("utf-8")) for folder in (parts, whole)]
    assert records[0] == records[1]


def test_from_the_command_line_a_head_is_trained_further(encoder: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text(TEXTS[0])
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "articles.txt").write_text("\n\n".join(TEXTS))
    steps = ["--max-steps", "2", "--max-tokens", "40", "--evaluations", "1"]
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert main(["train", "masked", str(encoder), f"wikipedia:{folder}", str(text), "--out", first, *steps]) == 0
    assert main(["train", "masked", first, f"wikipedia:{folder}", "--out", second, *steps]) == 0
    base = json.loads((Path(second) / "training.json").read_text("utf-8"))["base"]
    assert base["name"].endswith("first")


def test_what_cannot_be_trained(encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="1 texts are too few"):
        train_masked(loaded(encoder), TEXTS[:1], out=tmp_path / "out")
    without = loaded(tiny("bert", tmp_path / "plain"))
    with pytest.raises(InputError, match="has no mask"):
        with_masked_head(without)
    unload(without)
    for wrong in ({"share": 0.0}, {"epochs": 0}, {"learning_rate": 0.0}, {"max_tokens": 4}):
        with pytest.raises(InputError):
            MaskedTraining(**wrong)  # type: ignore[arg-type]
    decoder = str(tiny("gpt2", tmp_path / "gpt2"))
    assert main(["train", "masked", decoder, str(tmp_path / "a.txt"), "--out", str(tmp_path / "o")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "an encoder is needed" in line
