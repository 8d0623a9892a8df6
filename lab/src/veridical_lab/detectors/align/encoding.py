"""Encode texts of any length as one contextual embedding per token, in windows.

Windows overlap, and each token's embedding comes from the window that gives it most context, so time grows linearly
with the text. Windows of all texts are batched by length; the result does not depend on the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError
from veridical.models.encode import Encoded, Tokens, special_tokens, tokenize
from veridical.models.load import LocalModel
from veridical_lab.models.runner import RequestedOutputs, Runner

if TYPE_CHECKING:
    import torch

__all__ = ["AlignWindow", "TextStates", "encode_texts", "encode_windows", "torch_dtype", "windows_of"]

_OVERLAP = 4  # windows share a quarter, so each token has at least an eighth of a window of context on both sides
_GROUP_TOKENS = 1 << 15  # tokens of windows whose states are held in fp32 before they are stored
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TextStates:
    """The tokens of one text, without special tokens: `states` (layers, tokens, width), each of length 1.

    `offsets` are the characters of each token, *shape* (tokens, 2); `ids` are the token ids, *shape* (tokens,).
    `problem` says why there are no states; None if there are.
    """

    states: torch.Tensor
    offsets: Ints
    ids: Ints
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AlignWindow:
    """A window of a text: tokens `start` to `end` are read, and the embeddings of `first` to `last` are kept."""

    start: int
    end: int
    first: int
    last: int


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch type for `name`: "fp32", "bf16" or "fp16"."""
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def windows_of(count: int, size: int) -> list[AlignWindow]:
    """Return evenly spaced, overlapping windows of at most `size` tokens over `count` tokens.

    Each token belongs to one window: the one whose nearer edge (an edge that cuts the text) is furthest away.

    >>> windows_of(10, 8)
    [AlignWindow(start=0, end=8, first=0, last=5), AlignWindow(start=2, end=10, first=5, last=10)]
    """
    if count <= size:
        return [AlignWindow(0, count, 0, count)] if count else []
    step = max(1, size - size // _OVERLAP)
    number = 1 + -(-(count - size) // step)
    starts = np.linspace(0, count - size, number).round().astype(int).tolist()
    edges = [0, *((start + before + size) // 2 for before, start in itertools.pairwise(starts)), count]
    return [AlignWindow(s, s + size, edges[i], edges[i + 1]) for i, s in enumerate(starts)]


def encode_texts(
    model: LocalModel,
    texts: Sequence[str],
    layers: Sequence[int],
    *,
    window: int | None = None,
    storage: str = "fp32",
    specials: bool = False,
) -> list[TextStates]:
    """Encode each text by itself.

    Args:
        model: An encoder.
        texts: The texts.
        layers: The layers to return: 0 for the embeddings, i for the output of the i-th block.
        window: The most tokens read at once, special tokens included; None: the model's limit.
        storage: The precision of the states: "fp32", "bf16" or "fp16".
        specials: Whether to return the special tokens before and after a text, too (with characters 0 to 0).

    Raises:
        InputError: If the model lacks a layer, or the window has no room for text.
    """
    import torch

    around = special_tokens(model)
    room = min(window or model.max_positions, model.max_positions) - len(around.before) - len(around.after)
    if room < 1:
        raise InputError(f"a window of {window} tokens has no room", hint=f"the model reads {model.max_positions}")
    tokens = [tokenize(model.tokenizer, text) for text in texts]
    before, after = (around.before, around.after) if specials else ((), ())
    width = int(model.model.config.get_text_config().hidden_size)
    extra = len(before) + len(after)
    states = [torch.zeros(len(layers), len(each.ids) + extra, width, dtype=torch_dtype(storage)) for each in tokens]
    plan = [(i, window) for i, each in enumerate(tokens) for window in windows_of(len(each.ids), room)]
    plan.sort(key=lambda item: item[1].end - item[1].start)
    problems: dict[int, str] = {}
    for i, window_, window_states in encode_windows(model, tokens, plan, layers):
        if isinstance(window_states, str):
            problems.setdefault(i, window_states)
            continue
        first, last = len(before) + window_.first, len(before) + window_.last
        if window_.first == 0:
            first = 0
        if window_.last == len(tokens[i].ids):
            last += len(after)
        skipped = len(around.before) + window_.first - window_.start - (len(before) if window_.first == 0 else 0)
        states[i][:, first:last] = window_states[:, skipped : skipped + last - first].to(states[i].dtype)
    offsets = [[(0, 0)] * len(before) + each.offsets + [(0, 0)] * len(after) for each in tokens]
    return [
        TextStates(
            states[i],
            np.array(offsets[i], dtype=np.int64).reshape(-1, 2),
            np.array([*before, *each.ids, *after], dtype=np.int64),
            problems.get(i),
        )
        for i, each in enumerate(tokens)
    ]


def encode_windows(
    model: LocalModel, tokens: Sequence[Tokens], plan: Sequence[tuple[int, AlignWindow]], layers: Sequence[int]
) -> Iterator[tuple[int, AlignWindow, torch.Tensor | str]]:
    """Yield the states of all tokens of each window, special tokens included. *Shape:* (layers, tokens, width)

    States have length 1, in fp32. If a window cannot be read, the reason stands in their place.

    Args:
        model: An encoder.
        tokens: The tokens of each text.
        plan: (index of a text, window) pairs, preferably sorted by length.
        layers: The layers to return.
    """
    import torch

    around = special_tokens(model)
    runner = Runner(model)
    requested = RequestedOutputs(logprobs=False, layers=tuple(layers))
    next_i = 0
    while next_i < len(plan):
        group: list[tuple[int, AlignWindow]] = []
        group_tokens = 0
        while next_i < len(plan) and (not group or group_tokens < _GROUP_TOKENS):
            group.append(plan[next_i])
            group_tokens += plan[next_i][1].end - plan[next_i][1].start
            next_i += 1
        to_read = []
        for i, window in group:
            ids = (*around.before, *tokens[i].ids[window.start : window.end], *around.after)
            to_read.append(Encoded(ids, 0, (None,) * len(ids)))
        for (i, window), result in zip(group, runner.run(to_read, requested), strict=True):
            if result.failed:
                yield i, window, result.failed
            else:
                stacked = torch.stack([torch.from_numpy(result.states[layer]) for layer in layers])
                yield i, window, torch.nn.functional.normalize(stacked, dim=-1)
