"""The recipe of the default detector: what it is trained on, and the detector that comes of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lab.detectors.feature_examples import examples
from veridical.detectors.default.detector import Default
from veridical.detectors.default.regressions import COLUMNS
from veridical.detectors.tokens.artifact import load_tokens
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Level, Outcome, Source
from veridical.workflows.checking import check_cases
from veridical_lab.adapt.adapting import Adapting, further_trained
from veridical_lab.models.testing import tiny
from veridical_lab.training import default, default_levels
from veridical_lab.training.checkpoint import TrainingStopped
from veridical_lab.training.default import DefaultTraining, train_default
from veridical_lab.training.default_data import _without_questions, part_of
from veridical_lab.training.default_levels import LevelRows, fit_levels, fit_short_answers

CASE = Case("1", "The bridge was opened in 1983.", (Source("s", "The bridge over the Elbe was opened in 1893."),))


def test_half_of_the_written_passages_come_without_their_question() -> None:
    asked = replace(CASE, question="When was it opened?")
    given = [Example(asked, Judgement("1", "human:a", 0.0), f"passage {i // 2}") for i in range(400)]
    for seed in (0, 1):
        kept = [bool(each.case.question) for each in _without_questions(given, seed)]
        assert kept[::2] == kept[1::2], "statements about a passage share its prompt"
        assert 70 < sum(kept[::2]) < 130
    assert list(_without_questions(given, 0)) != list(_without_questions(given, 1)), "each pass has others"


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parts of the data, made of a few examples."""

    def made(_: Path, part: str = "train", **__: object) -> dict[str, Any]:
        found = examples(48 if part == "train" else 24)
        swapped = [replace(e, gold=Judgement(e.case.id, "human:a", float(bool(e.gold.verdicts)))) for e in found]
        return {"pairs": found, "pairs_swapped": swapped}

    monkeypatch.setattr(default, "part_of", made)


def test_a_training_that_was_stopped_goes_on_and_makes_a_detector(small_parts: None, tmp_path: Path) -> None:
    options = DefaultTraining(layers=1, max_tokens=96, batch_tokens=256, tokens=256 * 9, bf16=False)
    encoder, out = tiny("bert", tmp_path / "encoder"), tmp_path / "out"
    asked = iter([False, True])
    with pytest.raises(TrainingStopped):
        train_default(encoder, tmp_path, out, options, stop=lambda: next(asked))
    lines: list[str] = []
    train_default(encoder, tmp_path, out, options, progress=lines.append)
    assert any("step 2" in line for line in lines), "it goes on where it was"
    settings = json.loads((out / "encoder" / "detector.json").read_text(encoding="utf-8"))["settings"]
    assert (settings["attention"], settings["pairs"]["by_sentence"]) == ("prefix", True)
    assert json.loads((out / "encoder" / "backbone" / "config.json").read_text())["num_hidden_layers"] == 1
    assert [file.name for file in (out / "encoder" / "onnx").glob("*.onnx*")] != []
    checked = next(check_cases([CASE], Default(out)))
    assert checked.outcome in (Outcome.CLEAR, Outcome.FLAGGED)
    began = len(lines)
    train_default(encoder, tmp_path, out, options, progress=lines.append)
    assert not any("to train on" in line for line in lines[began:]), "what is trained is not trained again"
    slow = replace(options, rate=1e-9)
    train_default(out / "stages" / "encoder", tmp_path, tmp_path / "on", slow, progress=lines.append)
    before, after = (load_tokens(folder / "stages" / "encoder")[2].tensors for folder in (out, tmp_path / "on"))
    assert all(np.abs(after[name] - before[name]).max() < 1e-5 for name in before), "it goes on from what was learned"
    adapted = _adapted(out, tmp_path)
    regressions = [json.loads((folder / "detector.json").read_text("utf-8"))["source"] for folder in (out, adapted)]
    assert regressions[0] == regressions[1], "what the documents say nothing of stays"
    assert next(check_cases([CASE], Default(adapted))).outcome in (Outcome.CLEAR, Outcome.FLAGGED)


def _adapted(detector: Path, tmp_path: Path) -> Path:
    """Train a detector further on "documents", as `veridical adapt` does."""
    parts = {part: examples(48 if part == "train" else 24) for part in ("train", "valid", "test")}
    options = Adapting(tokens=256 * 3, general=0.1, bf16=False)
    training = DefaultTraining(max_tokens=96, batch_tokens=256, tokens=256 * 3, rate=1e-5, bf16=False)
    out = tmp_path / "work" / "detector"
    further_trained(parts, examples(24), tmp_path / "work", out, training, options, detector)
    return out


def test_a_folder_without_the_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no 'entailment'"):
        part_of(tmp_path)


def test_the_curve_of_short_answers_meets_the_threshold_where_it_separates_best() -> None:
    sentence = COLUMNS[Level.RESPONSE].index("sentence")
    rows = LevelRows()
    for name, logits in (("answers_in_place_en", (-3.0, -1.0, 2.0, 4.0)), ("written", (9.0, 9.0, -9.0, -9.0))):
        table = np.zeros((4, 1, len(COLUMNS[Level.RESPONSE])))
        table[:, 0, sentence] = logits
        rows.add(name, list(table), (False, False, True, True))
    curve, figures = fit_short_answers(rows, 0.7)
    assert curve.slope > 0
    right, wrong = curve.apply([-1.0, 2.0])
    assert right < 0.7 <= wrong, "other sets do not count"
    assert figures == {"all": 1.0}
    assert fit_short_answers(rows.of(lambda name: not name.startswith("answers_in_place_")), 0.7) == (None, {})


def test_levels_are_fitted_on_the_chosen_sets_with_at_most_so_many_false_alarms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rows = LevelRows()
    for name, sign in (("written", -1.0), ("written_de", 1.0)):  # the logit means the opposite in the other set
        labels = np.arange(200) % 2 == 1
        table = np.zeros((200, 1, len(COLUMNS[Level.RESPONSE])))
        table[:, 0, COLUMNS[Level.RESPONSE].index("sentence")] = sign * labels + rng.normal(size=200)
        rows.add(name, list(table), labels.tolist())
    wanted = rows.of(lambda name: name == "written_de")
    for most in (0.1, 0.3):
        monkeypatch.setattr(default_levels, "FALSE_ALARMS", most)
        models, figures = fit_levels({Level.RESPONSE: rows}, fitted_on=lambda name: name == "written_de")
        model = models[Level.RESPONSE]
        scores = np.array([model.probabilities(item).max() for item in wanted.rows])
        flagged = (scores >= model.threshold)[~np.array(wanted.labels)].mean()
        assert most - 0.01 <= flagged <= most
        assert figures["response"]["written"] < 0.5 < figures["response"]["written_de"], "both sets are measured"
