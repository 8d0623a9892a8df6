"""The language-model head: what a model makes of its output, and logits that are not rounded to bf16."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from veridical.models.load import LocalModel

__all__ = ["finished", "head_states", "unrounded"]


def finished(config: Any, logits: torch.Tensor) -> torch.Tensor:
    """The logits as the model gives them: some architectures scale or cap what comes out of the head."""
    import torch

    text = config.get_text_config()
    if getattr(text, "logit_scale", None):
        logits = logits * text.logit_scale
    if getattr(text, "logits_scaling", None):
        logits = logits / text.logits_scaling
    cap = getattr(text, "final_logit_softcapping", None)
    return torch.tanh(logits / cap) * cap if cap else logits


@contextmanager
def head_states(model: Any) -> Iterator[list[torch.Tensor]]:
    """Collect what the head of a transformers model reads while the context lasts, and make it contiguous.

    For the last tokens alone of several rows, which are a slice, PyTorch would copy the weights of the head once per
    row: gigabytes with a large vocabulary, and many times the work of the product.
    """
    read: list[torch.Tensor] = []
    layer = model.get_output_embeddings()
    if layer is None:
        yield read
        return

    def contiguous(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        read.append(inputs[0].contiguous())
        return (read[-1], *inputs[1:])

    handle = layer.register_forward_pre_hook(contiguous)
    try:
        yield read
    finally:
        handle.remove()


def unrounded(model: LocalModel, states: torch.Tensor, logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The logits of `tokens`, computed in fp32 from the states before the head.

    In bf16 a logit of 20 has steps of 0.125: "Yes" and "No" are often exactly as probable, which says nothing of which
    is likelier. All of a large vocabulary in fp32 would take longer than the rest of the pass.

    Args:
        model: Whose head it is.
        states: What the head reads. *Shape:* (rows, width).
        logits: What it gave, in fp32. *Shape:* (rows, vocabulary).
        tokens: The tokens of each row. *Shape:* (rows, tokens).

    Returns:
        *Shape:* (rows, tokens). Those in `logits` where the model runs in fp32, or where its head is more than a
        product with its weights.
    """
    import torch

    rounded = logits.gather(1, tokens)
    head = model.model.get_output_embeddings()
    if model.dtype == torch.float32 or head is None or states.shape[-1] != head.weight.shape[-1]:
        return rounded
    exact = (head.weight[tokens].float() @ states.float()[..., None])[..., 0]
    if getattr(head, "bias", None) is not None:
        exact = exact + head.bias[tokens].float()
    exact = finished(model.model.config, exact)
    most = 16 * torch.finfo(model.dtype).eps * rounded.abs().clamp(min=1.0)
    return torch.where((exact - rounded).abs() <= most, exact, rounded)
