"""Compute the gradient salience of tokens: how strongly each token of a text affects the score of each later token.

All targets (the tokens to explain) share a few forward passes. The part of each gradient that goes through the
language-model head is computed in closed form, and only the input embeddings need a gradient. This module knows nothing
about words and sources. It follows Chang et al. 2024, §3.2, with the method of Denil et al. 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from veridical.models.load import out_of_memory
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical_lab.models.autograd_memory import (
    activation_checkpointing,
    blocks,
    bytes_needed,
    embedding_inputs,
    fast_path,
    free_bytes,
    frozen,
    release_memory,
)

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

SALIENCE_KINDS = ("input_x_gradient", "l2")
SALIENCE_SCORES = ("logit", "logprob")
_CHECKED = 8  # tokens on which the closed-form head is compared with the model's own
_GPU_TOKENS = 32_768  # tokens of gradients at once on a GPU; more is not faster
_HEAD_BYTES = 1 << 26  # bytes of logits (in fp32) held at once
_SEGMENTS = 12  # the most forward passes per text
# working memory of a backward pass per target, in units of one block's activations (measured: 2.5-3)
_WORKING = 3


@dataclass(frozen=True, slots=True)
class _Head:
    """A closed-form head: scores are `cap * tanh(factor * (weight @ hidden + bias) / cap)`; no tanh without `cap`."""

    weight: Tensor
    bias: Tensor | None
    factor: float
    cap: float | None

    def scores(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """Compute the scores of all words, (targets, words), or of one of `tokens` per row, (targets,)."""
        weight = self.weight if tokens is None else self.weight[tokens]
        bias = 0 if self.bias is None else self.bias if tokens is None else self.bias[tokens]
        products = hidden @ weight.T if tokens is None else (hidden * weight).sum(-1)
        scores = self.factor * (products + bias)
        return scores if self.cap is None else self.cap * (scores / self.cap).tanh()


@dataclass(frozen=True, slots=True)
class _Schedule:
    """How to compute gradients: `chunk` targets in one backward pass, with or without activation checkpointing."""

    chunk: int
    checkpointing: bool


_heads: WeakKeyDictionary[Any, _Head | None] = WeakKeyDictionary()


def salience(
    model: Any,
    ids: Sequence[int],
    targets: Sequence[int],
    *,
    encoder_ids: Sequence[int] | None = None,
    kind: str = "input_x_gradient",
    score: str = "logit",
    chunk: int | None = None,
    max_memory: int | None = None,
    notes: list[str] | None = None,
) -> np.ndarray:
    """Compute how strongly each token affects each target.

    A target is a position `t` of `ids`. The model predicts `ids[t]` at `t - 1`, with a score. The column of the target
    has one number for each token before `t`, made from the gradient of this score with respect to the token's input
    embedding. Rows from `t` on are 0. The result is signed, in float32, with *shape* (tokens, targets).

    Args:
        model: A transformers model with a language-model head.
        ids: The token ids. For an encoder-decoder, these are the ids for the decoder, with its start token first.
        targets: The target positions in `ids`, from 1.
        encoder_ids: The token ids for the encoder of an encoder-decoder. Their rows come before those of `ids`.
        kind: How a gradient becomes a number: its dot product with the embedding ("input_x_gradient"), or its length
            ("l2").
        score: Which score of a target to differentiate, "logit" or "logprob".
        chunk: How many targets share a backward pass. Default: 1 on a CPU, where more is not faster, and as many as
            help on a GPU.
        max_memory: Activations may take at most this many bytes. If they need more, blocks are run again in each
            backward pass. Default: most of the free memory.
        notes: A list. A line is added to it whenever the method has to change, and if columns are not finite.

    Raises:
        InputError: A target is out of range.
        CannotJudgeError: There is too little memory.
    """
    import numpy as np

    if kind not in SALIENCE_KINDS:
        raise UnknownNameError("kind of salience", kind, SALIENCE_KINDS)
    if score not in SALIENCE_SCORES:
        raise UnknownNameError("score for salience", score, SALIENCE_SCORES)
    wrong = [t for t in targets if not 1 <= t < len(ids)]
    if wrong:
        raise InputError(
            f"target {wrong[0]} of {len(ids)} tokens", hint="a target has a token before it: 1 to the last"
        )
    notes = [] if notes is None else notes
    encoder_length = len(encoder_ids or ())
    values = np.zeros((encoder_length + len(ids), len(targets)), dtype=np.float32)
    for columns in _segments(targets, encoder_length):
        part = [targets[c] for c in columns]
        job = _Job(model, list(ids[: max(part)]), part, [ids[t] for t in part], list(encoder_ids or ()), kind, score)
        part_values = _within_memory(job, chunk, max_memory, notes)
        values[: len(part_values), columns] = part_values
    broken = int((~np.isfinite(values).all(axis=0)).sum())
    if broken:
        notes.append(f"the gradients of {broken} of {len(targets)} tokens are not finite; fp32 or bf16 may help")
    return values


def _segments(targets: Sequence[int], encoder_length: int) -> list[list[int]]:
    """Split the columns into groups. Each group shares a forward pass, which ends at the last target of the group.

    In a group, every backward pass is as long as the longest, and each group costs a forward pass. The cheapest split
    is chosen.
    """
    order = sorted(range(len(targets)), key=targets.__getitem__)
    best: tuple[float, list[list[int]]] = (float("inf"), [])
    for count in range(1, min(_SEGMENTS, len(order)) + 1):
        edges = [round(i * len(order) / count) for i in range(count + 1)]
        groups = [order[a:b] for a, b in pairwise(edges)]
        cost = sum((len(g) + 1.5) * (encoder_length + targets[g[-1]]) for g in groups)
        if cost < best[0]:
            best = (cost, groups)
    return best[1]


@dataclass(frozen=True, slots=True)
class _Job:
    """One forward pass over `ids`, which end before the last of the `targets`."""

    model: Any
    ids: list[int]
    targets: list[int]
    tokens: list[int]
    encoder_ids: list[int]
    kind: str
    score: str

    @property
    def length(self) -> int:
        return len(self.ids) + len(self.encoder_ids)


def _within_memory(job: _Job, chunk: int | None, max_memory: int | None, notes: list[str]) -> np.ndarray:
    """Run the job in the first way that fits into memory: with smaller and smaller chunks, then with checkpointing."""
    schedule = _schedule(job, chunk, max_memory, notes)
    while True:
        try:
            return _run(job, schedule)
        except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
            if not out_of_memory(error):
                raise
        release_memory()
        if schedule.chunk > 1:
            schedule = _Schedule(max(1, schedule.chunk // 4), schedule.checkpointing)
        elif not schedule.checkpointing:
            schedule = _Schedule(1, True)
        else:
            raise CannotJudgeError(
                f"the gradients of a text of {job.length} tokens do not fit into memory",
                hint="give a smaller window, a smaller model, or bf16",
            )
        _add_note(notes, "out of memory: gradients were computed in smaller steps")


def _schedule(job: _Job, chunk: int | None, max_memory: int | None, notes: list[str]) -> _Schedule:
    import torch

    needed, depth = bytes_needed(job.model, job.length), len(blocks(job.model)) or 1
    working = _WORKING * needed / depth
    budget = free_bytes(job.model.device) if max_memory is None else max_memory
    if needed + working > budget:
        hidden = job.length * depth * job.model.get_input_embeddings().weight[0].nbytes
        least = hidden + needed / depth + working
        if max_memory is not None and least > budget:
            raise CannotJudgeError(
                f"the gradients of a text of {job.length} tokens need about {least / 1e6:.1f} MB, "
                f"and {budget / 1e6:.1f} MB are allowed",
                hint="allow more memory or give a smaller window",
            )
        _add_note(notes, "little memory: blocks were run again for each gradient, which takes twice the time")
        return _Schedule(1, True)
    if chunk is None:
        chunk = 1 if torch.device(job.model.device).type == "cpu" else max(1, _GPU_TOKENS // job.length)
    return _Schedule(max(1, min(chunk, len(job.targets), int((budget - needed) / max(working, 1)))), False)


def _run(job: _Job, schedule: _Schedule) -> np.ndarray:
    """Run a job as the schedule says. *Shape:* (tokens read, targets)"""
    import torch

    embed = job.model.get_input_embeddings()
    texts = [job.encoder_ids, job.ids] if job.encoder_ids else [job.ids]
    leaves = [embed(torch.tensor([ids], device=embed.weight.device)).detach().requires_grad_() for ids in texts]
    columns: list[Tensor] = []
    with (
        torch.enable_grad(),
        fast_path(job.model, job.length),
        activation_checkpointing(job.model, schedule.checkpointing),
    ):
        outputs, seeds = _outputs(job, leaves)
        for start in range(0, len(seeds), schedule.chunk):
            rows = range(start, min(start + schedule.chunk, len(seeds)))
            factors = torch.zeros(len(rows), *outputs.shape, dtype=outputs.dtype, device=outputs.device)
            factors[range(len(rows)), rows] = seeds[rows.start : rows.stop].to(outputs.dtype)
            grads: Sequence[Tensor]
            if len(rows) == 1:
                grads = [g[None] for g in torch.autograd.grad(outputs, leaves, factors[0], retain_graph=True)]
            else:
                grads = torch.autograd.grad(outputs, leaves, factors, retain_graph=True, is_grads_batched=True)
            for of_target in zip(*grads, strict=True):  # (1, tokens, width) per leaf; summed in fp32
                pairs = zip((g[0].float() for g in of_target), (x.detach()[0].float() for x in leaves), strict=True)
                parts = [g.norm(dim=-1) if job.kind == "l2" else (g * x).sum(-1) for g, x in pairs]
                columns.append(torch.cat(parts))
    return torch.stack(columns, dim=1).cpu().numpy()


def _outputs(job: _Job, leaves: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the tensors to differentiate, with one row for each target, and the factors of each row.

    With a closed-form head, these are the last hidden states before the targets and the head's gradients there, both of
    *shape* (targets, width). Otherwise they are the scores themselves and ones, both of *shape* (targets, 1).
    """
    import torch

    positions = torch.tensor(job.targets, device=leaves[-1].device) - 1
    tokens = torch.tensor(job.tokens, device=leaves[-1].device)
    head = _head(job.model)
    inputs = embedding_inputs(leaves)
    if head is None:
        logits = job.model(**inputs).logits[0, positions].float()
        scores = logits.log_softmax(-1) if job.score == "logprob" else logits
        return scores.gather(1, tokens[:, None]), torch.ones(len(positions), 1, device=positions.device)
    hidden = job.model.base_model(**inputs).last_hidden_state[0, positions]
    factors = []
    step = len(positions) if job.score == "logit" else max(1, _HEAD_BYTES // (4 * len(head.weight)))
    for part, chosen in zip(hidden.detach().split(step), tokens.split(step), strict=True):
        rows = part.requires_grad_()  # rows are independent, so one backward pass through the head is enough
        if job.score == "logprob":
            scores = head.scores(rows).float().log_softmax(-1).gather(1, chosen[:, None])
        else:
            scores = head.scores(rows, chosen)
        factors.append(torch.autograd.grad(scores.sum(), rows)[0])
    return hidden, torch.cat(factors)


def _head(model: Any) -> _Head | None:
    """Return the model's head as a `_Head`, or None if its scores differ. Each model is compared only once."""
    import torch

    if model in _heads:
        return _heads[model]
    layer = model.get_output_embeddings()
    if layer is None or not hasattr(layer, "weight") or model.base_model is model:
        _heads[model] = None
        return None
    config = model.config.get_text_config()
    device = model.get_input_embeddings().weight.device
    ids = torch.arange(1, _CHECKED + 1, device=device)[None] % model.get_input_embeddings().weight.shape[0]
    inputs = {"input_ids": ids, "use_cache": False}
    if getattr(model.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = ids
    with torch.no_grad(), frozen(model):
        hidden = model.base_model(**inputs).last_hidden_state[0]
        model_logits = model(**inputs).logits[0].double()
    cap = getattr(config, "final_logit_softcapping", None)
    plain = _Head(layer.weight.detach(), getattr(layer, "bias", None), 1.0, None)
    plain_scores = plain.scores(hidden).double()
    inner = model_logits if not cap else cap * (model_logits / cap).clamp(-0.999999, 0.999999).atanh()
    factor = float((inner * plain_scores).sum() / (plain_scores * plain_scores).sum().clamp_min(1e-30))
    head = _Head(plain.weight, plain.bias, 1.0 if abs(factor - 1) < 1e-2 else factor, float(cap) if cap else None)
    error = (head.scores(hidden).double() - model_logits).abs().max() / model_logits.abs().max().clamp_min(1e-30)
    _heads[model] = head if error < (1e-4 if layer.weight.dtype == torch.float32 else 3e-2) else None
    return _heads[model]


def _add_note(notes: list[str], line: str) -> None:
    if line not in notes:
        notes.append(line)
