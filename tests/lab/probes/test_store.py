from pathlib import Path

import numpy as np
import pytest
import torch

from tests.lab.probes.samples import examples
from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical_lab.models.runner import RequestedOutputs, Runner
from veridical_lab.models.testing import tiny
from veridical_lab.probes import activation_store as module
from veridical_lab.probes.activation_store import ActivationStore, write_store
from veridical_lab.probes.activations import RecomputedStates, as_size
from veridical_lab.probes.labelled_sequences import EncodedExamples, encode_examples


@pytest.fixture(scope="module")
def encoded(model: LocalModel) -> EncodedExamples:
    return encode_examples(model, examples(20), "tldr")


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHARD_BYTES", 20_000)


def expected(model: LocalModel, encoded: EncodedExamples, sequence: int, sublayers: tuple[int, ...]) -> np.ndarray:
    (result,) = Runner(model).run([encoded.encoded[sequence]], RequestedOutputs(logprobs=False, sublayers=sublayers))
    return np.stack([result.hidden[s] for s in sublayers])


def test_it_gives_back_what_the_runner_gave(model: LocalModel, encoded: EncodedExamples, tmp_path: Path) -> None:
    said: list[str] = []
    store = write_store(tmp_path, model, encoded, sublayers=[3, 0], progress=said.append)
    assert len(store.index.shards) > 2
    assert store.sublayers == (0, 3)
    order = np.array([17, 2, 9, 0, 10])
    found = ActivationStore(tmp_path).read(order, [3, 0]).numpy()
    assert found.dtype == np.float32
    at = 0
    for i in order.tolist():
        np.testing.assert_allclose(
            found[:, at : at + int(store.lengths[i])], expected(model, encoded, i, (3, 0)), atol=1e-5
        )
        at += int(store.lengths[i])
    assert at == found.shape[1]
    tokens = int(encoded.lengths.sum())
    size = sum(p.stat().st_size for p in tmp_path.glob("*.safetensors"))
    assert size == pytest.approx(tokens * 2 * 32 * 4, rel=0.05)
    told = f"{tokens} tokens of 20 sequences x 2 sublayers x 32 in fp32 = {as_size(tokens * 256)}"
    assert said[0] == f"activations: {told} in {tmp_path}"


@pytest.mark.parametrize(("dtype", "atol"), [("bf16", 0.05), ("fp16", 0.005)])
def test_half_precision(model: LocalModel, encoded: EncodedExamples, tmp_path: Path, dtype: str, atol: float) -> None:
    store = write_store(tmp_path, model, encoded, sublayers=[1], dtype=dtype)
    found = store.read(np.array([3]), [1]).numpy()
    np.testing.assert_allclose(found, expected(model, encoded, 3, (1,)), atol=atol, rtol=0.01)
    assert not np.array_equal(found, expected(model, encoded, 3, (1,)))


def test_the_size_is_told_before_the_model_runs(
    model: LocalModel, encoded: EncodedExamples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    whole = module.compute_states
    monkeypatch.setattr(module, "compute_states", lambda *a: events.append("run") or whole(*a))
    write_store(tmp_path, model, encoded, progress=lambda line: events.append("say"))
    assert events[:2] == ["say", "run"]


class Crash(Exception):
    pass


def test_it_goes_on_where_a_crash_stopped_it(
    model: LocalModel, encoded: EncodedExamples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_store(tmp_path / "whole", model, encoded)
    runs: list[int] = []
    compute_states = module.compute_states

    def crashing(*arguments: object) -> torch.Tensor:
        runs.append(1)
        if len(runs) == 3:
            raise Crash
        return compute_states(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "compute_states", crashing)
    with pytest.raises(Crash):
        write_store(tmp_path / "x", model, encoded)
    with pytest.raises(DataError, match=r"shard 3 of \d+ is missing: the store is not complete.*run the same"):
        ActivationStore(tmp_path / "x")
    said: list[str] = []
    store = write_store(tmp_path / "x", model, encoded, progress=said.append)
    assert "2 of" in said[0]
    assert "shards exist" in said[0]
    assert len(runs) == 1 + len(store.index.shards)
    everything = np.arange(20)
    np.testing.assert_array_equal(store.read(everything, [0, 3]), whole.read(everything, [0, 3]))


def test_a_shard_that_is_cut_short_is_refused_and_made_again(
    model: LocalModel, encoded: EncodedExamples, tmp_path: Path
) -> None:
    store = write_store(tmp_path, model, encoded)
    shard = store.index.path(tmp_path, 1)
    for broken in (shard.read_bytes()[:-7], b"", shard.read_bytes()[:5]):
        shard.write_bytes(broken)
        with pytest.raises(DataError, match=r"shard 2 of .* is cut short or damaged"):
            ActivationStore(tmp_path)
    other = store.index.path(tmp_path, 0).read_bytes()
    shard.write_bytes(other)
    with pytest.raises(DataError, match="of shape"):
        ActivationStore(tmp_path)
    again = write_store(tmp_path, model, encoded)
    np.testing.assert_allclose(
        again.read(np.arange(20), [2]), RecomputedStates(model, encoded).read(np.arange(20), [2]), atol=1e-5
    )


def test_a_store_of_something_else_is_refused(model: LocalModel, encoded: EncodedExamples, tmp_path: Path) -> None:
    write_store(tmp_path, model, encoded, sublayers=[0])
    other = load(tiny("llama", tmp_path / "other", seed=4), dtype="fp32")
    for match, arguments, options in (
        ("another model", (other, encoded), {"sublayers": [0]}),
        ("another texts", (model, encode_examples(model, examples(20), "short")), {"sublayers": [0]}),
        ("another choice of sublayers", (model, encoded), {"sublayers": [1]}),
        ("another dtype", (model, encoded), {"sublayers": [0], "dtype": "bf16"}),
    ):
        with pytest.raises(DataError, match=match):
            write_store(tmp_path, *arguments, **options)  # type: ignore[arg-type]


def test_wrong_arguments(model: LocalModel, encoded: EncodedExamples, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="dtype of a store"):
        write_store(tmp_path, model, encoded, dtype="int8")
    with pytest.raises(InputError, match="no sublayer 4"):
        write_store(tmp_path, model, encoded, sublayers=[4])
    with pytest.raises(DataError, match=r"no store\.json"):
        ActivationStore(tmp_path)
    (tmp_path / "store.json").write_text('{"veridical": "store/2"}')
    with pytest.raises(DataError, match="of the format 'store/2'"):
        ActivationStore(tmp_path)


def test_memory_decides_the_groups(model: LocalModel, encoded: EncodedExamples, tmp_path: Path) -> None:
    write_store(tmp_path, model, encoded)
    per_token = 4 * 4 * 32
    for limit in (10, 60, 10**6):
        store = ActivationStore(tmp_path, memory=limit * per_token)
        assert np.concatenate(store.groups).tolist() == list(range(20))
        for group in store.groups:
            assert len(group) == 1 or store.lengths[group].sum() <= limit
    assert len(store.groups) == 1
    streamed = RecomputedStates(model, encoded, memory=60 * per_token)
    assert len(streamed.groups) > 3


def test_activations_that_do_not_fit_in_fp16_are_refused(
    model: LocalModel, encoded: EncodedExamples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute_states = module.compute_states
    monkeypatch.setattr(module, "compute_states", lambda *a: compute_states(*a) * 1e6)
    with pytest.raises(InputError, match=r"\(as fp16\) hold numbers that are not finite"):
        write_store(tmp_path, model, encoded, dtype="fp16")


def test_a_model_whose_numbers_are_not_finite_is_refused(tmp_path: Path) -> None:
    broken = load(tiny("llama", tmp_path), dtype="fp32")
    sample = encode_examples(broken, examples(3), "tldr")
    with torch.no_grad():
        encoded = sample.encoded[0]
        broken.model.model.embed_tokens.weight[encoded.ids[encoded.response_start]] = float("nan")
    with pytest.raises(InputError, match=r"case 'c\d' has no activations to train on: .*not finite"):
        RecomputedStates(broken, sample).read(np.arange(3), [0])
