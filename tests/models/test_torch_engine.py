"""Encoders computed by our own code for inference: the states of the models' own code, in fp32 and bf16."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from veridical.inference.local_model import LocalModel
from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import PairEncoder, PairEncoding, PairSettings, Window
from veridical.models.load import load
from veridical.models.torch_engine import PackedEncoder, TorchEngine
from veridical.records.types import Case, Source
from veridical_lab.models.testing import tiny

SOURCE = "The committee met on Monday. The river should be cleaned before summer. Paris is the capital of France."
CASES = [
    Case(str(i), response, (Source("s", SOURCE),))
    for i, response in enumerate(["The committee met.", "Paris is in France; the dog slept.", "Mud lies in the river."])
]
ARCHITECTURES = ("bert", "distilbert", "electra", "mpnet", "roberta")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("models")


def encoder(name: str, folders: Path, dtype: str = "fp32") -> LocalModel:
    model = load(tiny(name, folders / name), dtype=dtype, kinds=("encoder",))  # type: ignore[arg-type]
    assert PackedEncoder.supports(model)
    if name == "mpnet":  # whose own code takes 1 for padding, whatever the tokenizer says
        model.model.base_model.embeddings.padding_idx = model.tokenizer.pad_token_id
    return model


def windows_of(model: LocalModel) -> list[Window]:
    encoded = PairEncoder(model, PairSettings()).encode(CASES)
    return [window for each in encoded if isinstance(each, PairEncoding) for window in each.windows]


def own_states(model: LocalModel, window: Window) -> np.ndarray:
    """The states of a response as the model's own code computes them."""
    import torch

    with torch.inference_mode():
        engine = TorchEngine(model)
        states: np.ndarray = engine.forward(PairRunner(engine).lay([[window]]))[0].numpy()
    return states[window.start : window.start + window.count]


@pytest.mark.parametrize("mode", ["offline", "online"])
@pytest.mark.parametrize("attention", ["full", "prefix"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_states_are_those_of_the_model(name: str, attention: str, mode: str, folders: Path) -> None:
    import torch

    model = encoder(name, folders)
    engine = TorchEngine(model)
    runner = PairRunner(engine, mode, attention)
    windows = windows_of(model)
    rows = [[windows[i] for i in row] for row in runner.rows(windows)]
    batch = runner.lay(rows)
    with torch.inference_mode():
        own = engine.forward(batch).numpy()
    wanted = np.concatenate([own[r, places] for r, places in enumerate(batch.wanted_by_row)])
    ours = engine.states(batch)
    np.testing.assert_allclose(ours, wanted, atol=1e-5)
    assert len(ours) < sum(len(w.ids) for w in windows)  # the prompt's states are not computed


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_are_those_of_the_classifier(name: str, folders: Path) -> None:
    import torch

    folder = tiny(name, folders / f"{name}-classifier", head="SequenceClassification", id2label={0: "no", 1: "yes"})
    model = load(folder, dtype="fp32", kinds=("classifier",))
    assert PackedEncoder.supports(model)
    if name == "mpnet":
        model.model.base_model.embeddings.padding_idx = model.tokenizer.pad_token_id
    engine = TorchEngine(model)
    batch = PairRunner(engine).lay([[window] for window in windows_of(model)])
    with torch.inference_mode():
        own = engine.forward(batch).numpy()
    assert np.ptp(own[:, 0, 0]) > 0.01  # the windows differ
    np.testing.assert_allclose(engine.states(batch), own[:, 0], atol=1e-5)


def test_bf16_is_near_fp32(folders: Path) -> None:
    wanted, found = (
        np.concatenate([s.response for s in PairRunner(TorchEngine(model)).run(windows_of(model))])
        for model in (encoder("bert", folders), encoder("bert", folders, "bf16"))
    )
    assert 0 < np.abs(found - wanted).max() < 0.1


def test_changed_weights_are_packed_again(folders: Path) -> None:
    import torch

    model = encoder("bert", folders)
    runner, windows = PairRunner(TorchEngine(model)), windows_of(model)
    before = runner.run(windows)[0].response
    with torch.no_grad():
        weight = model.model.base_model.encoder.layer[0].output.dense.weight
        weight *= 2.0
    try:
        after = runner.run(windows)[0].response
        own = own_states(model, windows[0])
    finally:
        with torch.no_grad():
            weight *= 0.5
    np.testing.assert_allclose(after, own, atol=1e-4)
    assert not np.allclose(after, before, atol=1e-3)


def test_types_that_the_model_does_not_have(folders: Path) -> None:
    model = load(tiny("roberta", folders / "one_type", type_vocab_size=1), dtype="fp32", kinds=("encoder",))
    (window, *_), runner = windows_of(model), PairRunner(TorchEngine(model))
    typed = replace(window, types=np.ones_like(window.types))
    np.testing.assert_array_equal(runner.run([typed])[0].response, runner.run([window])[0].response)


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_other_activations_and_no_onednn(activation: str, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    model = load(tiny("bert", folders / activation, hidden_act=activation), dtype="fp32", kinds=("encoder",))
    windows = windows_of(model)
    packed = PairRunner(TorchEngine(model)).run(windows)[1].response
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    np.testing.assert_allclose(PairRunner(TorchEngine(model)).run(windows)[1].response, packed, atol=1e-5)
    np.testing.assert_allclose(packed, own_states(model, windows[1]), atol=1e-5)


def test_others_run_as_they_are(folders: Path) -> None:
    import torch

    assert not PackedEncoder.supports(load(tiny("modernbert", folders / "modernbert"), kinds=("encoder",)))
    model = encoder("bert", folders)

    class Adapted(torch.nn.Linear):
        pass

    layer = model.model.base_model.encoder.layer[0].output
    plain, layer.dense = layer.dense, Adapted(48, 32)
    try:
        assert not PackedEncoder.supports(model)
    finally:
        layer.dense = plain
