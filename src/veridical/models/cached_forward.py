"""Forward passes of a causal language model that keep the keys and values of all earlier tokens.

Rows may be removed when their text has ended, and prompts that begin alike share one pass over their beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

from veridical.core.errors import CannotJudgeError
from veridical.models.head import head_states
from veridical.models.load import LocalModel

if TYPE_CHECKING:
    import torch

__all__ = ["CachedForward", "bytes_per_token", "cache_argument", "read_prompts", "shared_beginnings"]

_ROOM = 64  # further tokens that there is memory for whenever more of it is taken
_LEAST_SHARED = 0.5  # of a prompt's tokens, from which on its beginning is read together with that of others


def cache_argument(model: Any) -> str:
    """How a transformers model calls the keys and values of earlier tokens, which it is given and returns."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"  # "cache" since 5.24


def bytes_per_token(model: LocalModel) -> int:
    """How much memory the keys and values of one token take, by the model's configuration.

    Without heads of attention a model keeps one state in their place, and this is only a size for it.
    """
    config = model.model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None) or 1
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    heads = getattr(config, "num_key_value_heads", None) or heads
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):  # Falcon
        heads = 1
    return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)


class CachedForward:
    """Runs `model` over growing token sequences (rows) and keeps the keys and values of all earlier tokens.

    Those of a layer with a sliding window are all kept, too, so that one can go back to any token.

    Attributes:
        length: Tokens per row in the cache, padding included.
        passes: Forward passes so far.
        states: What the head read for the last logits, *shape* (rows, width); None where the model runs in fp32.
        shares: Whether what was read of one row can be copied to others; not where a layer keeps a state in place of
            keys and values.
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
        """Read `ids`, the next tokens of each row, and return the logits after the last one.

        Args:
            ids: *Shape:* (rows, tokens).
            mask: 1 for each token in the cache and in `ids`, 0 for left padding. *Shape:* (rows, all tokens). None
                where there is no padding.
            head: Whether logits are wanted; without them the language-model head does not run.

        Returns:
            Logits in fp32, *shape* (rows, vocabulary); without `head` the last hidden states, (rows, tokens, width).

        Raises:
            CannotJudgeError: If a row has logits that are not finite.
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
        if not torch.isfinite(logits.amax(-1)).all():  # the maximum is NaN where any logit is
            raise CannotJudgeError("the model's numbers are not finite", hint="run it in fp32 or bf16")
        return logits

    def copies(self, rows: int) -> Any:
        """The keys and values of the one row that was read, for a pass over so many texts that continue it."""
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache()
        for at, layer in enumerate(self._cache.layers):
            cache.update(layer.keys.expand(rows, -1, -1, -1), layer.values.expand(rows, -1, -1, -1), at)
        return cache

    def crop(self, length: int) -> None:
        """Forget all but the first `length` tokens of each row; all of them where the cache cannot be cropped."""
        if self.length <= length:
            return
        try:
            self._cache.crop(length - self.length)  # a negative number is how many tokens to take away
            self.length = length
        except RuntimeError:  # a state cannot go back
            self._cache, self.length = None, 0

    def keep_rows(self, rows: Sequence[int], mask: torch.Tensor | None) -> torch.Tensor | None:
        """Forget all but these rows, and padding that none of them needs.

        Args:
            rows: Their indices.
            mask: Of all rows, as in `__call__`.

        Returns:
            Theirs; None where no padding is left.
        """
        import torch

        indices = torch.tensor(rows, device=self.model.device)
        self._cache.reorder_cache(indices)  # in every kind of layer, also with fewer indices than rows
        if mask is None:
            return None
        mask = mask[indices]
        padding = int(mask.argmax(-1).min())  # the first token that is none
        if padding and self.shares:
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[:, :, padding:], layer.values[:, :, padding:]
            self.length -= padding
            mask = mask[:, padding:]
        return None if bool(mask.all()) else mask

    def begin_with(self, beginnings: Sequence[Sequence[int]], rows: Sequence[tuple[int, int]], length: int) -> None:
        """Read each of some texts once, and begin each row with one of them, at the right behind padding.

        Args:
            beginnings: Token ids.
            rows: For each row the index of its text, and how many tokens of it it begins with, at most `length`.
            length: Tokens per row, padding included.
        """
        import torch

        read = []
        for ids in beginnings:
            forward = CachedForward(self.model)
            forward(torch.tensor([ids], device=self.model.device), head=False)
            self.passes += 1
            read.append(forward._cache.layers)
        for at in range(len(read[0])):
            first = read[0][at]
            shape = (len(rows), first.keys.shape[1], length)
            keys = first.keys.new_zeros(*shape, first.keys.shape[-1])
            values = first.values.new_zeros(*shape, first.values.shape[-1])
            for row, (text, count) in enumerate(rows):
                keys[row, :, length - count :] = read[text][at].keys[0, :, :count]
                values[row, :, length - count :] = read[text][at].values[0, :, :count]
            self._cache.update(keys, values, at)
        self.length = length


@cache
def _growing_layer() -> type:
    """A cache layer with room for further tokens; `DynamicLayer` copies all earlier ones for each new one."""
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


def _append(held: Any, new: torch.Tensor, room: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """`held` with `new` behind it, and the memory that they are in: `room`, if `held` is its beginning and they fit."""
    start = held.shape[-2] if held.numel() else 0
    end = start + new.shape[-2]
    begins = room is not None and len(room) == len(new) and (not start or held.data_ptr() == room.data_ptr())
    if room is None or not begins or end > room.shape[-2]:
        room = new.new_empty(*new.shape[:2], end + _ROOM, new.shape[-1])
        if start:
            room[:, :, :start] = held
    room[:, :, start:end] = new
    return room[:, :, :end], room


def shared_beginnings(prompts: Sequence[Sequence[int]]) -> list[tuple[list[int], int]]:
    """Group prompts whose greater part is a common beginning.

    Args:
        prompts: Token ids, none empty.

    Returns:
        Of each group the indices of its prompts, and how many tokens they share: at least one less than the shortest
        has, since something has to be read for the next token's logits. A prompt that shares nothing is a group.

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
    """Have `forward`, which has read nothing yet, read prompts, those that begin alike together as far as they do.

    Rows are padded at the left. Where the shared beginnings are taken over, each row's last tokens are read again as
    far as the longest remainder of a row goes, so that there is no gap in any row.

    Args:
        forward: It has a row for each prompt afterwards.
        prompts: Token ids, none empty.

    Returns:
        The logits of the next token, *shape* (rows, vocabulary), and the mask, (rows, tokens); None without padding.
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
