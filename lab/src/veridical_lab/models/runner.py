"""Compute everything that detectors need in one forward pass: log-probabilities, entropy, rank and hidden states.

Sequences are batched by length, and the results do not depend on the batch or its order (within 1e-5 in fp32). If
several sequences of a decoder share a beginning (a document, few-shot examples), the beginning is read only once. The
language-model head runs only on the positions of the response, on a limited number at once. Encoder-decoders have the
same outputs, except for hidden states.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.inference.local_model import FORCED, LocalModel
from veridical.models.cached_forward import CachedForward, cache_argument, shared_beginnings
from veridical.models.language_head import finished, unrounded
from veridical.models.load import out_of_memory
from veridical.records.errors import InputError
from veridical_lab.models.autograd_memory import release_memory
from veridical_lab.models.encode import Encoded
from veridical_lab.models.padding import rectangle
from veridical_lab.models.sublayers import capture_sublayers, check_layout, check_sublayers

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)
_SHARD = 512  # sequences whose results are held back so that they can be batched by length
_BATCH_TOKENS = {"cpu": 1024}  # on a CPU larger batches only cost memory traffic
_KEPT = 8  # size of the key-value cache for shared beginnings, as a multiple of the batch's tokens
_HEAD_BYTES = 1 << 26  # bytes of logits (in fp32) held at once
# these architectures count positions themselves, from the padding mask or the padding id
_OWN_POSITIONS = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})


@dataclass(frozen=True, slots=True)
class RequestedOutputs:
    """What to return for each token of the response.

    Attributes:
        logprobs: Whether to return the token's log-probability, given all tokens before it.
        entropy: Whether to return the entropy of the predicted distribution, in nats.
        rank: Whether to return the token's rank, 1 for the most probable token.
        sublayers: Return the outputs of these sublayers (see `veridical_lab.models.sublayers`).
        layers: Return the hidden states of these layers, in fp32: 0 for the embeddings, i for the output of the i-th
            block.
    """

    logprobs: bool = True
    entropy: bool = False
    rank: bool = False
    sublayers: tuple[int, ...] = ()
    layers: tuple[int, ...] = ()

    @property
    def head(self) -> bool:
        """Whether the language-model head is needed."""
        return self.logprobs or self.entropy or self.rank


@dataclass(frozen=True, slots=True, eq=False)
class RunnerResult:
    """The outputs for one sequence. Index i is the i-th token of the response.

    Attributes:
        logprob, entropy, rank: The values, or None if not requested. For a first token that nothing predicts, they are
            NaN (rank 0). *Shape:* (tokens,)
        hidden: The outputs of sublayers at each token's own position, by sublayer. *Shape:* (tokens, width)
        states: The hidden states at each token's own position, by layer. *Shape:* (tokens, width)
        notes: Notes about the run.
        failed: Why there are no outputs (out of memory, or numbers that are not finite). None if there are outputs.
    """

    logprob: np.ndarray | None = None
    entropy: np.ndarray | None = None
    rank: np.ndarray | None = None
    hidden: dict[int, np.ndarray] = field(default_factory=dict)
    states: dict[int, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failed: str | None = None


class Runner:
    """Runs sequences through a model in batches of at most `max_batch_tokens` tokens, including padding.

    The default limit depends on the device. A sequence longer than the limit runs alone.
    """

    def __init__(self, model: LocalModel, *, max_batch_tokens: int | None = None) -> None:
        if max_batch_tokens is None:
            max_batch_tokens = _BATCH_TOKENS.get(model.device.type, 16384)
        if max_batch_tokens < 1:
            raise InputError(f"max_batch_tokens is {max_batch_tokens}", hint="at least 1")
        self.model = model
        self.max_batch_tokens = max_batch_tokens
        self._positions = "position_ids" in signature(model.model.base_model.forward).parameters
        self._positions = self._positions and model.model_type not in _OWN_POSITIONS and model.kind != "seq2seq"
        self._shares = model.kind == "causal" and self._positions and CachedForward(model).shares
        self._checked = False
        self._split_head: bool | None = None

    def run(self, encoded: Sequence[Encoded], requested: RequestedOutputs | None = None) -> Iterator[RunnerResult]:
        """Run the sequences, and yield one result for each, in the same order.

        Raises:
            InputError: Log-probabilities, entropy or rank are requested and the model is no decoder, sublayers are
                requested and the architecture is unknown, or a requested layer or sublayer does not exist.
        """
        requested = requested or RequestedOutputs()
        if requested.head and self.model.kind not in FORCED:
            raise InputError(f"{self.model.name} is no decoder", hint="it has hidden states, but no log-probabilities")
        if requested.head and self._split_head is None:
            self._split_head = _head_runs_apart(self.model)
        if self.model.kind == "seq2seq" and (requested.sublayers or requested.layers):
            raise InputError(
                f"{self.model.name} is an encoder-decoder", hint="it has log-probabilities, but no sublayers here"
            )
        for layer in requested.layers:
            blocks = int(self.model.model.config.get_text_config().num_hidden_layers)
            if not 0 <= layer <= blocks:
                raise InputError(f"{self.model.name} has no layer {layer}", hint=f"it has layers 0 to {blocks}")
        if requested.sublayers:
            if not self._checked:
                check_layout(self.model)
                self._checked = True
            check_sublayers(self.model, requested.sublayers)
        for start in range(0, len(encoded), _SHARD):
            yield from self._shard(encoded[start : start + _SHARD], requested)

    def _shard(self, encoded: Sequence[Encoded], requested: RequestedOutputs) -> list[RunnerResult]:
        """Run sequences in batches by length. If memory runs out, go on with smaller batches."""
        results: list[RunnerResult | None] = [None] * len(encoded)
        limit = self.max_batch_tokens
        notes: tuple[str, ...] = ()
        for order, shared in self._groups(encoded):
            beginning: CachedForward | None = None
            while order:
                chosen, width = _next_batch(encoded, order, shared, limit)
                batch = None
                try:
                    if shared and beginning is None:
                        beginning = self._read(encoded[order[0]].ids[:shared])
                    batch = self._batch([encoded[i] for i in chosen], requested, beginning)
                except (RuntimeError, MemoryError) as error:
                    if not out_of_memory(error):
                        raise
                if batch is None:
                    release_memory()  # outside the handler, because its traceback holds the tensors
                    if len(chosen) > 1:
                        limit = width * (len(chosen) // 2)
                        notes = (f"out of memory with {len(chosen)} sequences of {width} tokens; went on with half",)
                        _log.warning(notes[0])
                        continue
                    batch = [RunnerResult(failed=f"out of memory with one sequence of {width} tokens")]
                for i, result in zip(chosen, batch, strict=True):
                    results[i] = result if result.failed else replace(result, notes=result.notes + notes)
                del order[: len(chosen)]
        return [result for result in results if result is not None]

    def _groups(self, encoded: Sequence[Encoded]) -> list[tuple[list[int], int]]:
        """Group sequences by shared beginning. Return each group's indices, longest first, and its shared length."""
        apart: list[int] = []
        groups: list[tuple[list[int], int]] = []
        alike = shared_beginnings([e.ids for e in encoded]) if self._shares and all(e.ids for e in encoded) else []
        for members, same in alike or [(list(range(len(encoded))), 0)]:
            # the token that predicts a response must be read with it
            shared = min(same, *(encoded[i].response_start - 1 for i in members))
            # sharing pays off only if the group does not fit into one batch
            more = sum(encoded[i].tokens for i in members) > self.max_batch_tokens
            if len(members) > 1 and shared > 0 and more:
                groups.append((members, shared))
            else:
                apart += members
        return [
            (sorted(members, key=lambda i: -encoded[i].tokens), shared)
            for members, shared in [(apart, 0), *groups]
            if members
        ]

    def _read(self, ids: Sequence[int]) -> CachedForward:
        """Let the model read the shared beginning of sequences."""
        import torch

        forward = CachedForward(self.model)
        forward(torch.tensor([ids], device=self.model.device), head=False)
        return forward

    def _batch(
        self, batch: Sequence[Encoded], requested: RequestedOutputs, beginning: CachedForward | None
    ) -> list[RunnerResult]:
        import torch

        inputs, rows = self._inputs(batch, beginning.length if beginning else 0)
        captured: dict[int, torch.Tensor] = {}
        layers: dict[int, np.ndarray] = {}

        def capture(index: int, output: torch.Tensor) -> None:
            flat = output.reshape(-1, output.shape[-1])  # OPT's is flat already
            captured[index] = flat.index_select(0, rows).float()

        with torch.inference_mode():
            cache = beginning.copies(len(batch)) if beginning else None
            with capture_sublayers(self.model, requested.sublayers, capture) if requested.sublayers else nullcontext():
                states, by_layer = self._states(inputs, requested, cache)
            outputs = self._heads(states, batch, rows, requested) if requested.head else {}
            hidden = {i: tensor.cpu().numpy() for i, tensor in captured.items()}
            for i in requested.layers:
                of_rows = by_layer[i].reshape(-1, by_layer[i].shape[-1]).index_select(0, rows)
                layers[i] = of_rows.float().cpu().numpy()
        results = []
        start = 0
        for e in batch:
            tokens = slice(start, start + len(e.spans))
            start = tokens.stop
            of_case = {name: array[tokens].copy() for name, array in outputs.items()}
            hidden_of_case = {i: array[tokens].copy() for i, array in hidden.items()}
            layers_of_case = {i: array[tokens].copy() for i, array in layers.items()}
            arrays = (*of_case.values(), *hidden_of_case.values(), *layers_of_case.values())
            if not all(np.isfinite(array).all() for array in arrays):
                results.append(RunnerResult(failed="the model's numbers are not finite"))
                continue
            for name, array in of_case.items():
                array[: e.scored_from] = 0 if name == "rank" else np.nan
            head = (of_case.get("logprob"), of_case.get("entropy"), of_case.get("rank"))
            results.append(RunnerResult(*head, hidden_of_case, layers_of_case))
        return results

    def _states(
        self, inputs: dict[str, torch.Tensor], requested: RequestedOutputs, cache: Any = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Compute the last hidden states, or all logits if the head cannot run by itself. *Shape:* (batch, width, …)

        Also return the hidden states by layer if any layer is requested. `cache` holds tokens read before the inputs.
        """
        model = self.model.model
        options: dict[str, Any] = {} if self.model.kind == "encoder" else {"use_cache": False}
        if cache is not None:
            options = {"use_cache": True, cache_argument(model): cache}
        if requested.layers:
            options["output_hidden_states"] = True
        if not self._split_head and (requested.head or self.model.kind == "seq2seq"):
            outputs = model(**inputs, **options)
            return outputs.logits, outputs.hidden_states if requested.layers else ()
        outputs = model.base_model(**inputs, **options)
        return outputs.last_hidden_state, outputs.hidden_states if requested.layers else ()

    def _inputs(self, batch: Sequence[Encoded], shared: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Build the model's inputs, and find the rows of response tokens in its flattened *(batch * width)* states.

        The first `shared` tokens were read before, so the inputs leave them out. The mask still covers them.
        """
        import torch

        ids, mask = rectangle(self.model, [e.ids[shared:] for e in batch])
        mask = torch.nn.functional.pad(mask, (shared, 0), value=1)
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.model.kind == "seq2seq":
            encoder_ids, encoder_mask = rectangle(self.model, [e.encoder_ids for e in batch])
            inputs = {"input_ids": encoder_ids, "attention_mask": encoder_mask}
            inputs |= {"decoder_input_ids": ids, "decoder_attention_mask": mask}
        if self._positions:
            inputs["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)[:, shared:]
        rows = [
            torch.arange(e.response_start, e.response_end, device=ids.device) - shared + i * ids.shape[1]
            for i, e in enumerate(batch)
        ]
        return inputs, torch.cat(rows)

    def _heads(
        self, states: torch.Tensor, batch: Sequence[Encoded], rows: torch.Tensor, requested: RequestedOutputs
    ) -> dict[str, np.ndarray]:
        """Compute the requested outputs of the language-model head for the response tokens of the batch, in order."""
        import torch

        targets = torch.tensor([t for e in batch for t in e.ids[e.response_start : e.response_end]], dtype=torch.long)
        targets = targets.to(states.device)
        flat = states.reshape(-1, states.shape[-1])
        head = self.model.model.get_output_embeddings()
        step = max(1, _HEAD_BYTES // (4 * head.weight.shape[0]))
        parts: dict[str, list[torch.Tensor]] = {"logprob": [], "entropy": [], "rank": []}
        for start in range(0, len(rows), step):
            states_before = flat.index_select(0, (rows[start : start + step] - 1).clamp(min=0))
            logits = (
                finished(self.model.model.config, head(states_before)) if self._split_head else states_before
            ).float()
            total = torch.logsumexp(logits, -1)
            target = targets[start : start + step, None]
            chosen = logits.gather(1, target)[:, 0]
            if requested.logprobs:
                exact = unrounded(self.model, states_before, logits, target)[:, 0] if self._split_head else chosen
                # the sum in `total` must use the exact value, too
                others = (exact - total).exp() - (chosen - total).exp()
                parts["logprob"].append(exact - total - others.log1p())
            if requested.rank:
                parts["rank"].append((logits > chosen[:, None]).sum(-1) + 1)
            if requested.entropy:  # entr(0) is 0, which also handles a logit of minus infinity
                parts["entropy"].append(torch.special.entr((logits - total[:, None]).exp()).sum(-1))
        return {name: torch.cat(pieces).cpu().numpy() for name, pieces in parts.items() if pieces}


def _next_batch(encoded: Sequence[Encoded], order: Sequence[int], shared: int, limit: int) -> tuple[list[int], int]:
    """Take as many from the start of `order` as fit into one batch. Also return their width, padding included."""
    chosen: list[int] = []
    width = encoder_length = decoder_length = 0
    for i in order:
        encoder_length = max(encoder_length, len(encoded[i].encoder_ids))
        decoder_length = max(decoder_length, len(encoded[i].ids), 1)
        tokens = encoder_length + decoder_length - shared
        size = len(chosen) + 1
        if chosen and (size * tokens > limit or (shared and size * decoder_length > _KEPT * limit)):
            break
        chosen.append(i)
        width = tokens
    return chosen, width


def _head_runs_apart(model: LocalModel) -> bool:
    """Check whether trunk, head and `finished`, run one after the other, give the model's own logits."""
    import torch

    config = model.model.config
    ids = torch.arange(4, device=model.device)[None] % config.get_text_config().vocab_size
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    if model.kind == "seq2seq":
        inputs["decoder_input_ids"] = ids
    if model.model.base_model is model.model:  # T5 has no trunk of its own
        return False
    with torch.inference_mode():
        logits = model.model(**inputs).logits
        states = model.model.base_model(**inputs).last_hidden_state
    head = model.model.get_output_embeddings()
    if head is None or states.shape[-1] != head.weight.shape[1]:
        return False
    error = (logits - finished(config, head(states))).abs().max()
    return bool(error <= 16 * torch.finfo(model.dtype).eps * logits.abs().max().clamp(min=1.0))
