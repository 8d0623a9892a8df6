"""Encode texts of any length in windows, with one contextual embedding for each token.

The windows overlap, and the embedding of a token comes from the window that gives it most context. Because windows have
limited length, the time grows linearly with the text. The windows of all texts are batched by length, and the results
do not depend on the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import Tokens, special_tokens, tokenize
from veridical.records.errors import InputError
from veridical_lab.models.encode import Encoded
from veridical_lab.models.runner import RequestedOutputs, Runner

if TYPE_CHECKING:
    import torch

_OVERLAP = 4  # windows share a quarter, so each token has at least an eighth of a window of context on both sides
_GROUP_TOKENS = 1 << 15  # tokens of windows whose states are held in fp32 before they are stored


@dataclass(frozen=True, slots=True, eq=False)
class TextStates:
    """The tokens of one text, without special tokens.

    `states` are the embeddings of the tokens, scaled to length 1, *shape* (tokens, width). `offsets` are the start and
    end of each token in the text, *shape* (tokens, 2), and `ids` the token ids, *shape* (tokens,). If the text could
    not be encoded, `problem` says why.
    """

    states: torch.Tensor
    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AlignWindow:
    """A window of a text. The model reads tokens `start` to `end`, and the embeddings of `first` to `last` are kept."""

    start: int
    end: int
    first: int
    last: int


def windows_of(count: int, size: int) -> list[AlignWindow]:
    """Divide `count` tokens into evenly spaced, overlapping windows of at most `size` tokens.

    If a token is in several windows, its embedding comes from the window in which it is furthest from a cut.

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


def encode_texts(model: LocalModel, texts: Sequence[str], layer: int, *, window: int | None = None) -> list[TextStates]:
    """Encode each text by itself, in the precision of the model.

    Args:
        model: An encoder.
        texts: The texts to encode.
        layer: Which layer to return: 0 for the embeddings, i for the output of the i-th block.
        window: Read at most this many tokens at once, including special tokens. Default: the model's limit.

    Raises:
        InputError: The model lacks the layer, or the window has no room for text.
    """
    import torch

    around = special_tokens(model)
    room = min(window or model.max_positions, model.max_positions) - len(around.before) - len(around.after)
    if room < 1:
        raise InputError(f"a window of {window} tokens has no room", hint=f"the model reads {model.max_positions}")
    tokens = [tokenize(model.tokenizer, text) for text in texts]
    width = int(model.model.config.get_text_config().hidden_size)
    states = [torch.zeros(len(each.ids), width, dtype=model.dtype) for each in tokens]
    plan = [(i, window) for i, each in enumerate(tokens) for window in windows_of(len(each.ids), room)]
    plan.sort(key=lambda item: item[1].end - item[1].start)
    problems: dict[int, str] = {}
    for i, part, part_states in _encode_windows(model, tokens, plan, layer):
        if isinstance(part_states, str):
            problems.setdefault(i, part_states)
            continue
        skipped = len(around.before) + part.first - part.start
        states[i][part.first : part.last] = part_states[skipped : skipped + part.last - part.first].to(model.dtype)
    return [
        TextStates(
            states[i],
            np.array(each.offsets, dtype=np.int64).reshape(-1, 2),
            np.array(each.ids, dtype=np.int64),
            problems.get(i),
        )
        for i, each in enumerate(tokens)
    ]


def _encode_windows(
    model: LocalModel, tokens: Sequence[Tokens], plan: Sequence[tuple[int, AlignWindow]], layer: int
) -> Iterator[tuple[int, AlignWindow, torch.Tensor | str]]:
    """Yield the states of all tokens of each window, special tokens included, *shape* (tokens, width), in fp32.

    `plan` has pairs (index of a text, window). For a window that cannot be read, the reason is yielded instead of the
    states.
    """
    import torch

    around = special_tokens(model)
    runner = Runner(model)
    requested = RequestedOutputs(logprobs=False, layers=(layer,))
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
                yield i, window, torch.nn.functional.normalize(torch.from_numpy(result.states[layer]), dim=-1)
