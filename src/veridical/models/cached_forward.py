"""Run a causal language model with a cache of keys and values (KV cache).

Each row of a batch is one text, and you can remove rows whose text has ended. If several prompts share a prefix, the
forward pass over the prefix is run only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

from veridical.inference.local_model import LocalModel
from veridical.models.language_head import head_states
from veridical.records.errors import CannotJudgeError

if TYPE_CHECKING:
    import torch

_ROOM = 64  # additional tokens to allocate whenever the cache grows
_LEAST_SHARED = 0.5  # prompts share a pass if their common beginning is at least this part of the longest one


def cache_argument(model: Any) -> str:
    """Return the name that a transformers model uses for its KV cache, both as an argument and as a field of outputs.

    This is "past_key_values", or "cache" in newer versions of transformers.
    """
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"  # "cache" since 5.24


def bytes_per_token(model: LocalModel) -> int:
    """Compute how many bytes one token takes in the KV cache, over all layers, from the configuration.

    For a model with a recurrent state instead of keys and values, this is only a rough estimate.
    """
    config = model.model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None) or 1
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    heads = getattr(config, "num_key_value_heads", None) or heads
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):  # Falcon
        heads = 1
    return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)


class CachedForward:
    """Runs a causal language model over a batch of growing token sequences (rows), with a KV cache.

    Call it with the next tokens of each row to get the next logits. Layers with a sliding window also keep all keys and
    values, so that you can crop the cache to any token.

    Attributes:
        length: The number of tokens of each row in the cache, including padding.
        passes: The number of forward passes so far.
        states: The hidden states from which the language-model head computed the last logits, *shape* (rows, width).
            None if the model runs in fp32.
        shares: If true, the cache of one row can be copied to other rows. False if a layer has a recurrent state
            instead of keys and values.
    """

    def __init__(self, model: LocalModel) -> None:
        from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

        self.model = model
        self.length = 0
        self.passes = 0
        self.states: torch.Tensor | None = None
        parameters = signature(model.model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self._takes_positions = "position_ids" in parameters
        layers = DynamicCache(config=model.model.config).layers
        plain = (DynamicLayer, DynamicSlidingWindowLayer)
        self._argument = cache_argument(model.model)
        self.shares = self._argument in parameters and all(type(layer) in plain for layer in layers)
        # without a mask, PyTorch's kernel for grouped keys in bf16 is several times as slow on processors
        text = model.model.config.get_text_config()
        grouped = getattr(text, "num_key_value_heads", None) not in (None, getattr(text, "num_attention_heads", None))
        self._full_mask = (
            grouped and model.device.type == "cpu" and all(type(layer) is DynamicLayer for layer in layers)
        )
        self._cache: Any = None
        if self.shares:
            self._cache = DynamicCache()
            self._cache.layer_class_to_replicate = _growing_layer()

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor | None = None, *, head: bool = True) -> Any:
        """Run the model on `ids`, the next tokens of each row, and return the logits of the token after them.

        Args:
            ids: The ids of the next tokens. *Shape:* (rows, tokens).
            mask: 1 for each token in the cache and in `ids`, and 0 for left padding. None if there is no padding.
                *Shape:* (rows, all tokens).
            head: If false, the language-model head is not run.

        Returns:
            The logits in fp32, *shape* (rows, vocabulary). Without `head`, the last hidden states, *shape* (rows,
            tokens, width).

        Raises:
            CannotJudgeError: A row has logits that are not finite.
        """
        import torch

        inputs: dict[str, Any] = {"input_ids": ids, self._argument: self._cache, "use_cache": True}
        if mask is None and self._full_mask and self.length and ids.shape[1] == 1:
            inputs["attention_mask"] = torch.ones(len(ids), 1, 1, self.length + 1, dtype=torch.bool)
        elif mask is not None:
            inputs["attention_mask"] = mask
            if self._takes_positions:
                inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, self.length :]
        with torch.inference_mode():
            if head:
                with head_states(self.model.model) as read:
                    output = self.model.model(**inputs, **self._last_only)
                self.states = read[-1][:, -1] if read and self.model.dtype != torch.float32 else None
            else:
                output = self.model.model.base_model(**inputs)
        self._cache = getattr(output, self._argument)
        self.length += ids.shape[1]
        self.passes += 1
        if not head:
            return output.last_hidden_state
        logits = output.logits[:, -1].float()
        if not torch.isfinite(logits.amax(-1)).all():  # one NaN makes the maximum NaN
            raise CannotJudgeError("the model's numbers are not finite", hint="run it in fp32 or bf16")
        return logits

    def copies(self, rows: int) -> Any:
        """Return a transformers cache in which each of `rows` rows is a copy of this cache, which must have one row.

        Use it for several texts that continue the same beginning.
        """
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache()
        for layer_i, layer in enumerate(self._cache.layers):
            cache.update(layer.keys.expand(rows, -1, -1, -1), layer.values.expand(rows, -1, -1, -1), layer_i)
        return cache

    def crop(self, length: int) -> None:
        """Remove all but the first `length` tokens of each row from the cache.

        If the cache cannot be cropped, because a layer has a recurrent state, remove all tokens.
        """
        if self.length <= length:
            return
        try:
            self._cache.crop(length - self.length)  # a negative number means: remove that many tokens
            self.length = length
        except RuntimeError:  # a recurrent state cannot be rewound
            self._cache, self.length = None, 0

    def keep_rows(self, rows: Sequence[int], mask: torch.Tensor | None) -> torch.Tensor | None:
        """Keep only the given rows of the cache, and remove left padding that all of them have (only if `shares`).

        Args:
            rows: The indices of the rows to keep.
            mask: For all rows, 1 for each token and 0 for left padding. None if there is no padding. *Shape:* (all
                rows, tokens)

        Returns:
            The mask of the remaining rows. None if no padding is left.
        """
        import torch

        indices = torch.tensor(rows, device=self.model.device)
        self._cache.reorder_cache(indices)  # every kind of layer also takes fewer indices than rows
        if mask is None:
            return None
        mask = mask[indices]
        padding = int(mask.argmax(-1).min())  # the first column that holds a token
        if padding and self.shares:
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[:, :, padding:], layer.values[:, :, padding:]
            self.length -= padding
            mask = mask[:, padding:]
        return None if bool(mask.all()) else mask

    def begin_with(self, beginnings: Sequence[Sequence[int]], rows: Sequence[tuple[int, int]], length: int) -> None:
        """Fill an empty cache with beginnings (prefixes) that several rows share.

        There is one forward pass for each beginning. Each row gets the first tokens of one beginning, and is padded on
        the left.

        Args:
            beginnings: The token ids of each beginning.
            rows: For each row, the index of its beginning and the number of tokens to take from it, at most `length`.
            length: The number of tokens per row, including padding.
        """
        import torch

        caches = []  # the layers' keys and values, for each beginning
        for ids in beginnings:
            forward = CachedForward(self.model)
            forward(torch.tensor([ids], device=self.model.device), head=False)
            self.passes += 1
            caches.append(forward._cache.layers)
        for layer_i, first in enumerate(caches[0]):
            shape = (len(rows), first.keys.shape[1], length)
            keys = first.keys.new_zeros(*shape, first.keys.shape[-1])
            values = first.values.new_zeros(*shape, first.values.shape[-1])
            for row, (beginning, count) in enumerate(rows):
                layer = caches[beginning][layer_i]
                keys[row, :, length - count :] = layer.keys[0, :, :count]
                values[row, :, length - count :] = layer.values[0, :, :count]
            self._cache.update(keys, values, layer_i)
        self.length = length


@cache
def _growing_layer() -> type:
    """Make a cache layer class that allocates ahead, because `DynamicLayer` copies all tokens for each new one."""
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):
        _rooms: tuple[Any, Any] = (None, None)

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            self.keys, key_room = _append(self.keys, key_states, self._rooms[0])
            self.values, value_room = _append(self.values, value_states, self._rooms[1])
            self._rooms = (key_room, value_room)
            return self.keys, self.values

    return GrowingLayer


def _append(old: Any, new: torch.Tensor, room: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Append the tokens in `new` to `old`. Return the result, and the buffer that holds it.

    If `old` is the beginning of the buffer `room` and `new` fits behind it, `room` is used. Otherwise, a new buffer is
    allocated.
    """
    start = old.shape[-2] if old.numel() else 0
    end = start + new.shape[-2]
    in_room = room is not None and len(room) == len(new) and (not start or old.data_ptr() == room.data_ptr())
    if room is None or not in_room or end > room.shape[-2]:
        room = new.new_empty(*new.shape[:2], end + _ROOM, new.shape[-1])
        if start:
            room[:, :, :start] = old
    room[:, :, start:end] = new
    return room[:, :, :end], room


def shared_beginnings(prompts: Sequence[Sequence[int]]) -> list[tuple[list[int], int]]:
    """Group prompts by a common prefix of at least half the longest prompt in the group.

    Args:
        prompts: The token ids of each prompt. No prompt may be empty.

    Returns:
        For each group, the indices of its prompts and how many tokens they share. The last token of a prompt is never
        shared, because a forward pass over it is needed to get the logits of the next token. A prompt that shares
        nothing is a group of its own.

    >>> shared_beginnings([[1, 2, 3], [7, 8], [1, 2, 4, 5]])
    [([0, 2], 2), ([1], 1)]
    """
    groups: list[tuple[list[int], int]] = []
    for i in sorted(range(len(prompts)), key=lambda i: list(prompts[i])):
        if groups:
            members, shared = groups[-1]
            most = min(shared, len(prompts[i]) - 1)
            pairs = zip(prompts[members[0]][:most], prompts[i], strict=False)
            common = next((n for n, (token, other) in enumerate(pairs) if token != other), most)
            longest = max(len(prompts[i]), *(len(prompts[m]) for m in members))
            if common >= _LEAST_SHARED * longest:
                groups[-1] = ([*members, i], common)
                continue
        groups.append(([i], len(prompts[i]) - 1))
    return [(sorted(members), shared) for members, shared in groups]


def read_prompts(forward: CachedForward, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Fill a cache with several prompts, and return the logits of the token after each of them.

    A prefix that prompts share (`shared_beginnings`) is computed only once. Rows are padded on the left, so that all
    prompts end in the same column. The remainders of all prompts are computed in one pass, which begins in the column
    where the longest remainder begins. In a row with a shorter remainder, this pass therefore computes some of the
    shared tokens a second time.

    Args:
        forward: An empty cache. Afterwards it has one row for each prompt.
        prompts: The token ids of each prompt. No prompt may be empty.

    Returns:
        The logits of the next token, *shape* (rows, vocabulary), and the mask, *shape* (rows, tokens). The mask is None
        if there is no padding.
    """
    import torch

    device = forward.model.device
    width = max(map(len, prompts))
    padding = torch.tensor([width - len(prompt) for prompt in prompts])
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]).to(device)
    mask = (torch.arange(width) >= padding[:, None]).long().to(device) if padding.any() else None
    groups = shared_beginnings(prompts) if forward.shares else []
    rest = max((len(prompts[i]) - shared for members, shared in groups for i in members), default=width)
    begin = width - rest
    if begin and len(groups) < len(prompts):
        beginnings: list[Sequence[int]] = []
        rows: list[tuple[int, int]] = [(0, 0)] * len(prompts)
        for members, _ in groups:
            counts = [max(0, len(prompts[i]) - rest) for i in members]
            if max(counts):
                for i, count in zip(members, counts, strict=True):
                    rows[i] = (len(beginnings), count)
                beginnings.append(prompts[members[0]][: max(counts)])
        forward.begin_with(beginnings, rows, begin)
        ids = ids[:, begin:]
    return forward(ids, mask), mask
