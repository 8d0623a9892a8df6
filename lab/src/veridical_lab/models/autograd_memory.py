"""Run forward passes to differentiate: freeze parameters, checkpoint activations, and estimate memory.

None of this changes the results, and when a context ends, the model is as it was before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from torch import Tensor

_PROBE = (16, 32, 64)  # lengths at which memory is measured, to extrapolate to any length
_PLAIN_ATTENTION = 640  # up to this many tokens, attention by plain matrix products is faster in bf16 on a CPU

_measured: WeakKeyDictionary[Any, dict[bool, tuple[float, float, float]]] = WeakKeyDictionary()


@contextmanager
def frozen(model: Any) -> Iterator[None]:
    """While the context lasts, freeze the parameters and switch off dropout."""
    training, trainable = model.training, [p for p in model.parameters() if p.requires_grad]
    model.train(False)
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)
        model.train(training)


@contextmanager
def fast_path(model: Any, tokens: int) -> Iterator[None]:
    """While the context lasts, freeze the model and run it on the faster of two equivalent paths.

    Which path is faster depends on the device, the precision and the number of `tokens`.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import gelu

    # GPT-2's activation is eight operations in transformers
    slow = [m for m in model.modules() if type(m).__name__ == "NewGELUActivation"]
    with ExitStack() as stack:
        stack.enter_context(frozen(model))
        for module in slow:
            module.forward = lambda x: gelu(x, approximate="tanh")
            stack.callback(module.__dict__.pop, "forward", None)
        if _plain_attention(model, tokens):
            allowed = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
            torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)  # despite its name, it also affects a CPU
            stack.callback(torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp, allowed)
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        yield


def _plain_attention(model: Any, tokens: int) -> bool:
    import torch

    weight = model.get_input_embeddings().weight
    return weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and tokens <= _PLAIN_ATTENTION


@contextmanager
def activation_checkpointing(model: Any, on: bool) -> Iterator[None]:
    """While the context lasts and if `on`, keep only each block's input, and run blocks again in each backward pass."""
    from torch.utils.checkpoint import checkpoint

    wrapped = blocks(model) if on else []
    for block in wrapped:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False)
    try:
        yield
    finally:
        for block in wrapped:
            block.__dict__.pop("forward", None)


def blocks(model: Any) -> list[Any]:
    """Find the blocks of the model (of encoder and decoder), without its head.

    The blocks are the modules in the model's outermost lists.
    """
    from torch.nn import ModuleList

    outermost: list[Any] = []
    for child in getattr(model, "base_model", model).children():
        outermost += list(child) if isinstance(child, ModuleList) else blocks(child)
    return outermost


def bytes_needed(model: Any, tokens: int) -> int:
    """Estimate how many bytes a text of `tokens` tokens takes for its backward pass, from measurements on short texts.

    The estimate is the sum of bytes that are fixed, per token, and per pair of tokens.
    """
    measured, plain = _measured.setdefault(model, {}), _plain_attention(model, tokens)
    if plain not in measured:
        a, b, c = _PROBE
        short, middle, long = (_saved_bytes(model, n, tokens) for n in _PROBE)
        square = max(0.0, ((long - middle) / (c - b) - (middle - short) / (b - a)) / (c - a))
        linear = max(0.0, (long - middle) / (c - b) - square * (b + c))
        measured[plain] = (max(0.0, short - linear * a - square * a * a), linear, square)
    fixed, linear, square = measured[plain]
    return int(fixed + linear * tokens + square * tokens**2)


def _saved_bytes(model: Any, tokens: int, like: int | None = None) -> int:
    """Measure the bytes that autograd keeps from one forward pass over `tokens` tokens, without the parameters.

    The pass takes the path of `fast_path` for `like` tokens. Default: for `tokens`.
    """
    import torch

    seen = {p.untyped_storage().data_ptr() for p in (*model.parameters(), *model.buffers())}
    total = 0

    def keep(tensor: Tensor) -> Tensor:
        nonlocal total
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
        return tensor

    embed = model.get_input_embeddings()
    ids = torch.ones(1, tokens, dtype=torch.long, device=embed.weight.device)
    leaf = embed(ids).detach().requires_grad_()
    leaves = [leaf, leaf] if getattr(model.config, "is_encoder_decoder", False) else [leaf]
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with torch.enable_grad(), fast_path(model, like or tokens), hooks:
        output = model.base_model(**embedding_inputs(leaves))  # keeps tensors alive, so no address is used twice
    del output
    return total


def free_bytes(device: Any) -> int:
    """Return most of the free memory of `device` in bytes, or a very large number if it is unknown."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info(device)[0] * 0.85)
    try:
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 0.7)
    except (ValueError, OSError, AttributeError):
        return 1 << 60


def release_memory() -> None:
    """Free memory that is no longer in use."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def embedding_inputs(leaves: list[Tensor]) -> dict[str, Any]:
    """Make the arguments of a model from `leaves`: the embeddings of a text, or those for encoder and decoder."""
    if len(leaves) == 1:
        return {"inputs_embeds": leaves[0], "use_cache": False}
    return {"inputs_embeds": leaves[0], "decoder_inputs_embeds": leaves[1], "use_cache": False}
