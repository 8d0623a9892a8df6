from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from veridical.records.errors import CannotJudgeError, InputError

torch = pytest.importorskip("torch")

from veridical.inference.local_model import LocalModel  # noqa: E402
from veridical.models.cached_forward import CachedForward, bytes_per_token, cache_argument, read_prompts  # noqa: E402
from veridical.models.generation import Generated, generate  # noqa: E402
from veridical.models.language_head import finished  # noqa: E402
from veridical.models.load import load  # noqa: E402
from veridical.models.sampling import Sampler  # noqa: E402
from veridical_lab.models.stepwise import Generation, TokenPrompt  # noqa: E402
from veridical_lab.models.testing import ARCHITECTURES, ENCODER_DECODERS, ENCODERS, tiny, tiny_tokenizer  # noqa: E402

PROMPTS = ["The river", "Paris is the capital of", "Question: who won the race in 1998? Answer:", "a"]


def ids(model: LocalModel, texts: list[str] = PROMPTS) -> list[list[int]]:
    return [model.tokenizer(text)["input_ids"] for text in texts]


def written(
    model: LocalModel,
    prompts: list[list[int]],
    seeds: list[str],
    *,
    top_k: int = 2,
    temperature: float = 1.0,
    **options: Any,
) -> list[Generated]:
    return generate(model, prompts, Sampler(seeds, top_k=top_k, temperature=temperature), **options)


def step_by_step(model: LocalModel, prompt: list[int], count: int) -> str:
    """The likeliest tokens, one forward pass each, no cache, no padding."""
    read = list(prompt)
    for _ in range(count):
        with torch.inference_mode():
            read.append(int(model.model(input_ids=torch.tensor([read])).logits[0, -1].argmax()))
        if read[-1] == model.tokenizer.eos_token_id:
            read.pop()
            break
    return str(model.tokenizer.decode(read[len(prompt) :], skip_special_tokens=True))


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gemma2", "opt"])
def test_a_padded_batch_writes_what_each_prompt_gets_alone(
    tiny_model: Callable[..., LocalModel], architecture: str
) -> None:
    model = tiny_model(architecture)
    together = written(model, ids(model), list("abcd"), top_k=1, max_tokens=12)
    assert [c.text for c in together] == [step_by_step(model, p, 12) for p in ids(model)]
    drawn = written(model, ids(model), list("abcd"), max_tokens=12)
    alone = [written(model, [p], [seed], max_tokens=12)[0] for p, seed in zip(ids(model), "abcd", strict=True)]
    assert drawn == alone


def test_only_the_likeliest_tokens_are_drawn_as_often_as_they_are_likely(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    (prompt, *_) = ids(model)
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([prompt])).logits[0, -1].double()
    best = logits.topk(2)
    share = float((best.values / 2.0).softmax(-1)[0])
    names = [str(model.tokenizer.decode([i], skip_special_tokens=True)) for i in best.indices.tolist()]
    made = written(model, [prompt] * 400, [str(i) for i in range(400)], max_tokens=1, temperature=2.0)
    texts = [c.text for c in made]
    assert set(texts) == set(names)
    assert abs(texts.count(names[0]) / 400 - share) < 4 * (share * (1 - share) / 400) ** 0.5
    wide = {c.text for c in written(model, [prompt] * 100, [str(i) for i in range(100)], top_k=0, max_tokens=1)}
    assert len(wide) > 2


def test_it_stops_where_it_is_told_and_says_why(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    prompts = ids(model)
    full = written(model, prompts, list("abcd"), max_tokens=15)
    assert {c.finish for c in full if len(c.text) > 0} <= {"stop", "length"}
    cut = written(model, prompts, list("abcd"), max_tokens=15, is_complete=lambda text: len(text) >= 3)
    for whole, part in zip(full, cut, strict=True):
        assert whole.text.startswith(part.text)
        assert part.finish == ("stop" if len(part.text) >= 3 else whole.finish)
    assert any(len(part.text) < len(whole.text) for whole, part in zip(full, cut, strict=True))


def test_an_end_token_ends_a_text(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    (prompt, *_) = ids(model)
    with torch.inference_mode():
        likeliest = int(model.model(input_ids=torch.tensor([prompt])).logits[0, -1].argmax())

    class Ends:
        eos_token_id = likeliest

        def __getattr__(self, name: str) -> object:
            return getattr(model.tokenizer, name)

    (made,) = written(replace(model, tokenizer=Ends()), [prompt], ["a"], top_k=1, max_tokens=5)
    assert (made.text, made.finish) == ("", "stop")


def test_refusals(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    assert written(model, [], []) == []
    with pytest.raises(InputError, match=r"250 tokens and 7 new ones; .* reads 256"):
        written(model, [[5] * 250], ["a"], max_tokens=7)
    with pytest.raises(InputError, match="at least one new token"):
        written(model, ids(model), list("abcd"), max_tokens=0)
    with pytest.raises(InputError, match=r"250 tokens and 7 new ones"):
        written(model, [[5] * 3, [5] * 250], ["a", "b"], max_tokens=[253, 7])
    for options in ({"top_k": -1}, {"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 0.0}):
        with pytest.raises(InputError, match="top-k from 0"):
            Sampler("abcd", **options)


def test_numbers_that_are_not_finite(tiny_model: Callable[..., LocalModel], monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    monkeypatch.setattr(model.model.lm_head, "forward", lambda states: states[..., :9] * float("nan"))
    with pytest.raises(CannotJudgeError, match="not finite"):
        written(model, ids(model), list("abcd"))


def test_log_probabilities_are_those_of_the_model(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    for text, prompt in zip(written(model, ids(model), list("abcd"), alternatives=3), ids(model), strict=True):
        with torch.inference_mode():
            logits = model.model(input_ids=torch.tensor([[*prompt, *text.ids]])).logits[0, len(prompt) - 1 : -1]
        logprobs = logits.log_softmax(-1)
        assert len(text.ids) == len(text.logprobs) == len(text.alternatives)
        for token, logprob, top, row in zip(text.ids, text.logprobs, text.alternatives, logprobs, strict=True):
            assert logprob == pytest.approx(float(row[token]), abs=1e-5)
            assert [i for i, _ in top] == row.topk(3).indices.tolist()
            assert [p for _, p in top] == pytest.approx(row.topk(3).values.tolist(), abs=1e-5)
    assert not written(model, ids(model), list("abcd"))[0].logprobs


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "gpt2"])
def test_alternatives_in_bf16_are_not_rounded_to_steps(tmp_path: Path, architecture: str) -> None:
    model = load(tiny(architecture, tmp_path), dtype="bf16")
    for prompt in ids(model):
        (text,) = written(model, [prompt], ["a"], max_tokens=1, alternatives=10)
        with torch.inference_mode():
            states = model.model.base_model(input_ids=torch.tensor([prompt])).last_hidden_state[0, -1]
            head = model.model.get_output_embeddings()
            exact = finished(model.model.config, head.weight.double() @ states.double()).log_softmax(-1)
        (top,) = text.alternatives or [[]]
        if not top:  # it ended at once
            continue
        best = [logprob for _, logprob in top]
        assert best == sorted(best, reverse=True)
        gaps = [first - second for (_, first), (_, second) in pairwise(top)]
        right = [float(exact[first] - exact[second]) for (first, _), (second, _) in pairwise(top)]
        assert gaps == pytest.approx(right, abs=1e-5)
        assert text.logprobs == pytest.approx([float(exact[text.ids[0]])], abs=0.005)


# --- batches ----------------------------------------------------------------------------------------------------------

DOCUMENT = "The committee met on Monday and agreed that the river should be cleaned before the summer. "
QUESTIONS = ["Who met?", "a", "When did the committee meet, and what did it agree on?", "Is it so? Yes or No.", "a"]


def passes_of(model: LocalModel, run: Callable[[], Any]) -> tuple[Any, list[tuple[int, int]]]:
    """What `run` gives back, and the (rows, tokens) of each forward pass."""
    shapes: list[tuple[int, int]] = []
    embeddings = model.model.get_input_embeddings()
    hook = embeddings.register_forward_pre_hook(lambda module, given: shapes.append(tuple(given[0].shape)))
    try:
        return run(), shapes
    finally:
        hook.remove()


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("llama", {"tie_word_embeddings": True}),
        ("gemma2", {"sliding_window": 16}),
        ("gemma3", {"sliding_window": 16}),
        ("gpt2", {}),
        ("opt", {}),
        ("falcon", {}),
    ],
)
def test_a_common_beginning_is_read_once_and_changes_nothing(
    tiny_model: Callable[..., LocalModel], architecture: str, options: dict[str, Any]
) -> None:
    model = tiny_model(architecture, **options)
    prompts = ids(model, [DOCUMENT + question for question in QUESTIONS]) + ids(model, ["Paris is the capital of"])
    seeds = list("abcdef")
    texts, shapes = passes_of(model, lambda: written(model, prompts, seeds, max_tokens=10, top_k=0, alternatives=2))
    rest = max(map(len, prompts)) - len(ids(model, [DOCUMENT])[0])
    assert shapes[0][0] == 1 < shapes[0][1]
    assert shapes[1] == (6, shapes[1][1])
    assert shapes[1][1] <= rest + 1
    for text, prompt, seed in zip(texts, prompts, seeds, strict=True):
        (alone,) = written(model, [prompt], [seed], max_tokens=10, top_k=0, alternatives=2)
        assert (text.ids, text.text, text.finish) == (alone.ids, alone.text, alone.finish)
        assert text.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    assert texts[1].ids != texts[4].ids, "the seed differs"


def test_a_text_that_has_ended_leaves_the_batch(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("gemma2", sliding_window=16)
    prompts, seeds = ids(model), list("abcd")
    options: dict[str, Any] = {"max_tokens": 14, "top_k": 0, "is_complete": lambda text: "e" in text or "n" in text}
    texts, shapes = passes_of(model, lambda: written(model, prompts, seeds, **options))
    alone = [written(model, [prompt], [seed], **options)[0] for prompt, seed in zip(prompts, seeds, strict=True)]
    assert texts == alone
    lengths = sorted(len(text.ids) for text in texts)
    assert lengths[0] < lengths[-1]
    assert [rows for rows, _ in shapes] == [sum(length > n for length in lengths) for n in range(lengths[-1])]


def test_a_new_token_copies_nothing_that_the_cache_holds(tiny_model: Callable[..., LocalModel]) -> None:
    forward = CachedForward(tiny_model("llama"))
    places = set()
    for token in range(5, 40):
        forward(torch.tensor([[token, token + 1]]))
        places.add(forward._cache.layers[1].keys.data_ptr())
    assert len(places) == 2, "memory is taken twice: for the first two tokens and 64, and when those are full"
    assert forward._cache.layers[1].keys.shape[-2] == forward.length == 70


def test_what_is_read_after_going_back_or_losing_rows_is_as_if_read_afresh(
    tiny_model: Callable[..., LocalModel],
) -> None:
    model = tiny_model("llama")
    rows = [[7, 8, 9, 10, 11], [12, 13, 14], [15, 16, 17, 18], [12, 13, 19]]
    forward = CachedForward(model)
    _, mask = read_prompts(forward, rows)

    def follow(*ends: list[int]) -> None:
        nonlocal mask
        mask = None if mask is None else torch.nn.functional.pad(mask[:, : forward.length], (0, len(ends[0])), value=1)
        read = forward(torch.tensor(ends), mask)
        for row, end, logits in zip(rows, ends, read, strict=True):
            with torch.inference_mode():
                afresh = model.model(input_ids=torch.tensor([[*row, *end]])).logits[0, -1]
            assert logits.tolist() == pytest.approx(afresh.tolist(), abs=1e-4)

    length = forward.length
    for ends in ([[20, 21], [22, 23], [24, 25], [26, 27]], [[28], [29], [30], [31]], [[5] * 70] * 4, [[6]] * 4):
        follow(*ends)  # past the memory taken at first, too
        forward.crop(length)
    for kept in ([2, 1, 3], [1, 0], [0, 0], [1]):  # other orders, one row twice, as many rows as before, less padding
        mask = forward.keep_rows(kept, None if mask is None else mask[:, : forward.length])
        rows = [rows[i] for i in kept]
        length = forward.length
        for token in (32, 40):
            follow(*([token + i, token + 5 + i] for i in range(len(rows))))
            forward.crop(length)


def test_one_new_token_a_row_takes_the_kernel_that_is_fast_for_grouped_keys(
    tiny_model: Callable[..., LocalModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = CachedForward(tiny_model("llama"))
    _, mask = read_prompts(forward, [[7, 8, 9], [7, 8, 10]])
    assert mask is None
    kernel, calls = torch.nn.functional.scaled_dot_product_attention, []

    def attention(query: Any, key: Any, *rest: Any, **options: Any) -> Any:
        calls.append((query.shape[1], key.shape[1], options.get("enable_gqa", False)))
        return kernel(query, key, *rest, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    forward(torch.tensor([[11], [12]]))
    assert calls
    assert all(heads == key_heads and not slow for heads, key_heads, slow in calls)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_batch_does_not_copy_the_weights_of_the_head_for_each_row(tmp_path: Path, dtype: str) -> None:
    from torch.profiler import profile

    from veridical_lab.models.adapters import last_logits

    model = load(tiny("llama", tmp_path), dtype=dtype)
    vocabulary = model.model.get_output_embeddings().weight.shape[0]
    rows = ids(model)

    def last() -> None:
        with torch.no_grad():
            last_logits(model, rows, 2)

    assert len(rows) > 1
    for read in (lambda: read_prompts(CachedForward(model), rows), last):
        with profile(record_shapes=True) as profiled:
            read()
        products = [event for event in profiled.events() if event.name in ("aten::mm", "aten::bmm")]
        of_head = [event.name for event in products if event.input_shapes[1][-1] == vocabulary]
        assert of_head == ["aten::mm"]  # bmm takes as many copies of the weights as there are rows


def test_a_layer_that_keeps_a_state_shares_nothing_and_loses_ended_rows_too(tmp_path: Path) -> None:
    from transformers import Lfm2Config, Lfm2ForCausalLM

    tokenizer = tiny_tokenizer("bytes")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 256, "vocab_size": len(tokenizer)}
    torch.manual_seed(0)
    config = Lfm2Config(**sizes, layer_types=["conv", "full_attention"], eos_token_id=2, initializer_range=0.3)
    Lfm2ForCausalLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load(tmp_path, dtype="fp32", device="cpu")
    prompts, seeds = ids(model, [DOCUMENT + "Who met?"]) * 4, list("abcd")
    options: dict[str, Any] = {"max_tokens": 12, "top_k": 0, "is_complete": lambda text: "e" in text or "n" in text}
    texts, shapes = passes_of(model, lambda: written(model, prompts, seeds, **options))
    assert shapes[0] == (4, len(prompts[0]))
    assert shapes[-1][0] < 4
    assert texts == [written(model, [prompts[0]], [seed], **options)[0] for seed in seeds]


def test_going_back_reads_nothing_again_where_windows_slide(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("gemma3", sliding_window=16)
    (prompt,) = ids(model, [DOCUMENT])
    text = Generation(model, TokenPrompt(tuple(prompt)))
    for token in (5, 6, 7, 8):
        text.logits()
        text.append(token)
    text.rewind(1)
    text.append(9)
    again, shapes = passes_of(model, text.logits)
    assert shapes == [(1, 1)]
    with torch.inference_mode():
        whole = model.model(input_ids=torch.tensor([[*prompt, 5, 9]])).logits[0, -1]
    assert again.tolist() == pytest.approx(whole.tolist(), abs=1e-4)


# --- the sampler ------------------------------------------------------------------------------------------------------

LOGITS = torch.tensor([0.3, 2.0, 1.0, -1.0, 1.5])  # the order is 1, 4, 2, 0, 3


def drawn(logits: torch.Tensor = LOGITS, temperature: float = 1.0, **options: Any) -> set[int]:
    sampler = Sampler(range(200), temperature=temperature, **options)
    return set(sampler.sample(logits.expand(200, -1)))


def test_what_may_be_drawn() -> None:
    assert drawn(temperature=0.0) == {1}
    assert drawn(temperature=9.0) == {0, 1, 2, 3, 4}
    assert drawn(temperature=9.0, top_k=3) == {1, 4, 2}
    assert drawn(top_p=1e-9) == {1}
    shares = LOGITS.softmax(-1)
    assert drawn(top_p=float(shares[1] + shares[4]) - 1e-3) == {1, 4}
    banned = LOGITS.clone()
    banned[1] = -torch.inf
    assert drawn(banned, temperature=0.0) == {4}
    assert drawn(banned, temperature=9.0) == {0, 2, 3, 4}


def test_a_row_draws_the_same_alone() -> None:
    together = Sampler([3, "a", 5], temperature=2.0)
    many = [together.sample(LOGITS.expand(3, -1)) for _ in range(20)]
    for row, seed in enumerate([3, "a", 5]):
        alone = Sampler([seed], temperature=2.0)
        assert [alone.sample(LOGITS[None])[0] for _ in range(20)] == [tokens[row] for tokens in many]


def test_the_temperature_may_change_from_token_to_token() -> None:
    sampler = Sampler([0], temperature=0.0)
    assert {sampler.sample(LOGITS[None], 9.0)[0] for _ in range(100)} == {0, 1, 2, 3, 4}
    assert sampler.sample(LOGITS[None]) == [1]


@pytest.mark.parametrize("architecture", [*sorted({*ARCHITECTURES} - {*ENCODERS, *ENCODER_DECODERS}), "llama in bf16"])
def test_the_memory_of_a_token_is_that_of_its_keys_and_values(architecture: str, tmp_path: Path) -> None:
    name, _, dtype = architecture.partition(" in ")
    model = load(tiny(name, tmp_path), dtype=dtype or "fp32")  # type: ignore[arg-type]
    ids = torch.tensor([[3, 4, 5]])
    with torch.inference_mode():
        output = model.model(input_ids=ids, use_cache=True)
    cache = getattr(output, cache_argument(model.model))
    held = sum(t.nbytes for layer in cache.layers for t in (layer.keys, layer.values))
    assert bytes_per_token(model) * ids.shape[1] == held


def test_a_model_without_heads_has_a_size_for_a_token_too() -> None:
    from transformers import MambaConfig

    config = MambaConfig(hidden_size=8, num_hidden_layers=3)
    model: Any = SimpleNamespace(model=SimpleNamespace(config=config), dtype=torch.float32)
    assert bytes_per_token(model) == 2 * 3 * 8 * 4
