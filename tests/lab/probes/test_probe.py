import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.lab.files import saved
from tests.lab.probes.samples import example, examples
from veridical.datasets.split import split_by_document
from veridical.detectors import load_detector
from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import joined_tokens
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical.text.segment import words
from veridical_lab.cli.train import train_app
from veridical_lab.datasets.consensus import majority
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.metrics.registry import METRICS
from veridical_lab.probes import fitting as fitting_module
from veridical_lab.probes import training as module
from veridical_lab.probes.activations import ActivationStates
from veridical_lab.probes.evaluation import f1_sp_in_model_tokens, fit_threshold
from veridical_lab.probes.fitting import FittedProbes
from veridical_lab.probes.labelled_sequences import ProbeLabels, encode_examples, labels_of, with_token_consensus
from veridical_lab.probes.options import ProbeOptions, TrainingConfig
from veridical_lab.probes.training import train_probe

FAST = ProbeOptions("linear", learning_rates=(0.1, 0.03), batch_sizes=(16,), max_epochs=25)


def marked(text: str, *spans: Span, **fields: object) -> Example:
    gold = Judgement("1", "human", verdicts=tuple(Verdict(s, 1.0) for s in spans), **fields)  # type: ignore[arg-type]
    return Example(Case("1", text), gold)


def labels(model: LocalModel, example: Example) -> tuple[list[str], np.ndarray, np.ndarray, tuple[float, float]]:
    encoded = encode_examples(model, [example])
    made = labels_of(encoded)
    text = [span.of(example.case.response) if span else "" for span in encoded.encoded[0].spans]
    return text, made.tokens[0], made.token_weights[0], (made.responses[0], made.response_weights[0])


def test_a_token_is_labelled_by_overlap(model: LocalModel) -> None:
    text, label, weight, response = labels(model, marked("The cat sat on the lake.", Span(4, 7), Span(19, 23)))
    assert "".join(t for t, marked_ in zip(text, label, strict=True) if marked_).replace(" ", "") == "catlake"
    assert weight.all()
    assert response == (1.0, 1.0)


def test_the_white_space_before_a_word_does_not_label_it(model: LocalModel) -> None:
    text, label, _, _ = labels(model, marked("The cat sat", Span(0, 4)))  # "The "
    assert "".join(t for t, marked_ in zip(text, label, strict=True) if marked_) == "The"


def test_what_nobody_judged_has_no_weight(model: LocalModel) -> None:
    text, label, weight, response = labels(model, marked("The cat sat on", Span(4, 7), judged=(Span(0, 7),)))
    assert "".join(t for t, w in zip(text, weight, strict=True) if w) == "The cat"
    assert response == (1.0, 1.0)
    assert not label[weight == 0].any()


def test_a_gold_that_does_not_say_where(model: LocalModel) -> None:
    _, label, weight, response = labels(model, marked("The cat", hallucination=1.0))
    assert not weight.any()
    assert response == (1.0, 1.0)
    _, label, weight, response = labels(model, marked("The cat", hallucination=0.0))
    assert weight.all()
    assert not label.any()
    assert response == (0.0, 1.0)
    assert labels(model, marked("The cat", hallucination=None, omission=0.5))[3] == (0.0, 0.0)


def annotated(text: str, *marks: tuple[Span, ...]) -> Example:
    people = tuple(
        Judgement("1", f"human:{i}", verdicts=tuple(Verdict(span, 1.0) for span in spans))
        for i, spans in enumerate(marks)
    )
    case = Case("1", text)
    return Example(case, majority(people, case), annotations=people)


def test_annotators_agree_on_a_token_though_on_no_character(model: LocalModel) -> None:
    text = "The cat sat on the lake."
    lake = Span(19, 23)
    halves = annotated(text, (Span(19, 21),), (Span(21, 23),), ())
    assert not halves.gold.verdicts
    [encoded] = encode_examples(model, [halves]).encoded
    whole_token = [s for s in encoded.spans if s and s.start < 21 < s.end]
    agreed = with_token_consensus(halves, encoded)
    assert [v.span.of(text) for v in agreed.gold.verdicts] == [s.of(text).strip() for s in whole_token]
    assert agreed.gold.hallucination == float(bool(whole_token))
    assert whole_token, "the tiny tokenizer has a token across the middle of lake"
    alone = annotated(text, (lake,), (), ())
    assert not with_token_consensus(alone, encoded).gold.verdicts
    without = example(0)
    assert with_token_consensus(without, encode_examples(model, [without]).encoded[0]) is without


def test_training_on_the_consensus_of_tokens(model: LocalModel) -> None:
    """Two of three annotators mark another half of every wrong word: by character there is no gold at all."""
    data = []
    for base in examples(80):
        first = tuple(Verdict(Span(v.span.start, v.span.start + 1), 1.0) for v in base.gold.verdicts)
        second = tuple(Verdict(Span(v.span.start + 1, v.span.end), 1.0) for v in base.gold.verdicts)
        people = tuple(Judgement(base.case.id, f"human:{i}", verdicts=v) for i, v in enumerate((first, second, ())))
        data.append(replace(base, gold=majority(people, base.case), annotations=people))
    config = TrainingConfig(replace(FAST, max_epochs=3), objectives=("token",), template="tldr")
    with pytest.raises(InputError, match="only clean ones by token"):
        train_probe(model, data, config)
    trained = train_probe(model, data, replace(config, token_consensus=True))
    assert trained.artifact.training["token_consensus"]


def test_windows_share_their_weight(model: LocalModel) -> None:
    long = Source("a", " ".join(f"Day {i}: the dogs slept." for i in range(60)))
    sample = replace(example(0), case=replace(example(0).case, sources=(long,)))
    encoded = encode_examples(model, [sample, example(1)], "tldr", max_windows=None)
    count = int((encoded.example_of == 0).sum())
    assert count > 2
    made = labels_of(encoded)
    assert [w.max() for w in made.token_weights] == pytest.approx([1 / count] * count + [1.0])
    assert made.response_weights == pytest.approx([1 / count] * count + [1.0])
    assert encoded.sequences_of([1]).tolist() == [count]


def test_what_cannot_be_read_is_left_out_and_told(model: LocalModel) -> None:
    encoded = encode_examples(model, [example(0, text="cat " * 400), example(1), example(2, text="")])
    assert encoded.example_of.tolist() == [1]
    assert len(encoded.skipped) == 2
    assert "the model reads 256 at once" in encoded.skipped[0]
    with pytest.raises(InputError, match="none of 1 examples can be read"):
        encode_examples(model, [example(0, text="")])


@pytest.mark.parametrize("kind", ["linear", "pooling", "mlp"])
@pytest.mark.parametrize("select", ["ensemble", "best"])
def test_it_learns_what_is_there_to_learn(model: LocalModel, tmp_path: Path, kind: str, select: str) -> None:
    plan = TrainingConfig(replace(FAST, kind=kind), select=select, template="tldr", calibrate=kind == "linear")
    trained = train_probe(model, examples(), plan, out=tmp_path)
    heads = trained.artifact.settings["heads"]
    assert [len(heads[o]["sublayers"]) for o in ("token", "response")] == ([1, 1] if select == "best" else [4, 4])
    assert (heads["token"]["calibration"] is not None) == (kind == "linear")
    if kind != "pooling":  # the mean over all before cannot point at a single word
        assert trained.artifact.validation["token"]["word_roc_auc"] > 0.95
    detector = Probe(tmp_path)
    judged = detector.judge([e.case for e in examples()])
    rows = [METRICS["roc_auc"].rows(e, j) for e, j in zip(examples(), judged, strict=True)]
    assert METRICS["roc_auc"].value(np.concatenate(rows)) > 0.8  # type: ignore[arg-type]


def test_the_validation_figures_are_the_detector_s(model: LocalModel, tmp_path: Path) -> None:
    """Trained, saved, loaded and run again: the same threshold gives the same F1."""
    for objectives in (("token",), ("response",)):
        plan = TrainingConfig(FAST, objectives=objectives, template="tldr")
        about = train_probe(model, examples(), plan, out=tmp_path).artifact.validation[objectives[0]]
        detector = load_detector(f"probe:{tmp_path!s}")
        assert detector.info.levels == (("response", "span") if objectives == ("token",) else ("response",))
        assert set(detector.thresholds.values()) == {about["threshold"]}
        valid = split_by_document(examples())["valid"]
        judged = detector.judge([e.case for e in valid])
        threshold = about["threshold"] - 1e-5  # it is the score of a token, which other batches may round otherwise
        for name in ("f1", "roc_auc", *(("f1_sp",) if objectives == ("token",) else ())):
            rows = [METRICS[name].rows(e, j, threshold) for e, j in zip(valid, judged, strict=True)]
            value = METRICS[name].value(np.concatenate([r for r in rows if r is not None]))
            assert value == pytest.approx(about[name], abs=1e-9), name


def test_the_ensemble_is_fitted_on_the_training_part(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the validation part to stop by, and on probabilities of probes that are frozen by then."""
    parts: list[tuple[int, int, int]] = []
    whole = module.fit

    def keep(
        states: ActivationStates, labels: ProbeLabels, train: np.ndarray, valid: np.ndarray, *rest: Any, **named: Any
    ) -> FittedProbes:
        parts.append((states.width, len(train), len(valid)))
        return whole(states, labels, train, valid, *rest, **named)

    for place in (module, fitting_module):
        monkeypatch.setattr(place, "fit", keep)
    made = train_probe(model, examples(), TrainingConfig(FAST, objectives=("token",), template="tldr"))
    split = made.artifact.training["examples"]
    assert parts == [(32, split["train"], split["valid"]), (4, split["train"], split["valid"])]
    assert split["train"] > 2 * split["valid"]
    for name in ("projection", "offset"):
        np.testing.assert_array_equal(
            made.artifact.tensors[f"token.{name}"], made.fitted["token"].probes.tensors()[name]
        )


def test_a_threshold_counts_all_tokens_not_content_words_alone() -> None:
    """False alarms on "the" cost nothing by content word, where 0.5 would be best."""
    judged = []
    for text, the, word, wrong in (
        ("the cat", 0.6, 0.5, True),
        ("a dog", 0.1, 0.9, True),
        ("the fish", 0.58, 0.1, False),
        ("the owl", 0.55, 0.1, False),
    ):
        spans = words(text)
        gold = tuple(Verdict(spans[1], 1.0) for _ in range(wrong))
        verdicts = (Verdict(spans[0], the), Verdict(spans[1], word))
        example_ = Example(Case(text, text), Judgement(text, "human", verdicts=gold))
        judged.append((example_, Judgement(text, "me", verdicts=verdicts)))
    assert fit_threshold(judged, "token") == pytest.approx(0.75)  # between 0.9 and 0.6
    assert fit_threshold(judged, "span") == pytest.approx(0.75)


@pytest.mark.parametrize("metric", ["token_f1", "f1_sp"])
def test_the_threshold_of_tokens_is_the_best_for_its_metric(model: LocalModel, tmp_path: Path, metric: str) -> None:
    config = TrainingConfig(
        replace(FAST, max_epochs=2), objectives=("token",), template="tldr", threshold_metric=metric
    )
    about = train_probe(model, examples(), config, out=tmp_path).artifact.validation["token"]
    valid = split_by_document(examples())["valid"]
    judged = Probe(tmp_path).judge([e.case for e in valid])

    def value(threshold: float) -> float:
        rows = [METRICS[metric].rows(e, j, threshold) for e, j in zip(valid, judged, strict=True)]
        return METRICS[metric].value(np.concatenate([r for r in rows if r is not None]))

    scores = {v.score for j in judged for v in j.verdicts}
    assert value(about["threshold"]) == pytest.approx(max(value(score) for score in scores), abs=1e-9)


def test_f1_sp_in_the_tokens_of_the_model(model: LocalModel) -> None:
    text = "The cat sat on the lake."
    sample = marked(text, Span(19, 23))
    encoded = encode_examples(model, [sample])
    tokens = [t for t in joined_tokens(encoded.encoded[0].spans) if t.overlaps(Span(19, 23))]
    assert len(tokens) == 3, "l, ak, e"
    first = Judgement("1", "me", verdicts=(Verdict(Span(19, 20), 1.0),))
    rows = f1_sp_in_model_tokens(encoded).rows(sample, first, 0.5)
    assert rows.tolist() == [[0.0, pytest.approx(1 / 3)], [1.0, 1.0]]
    by_white_space = METRICS["f1_sp"].rows(sample, first, 0.5)
    assert by_white_space.tolist() == [[0.0, 1.0], [1.0, 1.0]]


def test_thresholds_see_a_token_supported_by_any_window(model: LocalModel, tmp_path: Path) -> None:
    long = Source("a", " ".join(f"Day {i}: the dogs slept." for i in range(24)))
    data = [replace(e, case=replace(e.case, sources=(long,))) for e in examples(40)]
    plan = TrainingConfig(replace(FAST, max_epochs=4), template="tldr", max_windows=2)
    about = train_probe(model, data, plan, out=tmp_path).artifact.validation
    valid = split_by_document(data)["valid"]
    judged = Probe(tmp_path).judge([e.case for e in valid])
    assert "windows" in judged[0].notes[0]
    for objective, name in (("token", "word_roc_auc"), ("response", "roc_auc")):
        rows = [METRICS[name].rows(e, j) for e, j in zip(valid, judged, strict=True)]
        value = METRICS[name].value(np.concatenate([r for r in rows if r is not None]))
        assert value == pytest.approx(about[objective][name], abs=1e-9)


def test_memory_store_and_stream_train_the_same(model: LocalModel, tmp_path: Path) -> None:
    plan = TrainingConfig(FAST, objectives=("token",), template="tldr")
    held = train_probe(model, examples(), plan)
    stored = train_probe(model, examples(), replace(plan, store=tmp_path / "s"))
    again = train_probe(model, examples(), replace(plan, store=tmp_path / "s"))
    streamed = train_probe(model, examples(), replace(plan, stream=True, options=replace(FAST, max_epochs=3)))
    for name, array in held.artifact.tensors.items():
        np.testing.assert_allclose(array, stored.artifact.tensors[name], atol=1e-4)
        np.testing.assert_array_equal(stored.artifact.tensors[name], again.artifact.tensors[name])
    short = train_probe(model, examples(), replace(plan, options=replace(FAST, max_epochs=3)))
    for name, array in short.artifact.tensors.items():
        np.testing.assert_allclose(array, streamed.artifact.tensors[name], atol=1e-3)


def test_the_artifact_says_where_it_comes_from(model: LocalModel, folder: Path, tmp_path: Path) -> None:
    train_probe(model, examples(), TrainingConfig(FAST, template="tldr", sublayers=(1, 2)), out=tmp_path)
    document = json.loads((tmp_path / "detector.json").read_text())
    assert document["base"]["name"] == str(folder.resolve())
    assert document["settings"]["heads"]["token"]["sublayers"] == [1, 2]
    assert [row["sublayer"] for row in document["validation"]["token"]["sublayers"]] == [1, 2]
    training = document["training"]
    assert sum(training["documents"].values()) == 60
    assert len(training["data"]) == 64
    assert training["seed"] == 0
    assert {"veridical", "torch", "transformers"} <= set(training["versions"])


def test_too_few_documents_too_much_memory(model: LocalModel) -> None:
    few = [example(i, document=i % 2) for i in range(30)]
    with pytest.raises(InputError, match="2 documents in the data are too few"):
        train_probe(model, few, TrainingConfig(FAST))
    with pytest.raises(InputError, match=r"more than the 1\.0 kB allowed.*--store"):
        train_probe(model, examples(), TrainingConfig(FAST, memory=1000))
    with pytest.raises(UnknownNameError, match="selection"):
        TrainingConfig(select="worst")
    with pytest.raises(UnknownNameError, match="metric for a threshold"):
        TrainingConfig(threshold_metric="f1")
    with pytest.raises(UnknownNameError, match="objective"):
        TrainingConfig(objectives=("word",))


def test_the_command(folder: Path, tmp_path: Path) -> None:
    data = saved(tmp_path / "data.jsonl", examples())
    arguments = ["probe", data, "--model", str(folder), "--out", str(tmp_path / "out"), "--kind", "linear"]
    arguments += ["--learning-rate", "0.1", "--batch-size", "16", "--epochs", "5", "--template", "tldr"]
    result = CliRunner().invoke(train_app, [*arguments, "--dtype", "fp32", "--objective", "token"])
    assert result.exit_code == 0, result.output
    assert "activations:" in result.stderr
    assert f"use it as probe:{tmp_path / 'out'}" in result.stderr
    assert Probe(tmp_path / "out").judge([example(0).case])[0].hallucination is not None
    wrong = CliRunner().invoke(train_app, [*arguments, "--sublayers", "one"])
    assert isinstance(wrong.exception, InputError)
