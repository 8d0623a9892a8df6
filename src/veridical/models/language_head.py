"""Work with the language-model head of a transformers model.

The head is the last layer, which computes logits from hidden states. `head_states` collects its inputs, and `finished`
scales and caps its logits. If the model runs in bf16, you can use `unrounded` to compute logits in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from veridical.inference.local_model import LocalModel


def finished(config: Any, logits: torch.Tensor) -> torch.Tensor:
    """Compute the final logits from the raw logits of a model's head.

    Some architectures (Cohere, Granite, Gemma …) scale or cap them, as the configuration says. For all others, the
    logits are returned unchanged.
    """
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
    """Collect the hidden states that a model's head receives while the context lasts, and make them contiguous.

    The yielded list gets one tensor for each forward pass. It stays empty if the model has no head.

    If only the last token of each row is needed, the head's input is a slice, and PyTorch would copy the head's weights
    once per row. With a large vocabulary, the copies take gigabytes, and much more time than the product itself.
    """
    states: list[torch.Tensor] = []
    layer = model.get_output_embeddings()
    if layer is None:
        yield states
        return

    def contiguous(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        states.append(inputs[0].contiguous())
        return (states[-1], *inputs[1:])

    handle = layer.register_forward_pre_hook(contiguous)
    try:
        yield states
    finally:
        handle.remove()


def unrounded(model: LocalModel, states: torch.Tensor, logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Compute the logits of a few tokens in fp32, from the hidden states that the head receives (`head_states`).

    In bf16, logits near 20 are multiples of 0.125, so "Yes" and "No" often have exactly the same logit. Computing the
    whole vocabulary in fp32 would take longer than the rest of the pass.

    Args:
        model: The model with the head.
        states: The input of the head. *Shape:* (rows, width)
        logits: The output of the head, in fp32. *Shape:* (rows, vocabulary)
        tokens: The tokens to compute in each row. *Shape:* (rows, tokens)

    Returns:
        The logits of these tokens, *shape* (rows, tokens). If the model runs in fp32, or if the head does more than
        multiply by its weights, the values are taken from `logits`.
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
