"""Classifiers of hallucination and coverage: what is tuned, that it learns, and that a folder gives the same again."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.lab.detectors.classifier_examples import examples
from tests.lab.detectors.classifier_examples import trained_classifier as trained
from veridical.detectors import load_detector
from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical.records.errors import DataError, InputError, MissingExtraError
from veridical.records.spans import Span
from veridical.records.types import Case, Evidence, Example, Level, Source, Verdict
from veridical.text.segment import sentences
from veridical_lab.detectors.classifier.artifact import TUNING_METHODS, ClassifierSettings
from veridical_lab.detectors.classifier.network import ClassifierNetwork, label_tokens
from veridical_lab.detectors.classifier.presentation import EncodedPart, case_parts
from veridical_lab.models.adapters import frequent_tokens
from veridical_lab.models.testing import tiny
from veridical_lab.training.checkpoint import CHECKPOINT, TrainingStopped
from veridical_lab.training.classifier import ClassifierTraining, train_classifier


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load(tiny("llama", tmp_path_factory.mktemp("base") / "llama"), dtype="fp32")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load(tiny("bert", tmp_path_factory.mktemp("base") / "bert"), dtype="fp32", kinds=("encoder",))


def encoded(network: ClassifierNetwork, of: Sequence[Example]) -> list[tuple[EncodedPart, ...]]:
    settings = network.settings
    parts = [part for example in of for part in case_parts(example.case, settings.task, settings.unit)]
    return [each for part in parts if not isinstance(each := network.encode(part), str)]


def test_gradients_reach_the_soft_prompt_alone(decoder: LocalModel) -> None:
    network = ClassifierNetwork(decoder, ClassifierSettings())
    network.margins([each for (each,) in encoded(network, examples(4))]).sum().backward()
    (prompt,) = network.parameters
    assert prompt.shape == (5, decoder.model.config.hidden_size)
    assert bool((prompt.grad.abs().sum(1) > 0).all())
    assert [name for name, weight in decoder.model.named_parameters() if weight.grad is not None] == []
    vectors = decoder.model.get_input_embeddings().weight
    assert all(bool((vectors == vector).all(1).any()) for vector in prompt.detach())  # it begins as words
    assert "forward" not in vars(decoder.model.get_input_embeddings())  # nothing of it is left in the model


def test_a_soft_prompt_begins_as_words(decoder: LocalModel) -> None:
    ids = frequent_tokens(decoder, 5, seed=0)
    assert len(set(ids)) == 5
    assert all(len(word) > 1 and word.isalpha() for word in (decoder.tokenizer.decode([id]).strip() for id in ids))
    assert frequent_tokens(decoder, 5, seed=0) == ids != frequent_tokens(decoder, 5, seed=1)


def test_without_peft_the_extra_is_named(decoder: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match="tuning"):
        ClassifierNetwork(decoder, ClassifierSettings())
    ClassifierNetwork(decoder, ClassifierSettings(method="head"))


def test_a_soft_prompt_is_what_peft_makes_of_it(decoder: LocalModel) -> None:
    """The margin from `peft`'s own forward pass, one label token after the other."""
    network = ClassifierNetwork(decoder, ClassifierSettings())
    assert min(len(label) for label in network.labels) > 1  # labels of several tokens
    ((part,),) = encoded(network, examples(1))
    margins = []
    for label in network.labels:
        ids = torch.tensor([[*part.ids, *label]])
        with torch.inference_mode():
            logits = network._tuned(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0].log_softmax(-1)
        at = [5 + len(part.ids) - 1 + i for i in range(len(label))]
        margins.append(sum(float(logits[i, token]) for i, token in zip(at, label, strict=True)))
    assert network.margins([part]).item() == pytest.approx(margins[1] - margins[0], abs=1e-4)


@pytest.mark.parametrize("labels", [("YES", "NO"), ("a", "b"), ("a", "ab")])
@pytest.mark.parametrize("unit", ["part", "pair"])
@pytest.mark.parametrize("method", TUNING_METHODS)
def test_batch_is_one_by_one_is_training(decoder: LocalModel, method: str, unit: str, labels: tuple[str, str]) -> None:
    network = ClassifierNetwork(decoder, ClassifierSettings(method=method, labels=labels, unit=unit))
    parts = encoded(network, examples(6))
    assert len({len(reading.ids) for part in parts for reading in part}) > 1
    batch = network.scores(parts)
    assert np.ptp(batch) > 1e-3
    np.testing.assert_allclose(batch, [network.scores([part])[0] for part in parts], atol=1e-4)
    differentiable = [network.margins(part).min().item() for part in parts]
    np.testing.assert_allclose(batch, differentiable, atol=1e-4)
    lowest = [[part[at]] for part, at in zip(parts, network.lowest(parts), strict=True)]
    np.testing.assert_allclose(batch, network.scores(lowest), atol=1e-4)


@pytest.mark.parametrize("method", ["head", "full"])
def test_an_encoder_reads_pairs(encoder: LocalModel, tmp_path: Path, method: str) -> None:
    """A head reads the two texts apart, each once; with all weights tuned they are one text."""
    network = ClassifierNetwork(encoder, ClassifierSettings(method=method, task="coverage", unit="part"))
    parts = encoded(network, examples(6))
    assert all(bool(reading.other) == (method == "head") for part in parts for reading in part)
    batch = network.scores(parts)
    np.testing.assert_allclose(batch, [network.scores([part])[0] for part in parts], atol=1e-4)
    options: dict[str, Any] = {"steps": 30, "learning_rate": 3e-3 if method == "full" else 1e-2}
    out = trained(encoder, tmp_path / "out", method=method, task="coverage", unit="part", **options)
    judged = load_detector(f"classifier:{out}").judge([example.case for example in examples(6)])
    scores = [j.omission for j in judged if j.omission is not None]
    assert min(scores[1::2]) > max(scores[::2])


@pytest.mark.parametrize("task", ["hallucination", "coverage"])
def test_the_best_pair_counts_for_a_part(encoder: LocalModel, task: str) -> None:
    case = examples(1)[0].case
    network = ClassifierNetwork(encoder, ClassifierSettings(method="head", task=task, unit="pair"))
    parts = case_parts(case, task, "pair")
    pairs = {("The cat sat.", "The cat sat."), ("The cat sat.", "Dogs run."), ("Dogs run.", "Dogs run.")}
    assert len(parts) == 2
    assert [len(part.readings) for part in parts] == [2, 2]
    read = {
        (reading["response"], reading.get("argument") or next(iter(reading["arguments"].values()))[0])
        for part in parts
        for reading in part.readings
    }
    assert pairs | {("Dogs run.", "The cat sat.")} == read
    tokens = [network.encode(part) for part in parts]
    each = [network.scores([(reading,)])[0] for part in tokens for reading in part if not isinstance(reading, str)]
    assert min(each[:2]) < max(each[:2])
    np.testing.assert_allclose(
        network.scores([t for t in tokens if not isinstance(t, str)]), np.reshape(each, (2, 2)).min(1), atol=1e-4
    )


def with_evidence(example: Example) -> Example:
    """The example with a verdict for each sentence that a source supports, which names that source."""
    case = example.case
    said = {span.of(case.response): span for span in sentences(case.response)}
    named = [Verdict(said[s.text], 0.0, evidence=(Evidence(s.id, Span(0, 3)),)) for s in case.sources if s.text in said]
    wrong = [verdict for verdict in example.gold.verdicts if verdict.score]
    return replace(example, gold=replace(example.gold, verdicts=(*named, *wrong)))


@pytest.mark.parametrize("task", ["hallucination", "coverage"])
def test_pairs_that_the_gold_names_as_support_are_learned_from(
    decoder: LocalModel, tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is supported the pair with its evidence; of an error the pair with the lowest score."""
    learned: list[list[EncodedPart]] = []
    margins = ClassifierNetwork.margins

    def recorded(self: ClassifierNetwork, batch: Sequence[EncodedPart]) -> Any:
        learned.append(list(batch))
        return margins(self, batch)

    monkeypatch.setattr(ClassifierNetwork, "margins", recorded)
    monkeypatch.setattr(ClassifierNetwork, "lowest", lambda self, parts: [len(part) - 1 for part in parts])
    settings = ClassifierSettings(method="prompt", task=task, unit="pair")
    options = ClassifierTraining(settings, steps=1, batch=16, evaluate_every=1)
    train_classifier(decoder, [with_evidence(each) for each in examples()], examples(10), options, out=tmp_path / "out")
    monkeypatch.undo()
    texts = [decoder.tokenizer.decode(reading.ids) for reading in learned[0]]
    pairs = [[text.count(said) for said in ("The cat sat.", "Dogs run.", "ZZZZ.")] for text in texts]
    assert all(sorted(counts) == [0, 0, 2] for counts in pairs[:8])  # a sentence with itself
    assert all(2 not in counts for counts in pairs[8:])
    network = ClassifierNetwork(decoder, settings)
    assert set(learned[0][8:]) <= {part[-1] for part in encoded(network, examples())}


@pytest.mark.parametrize("unit", ["part", "pair"])
@pytest.mark.parametrize("task", ["hallucination", "coverage"])
@pytest.mark.parametrize("method", TUNING_METHODS)
def test_it_learns_and_a_folder_gives_the_same_again(
    decoder: LocalModel, tmp_path: Path, method: str, task: str, unit: str
) -> None:
    before = {name: weight.clone() for name, weight in decoder.model.state_dict().items()}
    lines: list[str] = []
    rate = {"full": 3e-3, "lora": 1e-2, "head": 1e-2}.get(method)
    options: dict[str, Any] = {"steps": 40 if unit == "pair" else 20, "learning_rate": rate, "evaluate_every": 20}
    out = trained(decoder, tmp_path / "out", lines=lines, method=method, task=task, unit=unit, **options)
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in lines if "loss" in line]
    assert losses[-1] < losses[0]
    assert all(torch.equal(weight, before[name]) for name, weight in decoder.model.state_dict().items())
    detector = load_detector(f"classifier:{out}")
    cases = [example.case for example in examples(6)]
    judged = detector.judge(cases)
    assert load_detector(f"classifier:{out}").judge(cases) == judged
    whole, parts = (Level.RESPONSE, Level.SPAN) if task == "hallucination" else (Level.COVERAGE, Level.SOURCE)
    assert set(detector.info.levels) == {whole, parts}  # type: ignore[attr-defined]
    scores = [j.hallucination if task == "hallucination" else j.omission for j in judged]
    assert min(s for s in scores[1::2] if s is not None) > max(s for s in scores[::2] if s is not None)
    for case, judgement in zip(cases, judged, strict=True):
        if task == "hallucination":
            assert next(v.span.of(case.response) for v in judgement.verdicts) == "The cat sat."
        else:
            assert [o.source_id for o in judgement.omissions] == ["a", "b"]


def test_a_stopped_training_ends_as_one_that_was_not(decoder: LocalModel, tmp_path: Path) -> None:
    options = ClassifierTraining(ClassifierSettings(method="lora"), steps=8, warmup=2, batch=4, evaluate_every=4)
    data = examples(), examples(10)
    whole = train_classifier(decoder, *data, options, out=tmp_path / "whole")
    asked = iter([False] * 4 + [True] * 9)
    with pytest.raises(TrainingStopped):
        train_classifier(decoder, *data, options, out=tmp_path / "stopped", stop=lambda: next(asked))
    with pytest.raises(InputError, match="another training"):
        train_classifier(decoder, *data, replace(options, seed=1), out=tmp_path / "stopped")
    resumed = train_classifier(decoder, *data, options, out=tmp_path / "stopped")
    files = [(folder / "weights.safetensors").read_bytes() for folder in (whole, resumed)]
    assert files[0] == files[1]
    assert not (resumed / CHECKPOINT).exists()


def test_both_tasks_in_one_detector(decoder: LocalModel, encoder: LocalModel, tmp_path: Path) -> None:
    one = trained(decoder, tmp_path / "one", task="hallucination")
    two = trained(encoder, tmp_path / "two", task="coverage", method="full", unit="part", learning_rate=3e-3)
    detector = load_detector(f"classifier:{one},{two}")
    case = examples(1)[0].case
    (judgement,) = detector.judge([case])
    alone = [load_detector(f"classifier:{out}").judge([case])[0] for out in (one, two)]
    assert (judgement.hallucination, judgement.omission) == (alone[0].hallucination, alone[1].omission)
    assert None not in (judgement.hallucination, judgement.omission)
    with pytest.raises(InputError, match="one of hallucination, one of coverage"):
        load_detector(f"classifier:{one},{one}")


def test_what_cannot_be_judged(decoder: LocalModel, tmp_path: Path) -> None:
    out = [trained(decoder, tmp_path / task, task=task, steps=6) for task in ("hallucination", "coverage")]
    detector = load_detector(f"classifier:{out[0]},{out[1]}")
    long = "The cat sat on the mat. " * 200
    sources = (Source("a", "The cat sat.", must_cover=True), Source("b", long))
    (judgement,) = detector.judge([Case("1", "The cat sat.", sources)])
    assert judgement.hallucination is None
    assert judgement.judged == ()
    assert judgement.omission is not None  # the long source does not have to be covered
    assert "tokens" in judgement.notes[0]


def test_bad_input_is_said_in_a_line(decoder: LocalModel, encoder: LocalModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no decoder"):
        ClassifierNetwork(encoder, ClassifierSettings())
    with pytest.raises(InputError, match="has no tokens for the label '漢'"):
        label_tokens(encoder, ("a", "漢"))
    with pytest.raises(InputError, match="as the same tokens"):
        label_tokens(encoder, ("A", "a"))
    with pytest.raises(InputError, match="method of a classifier"):
        ClassifierSettings(method="promt")
    only_fine = [example for example in examples() if example.gold.hallucination == 0.0]
    with pytest.raises(InputError, match="12 parts without an error of hallucination and 0 with one"):
        train_classifier(decoder, only_fine, only_fine, out=tmp_path / "none")
    out = trained(decoder, tmp_path / "out")
    other = tiny("llama", tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="the weights differs"):
        load_detector(f"classifier:{out},model={other}").judge([examples(1)[0].case])
    settings = (out / "detector.json").read_text("utf-8")
    (out / "detector.json").write_text(settings.replace('"unit": "whole"', '"unit": "half"'), "utf-8")
    with pytest.raises(DataError, match="settings cannot be used"):
        load_detector(f"classifier:{out}")
