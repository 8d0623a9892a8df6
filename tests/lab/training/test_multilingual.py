"""The recipe of the detector for other languages: its vocabulary, its two tasks, and how it joins the English one."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("onnxscript")

from tests.detectors.default_artifact import tiny_default
from tests.lab.detectors.feature_examples import contradicted
from tests.lab.detectors.feature_examples import examples as facts
from veridical.detectors.default.detector import OTHER_LANGUAGES, Default
from veridical.detectors.default.fitted import LOCATED
from veridical.detectors.default.second_reader import log_odds_of
from veridical.inference.artifact import DETECTOR
from veridical.inference.fast_tokenizer import FastTokenizer
from veridical.models.load import load
from veridical.records.errors import DataError, InputError
from veridical.records.types import Case, Example, Judgement, Level, Source
from veridical_lab.models.testing import tiny
from veridical_lab.training import multilingual
from veridical_lab.training.checkpoint import TrainingStopped
from veridical_lab.training.default import DefaultTraining, assemble
from veridical_lab.training.multilingual import (
    LanguagesTraining,
    add_other_languages,
    cut_vocabulary,
    location_loss,
    train_languages,
)

GERMAN = "Die Brücke ist sehr alt, und sie wurde von der Stadt gebaut."
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
    loaded = load(model, kinds=("encoder",), dtype="fp32", device="cpu")
    loss = location_loss(loaded, questions(60), LanguagesTraining(reader=DefaultTraining(bf16=False)))
    loaded.model.requires_grad_(True)
    optimiser = torch.optim.AdamW(loaded.model.encoder.parameters(), lr=3e-3)
    losses = []
    for step in range(400):
        computed = loss(step)
        if computed is None:
            continue
        computed.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(computed.detach()))
    assert len(losses) == 100, "every fourth step"
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


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


def test_a_detector_gets_one_for_other_languages(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = DefaultTraining(max_tokens=96, batch_tokens=256, tokens=256 * 6, evaluate_tokens=256 * 3, bf16=False)
    options = LanguagesTraining(reader=small, least=1)
    monkeypatch.setattr(multilingual, "_questions", lambda data: [])
    with pytest.raises(InputError, match="too few questions"):
        train_languages(model, tmp_path, tmp_path / "detector", tmp_path / "out", options)
    monkeypatch.setattr(multilingual, "_questions", lambda data: questions(60))

    def made(_: Path, part: str = "train", **__: object) -> dict[str, Any]:
        found = facts(48 if part == "train" else 24)
        swapped = [replace(e, gold=Judgement(e.case.id, "human:a", float(bool(e.gold.verdicts)))) for e in found]
        return {"pawsx_de": found, "pairs_swapped": swapped, "answers_de": []}

    monkeypatch.setattr(multilingual, "part_of", made)
    detector, out = tiny_default(tmp_path / "detector"), tmp_path / "out"
    asked = iter([False, True])
    with pytest.raises(TrainingStopped):
        train_languages(model, tmp_path, detector, out, options, stop=lambda: next(asked))
    lines: list[str] = []
    train_languages(model, tmp_path, detector, out, options, progress=lines.append)
    assert any("continues from step 2" in line for line in lines)
    english, others = (json.loads((folder / DETECTOR).read_text("utf-8")) for folder in (out, out / OTHER_LANGUAGES))
    assert others["languages"] == ["de", "en"]
    assert set(english[LOCATED]) == set(others[LOCATED]) == {"encoder", "location", "intercept"}

    again = shutil.copytree(detector, tmp_path / "again")
    (out / "LICENSE-encoder").write_text("MIT")
    add_other_languages(again, out, tmp_path)
    assert (again / "LICENSE-encoder").read_text() == "MIT"
    assert json.loads((again / DETECTOR).read_text("utf-8"))[LOCATED] == english[LOCATED]
    assert not (again / OTHER_LANGUAGES / "stages").exists()

    right, wrong = (example.case for example in questions(1))
    plain, added = Default(detector).judge([right, wrong]), Default(out).judge([right, wrong])
    assert not np.allclose([each.hallucination for each in plain], [each.hallucination for each in added])
    without = Default(out, without=["location"]).judge([right, wrong])
    assert [each.hallucination for each in without] == [each.hallucination for each in plain]
    _is_judged_by_its_language(out, detector)

    further = assemble(
        detector.with_name("detector-classifier"), {"set": contradicted(60)}, tmp_path / "further", base=out
    )
    assert (further / OTHER_LANGUAGES / DETECTOR).is_file(), "training further keeps it"
    curve = json.loads((further / DETECTOR).read_text("utf-8"))[LOCATED]
    thresholds = [Default(folder).thresholds[Level.RESPONSE] for folder in (out, further)]
    change = log_odds_of(thresholds[1], thresholds[0])
    assert curve["intercept"] == pytest.approx(english[LOCATED]["intercept"] + change)
    read: list[int] = []
    monkeypatch.setattr(multilingual, "_to_read", lambda sets, longest: read.append(longest) or sets)
    on = train_languages(out / OTHER_LANGUAGES / "encoder", tmp_path, out, tmp_path / "on", options)
    assert set(read) == {multilingual._LONG_SOURCES}
    assert Default(on).judge([right])[0].hallucination is not None, "it can be trained further"
    averaged = replace(options, reader=replace(small, initial_weight=0.25))
    fresh = tiny("bert", tmp_path / "fresh", tokenizer="unigram")
    with pytest.raises(InputError, match="has not been trained for this before"):
        train_languages(fresh, tmp_path, detector, tmp_path / "averaged", averaged)
    _damage_is_reported(out, english)


def _is_judged_by_its_language(out: Path, detector: Path) -> None:
    """Cases in German have the scores of the detector for other languages, on the scale of the English one."""
    cases = [
        Case("1", GERMAN, (Source("1", GERMAN.replace("alt", "neu"), must_cover=True),)),
        Case("2", "The bridge was opened in 1893, and it is long.", (Source("1", "It was opened in 1983."),)),
    ]
    both, alone = Default(out), Default(out / OTHER_LANGUAGES)
    judged, german, english = (each.judge(cases) for each in (both, alone, Default(detector)))
    assert judged[1].sentences == english[1].sentences
    assert both.thresholds == Default(detector).thresholds
    for level, found, expected in (
        (Level.RESPONSE, judged[0].sentences, german[0].sentences),
        (Level.SPAN, judged[0].verdicts, german[0].verdicts),
        (Level.SOURCE, judged[0].omissions, german[0].omissions),
    ):
        assert _above(found, both.thresholds[level]) == pytest.approx(_above(expected, alone.thresholds[level]))
    assert not any("trained on" in note for note in judged[0].notes)
    assert any("trained on English" in note for note in Default(detector).judge(cases)[0].notes)
    assert OTHER_LANGUAGES in both.fingerprint()
    assert both.contradicted(cases)[0] == alone.contradicted(cases)[0]


def _above(scores: Iterable[Any], threshold: float) -> list[float]:
    return [log_odds_of(each.score, threshold) for each in scores]


def _damage_is_reported(out: Path, document: dict[str, Any]) -> None:
    damaged = {**document, LOCATED: {**document[LOCATED], "location": "much"}}
    (out / DETECTOR).write_text(json.dumps(damaged), "utf-8")
    with pytest.raises(DataError, match="'located short answer' is damaged"):
        Default(out).thresholds  # noqa: B018
    (out / DETECTOR).write_text(json.dumps({**document, "languages": "de"}), "utf-8")
    with pytest.raises(DataError, match="list of languages is damaged"):
        Default(out).thresholds  # noqa: B018
    shutil.rmtree(out / OTHER_LANGUAGES / "encoder")
    (out / DETECTOR).write_text(json.dumps(document), "utf-8")
    with pytest.raises(DataError, match="encoder"):
        Default(out).judge([Case("1", GERMAN, (Source("1", GERMAN),))])
    shutil.rmtree(out / OTHER_LANGUAGES)
    with pytest.raises(DataError, match="no folder 'languages'"):
        Default(out).judge([questions(1)[0].case])
