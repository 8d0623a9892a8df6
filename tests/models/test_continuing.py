from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from veridical.core.errors import InputError

torch = pytest.importorskip("torch")

from veridical.models.generation import continue_prompts  # noqa: E402
from veridical.models.load import LocalModel  # noqa: E402

PROMPTS = ["The river", "Paris is the capital of", "Question: who won the race in 1998? Answer:", "a"]


def ids(model: LocalModel, texts: list[str] = PROMPTS) -> list[list[int]]:
    return [model.tokenizer(text)["input_ids"] for text in texts]


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
    together = continue_prompts(model, ids(model), list("abcd"), top_k=1, max_tokens=12)
    assert [c.text for c in together] == [step_by_step(model, p, 12) for p in ids(model)]
    drawn = continue_prompts(model, ids(model), list("abcd"), max_tokens=12)
    alone = [continue_prompts(model, [p], [seed], max_tokens=12)[0] for p, seed in zip(ids(model), "abcd", strict=True)]
    assert drawn == alone


def test_the_seed_alone_decides(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    (prompt, *_) = ids(model)
    one, same, other = continue_prompts(model, [prompt] * 3, ["a", "a", "b"], max_tokens=20)
    assert one == same != other


def test_only_the_likeliest_tokens_are_drawn_as_often_as_they_are_likely(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    (prompt, *_) = ids(model)
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([prompt])).logits[0, -1].double()
    best = logits.topk(2)
    share = float((best.values / 2.0).softmax(-1)[0])
    names = [str(model.tokenizer.decode([i], skip_special_tokens=True)) for i in best.indices.tolist()]
    made = continue_prompts(model, [prompt] * 400, [str(i) for i in range(400)], max_tokens=1, temperature=2.0)
    texts = [c.text for c in made]
    assert set(texts) == set(names)
    assert abs(texts.count(names[0]) / 400 - share) < 4 * (share * (1 - share) / 400) ** 0.5
    wide = {
        c.text for c in continue_prompts(model, [prompt] * 100, [str(i) for i in range(100)], top_k=0, max_tokens=1)
    }
    assert len(wide) > 2


def test_it_stops_where_it_is_told_and_says_why(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    prompts = ids(model)
    full = continue_prompts(model, prompts, list("abcd"), max_tokens=15)
    assert {c.finish for c in full if len(c.text) > 0} <= {"stop", "length"}
    cut = continue_prompts(model, prompts, list("abcd"), max_tokens=15, ends=lambda text: len(text) >= 3)
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

    (made,) = continue_prompts(replace(model, tokenizer=Ends()), [prompt], ["a"], top_k=1, max_tokens=5)
    assert (made.text, made.finish) == ("", "stop")


def test_refusals(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    assert continue_prompts(model, [], []) == []
    with pytest.raises(InputError, match="more than the 256"):
        continue_prompts(model, [[5] * 250], ["a"], max_tokens=7)
    for options in ({"top_k": -1}, {"temperature": 0.0}, {"temperature": float("nan")}, {"max_tokens": 0}):
        with pytest.raises(InputError, match="top-k from 0"):
            continue_prompts(model, ids(model), list("abcd"), **options)  # type: ignore[arg-type]
