"""Mask given spans of a text in turn, and predict each with a masked language model.

Liu et al. 2022, §3.4, mask a marked phrase as a whole, and use probability and entropy of its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import special_tokens, tokenize
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical_lab.models.padding import rectangle

_BATCH_TOKENS = {"cpu": 1024}  # as in the runner; on other devices the logits of a whole batch set the limit
_OTHER_BATCH_TOKENS = 8192


@dataclass(frozen=True, slots=True, eq=False)
class MaskedOutputs:
    """What the model predicts for the tokens of one masked stretch. All arrays have the *shape* (tokens,).

    Attributes:
        logprob: The log-probability of the original token, in nats.
        entropy: The entropy of the predicted distribution, in nats.
        rank: The rank of the original token, 1 for the most probable token.
    """

    logprob: NDArray[np.float64]
    entropy: NDArray[np.float64]
    rank: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MaskedSequence:
    """One sequence for the model.

    `text` and `stretch` are the indices of the text and of its masked stretch, `ids` the ids with masks, `first` the
    position of the first mask, and `hidden` the masked ids.
    """

    text: int
    stretch: int
    ids: list[int]
    first: int
    hidden: list[int]


def mask_in_turn(
    model: LocalModel,
    texts: Sequence[str],
    stretches: Sequence[Sequence[Span]],
    *,
    left_only: bool = False,
    max_batch_tokens: int | None = None,
) -> list[list[MaskedOutputs | None]]:
    """Mask the stretches of each text one by one, and predict each from the rest of the text.

    Args:
        model: A masked language model (`load(…, kinds=("masked",))`).
        texts: The texts.
        stretches: The spans to mask in each text. All tokens that share a character with a span are masked together. Of
            a text longer than the model's limit, only a part around the span is read.
        left_only: Whether to hide the text after the stretch from the model.
        max_batch_tokens: A batch may have at most this many tokens, including padding. Default: depends on the device.

    Returns:
        For each text, the outputs of each stretch. None for a stretch that has no tokens or exceeds the model's limit.

    Raises:
        InputError: The tokenizer has no mask.
    """
    if model.tokenizer.mask_token_id is None:
        raise InputError(f"the tokenizer of {model.name} has no mask", hint="a masked language model is needed")
    results: list[list[MaskedOutputs | None]] = [[None] * len(of_text) for of_text in stretches]
    sequences = [s for i, text in enumerate(texts) for s in masked_sequences(model, i, text, stretches[i], left_only)]
    sequences.sort(key=lambda sequence: -len(sequence.ids))
    limit = max_batch_tokens or _BATCH_TOKENS.get(model.device.type, _OTHER_BATCH_TOKENS)
    start = 0
    while start < len(sequences):
        batch = sequences[start : start + max(1, limit // len(sequences[start].ids))]
        start += len(batch)
        for sequence, outputs in zip(batch, masked_outputs(model, batch), strict=True):
            results[sequence.text][sequence.stretch] = outputs
    return results


def masked_sequences(
    model: LocalModel, number: int, text: str, stretches: Sequence[Span], left_only: bool
) -> Iterator[MaskedSequence]:
    """Make a sequence for each stretch of text number `number` that has tokens and fits into the model."""
    around = special_tokens(model)
    tokens = tokenize(model.tokenizer, text)
    room = model.max_positions - len(around.before) - len(around.after)
    starts, ends = (np.array([offset[side] for offset in tokens.offsets], dtype=np.int64) for side in (0, 1))
    for i, span in enumerate(stretches):
        inside = np.flatnonzero((ends > span.start) & (starts < span.end))
        if not inside.size or len(inside) > room:
            continue
        first, last = int(inside[0]), int(inside[-1]) + 1
        end = last if left_only else len(tokens.ids)
        begin = 0
        if end > room:  # put the stretch in the middle, or at the end if nothing may follow
            begin = min(max(0, (first + last - room) // 2), end - room)
            end = begin + room
        ids = [*tokens.ids[begin:first], *[model.tokenizer.mask_token_id] * (last - first), *tokens.ids[last:end]]
        whole = [*around.before, *ids, *around.after]
        yield MaskedSequence(number, i, whole, len(around.before) + first - begin, tokens.ids[first:last])


def masked_outputs(model: LocalModel, batch: Sequence[MaskedSequence]) -> Iterator[MaskedOutputs]:
    """Run a batch in one pass, and yield the outputs of each sequence."""
    import torch

    ids, mask = rectangle(model, [sequence.ids for sequence in batch])
    with torch.inference_mode():
        logits: Any = model.model(input_ids=ids, attention_mask=mask).logits
        for row, sequence in enumerate(batch):
            stretch_logits = logits[row, sequence.first : sequence.first + len(sequence.hidden)].float()
            true = torch.tensor(sequence.hidden, device=stretch_logits.device)[:, None]
            log_p = torch.log_softmax(stretch_logits, -1)
            chosen = log_p.gather(1, true)
            rank = (log_p > chosen).sum(-1) + 1
            numbers = (chosen[:, 0], torch.special.entr(log_p.exp()).sum(-1), rank)
            yield MaskedOutputs(*(tensor.double().cpu().numpy() for tensor in numbers))
