"""Capture what each attention and feed-forward sublayer adds to the residual stream.

A model of L blocks has 2L sublayers: 2l is the attention of block l, and 2l + 1 is its feed-forward part. In some
architectures, the output of these modules is not added as it is (Gemma 2 norms it first). For these architectures, the
table names the module whose output is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.inference.local_model import READERS, LocalModel
from veridical.models.load import load
from veridical.records.errors import InputError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class SublayerLayout:
    """Where an architecture keeps its blocks and, in each block, the outputs that are added to the residual.

    The path to the blocks starts at the base model. In post-norm blocks, the two sums pass through `norms` (first the
    one after attention, then the one after feed-forward).
    """

    blocks: str
    attention: str
    feed_forward: str
    norms: tuple[str, str] | None = None


_LLAMA = SublayerLayout("layers", "self_attn", "mlp")
_GEMMA = SublayerLayout("layers", "post_attention_layernorm", "post_feedforward_layernorm")
_BERT = SublayerLayout(
    "encoder.layer",
    "attention.output.dropout",
    "output.dropout",
    ("attention.output.LayerNorm", "output.LayerNorm"),
)

# `model_type` of the (text) configuration -> layout
SUBLAYER_LAYOUTS: dict[str, SublayerLayout] = {
    "bert": _BERT,  # MiniLM, too
    "distilbert": SublayerLayout("transformer.layer", "attention", "ffn", ("sa_layer_norm", "output_layer_norm")),
    "electra": _BERT,
    "falcon": SublayerLayout("h", "self_attention", "mlp"),
    "gemma": _LLAMA,
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "gpt2": SublayerLayout("h", "attn", "mlp"),
    "gpt_neox": SublayerLayout("layers", "attention", "mlp"),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "modernbert": SublayerLayout("layers", "attn", "mlp"),
    "mpnet": SublayerLayout(
        "encoder.layer", "attention.dropout", "output.dropout", ("attention.LayerNorm", "output.LayerNorm")
    ),
    "opt": SublayerLayout("decoder.layers", "self_attn", "fc2"),
    "phi3": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
}


def layout_of(model: LocalModel) -> SublayerLayout:
    """Look up the layout of the model's architecture.

    Raises:
        InputError: The architecture is unknown. The message says how to add it.
    """
    if model.model_type in SUBLAYER_LAYOUTS:
        return SUBLAYER_LAYOUTS[model.model_type]
    raise InputError(
        f"the sublayers of the architecture {model.model_type!r} are not known",
        hint=f"add SUBLAYER_LAYOUTS[{model.model_type!r}] = SublayerLayout(blocks, attention, feed_forward) in "
        f"{__name__}; known: {', '.join(sorted(SUBLAYER_LAYOUTS))}",
    )


def _blocks(model: LocalModel, layout: SublayerLayout) -> MutableSequence[Any]:
    base = model.model.base_model
    base = getattr(base, "language_model", base)  # in an image-text model
    blocks: MutableSequence[Any] = attrgetter(layout.blocks)(base)
    return blocks


def first_layers(folder: str | Path, count: int, out: Path) -> Path:
    """Write an encoder to a folder, with only its first `count` layers.

    For training, the first layers of a pretrained encoder are a better start than the upper layers (Sajjad et al.
    2023).

    Raises:
        InputError: The encoder has fewer layers, or its architecture has no `SublayerLayout`.
    """
    loaded = load(folder, dtype="fp32", kinds=READERS)
    model = replace(loaded, model=deepcopy(loaded.model))  # other users share the loaded model
    blocks = _blocks(model, layout_of(model))
    if not 0 < count <= len(blocks):
        raise InputError(f"{str(folder)!r} has {len(blocks)} layers, not {count}", hint="keep at least 1, at most all")
    del blocks[count:]
    config = model.model.config
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:count]
    config.num_hidden_layers = count
    model.model.save_pretrained(out)
    model.tokenizer.save_pretrained(out)
    return out


def sublayer_count(model: LocalModel) -> int:
    """Return 2L for a model of L blocks."""
    return 2 * len(_blocks(model, layout_of(model)))


def check_sublayers(model: LocalModel, chosen: Sequence[int] | None) -> tuple[int, ...]:
    """Sort `chosen`, or return all 2L sublayers if it is None.

    Raises:
        InputError: A sublayer does not exist.
    """
    count = sublayer_count(model)
    unknown = [i for i in chosen or () if not 0 <= i < count]
    if unknown:
        raise InputError(f"there is no sublayer {unknown[0]}", hint=f"the model has sublayers 0 to {count - 1}")
    return tuple(sorted(set(chosen))) if chosen else tuple(range(count))


def _output(output: Any) -> torch.Tensor:
    tensor: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return tensor


@contextmanager
def capture_sublayers(
    model: LocalModel, sublayers: Sequence[int], capture: Callable[[int, torch.Tensor], None]
) -> Iterator[None]:
    """While the context lasts, call `capture(sublayer, output)` for each of `sublayers` at every forward pass.

    Outputs have the shape (batch, tokens, width), or (batch * tokens, width) in OPT. The model may change the tensor
    afterwards, so `capture` must copy it.

    Raises:
        InputError: A sublayer does not exist.
    """
    check_sublayers(model, sublayers)
    layout = layout_of(model)
    blocks = _blocks(model, layout)

    def hook(index: int) -> Callable[[Any, Any, Any], None]:
        return lambda module, arguments, output: capture(index, _output(output))

    with ExitStack() as stack:
        for i in sublayers:
            path = layout.feed_forward if i % 2 else layout.attention
            stack.enter_context(attrgetter(path)(blocks[i // 2]).register_forward_hook(hook(i)))
        yield


def check_layout(model: LocalModel) -> None:
    """Check that the output of each block is its input plus its two sublayers (before each post-norm).

    Raises:
        InputError: Outputs differ from the sums, so the table does not fit this version of the architecture.
    """
    import torch

    layout = layout_of(model)
    try:
        blocks = _blocks(model, layout)
        all_expected, all_actual = _trace(model, layout, blocks)
    except AttributeError as error:
        raise _misfit(model, str(error)) from error
    # a sum is rounded once or twice in the model's dtype
    allowed = 16 * torch.finfo(model.dtype).eps
    for i, (expected, actual) in enumerate(zip(all_expected, all_actual, strict=True)):
        scale = max(1.0, float(actual.abs().max()))
        deviation = float((expected - actual).abs().max())
        if not deviation <= allowed * scale:  # also true for NaN
            where = f"block {i}" if layout.norms is None else f"half-block {i}"
            raise _misfit(model, f"{where} is {deviation:.2g} off the sum of its sublayers")


def _misfit(model: LocalModel, what: str) -> InputError:
    return InputError(
        f"the table of sublayers does not fit this {model.model_type!r} model: {what}",
        hint=f"correct veridical_lab.models.sublayers.SUBLAYER_LAYOUTS[{model.model_type!r}]",
    )


def _trace(
    model: LocalModel, layout: SublayerLayout, blocks: Sequence[Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Compute the sum of the parts of each block (or half of a post-norm block), and return it with the real output."""
    import torch

    ids = torch.arange(8, device=model.device)[None] % model.model.config.get_text_config().vocab_size
    parts: dict[int, torch.Tensor] = {}
    inputs: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    normed: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def before(module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        inputs.append((arguments[0] if arguments else keywords["hidden_states"]).detach().clone())

    def after(module: Any, arguments: Any, output: Any) -> None:
        outputs.append(_output(output).detach().clone())

    def keep_part(sublayer: int, output: torch.Tensor) -> None:
        parts[sublayer] = output.detach().clone()

    def norm(block: int, half: int) -> Callable[[Any, Any, Any], None]:
        def capture(module: Any, arguments: Any, output: Any) -> None:
            normed[block, half] = (arguments[0].detach().clone(), output.detach().clone())

        return capture

    with ExitStack() as stack:
        for i, block in enumerate(blocks):
            stack.enter_context(block.register_forward_pre_hook(before, with_kwargs=True))
            stack.enter_context(block.register_forward_hook(after))
            for half, path in enumerate(layout.norms or ()):
                stack.enter_context(attrgetter(path)(block).register_forward_hook(norm(i, half)))
        with torch.inference_mode(), capture_sublayers(model, range(2 * len(blocks)), keep_part):
            model.model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids))
    expected, actual = [], []
    for i in range(len(blocks)):
        attention, feed_forward = (parts[2 * i + half].reshape(inputs[i].shape) for half in (0, 1))
        if layout.norms is None:
            expected.append((inputs[i] + attention + feed_forward).float())
            actual.append(outputs[i].float())
        else:
            expected += [(inputs[i] + attention).float(), (normed[i, 0][1] + feed_forward).float()]
            actual += [normed[i, 0][0].float(), normed[i, 1][0].float()]
    return expected, actual
