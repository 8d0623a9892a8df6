from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from veridical.inference.local_model import LocalModel
from veridical.models.language_head import finished
from veridical.models.load import load
from veridical.records.errors import InputError
from veridical.records.types import Case, Source
from veridical_lab.models import runner as module
from veridical_lab.models.encode import Encoded, encode
from veridical_lab.models.runner import RequestedOutputs, Runner, RunnerResult
from veridical_lab.models.testing import ARCHITECTURES, ENCODER_DECODERS, ENCODERS, tiny

Get = Callable[..., LocalModel]
SUBLAYERS = (0, 1, 2, 3)
ALL = RequestedOutputs(entropy=True, rank=True, sublayers=SUBLAYERS)
HIDDEN = RequestedOutputs(logprobs=False, sublayers=SUBLAYERS, layers=(0, 2))
HEAD = RequestedOutputs(entropy=True, rank=True)
SOME = "Marta Kowalska won it in two hours and 3 minutes, said Anna."
RESPONSES = ["The cat sat on the mat.", "No", SOME, "x y", "é"]
SOURCE = Source("a", "The cat sat on the mat, and the dogs slept in the house.")


def sequences(model: LocalModel) -> list[Encoded]:
    made = []
    for i, response in enumerate(RESPONSES):
        made += encode(model, Case("1", response, (SOURCE,) if i % 2 else ()), "tldr")
    return made


def arrays(result: RunnerResult) -> dict[str, np.ndarray]:
    named = {"logprob": result.logprob, "entropy": result.entropy, "rank": result.rank}
    named |= {f"sublayer {i}": h for i, h in result.hidden.items()} | {
        f"layer {i}": h for i, h in result.states.items()
    }
    return {k: v for k, v in named.items() if v is not None}


def assert_same(one: RunnerResult, other: RunnerResult) -> None:
    left, right = arrays(one), arrays(other)
    assert left.keys() == right.keys()
    for name in left:
        scale = max(1.0, float(np.abs(left[name]).max(initial=0)))  # 1e-5 of it: fp32
        np.testing.assert_allclose(left[name], right[name], rtol=0, atol=1e-5 * scale, err_msg=name)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_batch_and_order_do_not_matter(tiny_model: Get, architecture: str) -> None:
    model = tiny_model(architecture)
    made = sequences(model)
    want = HIDDEN if architecture in ENCODERS else HEAD if architecture in ENCODER_DECODERS else ALL
    alone = [next(Runner(model).run([e], want)) for e in made]
    for tokens, order in product((1, 60, 4096), (1, -1)):
        runner = Runner(model, max_batch_tokens=tokens)
        found = list(runner.run(made[::order], want))[::order]
        assert len(found) == len(made)
        for one, other, e in zip(alone, found, made, strict=True):
            assert all(len(a) == len(e.spans) for a in arrays(other).values())
            assert_same(one, other)


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - {*ENCODERS, *ENCODER_DECODERS}))
def test_what_sequences_begin_with_is_read_once(tiny_model: Get, architecture: str) -> None:
    model = tiny_model(architecture)
    sources = [Source("a", "The cat sat on the mat, and the dogs slept in the hall. " * 2), Source("b", "No. " * 20)]
    cases = [Case(f"{s.id}{i}", r, (s,)) for s in sources for i, r in enumerate(RESPONSES)]
    made = [e for case in cases for e in encode(model, case, "tldr")]
    alone = [next(Runner(model).run([e], ALL)) for e in made]
    read: list[int] = []
    embeddings = model.model.get_input_embeddings()
    hook = embeddings.register_forward_pre_hook(lambda module, given: read.append(given[0].numel()))
    runner = Runner(model, max_batch_tokens=90)
    try:
        found = list(runner.run(made, ALL))
        assert len(read) > 4  # the beginnings, and several batches each
        assert sum(read) < sum(len(e.ids) for e in made) / 2
        read.clear()
        runner.max_batch_tokens = 10_000
        list(runner.run(made, ALL))
        assert len(read) == 1  # they fit into one batch
    finally:
        hook.remove()
    for one, other in zip(alone, found, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - set(ENCODERS)))
def test_the_numbers_are_those_of_a_bare_forward_pass(tiny_model: Get, architecture: str) -> None:
    """An encoder-decoder reads the source above and the response below."""
    model = tiny_model(architecture)
    above = architecture in ENCODER_DECODERS
    made = sequences(model)
    for e, result in zip(made, Runner(model).run(made, HEAD if above else ALL), strict=True):
        assert bool(e.encoder_ids) == above
        sides = {"input_ids": e.encoder_ids, "decoder_input_ids": e.ids} if above else {"input_ids": e.ids}
        with torch.inference_mode():
            logits = model.model(**{name: torch.tensor([ids]) for name, ids in sides.items()}).logits[0].double()
        logprobs = logits.log_softmax(-1)[e.response_start - 1 : e.response_end - 1]
        own = logprobs.gather(1, torch.tensor(e.ids[e.response_start : e.response_end])[:, None])
        np.testing.assert_allclose(result.logprob, own[:, 0], atol=1e-5)
        np.testing.assert_allclose(result.entropy, -(logprobs.exp() * logprobs).sum(-1), atol=1e-5)
        assert result.rank.tolist() == ((logprobs > own + 1e-9).sum(-1) + 1).tolist()


def test_a_batch_of_an_encoder_decoder_counts_both_sides(tiny_model: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("bart")
    made = sequences(model) * 4
    sizes = []
    whole = Runner._states

    def states(runner: Runner, inputs: dict[str, torch.Tensor], *rest: object) -> object:
        sizes.append(inputs["input_ids"].numel() + inputs["decoder_input_ids"].numel())
        return whole(runner, inputs, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Runner, "_states", states)
    assert len(list(Runner(model, max_batch_tokens=200).run(made))) == len(made)
    assert 100 < max(sizes) <= 200
    assert len(sizes) < len(made)


def test_an_encoder_decoder_has_no_sublayers(tiny_model: Get) -> None:
    for architecture in ENCODER_DECODERS:
        runner = Runner(tiny_model(architecture))
        with pytest.raises(InputError, match="is an encoder-decoder"):
            list(runner.run([], ALL))
        (result,) = runner.run([Encoded((2, 5), 1, (None,), encoder_ids=(5, 2))], RequestedOutputs(logprobs=False))
        assert result.logprob is None


@pytest.mark.parametrize(
    ("architecture", "name", "value", "apart"),
    [("llama", "_HEAD_BYTES", 1, True), ("gemma2", "finished", lambda config, logits: logits, False)],
    ids=["in small pieces", "whose cap is not known, so that it cannot be run apart"],
)
def test_the_head(
    tiny_model: Get, monkeypatch: pytest.MonkeyPatch, architecture: str, name: str, value: object, apart: bool
) -> None:
    model = tiny_model(architecture)
    made = sequences(model)
    whole = list(Runner(model).run(made, ALL))
    monkeypatch.setattr(module, name, value)
    runner = Runner(model)
    for one, other in zip(whole, runner.run(made, ALL), strict=True):
        assert_same(one, other)
    assert runner._split_head is apart


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_log_probabilities_in_bf16_are_not_rounded_to_steps(tmp_path: Path, architecture: str) -> None:
    model = load(tiny(architecture, tmp_path), dtype="bf16")
    encoded = sequences(model)[0]
    (result,) = Runner(model).run([encoded], RequestedOutputs())
    with torch.inference_mode():
        states = model.model.base_model(input_ids=torch.tensor([encoded.ids])).last_hidden_state[0]
        head = model.model.get_output_embeddings()
        exact = finished(model.model.config, states.double() @ head.weight.double().T).log_softmax(-1)
        rounded = finished(model.model.config, head(states)).float().log_softmax(-1)
    at = range(encoded.response_start, encoded.response_end)
    right = np.array([float(exact[i - 1, encoded.ids[i]]) for i in at])
    steps = np.array([float(rounded[i - 1, encoded.ids[i]]) for i in at])
    error = np.abs(result.logprob - right).mean()
    assert error < 0.005
    assert error < np.abs(steps - right).mean()


def test_hidden_states_are_those_at_the_tokens_themselves(tiny_model: Get) -> None:
    model = tiny_model("gpt2")
    (e,) = encode(model, Case("1", RESPONSES[0], (SOURCE,)), "tldr")
    (result,) = Runner(model).run([e], RequestedOutputs(logprobs=False, sublayers=SUBLAYERS))
    assert result.logprob is None
    with torch.inference_mode():
        states = model.model(input_ids=torch.tensor([e.ids]), output_hidden_states=True).hidden_states
    first = (states[1] - states[0])[0, e.response_start : e.response_end]
    np.testing.assert_allclose(result.hidden[0] + result.hidden[1], first, atol=1e-4)
    assert list(result.hidden) == [0, 1, 2, 3]


@pytest.mark.parametrize("architecture", [*ENCODERS, "llama"])
def test_states_by_layer_are_those_of_a_bare_forward_pass(tiny_model: Get, architecture: str) -> None:
    model = tiny_model(architecture)
    (e,) = encode(model, Case("1", RESPONSES[2], (SOURCE,)), "tldr")
    with torch.inference_mode():
        states = model.model(input_ids=torch.tensor([e.ids]), output_hidden_states=True).hidden_states
    (result,) = Runner(model).run([e], RequestedOutputs(logprobs=False, layers=(0, 1, 2)))
    for layer, found in result.states.items():
        np.testing.assert_allclose(found, states[layer][0, e.response_start : e.response_end], atol=1e-4)
    assert list(result.states) == [0, 1, 2]
    with pytest.raises(InputError, match=r"has no layer 3 .it has layers 0 to 2"):
        list(Runner(model).run([e], RequestedOutputs(logprobs=False, layers=(3,))))


def test_some_sublayers(tiny_model: Get) -> None:
    model = tiny_model("llama")
    (result,) = Runner(model).run(sequences(model)[:1], RequestedOutputs(sublayers=(3,)))
    assert list(result.hidden) == [3]
    assert result.hidden[3].dtype == np.float32
    assert result.entropy is None
    with pytest.raises(InputError, match="no sublayer 9"):
        list(Runner(model).run([], RequestedOutputs(sublayers=(9,))))


def test_many_sequences_come_in_order(tiny_model: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt2")
    made = sequences(model)
    monkeypatch.setattr(module, "_SHARD", 2)
    for one, other in zip(Runner(model).run(made), [next(Runner(model).run([e])) for e in made], strict=True):
        assert_same(one, other)
    assert list(Runner(model).run([])) == []


def test_an_empty_response(tiny_model: Get) -> None:
    model = tiny_model("llama")
    made = [Encoded((1, 5, 6), 3, ()), *sequences(model)[:1]]
    empty, full = Runner(model).run(made, ALL)
    assert empty.logprob.shape == (0,)
    assert full.failed is None
    (alone,) = Runner(model).run(made[:1], ALL)
    assert alone.failed is None


def test_a_first_token_that_nothing_predicts(tiny_model: Get) -> None:
    (result,) = Runner(tiny_model("llama")).run([Encoded((7, 8), 0, (None, None))], ALL)
    assert np.isnan(result.logprob).tolist() == [True, False]
    assert result.rank[0] == 0


def test_numbers_that_are_not_finite(tiny_model: Get, tmp_path: Path) -> None:
    model = load(tiny("llama", tmp_path), dtype="fp32")
    made = sequences(model)
    row = made[0].ids[made[0].response_start]
    with torch.no_grad():
        model.model.model.embed_tokens.weight[row] = float("nan")
        if model.model.lm_head.weight is not model.model.model.embed_tokens.weight:
            model.model.lm_head.weight.nan_to_num_()
    results = list(Runner(model).run(made))
    for e, result in zip(made, results, strict=True):
        bad = row in e.ids[:-1]
        assert (result.failed is not None) == bad
        assert (result.logprob is None) == bad
    assert any(r.failed for r in results)
    assert not all(r.failed for r in results)


class Small:
    """A trunk on a device with room for `room` tokens (padding included)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, error: Exception) -> None:
        self.sizes: list[int] = []
        whole = Runner._states

        def states(runner: Runner, inputs: dict[str, torch.Tensor], *rest: object) -> object:
            self.sizes.append(inputs["input_ids"].numel())
            if self.sizes[-1] > room:
                raise error
            return whole(runner, inputs, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(Runner, "_states", states)


FULL, FULL_CPU = torch.OutOfMemoryError("no"), RuntimeError("DefaultCPUAllocator: can't allocate memory")


@pytest.mark.parametrize(
    ("architecture", "error"),
    [("llama", FULL), ("t5", FULL), ("llama", MemoryError()), ("llama", FULL_CPU)],
)
def test_out_of_memory_halves_the_batch_and_says_so(
    tiny_model: Get, monkeypatch: pytest.MonkeyPatch, architecture: str, error: Exception
) -> None:
    model = tiny_model(architecture)
    made = sequences(model)[:2] * 4
    expected = list(Runner(model).run(made))
    small = Small(monkeypatch, 2 * max(len(e.encoder_ids or e.ids) for e in made), error)
    found = list(Runner(model).run(made))
    assert small.sizes[0] > small.sizes[1] > small.sizes[2]
    assert all("out of memory with 8 sequences" in r.notes[0] or "out of memory with 4" in r.notes[0] for r in found)
    for one, other in zip(expected, found, strict=True):
        assert_same(one, other)


def test_one_sequence_that_does_not_fit_is_not_judged_and_the_others_are(
    tiny_model: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("llama")
    made = sequences(model)
    sizes = [len(e.ids) for e in made]
    Small(monkeypatch, max(sizes) - 1, torch.OutOfMemoryError("no"))
    found = list(Runner(model).run(made))
    for size, result in zip(sizes, found, strict=True):
        assert (result.failed is not None) == (size == max(sizes))
        assert (result.logprob is None) == (size == max(sizes))


def test_other_errors_pass(tiny_model: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    Small(monkeypatch, 0, RuntimeError("something else"))
    with pytest.raises(RuntimeError, match="something else"):
        list(Runner(tiny_model("llama")).run([Encoded((1, 2), 1, (None,))]))


def test_an_encoder_has_no_logprobs(tiny_model: Get) -> None:
    with pytest.raises(InputError, match="no decoder"):
        list(Runner(tiny_model("bert")).run([], RequestedOutputs()))
    with pytest.raises(InputError, match="at least 1"):
        Runner(tiny_model("llama"), max_batch_tokens=0)


def test_the_reader_finds_what_its_source_says_likelier(shared_models: Path) -> None:
    model = load(shared_models / "reader-6m", dtype="fp32", device="cpu")
    source = Source("a", "The marathon in Berlin was won by Marta Kowalska. It rained all day.")
    values = {}
    for name in ("Marta", "Peter"):
        case = Case("1", f"The marathon in Berlin was won by {name} Kowalska.", (source,))
        (e,) = encode(model, case, "tldr")
        (result,) = Runner(model).run([e])
        at = next(i for i, span in enumerate(e.spans) if span and span.end > 34)
        values[name] = float(result.logprob[at])
    assert values["Marta"] > -1.0
    assert values["Peter"] < -8.0
