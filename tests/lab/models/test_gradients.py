"""Salience equals one backward pass a token, captum's input x gradient, and what inseq said; and memory is bounded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.lab.models.data.inseq_values import tiny
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical_lab.models import autograd_memory as passes
from veridical_lab.models import gradients
from veridical_lab.models.autograd_memory import bytes_needed
from veridical_lab.models.gradients import salience

INSEQ = json.loads((Path(__file__).parent / "data" / "inseq_values.json").read_text("utf-8"))
IDS = [*INSEQ["prompt"], *INSEQ["response"]]
TARGETS = [1, 14, 5, 16, 9]
ARCHITECTURES = sorted(INSEQ["values"])


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request: pytest.FixtureRequest) -> Any:
    return tiny(request.param)


def one_by_one(model: Any, ids: list[int], targets: list[int], kind: str, score: str) -> np.ndarray:
    """The reference: one forward and one backward pass over its own prefix for each target."""
    values = np.zeros((len(ids), len(targets)))
    for column, t in enumerate(targets):
        leaf = model.get_input_embeddings()(torch.tensor([ids[:t]])).detach().requires_grad_()
        scores = model(inputs_embeds=leaf).logits[0, -1]
        if score == "logprob":
            scores = scores.log_softmax(-1)
        (gradient,) = torch.autograd.grad(scores[ids[t]], leaf)
        found = gradient.norm(dim=-1) if kind == "l2" else (gradient * leaf).sum(-1)
        values[:t, column] = found[0].detach().numpy()
    return values


def assert_close(found: np.ndarray, expected: np.ndarray, within: float = 1e-5) -> None:
    assert found.shape == expected.shape
    assert np.abs(expected).max() > 0
    assert np.abs(found - expected).max() <= within * np.abs(expected).max()


@pytest.mark.parametrize("score", ["logit", "logprob"])
@pytest.mark.parametrize("kind", ["input_x_gradient", "l2"])
def test_it_equals_one_backward_pass_a_token(model: Any, kind: str, score: str) -> None:
    expected = one_by_one(model, IDS, TARGETS, kind, score)
    assert_close(salience(model, IDS, TARGETS, kind=kind, score=score), expected)


def test_batched_backward_passes_give_the_same(model: Any) -> None:
    assert_close(salience(model, IDS, TARGETS, chunk=2), salience(model, IDS, TARGETS))


def test_the_heads_part_comes_in_pieces_where_the_vocabulary_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama")
    whole = salience(model, IDS, TARGETS, score="logprob")
    sizes: list[int] = []
    scores = gradients._Head.scores
    monkeypatch.setattr(gradients, "_HEAD_BYTES", 8 * model.config.vocab_size)
    monkeypatch.setattr(
        gradients._Head, "scores", lambda head, hidden, *t: sizes.append(len(hidden)) or scores(head, hidden, *t)
    )
    assert_close(salience(model, IDS, TARGETS, score="logprob"), whole)
    assert sizes == [2, 2, 1]


def test_it_equals_inseq(model: Any, request: pytest.FixtureRequest) -> None:
    recorded = np.array(INSEQ["values"][request.node.callspec.params["model"]], dtype=float)
    targets = list(range(len(INSEQ["prompt"]), len(IDS)))
    assert_close(salience(model, IDS, targets), np.nan_to_num(recorded))


def test_it_equals_captum(model: Any) -> None:
    captum = pytest.importorskip("captum.attr")
    target = len(IDS) - 1

    def forward(embeddings: Any) -> Any:
        return model(inputs_embeds=embeddings).logits[:, -1, IDS[target]]

    embeddings = model.get_input_embeddings()(torch.tensor([IDS[:target]])).detach().requires_grad_()
    found = captum.InputXGradient(forward).attribute(embeddings).sum(-1)[0].detach().numpy()
    assert_close(salience(model, IDS, [target])[:target, 0], found)


def test_the_sum_over_tokens_of_a_linear_reading_is_the_score() -> None:
    """Of a model without blocks or norms the gradient is the head's row: the last token's value is its logit."""
    model = tiny("gpt2")
    model.transformer.h = torch.nn.ModuleList()
    model.transformer.ln_f = torch.nn.Identity()
    model.transformer.wpe.weight.data.zero_()
    with torch.no_grad():
        logits = model(torch.tensor([IDS])).logits[0]
    found = salience(model, IDS, [4])
    assert found[3, 0] == pytest.approx(float(logits[3, IDS[4]]), rel=1e-5)
    assert not found[:3].any()


def test_nothing_from_the_target_on_bears_on_it(model: Any) -> None:
    found = salience(model, IDS, TARGETS)
    for column, t in enumerate(TARGETS):
        assert not found[t:, column].any()
        assert found[:t, column].any()


def test_a_target_needs_a_token_before_it_and_no_target_gives_no_column() -> None:
    model = tiny("llama")
    for wrong in (0, len(IDS), -1):
        with pytest.raises(InputError, match="a target has a token before it"):
            salience(model, IDS, [wrong])
    assert salience(model, IDS, []).shape == (len(IDS), 0)


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="input_x_gradient"):
        salience(tiny("llama"), IDS, [1], kind="x")
    with pytest.raises(UnknownNameError, match="logprob"):
        salience(tiny("llama"), IDS, [1], score="x")


def test_a_head_that_is_not_known_is_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("gemma2")
    expected = salience(model, IDS, TARGETS), salience(model, IDS, TARGETS, score="logprob")
    assert gradients._head(model) is not None
    monkeypatch.setitem(gradients._heads, model, None)
    assert_close(salience(model, IDS, TARGETS), expected[0])
    assert_close(salience(model, IDS, TARGETS, score="logprob"), expected[1])


def test_a_head_with_something_of_its_own_is_not_taken_for_a_known_one() -> None:
    model = tiny("llama")
    model.lm_head = torch.nn.Sequential(model.lm_head, torch.nn.Tanh())
    model.get_output_embeddings = lambda: model.lm_head[0]
    assert gradients._head(model) is None
    assert_close(salience(model, IDS, TARGETS), one_by_one(model, IDS, TARGETS, "input_x_gradient", "logit"))


def test_bf16_is_close_to_fp32(model: Any, request: pytest.FixtureRequest) -> None:
    expected = salience(model, IDS, TARGETS, kind="l2")
    small = tiny(request.node.callspec.params["model"]).to(torch.bfloat16)
    assert gradients._head(small) is not None
    found = salience(small, IDS, TARGETS, kind="l2")
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_faster_ways_compute_the_same(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60, bos_token_id=1, eos_token_id=2)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval().to(getattr(torch, dtype))
    found = salience(model, IDS, TARGETS)
    monkeypatch.setattr(gradients, "fast_path", lambda model, tokens: passes.frozen(model))
    assert_close(found, salience(model, IDS, TARGETS), 1e-5 if dtype == "float32" else 5e-2)


def test_the_model_is_left_as_it_was() -> None:
    model = tiny("gpt2").train()
    before = {id(m): sorted(m.__dict__) for m in model.modules()}
    salience(model, IDS, TARGETS, max_memory=bytes_needed(model, len(IDS)) * 9 // 4)
    assert model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert {id(m): sorted(m.__dict__) for m in model.modules()} == before


def test_dropout_is_off_even_for_a_model_in_training() -> None:
    expected = salience(tiny("gpt2"), IDS, TARGETS)
    assert_close(salience(tiny("gpt2").train(), IDS, TARGETS), expected, 1e-6)


def test_blocks_are_run_again_where_memory_is_short(model: Any) -> None:
    notes: list[str] = []
    found = salience(model, IDS, TARGETS, max_memory=bytes_needed(model, max(TARGETS)) * 9 // 4, notes=notes)
    assert_close(found, salience(model, IDS, TARGETS), 1e-6)
    assert notes == ["little memory: blocks were run again for each gradient, which takes twice the time"]


def test_too_little_memory_is_said_and_not_tried() -> None:
    with pytest.raises(CannotJudgeError, match="smaller window"):
        salience(tiny("llama"), IDS, TARGETS, max_memory=1000)


def test_running_out_of_memory_takes_smaller_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tried = tiny("llama"), []
    run = gradients._run

    def failing(job: Any, plan: Any) -> np.ndarray:
        tried.append((plan.chunk, plan.checkpointing))
        if not plan.checkpointing:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return run(job, plan)

    expected = salience(model, IDS, [16, 15, 14, 13])
    monkeypatch.setattr(gradients, "_run", failing)
    monkeypatch.setattr(gradients, "_segments", lambda targets, above: [list(range(len(targets)))])
    notes: list[str] = []
    assert_close(salience(model, IDS, [16, 15, 14, 13], chunk=4, notes=notes), expected)
    assert tried == [(4, False), (1, False), (1, True)]
    assert notes == ["out of memory: gradients were computed in smaller steps"]


@pytest.mark.parametrize(
    ("message", "error", "says"),
    [
        ("DefaultCPUAllocator: can't allocate memory: you tried", CannotJudgeError, "do not fit into memory"),
        ("shapes do not match", RuntimeError, "shapes"),
    ],
)
def test_out_of_memory_is_one_clear_line_and_other_errors_of_torch_pass_through(
    monkeypatch: pytest.MonkeyPatch, message: str, error: type[Exception], says: str
) -> None:
    def failing(job: Any, plan: Any) -> np.ndarray:
        raise RuntimeError(message)

    monkeypatch.setattr(gradients, "_run", failing)
    with pytest.raises(error, match=says):
        salience(tiny("llama"), IDS, [3])


def test_bytes_needed_foretells_what_autograd_keeps(model: Any) -> None:
    assert bytes_needed(model, 200) == pytest.approx(passes._saved_bytes(model, 200), rel=0.1)


def test_gradients_that_are_not_finite_are_told() -> None:
    model = tiny("llama")
    model.lm_head.weight.data[IDS[5]] = float("inf")
    gradients._heads[model] = gradients._Head(model.lm_head.weight, None, 1.0, None)
    notes: list[str] = []
    found = salience(model, IDS, [4, 5], notes=notes)
    assert np.isfinite(found[:, 0]).all()
    assert not np.isfinite(found[:, 1]).all()
    assert notes == ["the gradients of 1 of 2 tokens are not finite; fp32 or bf16 may help"]


def test_segments_hold_every_target_once_and_shorten_the_passes() -> None:
    targets = list(range(300, 100, -1))
    groups = gradients._segments(targets, 0)
    assert sorted(i for group in groups for i in group) == list(range(200))
    assert len(groups) > 1
    assert gradients._segments([5], 0) == [[0]]


def test_an_encoder_decoder_has_rows_for_both() -> None:
    config = transformers.BartConfig(
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=60, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        forced_eos_token_id=None, decoder_start_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.BartForConditionalGeneration(config).eval()
    source, target = IDS[:8], [2, *IDS[8:14]]
    leaves = [model.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_() for ids in (source, target)]
    logits = model(inputs_embeds=leaves[0], decoder_inputs_embeds=leaves[1]).logits[0, 3, target[4]]
    pair = torch.autograd.grad(logits, leaves)
    expected = torch.cat([(g * e).sum(-1)[0] for g, e in zip(pair, leaves, strict=True)]).detach().numpy()
    assert_close(salience(model, target, [4], encoder_ids=source)[:, 0], expected)
