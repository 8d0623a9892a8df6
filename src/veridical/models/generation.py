"""Texts that a local causal model goes on with: many prompts at once, sampled from the k likeliest tokens, seeded.

Every prompt draws from a generator of its own, so what it gets does not depend on which prompts share its batch (but
for rounding) nor on how many were done before: a run that was stopped goes on as if it had not been.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from veridical.core.errors import InputError
from veridical.models.load import LocalModel

if TYPE_CHECKING:
    import torch

__all__ = ["Continued", "continue_prompts"]


@dataclass(frozen=True, slots=True)
class Continued:
    """The text that was written and why it ends: "stop" (an end token, or as asked) or "length"."""

    text: str
    finish: str


def continue_prompts(
    model: LocalModel,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[str],
    *,
    top_k: int = 2,
    temperature: float = 1.0,
    max_tokens: int = 64,
    ends: Callable[[str], bool] = lambda text: False,
) -> list[Continued]:
    """What `model` writes after each of `prompts` (token ids, none empty), in one batch.

    Tokens are drawn from the `top_k` likeliest (1: always the likeliest; 0: from all) at a `temperature` above 0 (D
    §3.1: 2 and 1). `seeds[i]` alone decides what prompt i draws. `ends` says of a text so far that it needs no more.
    Raises `InputError` for options out of range, or where prompt and text would not fit into the model.
    """
    import torch

    if top_k < 0 or max_tokens < 1 or not 0.0 < temperature < math.inf:
        found = f"top-k is {top_k}, the temperature {temperature:g}, max tokens {max_tokens}"
        raise InputError(found, hint="top-k from 0 (all tokens), a temperature above 0, at least one token")
    longest = max(map(len, prompts), default=0)
    if longest + max_tokens > model.max_positions:
        raise InputError(
            f"a prompt of {longest} tokens and {max_tokens} to write are more than the {model.max_positions} "
            f"of {model.name}"
        )
    if not prompts:
        return []
    stops = _end_ids(model)
    pad = next((i for i in (model.tokenizer.pad_token_id, *sorted(stops)) if i is not None), 0)
    ids = torch.tensor([[pad] * (longest - len(p)) + list(p) for p in prompts], device=model.device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    finished = _Finished(model.tokenizer, longest, ends)
    with torch.inference_mode():
        out = model.model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=_config(max_tokens, pad, stops),
            logits_processor=[_Drawing([random.Random(seed) for seed in seeds], top_k, temperature)],
            stopping_criteria=[finished],
        )
    return [_continued(model.tokenizer, row[longest:], stops, ends) for row in out.tolist()]


def _config(max_tokens: int, pad: int, stops: set[int]) -> Any:
    from transformers import GenerationConfig

    # greedy, for the drawing is done by `_Drawing`, which leaves one token
    return GenerationConfig(
        max_new_tokens=max_tokens, do_sample=False, pad_token_id=pad, eos_token_id=sorted(stops) or None
    )


class _Drawing:
    """Leaves in each row of scores the one token that its generator draws."""

    def __init__(self, generators: Sequence[random.Random], top_k: int, temperature: float) -> None:
        self._generators, self._top_k, self._temperature = generators, top_k, temperature

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        k = min(self._top_k or scores.shape[-1], scores.shape[-1])
        best = scores.float().topk(k, dim=-1)
        shares = (best.values.double() / self._temperature).softmax(-1).cumsum(-1)
        at = torch.tensor([[g.random()] for g in self._generators], dtype=shares.dtype, device=shares.device)
        rank = (shares < at).sum(-1, keepdim=True).clamp(max=k - 1)
        return torch.full_like(scores, -math.inf).scatter(-1, best.indices.gather(-1, rank), 0.0)


class _Finished:
    """Says for each row whether its text needs no more."""

    def __init__(self, tokenizer: Any, start: int, ends: Callable[[str], bool]) -> None:
        self._tokenizer, self._start, self._ends = tokenizer, start, ends

    def __call__(self, input_ids: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
        import torch

        texts = self._tokenizer.batch_decode(input_ids[:, self._start :], skip_special_tokens=True)
        return torch.tensor([self._ends(text) for text in texts], dtype=torch.bool, device=input_ids.device)


def _continued(tokenizer: Any, ids: list[int], stops: set[int], ends: Callable[[str], bool]) -> Continued:
    at = next((i for i, token in enumerate(ids) if token in stops), None)
    text = str(tokenizer.decode(ids if at is None else ids[:at], skip_special_tokens=True))
    return Continued(text, "stop" if at is not None or ends(text) else "length")


def _end_ids(model: LocalModel) -> set[int]:
    given = model.model.generation_config.eos_token_id if model.model.generation_config else None
    ids = given if isinstance(given, list) else [given]
    return {i for i in (*ids, model.tokenizer.eos_token_id) if i is not None}
