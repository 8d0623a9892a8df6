"""Generate text with a local causal language model: one text after each of many prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from veridical.inference.local_model import LocalModel
from veridical.models.cached_forward import CachedForward, read_prompts
from veridical.models.language_head import unrounded
from veridical.models.sampling import Sampler
from veridical.records.errors import InputError

if TYPE_CHECKING:
    import torch


def end_token_ids(model: LocalModel) -> frozenset[int]:
    """Return the ids of the end-of-sequence tokens of `model`, at which the generation of a text stops."""
    config = model.model.generation_config
    named = config.eos_token_id if config else None
    ids = named if isinstance(named, list) else [named]
    return frozenset(i for i in (*ids, model.tokenizer.eos_token_id) if i is not None)


@dataclass(slots=True)
class Generated:
    """A text that `generate` has generated for one prompt.

    Attributes:
        ids: The token ids of the text, without the end token.
        finish: Why the text ended: "stop" (at an end token, or because `is_complete` returned True) or
            "length".
        logprobs: The log-probability of each token at temperature 1, if requested.
        alternatives: For each token, the most probable tokens at its position, as (token id, log-probability), if
            requested.
        text: The decoded text.
    """

    ids: list[int] = field(default_factory=list)
    finish: Literal["stop", "length", ""] = ""
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[list[tuple[int, float]]] = field(default_factory=list)
    text: str = ""


def generate(
    model: LocalModel,
    prompts: Sequence[Sequence[int]],
    sampler: Sampler,
    *,
    max_tokens: int | Sequence[int] = 64,
    is_complete: Callable[[str], bool] | None = None,
    alternatives: int | None = None,
) -> list[Generated]:
    """Generate one text after each prompt, all in one batch. No text depends on the other prompts.

    If prompts share a prefix, it is computed only once. Finished texts are removed from the batch.

    Args:
        model: A causal language model.
        prompts: The token ids of each prompt. No prompt may be empty.
        sampler: A sampler with one seed for each prompt.
        max_tokens: The maximum number of tokens in a text, at least 1. A sequence gives each text its own limit.
        is_complete: A function that receives the decoded text after each token, and returns True to stop the
            generation.
        alternatives: The number of most probable tokens to report at each position. 0 reports only the
            log-probabilities of the generated tokens, and None reports nothing.

    Raises:
        InputError: A prompt and its text exceed the context length, or a limit is below 1.
        CannotJudgeError: The model's logits are not finite.
    """
    import torch

    limits = [max_tokens] * len(prompts) if isinstance(max_tokens, int) else max_tokens
    for prompt, limit in zip(prompts, limits, strict=True):
        if limit < 1 or len(prompt) + limit > model.max_positions:
            raise InputError(
                f"a prompt of {len(prompt)} tokens and {limit} new ones; {model.name} reads {model.max_positions}",
                hint="ask for at least one new token, and for no more than fit behind the prompt",
            )
    if not prompts:
        return []
    end_ids, decode = end_token_ids(model), model.tokenizer.decode
    texts = [Generated() for _ in prompts]
    active = list(range(len(prompts)))
    forward = CachedForward(model)
    logits, mask = read_prompts(forward, prompts)
    while True:
        tokens = sampler.sample(logits, rows=active)
        rows = [texts[i] for i in active]
        if alternatives is not None:
            _report(rows, tokens, forward, logits, alternatives)
        for i, row, token in zip(active, rows, tokens, strict=True):
            if token in end_ids:
                row.finish = "stop"
                continue
            row.ids.append(token)
            if is_complete and is_complete(decode(row.ids, skip_special_tokens=True)):
                row.finish = "stop"
            elif len(row.ids) == limits[i]:
                row.finish = "length"
        unfinished = [n for n, row in enumerate(rows) if not row.finish]
        if not unfinished:
            break
        if len(unfinished) < len(rows):
            mask = forward.keep_rows(unfinished, mask)
            active = [active[n] for n in unfinished]
        if mask is not None:
            mask = torch.nn.functional.pad(mask, (0, 1), value=1)
        logits = forward(torch.tensor([[tokens[n]] for n in unfinished], device=model.device), mask)
    for row in texts:
        row.text = decode(row.ids, skip_special_tokens=True)
        del row.logprobs[len(row.ids) :], row.alternatives[len(row.ids) :]
    return texts


def _report(
    rows: Sequence[Generated], tokens: Sequence[int], forward: CachedForward, logits: torch.Tensor, alternatives: int
) -> None:
    """Add to each row the log-probability of its new token, and those of the most probable tokens in its place."""
    import torch

    sampled = torch.tensor(tokens, device=logits.device)[:, None]
    count = min(alternatives, logits.shape[-1])
    if forward.states is not None:  # recompute more tokens than requested: unrounded, their order may change
        near = logits.topk(min(2 * count, logits.shape[-1])).indices
        near = torch.cat([sampled, near], -1)
        logits = logits.scatter(1, near, unrounded(forward.model, forward.states, logits, near))
    logprobs = logits.log_softmax(-1)
    of_sampled = logprobs.gather(1, sampled)[:, 0].tolist()
    values, indices = (part.tolist() for part in logprobs.topk(count))
    for row, logprob, best_ids, best_logprobs in zip(rows, of_sampled, indices, values, strict=True):
        row.logprobs.append(logprob)
        row.alternatives.append(list(zip(best_ids, best_logprobs, strict=True)))
