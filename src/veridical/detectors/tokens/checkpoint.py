"""Read a published token classifier in the form of LettuceDetect (Kovács and Recski 2025)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.tokens.artifact import TokenSettings
from veridical.inference.checkpoint import class_roles, label_names, read_config, role_of
from veridical.inference.heads import HeadSettings, PairHead
from veridical.inference.local_model import require_models
from veridical.inference.pairs import PairSettings
from veridical.records.errors import DataError, InputError

PUBLISHED_TEMPLATE = "lettucedetect"
"""The prompt of published token classifiers."""


def load_checkpoint(folder: str | Path, labels: str | None = None) -> tuple[TokenSettings, PairHead]:
    """Load a published token classifier, such as LettuceDetect, and return its settings and its classification head.

    The checkpoint must have two labels, supported and hallucinated, and a linear head on every token. Segment
    embeddings are not supported. If the labels are called LABEL_0 and LABEL_1, the second one means hallucinated.

    Args:
        folder: A Hugging Face folder.
        labels: The meanings of the checkpoint's labels, separated by "|". Default: taken from its configuration.

    Raises:
        DataError: The folder contains no such checkpoint, or no tokenizer.
        InputError: The checkpoint needs custom code from its repository, or its labels do not say which one means
            hallucinated.
        MissingExtraError: torch or transformers is not installed, but needed because the classifier is in bf16 or has
            layers before it.
    """
    from safetensors import SafetensorError, safe_open

    folder = Path(folder)
    try:
        config = read_config(folder)
        names = {f"classifier.{name}" for name in ("weight", "bias")}
        weights: dict[str, np.ndarray] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, "np") as tensors:
                wanted = [name for name in tensors.keys() if name in names or name.startswith("head.")]  # noqa: SIM118
                weights |= {name: _fp32(tensors, name, file) for name in wanted}
    except (OSError, SafetensorError) as error:
        raise DataError(f"cannot be read: {error}", path=folder) from None
    architectures = " ".join(config.get("architectures") or ())
    if "ForTokenClassification" not in architectures or not names <= set(weights):
        raise DataError(
            f"no token classifier ({architectures or 'no architecture is named'})",
            path=folder,
            hint="a folder of `veridical train tokens`, or a checkpoint with a linear head on tokens",
        )
    if len(weights["classifier.weight"]) != 2:
        raise DataError(
            f"a classifier of {len(weights['classifier.weight'])} labels",
            path=folder,
            hint="two are read: supported, hallucinated",
        )
    weight = weights["classifier.weight"][1:] - weights["classifier.weight"][:1]
    bias = weights["classifier.bias"][1:] - weights["classifier.bias"][:1]
    named = label_names(config)
    if labels is not None or any(map(role_of, named)):
        weight, bias = (-weight, -bias) if class_roles(named, labels, folder)[1] == "entailment" else (weight, bias)
    elif named != ["LABEL_0", "LABEL_1"]:
        raise InputError(
            f"the labels of {folder} are called {', '.join(named)}, which does not say what they stand for",
            hint="say it in their order: labels=supported|hallucinated",
        )
    between = {name: weights[name] for name in sorted(set(weights) - names)}
    tensors = between | {"units.weight": weight, "units.bias": bias, "pair.weight": weight * 0, "pair.bias": bias * 0}
    pairs = PairSettings(evidence="all", segments=False)  # the sources, then the response
    settings = TokenSettings(pairs, HeadSettings("token", "mean", 0, 0), response_by="worst")
    return settings, PairHead(settings.head, tensors, prediction_head(config, between, folder) if between else None)


def _fp32(tensors: Any, name: str, file: Path) -> NDArray[np.float32]:
    """Read a tensor of an opened safetensors file in fp32. NumPy does not know bf16, so torch reads it."""
    array: NDArray[np.float32]
    if tensors.get_slice(name).get_dtype() != "BF16":
        array = tensors.get_tensor(name).astype(np.float32)
        return array
    require_models(f"the classifier in bf16 of {file}")
    from safetensors import safe_open

    with safe_open(file, "pt") as of_torch:
        array = of_torch.get_tensor(name).float().numpy()
        return array


def prediction_head(
    config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], folder: Path
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Build the layers that ModernBERT has between its hidden states and its classifier: dense, activation, layer norm.

    Args:
        config: The checkpoint's configuration.
        tensors: The weights of the layers, under the checkpoint's names.
        folder: The folder of the checkpoint, for error messages.

    Returns:
        A function that transforms hidden states. *Shape:* (tokens, width), also of its result.

    Raises:
        DataError: The checkpoint has layers other than these, or an unknown activation.
        MissingExtraError: torch or transformers is not installed.
    """
    require_models(f"the layers before the classifier of {folder}")
    import torch
    from transformers.activations import ACT2FN

    expected = {f"head.{layer}.{name}" for layer in ("dense", "norm") for name in ("weight", "bias")}
    activation = str(config.get("classifier_activation", "gelu"))
    layers = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    if not {"head.dense.weight", "head.norm.weight"} <= set(layers) <= expected or activation not in ACT2FN:
        raise DataError(f"layers that are not known here: {', '.join(layers)}", path=folder)
    act, eps = ACT2FN[activation], float(config.get("norm_eps", 1e-5))

    def transform(states: NDArray[Any]) -> NDArray[Any]:
        with torch.inference_mode():
            x = act(
                torch.nn.functional.linear(
                    torch.from_numpy(states), layers["head.dense.weight"], layers.get("head.dense.bias")
                )
            )
            norm = layers["head.norm.weight"], layers.get("head.norm.bias")
            transformed: NDArray[Any] = torch.nn.functional.layer_norm(x, x.shape[-1:], *norm, eps).numpy()
            return transformed

    return transform
