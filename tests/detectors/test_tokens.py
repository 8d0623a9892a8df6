"""Token classifiers: training, the artifact, and what is made of it."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.detectors.token_examples import trained_tokens
from tests.lab.detectors.feature_examples import contradicted, examples, phrases
from tests.processes import python, without_torch
from veridical.detectors import load_detector
from veridical.detectors.tokens.artifact import BACKBONE, TokenScale
from veridical.detectors.tokens.detector import Tokens
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse
from veridical.inference.onnx_runtime import OnnxEngine, open_session
from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import PairSettings
from veridical.io.serialization import encode
from veridical.metrics.ranking import roc_auc
from veridical.models.load import load, unload
from veridical.models.torch_engine import TorchEngine
from veridical.records.errors import DataError, InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement, Level, Source
from veridical.testing import CASES
from veridical.text.lexical import FEATURES, lexical_features
from veridical.text.segment import word_forms, words
from veridical_lab.detectors.export import export
from veridical_lab.metrics.unit_labels import unit_labels
from veridical_lab.models.onnx import export_onnx
from veridical_lab.models.testing import tiny
from veridical_lab.training.token_evaluation import fit_scales, labelled_logits
from veridical_lab.training.token_options import TokenTraining
from veridical_lab.training.tokens import CHECKPOINT, TrainingStopped, _Training, train_tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_tokens(tmp_path_factory.mktemp("tokens") / "classifier", epochs=8)


def test_it_learns_which_words_are_wrong(folder: Path) -> None:
    data = examples(160)[80:]
    detector = Tokens(folder, dtype="fp32")
    scored = detector.score_units([example.case for example in data])
    tables = labelled_logits(list(zip(data, scored, strict=True)))
    assert roc_auc(tables["span"][:, 0] > 0, tables["span"][:, 1]) > 0.8
    assert roc_auc(tables["whole"][:, 0] > 0, tables["whole"][:, 1]) > 0.8
    judgement = detector.judge([data[0].case])[0]
    assert judgement.hallucination is not None
    assert {verdict.span.of(data[0].case.response) for verdict in judgement.verdicts} >= {"Marta", "Kowalska"}


def test_it_labels_what_it_flags_as_contradiction_or_absence(tmp_path: Path) -> None:
    data = contradicted(160)
    folder = trained_tokens(tmp_path / "classifier", data[:80], epochs=8, contradiction_weight=0.5)
    description = json.loads((folder / "detector.json").read_text(encoding="utf-8"))
    assert description["validation"]["sets"]["set"]["contradiction_roc_auc"] > 0.9
    detector = Tokens(folder, dtype="fp32")
    wrong = [e for e in data[80:] if e.gold.verdicts]
    right: list[bool] = []
    for example, judgement in zip(wrong, detector.judge([e.case for e in wrong]), strict=True):
        wanted = {"contradiction": "contradiction", "neutral": "absence"}[dict(example.group)["label"]]
        assert all(v.label is None for v in judgement.verdicts if v.score < detector.thresholds[Level.SPAN])
        right += [verdict.label == wanted for verdict in judgement.verdicts if verdict.label is not None]
    assert len(right) > len(wrong)
    assert sum(right) / len(right) > 0.9
    one_kind = trained_tokens(
        tmp_path / "one", [e for e in data[:80] if dict(e.group)["label"] != "neutral"], contradiction_weight=0.5
    )
    assert json.loads((one_kind / "detector.json").read_text(encoding="utf-8"))["settings"]["contradiction"] is None
    assert all(v.label is None for j in Tokens(one_kind, dtype="fp32").judge([wrong[0].case]) for v in j.verdicts)


def test_words_of_a_response_are_scored_where_they_are_whatever_is_before_them(folder: Path) -> None:
    detector = Tokens(folder, dtype="fp32")
    case = examples(4)[3].case
    plain, shifted = detector.judge([case, replace(case, response=f"\n\n  {case.response}")])
    assert [v.span.shift(4) for v in plain.verdicts] == [v.span for v in shifted.verdicts]
    assert [v.score for v in plain.verdicts] == pytest.approx([v.score for v in shifted.verdicts], abs=1e-4)


def test_a_given_span_is_one_unit(tmp_path: Path) -> None:
    data = phrases(120)
    trained = trained_tokens(tmp_path / "spans", data, lexical=False, epochs=3)
    detector = Tokens(trained, dtype="fp32")
    spans = [(example.gold.judged or ())[0] for example in data]
    scored = detector.score_units([example.case for example in data], [[span] for span in spans])
    labels = [bool(example.gold.verdicts) for example in data]
    assert roc_auc(labels, [float(each.logits[0]) for each in scored]) > 0.9


def test_online_judges_words_by_what_is_before_them(tmp_path: Path) -> None:
    trained = trained_tokens(tmp_path / "online", mode="online", lexical=False)
    detector = Tokens(trained, dtype="fp32")
    case = Case("1", "Paris opened a bridge", (Source("s", "Paris."),))
    longer = replace(case, response="Paris opened a bridge near the desert")
    a, b = detector.score_units([case, longer])
    np.testing.assert_allclose(a.logits, b.logits[:4], atol=1e-5)


@pytest.mark.parametrize("options", [{"frozen": True}, {"unit": "token", "hidden": 0}, {"pooling": "max"}])
def test_other_forms(tmp_path: Path, options: dict[str, object]) -> None:
    trained = trained_tokens(tmp_path / "other", **options)
    assert (trained / BACKBONE).exists() == ("frozen" not in options)
    (judgement,) = Tokens(trained, dtype="fp32").judge([examples(1)[0].case])
    assert judgement.verdicts


@pytest.mark.parametrize("drawn", [False, True])
def test_an_interrupted_training_goes_on_to_the_same_weights(tmp_path: Path, drawn: bool) -> None:
    base = tiny("bert", tmp_path / "base")
    options = TokenTraining(epochs=2, hidden=0, batch_tokens=512, dropout=0.1)
    data: Any = {"set": examples(60)}
    validation = None
    passes: list[int] = []
    if drawn:  # each pass has other examples

        def data(pass_i: int) -> dict[str, Any]:
            passes.append(pass_i)
            return {"set": examples(60)[20 * pass_i : 20 * pass_i + 20]}

        validation = {"set": examples(12)}
        options = replace(options, tokens=512 * 5, frozen_embeddings=True, cooldown=0.3)

    def run(out: Path, after: int | None = None) -> None:
        steps = iter(range(10**6))
        model = load(base, dtype="fp32", kinds=("encoder",))
        try:
            train_tokens(model, data, options, out=out, validation=validation, stop=lambda: next(steps) == after)
        finally:
            unload(model)

    run(tmp_path / "whole")
    with pytest.raises(TrainingStopped, match="the same command goes on"):
        run(tmp_path / "parts", after=2)
    run(tmp_path / "parts")
    whole, parts = (Tokens(tmp_path / name, dtype="fp32") for name in ("whole", "parts"))
    cases = [example.case for example in examples(8)]
    for a, b in zip(whole.score_units(cases), parts.score_units(cases), strict=True):
        np.testing.assert_allclose(a.logits, b.logits, atol=1e-5)
    model = load(base, dtype="fp32", kinds=("encoder",))
    before = model.model.get_input_embeddings().weight.clone()
    after = whole.backbone().model.get_input_embeddings().weight
    assert bool((before == after).all()) == drawn
    assert set(passes) == ({0, 1} if drawn else set())
    with pytest.raises(InputError, match="another training"):
        train_tokens(model, data, replace(options, seed=1), out=tmp_path / "parts", validation=validation)
    (tmp_path / "parts" / CHECKPOINT / "state.json").write_text("{")
    with pytest.raises(DataError, match="damaged checkpoint"):
        train_tokens(model, data, options, out=tmp_path / "parts", validation=validation)


def test_training_goes_on_from_an_earlier_classifier(folder: Path, tmp_path: Path) -> None:
    before = Tokens(folder, dtype="fp32")
    model = before.backbone()
    head = before.scorer.head
    options = TokenTraining(epochs=1, hidden=8, learning_rate=1e-9, head_learning_rate=1e-9)
    train_tokens(model, {"set": examples(60)}, options, out=tmp_path / "more", start_from=head)
    cases = [example.case for example in examples(4)]
    for a, b in zip(before.score_units(cases), Tokens(tmp_path / "more", dtype="fp32").score_units(cases), strict=True):
        np.testing.assert_allclose(a.logits, b.logits, atol=1e-3)
    with pytest.raises(InputError, match="same unit, pooling"):
        train_tokens(model, {"set": examples(60)}, replace(options, hidden=4), out=tmp_path / "no", start_from=head)
    unload(model)


def test_the_result_can_be_the_mean_of_the_weights_before_and_after(folder: Path, tmp_path: Path) -> None:
    before = Tokens(folder, dtype="fp32")
    options = TokenTraining(epochs=1, hidden=8)
    for share in (0.0, 0.25):
        model = load(folder / BACKBONE, dtype="fp32", kinds=("encoder",))
        chosen = replace(options, initial_weight=share)
        train_tokens(model, {"set": examples(60)}, chosen, out=tmp_path / str(share), start_from=before.scorer.head)
        unload(model)
    after, mean = (Tokens(tmp_path / name, dtype="fp32") for name in ("0.0", "0.25"))
    for name, tensor in mean.scorer.head.tensors.items():
        expected = 0.25 * before.scorer.head.tensors[name] + 0.75 * after.scorer.head.tensors[name]
        np.testing.assert_allclose(tensor, expected, atol=1e-6)
    weights = [dict(each.backbone().model.named_parameters()) for each in (before, after, mean)]
    for name, tensor in weights[2].items():
        assert tensor.allclose(0.25 * weights[0][name] + 0.75 * weights[1][name], atol=1e-6)
    assert not all(weights[0][name].equal(weights[1][name]) for name in weights[0])


def test_labels_of_whole_responses_alone_can_be_learned(tmp_path: Path) -> None:
    data = [replace(e, gold=Judgement(e.case.id, "human:a", e.gold.hallucination)) for e in examples(120)]
    trained = trained_tokens(tmp_path / "pairs", data, epochs=4)
    held = examples(200)[120:]
    scored = Tokens(trained, dtype="fp32").score_units([example.case for example in held])
    tables = labelled_logits(list(zip(held, scored, strict=True)))
    assert roc_auc(tables["whole"][:, 0] > 0, tables["whole"][:, 1]) > 0.8
    assert roc_auc(tables["span"][:, 0] > 0, tables["span"][:, 1]) > 0.6


def test_lexical_features_say_what_the_sources_have() -> None:
    case = Case("1", "Anna met 90 dogs in Oslo.", (Source("s", "Berg met 80 dogs near Oslo."),))
    units = [Span(0, 4), Span(5, 8), Span(9, 11), Span(12, 16), Span(17, 19), Span(20, 24)]
    table = dict(zip(FEATURES, lexical_features(case, units).T.tolist(), strict=True))
    assert table["missing"] == [1, 0, 1, 0, 0, 0]
    assert table["value_missing"] == [0, 0, 1, 0, 0, 0]
    assert table["name_missing"] == [1, 0, 0, 0, 0, 0]
    assert table["exact"] == [0, 1, 0, 1, 0, 1]
    assert not lexical_features(replace(case, sources=()), units).any()


@given(
    st.lists(
        st.lists(st.sampled_from(["the", "tower", "is", "Tall", "tall.", "300", "m,", "in"]), max_size=12), max_size=3
    ),
    st.lists(st.sampled_from(["The", "tower", "is", "tall", "300", "m", "in", "red"]), min_size=1, max_size=9),
)
def test_runs_of_words_are_those_that_a_source_has(texts: list[list[str]], response: list[str]) -> None:
    case = Case("1", " ".join(response), tuple(Source(str(i), " ".join(text)) for i, text in enumerate(texts)))
    table = dict(zip(FEATURES, lexical_features(case, words(case.response)).T.tolist(), strict=True))
    own = [word.lower() for word in word_forms(case.response)]
    sources = [[word.lower() for word in word_forms(source.text)] for source in case.sources]
    runs = {tuple(of[i : i + size]) for of in sources for size in range(1, 7) for i in range(len(of) - size + 1)}
    longest = [
        max(
            (
                size
                for size in range(1, 7)
                for first in range(max(0, at - size + 1), at + 1)
                if tuple(own[first : first + size]) in runs and first + size <= len(own)
            ),
            default=0,
        )
        for at in range(len(own))
    ]
    assert [round(6 * share) for share in table["run"]] == longest
    pairs = [tuple(own[i : i + 2]) in runs for i in range(len(own) - 1)]
    assert table["pair_before"] == [0, *pairs]
    assert table["pair_after"] == [*pairs, 0]
    assert table["exact"] == [(word,) in runs for word in own]


def test_scores_that_do_not_rise_with_the_labels_are_reported() -> None:
    data = examples(40)
    judged = []
    for example in data:
        units = words(example.case.response)
        labels, _ = unit_labels(example, units)
        judged.append((example, ScoredResponse(units, -labels, whole=float(labels.max()))))
    scales, (note,) = fit_scales(judged, "f1")
    assert note.startswith("span: scores are not calibrated")
    assert "do not go with the labels (ROC AUC 0.000)" in note
    assert scales["span"] == TokenScale()
    assert scales["response"].slope > 0
    assert scales["response_by"] == "whole"


def test_thresholds_and_spec(folder: Path) -> None:
    detector = load_detector(f"tokens:{folder},dtype=fp32")
    assert set(detector.thresholds) == {Level.RESPONSE, Level.SPAN}  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="trained classifier"):
        load_detector("tokens")
    with pytest.raises(InputError, match="of its own"):
        Tokens(folder, model="somewhere").judge([Case("1", "It is.")])


def test_a_damaged_or_foreign_artifact_is_refused(folder: Path, tmp_path: Path) -> None:
    for name, change in (
        ("weights", lambda d: (d / "weights.safetensors").write_bytes(b"x")),
        ("no weights", lambda d: (d / "weights.safetensors").unlink()),
        ("kind", lambda d: edit(d, lambda x: x.update(kind="probe"))),
        ("setting", lambda d: edit(d, lambda x: x["settings"].update(mode="sometimes"))),
        ("head", lambda d: edit(d, lambda x: x["settings"]["head"].update(hidden=3))),
    ):
        copy = tmp_path / name
        shutil.copytree(folder, copy)
        change(copy)
        with pytest.raises(DataError):
            load_detector(f"tokens:{copy}")
    copy = tmp_path / "backbone"
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / BACKBONE)
    tiny("bert", copy / BACKBONE, seed=5)
    with pytest.raises(InputError, match="differs"):
        load_detector(f"tokens:{copy}").judge([Case("1", "It is.")])


def edit(folder: Path, change: object) -> None:
    path = folder / "detector.json"
    document = json.loads(path.read_text())
    change(document)  # type: ignore[operator]
    path.write_text(json.dumps(document))


def test_data_without_labels_cannot_be_trained_on(tmp_path: Path) -> None:
    model = load(tiny("bert", tmp_path / "base"), dtype="fp32", kinds=("encoder",))
    bare = [replace(e, gold=Judgement(e.case.id, "human:a", judged=())) for e in examples(30)]
    with pytest.raises(InputError, match="nothing to train"):
        train_tokens(model, {"set": bare}, out=tmp_path / "out")
    with pytest.raises(InputError, match="one class"):
        train_tokens(model, {"set": [e for e in examples(80) if not e.gold.verdicts]}, out=tmp_path / "out2")
    assert not (tmp_path / "out" / "detector.json").exists()
    unload(model)


def test_by_sentence_each_sentence_is_judged_apart(tmp_path: Path) -> None:
    trained = trained_tokens(tmp_path / "sentences", pairs=PairSettings(by_sentence=True), lexical=False)
    detector = Tokens(trained, dtype="fp32")
    source = (Source("s", "In 1998, Marta Kowalska won the race."),)
    both, second = detector.score_units(
        [Case("1", "Paris is big. Anna Berg led a study.", source), Case("2", "Anna Berg led a study.", source)]
    )
    np.testing.assert_allclose(both.logits[3:], second.logits, atol=1e-4)
    assert [units.tolist() for units in both.units_of_parts()] == [[0, 1, 2], [3, 4, 5, 6, 7]]


def test_units_are_grouped_by_the_part_that_they_belong_to() -> None:
    scored = ScoredResponse(parts=np.zeros(4), part_of=np.array([2, -1, 0, 2, 0]))
    assert [units.tolist() for units in scored.units_of_parts()] == [[2, 4], [], [0, 3], []]


def test_scored_responses_hold_the_features_that_the_head_read(folder: Path) -> None:
    cases = [*CASES, *(example.case for example in examples(4))]
    scored = Tokens(folder, dtype="fp32").score_units(cases)
    there = [(case, one) for case, one in zip(cases, scored, strict=True) if not one.problem]
    assert len(there) > 4
    for case, one in there:
        np.testing.assert_array_equal(one.features, lexical_features(case, one.units))


@pytest.fixture(scope="module")
def exported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `folder` with an int8 export."""
    copy = Path(shutil.copytree(folder, tmp_path_factory.mktemp("exported") / "classifier"))
    assert export(Tokens(copy), "int8").cosine > 0.8
    return copy


@pytest.mark.parametrize("threads", ["1", "3"])
def test_int8_scores_do_not_depend_on_neighbours(exported: Path, monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    cases = [example.case for example in examples(12)]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = [Tokens(exported, onnx="int8").score_units([case])[0] for case in cases]
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    together = Tokens(exported, onnx="int8").score_units(cases)
    assert [each.logits.tolist() for each in together] == [each.logits.tolist() for each in alone]


@pytest.mark.parametrize(("attention", "takes_mask"), [("full", False), ("prefix", True)])
def test_an_export_has_a_mask_only_where_it_says_more_than_what_is_padding(
    exported: Path, tmp_path: Path, attention: str, takes_mask: bool
) -> None:
    tokens = Tokens(exported, dtype="fp32")
    encoder = tokens.scorer.encoder
    windows = [window for e in encoder.encode([examples(1)[0].case]) for window in e.windows]  # type: ignore[union-attr]
    original = PairRunner(TorchEngine(tokens.backbone()), attention=attention)
    export_onnx(original, windows, tmp_path, "fp32")
    session = open_session((tmp_path / "model.onnx").read_bytes())
    assert ("attention_mask" in {argument.name for argument in session.get_inputs()}) == takes_mask
    other = PairRunner(OnnxEngine(tokens.backbone(), session), attention=attention)
    for a, b in zip(original.run(windows), other.run(windows), strict=True):
        np.testing.assert_allclose(a.response, b.response, atol=1e-4)


def test_an_onnx_file_in_int8_is_of_its_weights(folder: Path, exported: Path, tmp_path: Path) -> None:
    """In fp32: `tests/lab/cli/test_train_tokens.py`."""
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))
    original = Tokens(copy, dtype="fp32")
    cases = [example.case for example in examples(12)]
    quantised = load_detector(f"tokens:{copy},onnx=int8").score_units(cases)  # type: ignore[attr-defined]
    for a, b in zip(original.score_units(cases), quantised, strict=True):
        np.testing.assert_allclose(a.logits, b.logits, atol=0.5)
    about = copy / "onnx" / "model.int8.onnx.json"
    described = about.read_text()
    for change, message in (
        ({"weights": "other"}, "another model"),
        ({"tokenizer": "0" * 64}, "not the tokenizer"),
    ):
        about.write_text(json.dumps(json.loads(described) | change))
        with pytest.raises(DataError, match=message):
            load_detector(f"tokens:{copy},onnx=int8").judge(cases)
    about.write_text('{"precision": "int8"}')
    with pytest.raises(DataError, match="sha256: Field required"):
        load_detector(f"tokens:{copy},onnx=int8").judge(cases)
    about.write_text(described)
    (copy / "onnx" / "model.int8.onnx").write_bytes(b"x")
    with pytest.raises(DataError, match="damaged"):
        load_detector(f"tokens:{copy},onnx=int8").judge(cases)
    with pytest.raises(DataError, match="veridical export"):
        load_detector(f"tokens:{folder},onnx=fp32").judge(cases)


_JUDGE = """
import sys
from pathlib import Path
from veridical.io.serialization import decode, encode
from veridical.detectors.tokens.detector import Tokens
detector = Tokens(FOLDER, onnx="int8", name="tokens")
cases = [decode(line) for line in Path(CASES).open(encoding="utf-8", newline="\\n")]
for judgement in detector.judge(cases):
    print(encode(judgement))
session = detector.stream(cases[0])
print(session.feed("The cat sat. It"), session.finish(), detector.fingerprint())
print(*(name for name in ("torch", "transformers") if sys.modules.get(name)))
"""


def test_an_onnx_file_takes_neither_torch_nor_the_weights_of_the_backbone(exported: Path, tmp_path: Path) -> None:
    """The same judgements to the last bit, with torch and without it, whoever tokenises."""
    bare = Path(shutil.copytree(exported, tmp_path / "bare"))
    kept = ("config.json", "tokenizer.json", "tokenizer_config.json")
    for file in (bare / BACKBONE).iterdir():
        if file.name not in kept:
            file.unlink()
    cases = [case for case in CASES if case.id != "long source"] + [example.case for example in examples(8)]
    (tmp_path / "cases.jsonl").write_text("".join(f"{encode(case)}\n" for case in cases), "utf-8")
    code = _JUDGE.replace("FOLDER", repr(str(bare))).replace("CASES", repr(str(tmp_path / "cases.jsonl")))
    alone = without_torch(code)
    assert python("-c", code, text=True).stdout == alone  # where torch can be imported, it is not
    here = [encode(j) for j in Tokens(exported, onnx="int8", name="tokens").judge(cases)]
    assert alone.splitlines()[: len(cases)] == here
    assert "verdicts" in here[0]
    about = bare / "onnx" / "model.int8.onnx.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"tokenizer": None}))
    by_transformers = Tokens(bare, onnx="int8", name="tokens")
    assert [encode(judgement) for judgement in by_transformers.judge(cases)] == here
    assert type(by_transformers.scorer.encoder.model.tokenizer).__module__.startswith("transformers")
    with pytest.raises(InputError, match="no weights for torch, only an ONNX file") as raised:
        Tokens(bare).judge(cases)
    assert "onnx=int8" in str(raised.value)
    (bare / BACKBONE / "tokenizer.json").unlink()
    about.write_text((exported / "onnx" / "model.int8.onnx.json").read_text())
    with pytest.raises(DataError, match=r"no tokenizer \(tokenizer.json\)"):
        Tokens(bare, onnx="int8").judge(cases)


@pytest.mark.parametrize(("architecture", "mode"), [("llama", "online"), ("bert", "online"), ("bert", "offline")])
def test_a_stream_gives_the_verdicts_of_the_whole(tmp_path: Path, architecture: str, mode: str) -> None:
    trained = trained_tokens(tmp_path / "stream", architecture=architecture, mode=mode, lexical=False)
    detector = Tokens(trained, dtype="fp32")
    case = examples(8)[5].case
    text = f"{case.response} It was reported that Anna Berg slept."
    session = detector.stream(case)
    streamed, before_end = [], 0
    for start in range(0, len(text), 3):
        new = session.feed(text[start : start + 3])
        assert all(v.span.end <= start + 3 for v in new)
        streamed += new
    before_end = len(streamed)
    streamed += session.finish()
    assert before_end > 3
    (whole,) = detector.judge([replace(case, response=text)])
    assert [v.span for v in streamed] == [v.span for v in whole.verdicts]
    if mode == "online":
        assert [v.score for v in streamed] == pytest.approx([v.score for v in whole.verdicts], abs=1e-4)
    if architecture == "llama":  # every token is read once, or twice where a word went on
        size = len(detector.backbone().tokenizer(f"{case.sources[0].text} {text}")["input_ids"])
        assert session.read < 1.3 * size
    with pytest.raises(InputError, match="fed with text"):
        session.feed([1, 2])
    unload()


def test_a_plain_checkpoint_gives_its_own_probabilities(tmp_path: Path) -> None:
    import torch
    import transformers

    base = tiny("bert", tmp_path / "base")
    torch.manual_seed(1)
    model = transformers.AutoModelForTokenClassification.from_pretrained(base, num_labels=2)
    model.train(False).save_pretrained(tmp_path / "checkpoint")
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.save_pretrained(tmp_path / "checkpoint")
    case = examples(2)[1].case
    ids = tokenizer(case.sources[0].text, case.response, return_tensors="pt")
    with torch.no_grad():
        logits = model(input_ids=ids["input_ids"], attention_mask=ids["attention_mask"]).logits[0]
    count = len(tokenizer(case.response, add_special_tokens=False)["input_ids"])
    expected = logits.softmax(-1)[-1 - count : -1, 1].tolist()
    detector = load_detector(f"tokens:{tmp_path / 'checkpoint'},dtype=fp32")
    (judgement,) = detector.judge([case])
    assert [verdict.score for verdict in judgement.verdicts] == pytest.approx(expected, abs=1e-5)
    assert judgement.hallucination == pytest.approx(max(expected), abs=1e-5)
    with pytest.raises(DataError, match="no token classifier"):
        load_detector(f"tokens:{base}")
    export(Tokens(tmp_path / "checkpoint"), "fp32")
    said = without_torch(f"""
from veridical.records.types import Case, Source
from veridical.detectors.tokens.detector import Tokens
case = Case("1", {case.response!r}, (Source("a", {case.sources[0].text!r}),))
print(*(verdict.score for verdict in Tokens({str(tmp_path / "checkpoint")!r}, onnx="fp32").judge([case])[0].verdicts))
""")
    assert [float(score) for score in said.split()] == pytest.approx(expected, abs=1e-5)
    three = transformers.AutoModelForTokenClassification.from_pretrained(base, num_labels=3)
    three.save_pretrained(tmp_path / "three")
    tokenizer.save_pretrained(tmp_path / "three")
    with pytest.raises(DataError, match="3 labels"):
        load_detector(f"tokens:{tmp_path / 'three'}")


@pytest.mark.parametrize(
    ("architecture", "dtype", "why"), [("modernbert", "float32", "the layers"), ("bert", "bfloat16", "bf16")]
)
def test_a_plain_checkpoint_that_takes_torch_says_so(tmp_path: Path, architecture: str, dtype: str, why: str) -> None:
    """ModernBERT's layers before the classifier, and numbers that numpy has not."""
    import torch
    import transformers

    folder = tiny(architecture, tmp_path / "checkpoint", head="TokenClassification")
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder, dtype=getattr(torch, dtype))
    model.save_pretrained(folder)
    assert Tokens(folder).settings.head.unit == "token"
    said = without_torch(f"""
from veridical.records.errors import MissingExtraError
from veridical.detectors import load_detector
try:
    load_detector("tokens:{folder},onnx=int8")
except MissingExtraError as error:
    print(error)
""")
    assert said.count("\n") == 1
    assert why in said
    assert "pip install 'veridical[models]'" in said


def test_what_is_written_about_the_best_weights_is_what_they_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch").set_num_threads(1)
    judged, results = _Training.judged, []
    monkeypatch.setattr(_Training, "judged", lambda self: results.append(judged(self)) or results[-1])
    figures = iter([2.0, 1.0])  # the first evaluation is the best
    measure = _Training.figures
    monkeypatch.setattr(_Training, "figures", lambda self: ({**measure(self)[0], "figure": next(figures)}, ""))
    model = load(tiny("bert", tmp_path / "base"), dtype="fp32", kinds=("encoder",))
    options = TokenTraining(learning_rate=1e-3, tokens=256 * 4, batch_tokens=256, evaluate_tokens=256 * 2)
    training = _Training(
        model, {"set": examples(40)}, options, tmp_path / "out", None, {"set": examples(12)}, lambda step: None, print
    )
    training.run()
    training.finish()
    assert len(results) == 2, "the validation examples are not scored again"
    again = [scored.whole for _, scored in judged(training)["set"]]
    assert again == pytest.approx([scored.whole for _, scored in training._of_best["set"]], abs=1e-5)
    assert again != pytest.approx([scored.whole for _, scored in results[1]["set"]], abs=1e-5)


def test_every_validation_sees_the_weights_of_its_step(tmp_path: Path) -> None:
    pytest.importorskip("torch").set_num_threads(1)
    model = load(tiny("bert", tmp_path / "base"), dtype="fp32", kinds=("encoder",))
    options = TokenTraining(learning_rate=1e-3, tokens=256 * 4, batch_tokens=256, evaluate_tokens=256 * 2)
    valid = examples(12)
    training = _Training(
        model, {"set": examples(40)}, options, tmp_path, None, {"set": valid}, lambda step: None, lambda line: None
    )
    for step in range(3):
        training.take_step(step)
        found = [scored.whole for _, scored in training.judged()["set"]]
        copy = PairRunner(TorchEngine(deepcopy(model)))
        scored = PairScorer(copy, training.evaluating, training.network.numpy_head()).score([e.case for e in valid])
        assert found == pytest.approx([each.whole for each in scored], abs=1e-5)
