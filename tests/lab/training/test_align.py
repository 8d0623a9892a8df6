from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from veridical.core.detector import fingerprint_of, info_of, thresholds_of
from veridical.core.errors import DataError, InputError, UnknownNameError
from veridical.core.serialization import encode
from veridical.core.spans import Span
from veridical.core.types import Case, Example, Judgement, Level, Omission, Source, Verdict, check_judgement
from veridical.detectors import load_detector
from veridical.testing import CASES

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sklearn")

from veridical.cli import main  # noqa: E402
from veridical.models.artifact import Artifact, load_artifact, save_artifact  # noqa: E402
from veridical.models.load import LocalModel, load, unload  # noqa: E402
from veridical_lab.detectors.align.detector import Align  # noqa: E402
from veridical_lab.detectors.align.scoring import AlignSettings  # noqa: E402
from veridical_lab.detectors.align.words import feature_names  # noqa: E402
from veridical_lab.models.testing import tiny  # noqa: E402
from veridical_lab.training.align import AlignTrainingOptions, train_align, training_layers  # noqa: E402

FEW = [case for case in CASES if case.id != "long source"]
_TEXT = "river mud summer study capital house lake race answer knowledge source text word cat dog mat"
WORDS = _TEXT.split(" ")


def example(i: int, *, spans: bool = True, coverage: bool = False) -> Example:
    """A response of five words of its source; in every other one, two more that no source has."""
    random = np.random.default_rng(i)
    chosen = [str(word) for word in random.permutation(WORDS)[:9]]
    text, kept, wrong = " ".join(chosen), chosen[:5], [w for w in WORDS if w not in chosen][:2] if i % 2 else []
    response = " ".join([*kept, *wrong])
    source = Source("a", text, must_cover=coverage)
    case = Case(str(i), response, (source,))
    start = len(" ".join(kept)) + 1
    verdicts = (Verdict(Span(start, len(response)), 1.0),) if wrong and spans else ()
    gold = Judgement(str(i), "human:me", float(bool(wrong)), verdicts=verdicts)
    if coverage:
        left_out = Omission("a", Span(len(" ".join(kept)) + 1, len(text)), 1.0)
        gold = Judgement(str(i), "human:me", omission=1.0, omissions=(left_out,), judged=())
    return Example(case, gold, document=str(i // 2))


EXAMPLES = [example(i) for i in range(240)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tiny("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LocalModel:
    return load(folder, dtype="fp32", device="cpu", kinds=("encoder",))


@pytest.fixture(scope="module")
def trained(model: LocalModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "align"
    train_align(model, EXAMPLES, out=out)
    return out


def test_heads_learn_what_the_labels_say(trained: Path) -> None:
    detector = load_detector(f"align:{trained}")
    case = Case("x", "river mud dog", (Source("a", "river mud summer study"),))
    (judgement,) = detector.judge([case])
    check_judgement(case, judgement)
    scores = [v.score for v in judgement.verdicts]
    assert max(scores[:2]) < 0.5 < scores[2]
    assert judgement.hallucination is not None
    (clean,) = detector.judge([replace(case, response="river mud")])
    assert clean.hallucination is not None
    assert clean.hallucination < judgement.hallucination
    assert set(thresholds_of(detector)) == {Level.RESPONSE, Level.SPAN}
    assert info_of(detector).levels == tuple(Level)
    assert all(0 < value <= 1 for value in thresholds_of(detector).values())
    assert {e.source_id for v in judgement.verdicts for e in v.evidence} == {"a"}


def test_a_trained_detector_keeps_the_contract(trained: Path) -> None:
    detector = load_detector(f"align:{trained}")
    for case, judgement in zip(FEW, detector.judge(FEW), strict=True):
        check_judgement(case, judgement)
        assert judgement.case_id == case.id
        assert judgement.by == detector.name
        if judgement.hallucination is None:
            assert judgement.judged == ()
            assert judgement.notes


def test_the_artifact_says_how_it_was_made(trained: Path, model: LocalModel) -> None:
    artifact = load_artifact(trained, "align")
    assert artifact.settings["layers"] == list(training_layers(model)) == [1, 2]
    assert artifact.settings["features"] == feature_names([1, 2])
    assert artifact.settings["heads"] == ["span", "response"]
    assert artifact.training["examples"]["train"] > artifact.training["examples"]["valid"] > 0
    assert artifact.validation["span"]["before"]["roc_auc"]["value"] > 0.9
    assert {path.name for path in trained.iterdir()} == {"detector.json", "weights.safetensors"}


def test_training_is_deterministic_and_leaves_the_test_part_alone(model: LocalModel, trained: Path) -> None:
    from veridical.datasets.split import split_by_document

    test = {e.case.id for e in split_by_document(EXAMPLES)["test"]}
    spoiled = [replace(e, gold=Judgement(e.case.id, "x", 1.0)) if e.case.id in test else e for e in EXAMPLES]
    again = train_align(model, spoiled)
    first = load_artifact(trained, "align")
    assert again.settings == first.settings
    for name, tensor in first.tensors.items():
        np.testing.assert_array_equal(again.tensors[name], tensor)


def test_coverage_has_heads_of_its_own(model: LocalModel, tmp_path: Path) -> None:
    train_align(model, [example(i, coverage=True) for i in range(240)], out=tmp_path / "c")
    artifact = load_artifact(tmp_path / "c", "align")
    assert artifact.settings["heads"] == ["source"]  # of coverage there is one class only
    case = Case("x", "river mud", (Source("a", "river mud summer study", must_cover=True),))
    detector = load_detector(f"align:{tmp_path / 'c'}")
    (judgement,) = detector.judge([case])
    scores = [o.score for o in judgement.omissions]
    assert max(scores[:2]) < thresholds_of(detector)[Level.SOURCE] <= min(scores[2:])
    assert len(judgement.verdicts) == 2  # by the untrained mapping


def test_validation_data_of_ones_own(model: LocalModel) -> None:
    artifact = train_align(model, EXAMPLES[:160], validation=EXAMPLES[160:])
    assert artifact.training["examples"] == {"train": 160, "valid": 80}


def test_only_responses_are_labelled(model: LocalModel) -> None:
    examples = [example(i, spans=False) for i in range(240)]
    artifact = train_align(model, examples, AlignTrainingOptions(layers=(2,)))
    assert artifact.settings["heads"] == ["response"]


def test_nothing_to_learn_is_said(model: LocalModel) -> None:
    with pytest.raises(InputError, match="nothing can be learned"):
        train_align(model, [e for e in EXAMPLES if e.gold.hallucination == 0.0])
    with pytest.raises(UnknownNameError, match="criterion"):
        train_align(model, EXAMPLES, AlignTrainingOptions(criterion="best"))
    with pytest.raises(InputError, match="has no layer 5"):
        train_align(model, EXAMPLES, AlignTrainingOptions(layers=(5,)))


def test_the_command_trains_and_bench_measures(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "cases.jsonl"
    data.write_text("".join(encode(e) + "\n" for e in EXAMPLES), "utf-8")
    out = tmp_path / "aligned"
    arguments = ["--model", str(folder), "--out", str(out), "--dtype", "fp32", "--layers", "1,2"]
    assert main(["train", "align", f"jsonl:{data}", *arguments]) == 0
    assert f"use it as align:{out}" in capsys.readouterr().err
    assert main(["bench", f"align:{out}", "--data", f"jsonl:{data}", "--fit", "none", "--metrics", "word_roc_auc"]) == 0
    assert main(["train", "align", f"jsonl:{data}", "--model", str(tmp_path), "--out", str(out)]) == 2
    assert "config.json" in capsys.readouterr().err


def test_what_training_has_fixed_cannot_be_changed(trained: Path) -> None:
    for option in ("layer=1", "idf=yes", "window=32", "values=no"):
        with pytest.raises(InputError, match="is fixed by the training"):
            load_detector(f"align:{trained},{option}")


def test_another_encoder_is_refused(trained: Path, folder: Path, tmp_path: Path) -> None:
    case = EXAMPLES[0].case
    other = tiny("bert", tmp_path / "other", seed=3)
    with pytest.raises(InputError, match="does not fit"):
        load_detector(f"align:{trained},model={other}").judge([case])
    assert load_detector(f"align:{trained},model={folder}").judge([case])
    moved = shutil.copytree(folder, tmp_path / "moved")
    artifact = load_artifact(trained, "align")
    save_artifact(replace(artifact, base=replace(artifact.base, name=str(tmp_path / "gone"))), tmp_path / "a")
    with pytest.raises(InputError, match=r"not in .*gone' any more"):
        load_detector(f"align:{tmp_path / 'a'}").judge([case])
    unload()
    assert load_detector(f"align:{tmp_path / 'a'},model={moved}").judge([case])


def damaged(artifact: Artifact, folder: Path, tensors: dict[str, np.ndarray] | None = None, **settings: object) -> Path:
    return save_artifact(
        replace(artifact, settings=artifact.settings | settings, tensors=artifact.tensors | (tensors or {})), folder
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": []}, "settings.layers is"),
        ({"layers": ["1"]}, r"settings\.layers\.0"),
        ({"features": ["top"]}, "settings.features is"),
        ({"heads": ["word"]}, "settings.heads is"),
        ({"baseline": 2.0}, "settings.baseline is"),
        ({"window": 0}, "settings.window is"),
        ({"scales": {"span": {"threshold": 2.0, "calibration": None}}}, "settings.scales"),
        ({"scales": {"span": {"threshold": 0.5}}}, "settings.scales"),
        ({"scales": {"word": {"threshold": 0.5, "calibration": None}}}, "settings.scales"),
    ],
)
def test_damaged_settings_are_refused(trained: Path, tmp_path: Path, settings: dict[str, object], message: str) -> None:
    folder = damaged(load_artifact(trained, "align"), tmp_path / "bad", **settings)
    with pytest.raises(DataError, match=message) as error:
        load_detector(f"align:{folder}").judge([EXAMPLES[0].case])
    assert str(folder) in str(error.value)


def test_damaged_weights_are_refused(trained: Path, tmp_path: Path) -> None:
    artifact = load_artifact(trained, "align")
    weight = artifact.tensors["span.weight"]
    for i, (tensor, message) in enumerate(((weight[:-1], "wrong shape"), (weight * np.nan, "not finite"))):
        folder = damaged(artifact, tmp_path / str(i), {"span.weight": tensor})
        with pytest.raises(DataError, match=message):
            load_detector(f"align:{folder}").judge([EXAMPLES[0].case])
    (trained_copy := tmp_path / "copy").mkdir()
    for path in trained.iterdir():
        (trained_copy / path.name).write_bytes(path.read_bytes())
    (trained_copy / "weights.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(DataError, match="not the weights"):
        load_detector(f"align:{trained_copy}").judge([EXAMPLES[0].case])
    document = json.loads((trained_copy / "detector.json").read_text("utf-8"))
    (trained_copy / "detector.json").write_text(json.dumps({**document, "kind": "probe"}), "utf-8")
    with pytest.raises(DataError, match="of the kind 'probe'"):
        load_detector(f"align:{trained_copy}").judge([EXAMPLES[0].case])


def test_settings_survive_json(trained: Path) -> None:
    settings = load_artifact(trained, "align").settings
    assert AlignSettings.from_json(settings, trained).to_json() == settings


def test_batches_and_fingerprint(trained: Path) -> None:
    detector = Align(trained)
    cases = [e.case for e in EXAMPLES[:6]]
    together, alone = detector.judge(cases), [detector.judge([case])[0] for case in cases]
    for one, other in zip(together, alone, strict=True):
        assert [v.score for v in one.verdicts] == pytest.approx([v.score for v in other.verdicts], abs=1e-5)
    assert json.dumps(fingerprint_of(detector))
    assert fingerprint_of(detector) == fingerprint_of(Align(trained))
