"""The recipe of the sentence encoder: trained on questions, its vocabulary cut, and put into a detector."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from tests.detectors.default_artifact import tiny_default  # noqa: E402
from tests.lab.detectors.feature_examples import contradicted  # noqa: E402
from veridical.detectors.default.detector import LOCATED, SENTENCE_ENCODER, Default  # noqa: E402
from veridical.detectors.default.second_reader import log_odds_of  # noqa: E402
from veridical.inference.artifact import DETECTOR  # noqa: E402
from veridical.inference.fast_tokenizer import FastTokenizer  # noqa: E402
from veridical.models.load import load  # noqa: E402
from veridical.records.errors import DataError, InputError  # noqa: E402
from veridical.records.types import Case, Example, Judgement, Level, Source  # noqa: E402
from veridical_lab.models.testing import tiny  # noqa: E402
from veridical_lab.training import sentence_encoder  # noqa: E402
from veridical_lab.training.default import assemble  # noqa: E402
from veridical_lab.training.sentence_encoder import (  # noqa: E402
    SentenceEncoderTraining,
    add_sentence_encoder,
    cut_vocabulary,
    train,
)

THINGS = ("bridge", "tower", "school", "library", "market", "harbour")


def questions(count: int) -> list[Example]:
    """A right answer and its rival by turns: the passages say when two things were built."""
    made = []
    for i in range(count):
        one, other = THINGS[i % 6], THINGS[(i + 1 + i // 6 % 5) % 6]
        passage = Source("1", f"The {one} was opened in {1800 + i}. The {other} was opened in {1700 + i}.")
        language = "de" if i % 2 else "en"
        for version, year in (("right", 1800 + i), ("wrong", 1700 + i)):
            id = f"{i}/{version}"
            case = Case(id, str(year), (passage,), f"When was the {one} opened?")
            gold = Judgement(id, "rule", float(version == "wrong"))
            made.append(Example(case, gold, f"{i}", (("language", language), ("version", version))))
    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny("bert", tmp_path / "model", tokenizer="unigram")


def test_training_brings_questions_nearer_to_their_answers(model: Path) -> None:
    torch.set_num_threads(1)
    loaded = load(model, kinds=("encoder",), dtype="fp32", device="cpu")
    before = {name: weight.clone() for name, weight in loaded.model.named_parameters()}
    lines: list[str] = []
    options = SentenceEncoderTraining(questions=8 * 80, rate=3e-3, frozen=1)
    train(loaded, questions(60), options, progress=lines.append)
    losses = [float(line.rpartition(" ")[2]) for line in lines]
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    changed = {name for name, weight in loaded.model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed
    assert all("layer.1." in name for name in changed), "embeddings and frozen layers stay"


def test_a_cut_vocabulary_keeps_what_the_texts_need(model: Path, tmp_path: Path) -> None:
    loaded = load(model, kinds=("encoder",), dtype="fp32", device="cpu")
    texts = ["the river rises slowly", "a small boat"]
    full = FastTokenizer(model).backend_tokenizer
    pieces = [full.encode(text).tokens for text in texts]
    table = loaded.model.embeddings.word_embeddings.weight.clone()
    cut_vocabulary(loaded, texts, tmp_path / "cut", least=1, words=["1950"])
    tokenizer = FastTokenizer(tmp_path / "cut").backend_tokenizer
    assert tokenizer.get_vocab_size() == loaded.model.config.vocab_size < full.get_vocab_size()
    for text, expected in zip(texts, pieces, strict=True):
        encoded = tokenizer.encode(text)
        assert encoded.tokens == expected
        rows = loaded.model.embeddings.word_embeddings.weight[encoded.ids]
        assert torch.equal(rows, table[full.encode(text).ids])


def test_other_tokenizers_are_refused(tmp_path: Path) -> None:
    loaded = load(tiny("bert", tmp_path / "model"), kinds=("encoder",), dtype="fp32", device="cpu")
    with pytest.raises(InputError, match="WordPiece model"):
        cut_vocabulary(loaded, ["a"], tmp_path / "cut", least=1)


def test_a_detector_gets_the_encoder_and_its_curves(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentence_encoder, "_questions", lambda data: [])
    with pytest.raises(InputError, match="too few questions"):
        add_sentence_encoder(tmp_path, model, tmp_path / "detector", tmp_path / "out")
    monkeypatch.setattr(sentence_encoder, "_questions", lambda data: questions(60))
    detector = tiny_default(tmp_path / "detector")
    out = tmp_path / "out"
    options = SentenceEncoderTraining(questions=16, frozen=1, least=1)
    add_sentence_encoder(tmp_path, model, detector, out, options, progress=lambda line: None)
    document = json.loads((out / DETECTOR).read_text("utf-8"))
    assert set(document[LOCATED]) == {"en", "other languages"}
    assert document[LOCATED]["other languages"]["encoder"] == 0.0
    assert document["training"][SENTENCE_ENCODER]["questions"] == 16
    right, wrong = (example.case for example in questions(1))
    plain, added = Default(detector).judge([right, wrong]), Default(out).judge([right, wrong])
    assert not np.allclose([each.hallucination for each in plain], [each.hallucination for each in added])
    without = Default(out, without=["location"]).judge([right, wrong])
    assert [each.hallucination for each in without] == [each.hallucination for each in plain]
    assert SENTENCE_ENCODER in Default(out).fingerprint()
    assert SENTENCE_ENCODER not in Default(detector).fingerprint()
    classifier = detector.with_name("detector-classifier")
    further = assemble(classifier, {"set": contradicted(60)}, tmp_path / "further", base=out)
    assert (further / SENTENCE_ENCODER / "onnx" / "model.int8.onnx.json").is_file(), "training further keeps it"
    curve = json.loads((further / DETECTOR).read_text("utf-8"))[LOCATED]["en"]
    thresholds = [Default(folder).thresholds[Level.RESPONSE] for folder in (out, further)]
    change = log_odds_of(thresholds[1], thresholds[0])
    assert curve["intercept"] == pytest.approx(document[LOCATED]["en"]["intercept"] + change)
    document[LOCATED]["en"]["location"] = "much"
    (out / DETECTOR).write_text(json.dumps(document), "utf-8")
    with pytest.raises(DataError, match="'located short answer' is damaged"):
        Default(out).thresholds  # noqa: B018
