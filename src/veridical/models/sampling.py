"""Sample the next token from a model's logits, greedily or by temperature, top-k and top-p.

Each row of a batch has its own seed, so its tokens do not depend on the other rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from veridical.records.errors import InputError

if TYPE_CHECKING:
    import torch


class Sampler:
    """Samples one token per row. Each row has its own random generator, so no row depends on the other rows.

    Args:
        seeds: The seed of each row. The tokens of a row depend only on its seed and its logits.
        temperature: The sampling temperature, at least 0. 0 takes the most probable token, and 1 samples from the
            model's own distribution.
        top_k: Sample only from this many of the most probable tokens. 0 means all tokens.
        top_p: Sample only from the most probable tokens that together have this probability, in (0, 1]. 1 means
            all tokens.
        device: The device of the logits. The same seed gives other tokens on another device.

    Raises:
        InputError: A value is out of range.
    """

    def __init__(
        self,
        seeds: Sequence[int | str],
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> None:
        if top_k < 0 or not 0.0 <= temperature < math.inf or not 0.0 < top_p <= 1.0:
            raise InputError(
                f"top-k is {top_k}, the temperature {temperature:g}, top-p {top_p:g}",
                hint="top-k from 0 (all tokens), a temperature from 0 (greedy), top-p above 0 and at most 1",
            )
        import torch
        from transformers import LogitsProcessorList, TopKLogitsWarper, TopPLogitsWarper

        self.temperature = temperature
        numbers = [s if isinstance(s, int) else int.from_bytes(hashlib.sha256(s.encode()).digest()[:4]) for s in seeds]
        self._generators = [torch.Generator(device).manual_seed(number) for number in numbers]
        self._warpers: Any = LogitsProcessorList()
        if top_k:
            self._warpers.append(TopKLogitsWarper(top_k))
        if top_p < 1:
            self._warpers.append(TopPLogitsWarper(top_p))

    def sample(
        self, logits: torch.Tensor, temperature: float | None = None, rows: Sequence[int] | None = None
    ) -> list[int]:
        """Sample one token from each row of logits. Tokens with the logit -inf are never sampled.

        Args:
            logits: The logits in fp32, with at least one finite value in each row. *Shape:* (rows, vocabulary)
            temperature: A temperature for this call. Default: the sampler's own temperature.
            rows: For each row of logits, the index of its seed. Default: one row per seed, in order.
        """
        import torch

        if temperature is None:
            temperature = self.temperature
        if temperature == 0:
            greedy: list[int] = logits.argmax(-1).tolist()
            return greedy
        probabilities = self._warpers(None, logits / temperature).softmax(-1)
        generators = self._generators if rows is None else [self._generators[row] for row in rows]
        pairs = zip(probabilities, generators, strict=True)
        return [int(torch.multinomial(row, 1, generator=generator)) for row, generator in pairs]
