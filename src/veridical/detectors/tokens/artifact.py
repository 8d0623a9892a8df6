"""A trained token classifier as a folder: `detector.json`, the head, and the backbone where it was trained, too.

`backbone/` is an ordinary Hugging Face folder. A frozen backbone is not copied: the artifact knows which one it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import DataError, InputError
from veridical.models.artifact import DETECTOR, Artifact, base_of, load_artifact, save_artifact
from veridical.models.checkpoint import read_config
from veridical.models.cross_encoder import class_roles, label_names, role_of
from veridical.models.load import READERS, LocalModel, load, quiet, require_models, unload
from veridical.models.pair_network import MODES, HeadSettings, PairHead
from veridical.models.pairs import PairSettings
from veridical.models.template import TEMPLATES

__all__ = [
    "BACKBONE",
    "KIND",
    "PUBLISHED_TEMPLATE",
    "TokenScale",
    "TokenSettings",
    "load_checkpoint",
    "load_tokens",
    "prediction_head",
    "save_tokens",
]

KIND = "tokens"
BACKBONE = "backbone"
PUBLISHED_TEMPLATE = "lettucedetect"  # the prompt of published token classifiers


@dataclass(frozen=True, slots=True)
class TokenScale:
    """How a logit becomes a probability, 1 / (1 + exp(-(slope * logit + intercept))), and from where it flags."""

    threshold: float = 0.5
    slope: float = 1.0
    intercept: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """All of a token classifier that is not a weight.

    Attributes:
        pairs: How cases are presented to the model.
        head: The form of the head.
        mode: "offline" or "online".
        attention: "full" or "prefix" (`models.pair_network.PairRunner`).
        backbone: Whether the artifact has a backbone of its own.
        span: The scale of words or tokens.
        response: The scale of whole responses.
        contradiction: The scale of what tells contradiction from absence; None: there is nothing that could tell.
        response_by: Which logit stands for a response: of its own head ("whole") or of its worst unit ("worst").
    """

    pairs: PairSettings = field(default_factory=PairSettings)
    head: HeadSettings = field(default_factory=HeadSettings)
    mode: Literal["offline", "online"] = "offline"
    attention: Literal["full", "prefix"] = "full"
    backbone: bool = True
    span: TokenScale = field(default_factory=TokenScale)
    response: TokenScale = field(default_factory=TokenScale)
    response_by: Literal["whole", "worst"] = "whole"
    contradiction: TokenScale | None = None

    @classmethod
    def from_json(cls, settings: Mapping[str, Any], path: Path) -> TokenSettings:
        """The settings in an artifact; `DataError` with `path` and the first field that is missing or invalid."""
        from pydantic import TypeAdapter, ValidationError

        try:
            loaded = TypeAdapter(cls).validate_json(json.dumps(dict(settings)), strict=True)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in ("settings", *problem["loc"]))
            raise DataError(f"{where}: {problem['msg']}", path=path, hint="copy or train it again") from None
        except InputError as error:
            raise DataError(error.message, path=path, hint="copy or train it again") from None
        if loaded.pairs.template not in TEMPLATES or loaded.mode not in MODES:
            raise DataError(f"settings: template {loaded.pairs.template!r}, mode {loaded.mode!r}", path=path)
        for scale in (loaded.span, loaded.response, loaded.contradiction or loaded.span):
            if not (0.0 <= scale.threshold <= 1.0 and scale.slope > 0.0 and np.isfinite(scale.intercept)):
                raise DataError(f"settings: {scale}", path=path, hint="a threshold in [0, 1] and a slope above 0")
        return loaded


def save_tokens(
    model: LocalModel,
    settings: TokenSettings,
    head: PairHead,
    folder: str | Path,
    training: dict[str, Any] | None = None,
    validation: dict[str, Any] | None = None,
) -> Path:
    """Write a token classifier to `folder` and return it; its description is written last.

    Args:
        model: The backbone, which is copied where the settings say that it was trained.
        settings: The settings.
        head: The head.
        folder: Where to write.
        training: What is known of its making.
        validation: Figures on validation data.
    """
    folder = Path(folder)
    base = base_of(model)
    if settings.backbone:
        with quiet():
            model.model.save_pretrained(folder / BACKBONE)
            model.tokenizer.save_pretrained(folder / BACKBONE)
        saved = load(folder / BACKBONE, device="cpu", dtype="fp32", kinds=READERS)  # which some settings get added to
        base = replace(base_of(saved), name=BACKBONE, revision=None)
        unload(saved)
    artifact = Artifact(KIND, base, asdict(settings), dict(head.tensors), training or {}, validation or {})
    return save_artifact(artifact, folder)


def load_checkpoint(
    folder: str | Path, pairs: PairSettings | None = None, labels: str | None = None
) -> tuple[TokenSettings, PairHead]:
    """The settings and head of a plain token-classification checkpoint of two labels, supported and hallucinated.

    Where their names do not say which is which (LABEL_0, LABEL_1), the second is hallucinated.

    This is the form of LettuceDetect (Kovács and Recski 2025): a linear head on every token, no segment embeddings.

    Args:
        folder: A Hugging Face folder.
        pairs: How cases are presented; None: the sources, then the response, all of long sources in windows.
        labels: What its labels stand for, separated by "|"; None: as its configuration says.

    Raises:
        DataError: If the folder holds no such checkpoint.
        InputError: If it has no tokenizer, needs code of its own, or its labels are called something else.
        MissingExtraError: Without torch or transformers, where the classifier is in bf16 or has layers before it.
    """
    from safetensors import SafetensorError, safe_open

    folder = Path(folder)
    try:
        config = read_config(folder)
        names = {f"classifier.{name}" for name in ("weight", "bias")}
        found: dict[str, np.ndarray] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, "np") as tensors:
                wanted = [name for name in tensors.keys() if name in names or name.startswith("head.")]  # noqa: SIM118
                found |= {name: _fp32(tensors, name, file) for name in wanted}
    except (OSError, SafetensorError) as error:
        raise DataError(f"cannot be read: {error}", path=folder) from None
    architectures = " ".join(config.get("architectures") or ())
    if "ForTokenClassification" not in architectures or not names <= set(found):
        raise DataError(
            f"no token classifier ({architectures or 'no architecture is named'})",
            path=folder,
            hint="a folder of `veridical train tokens`, or a checkpoint with a linear head on tokens",
        )
    if len(found["classifier.weight"]) != 2:
        raise DataError(
            f"a classifier of {len(found['classifier.weight'])} labels",
            path=folder,
            hint="two are read: supported, hallucinated",
        )
    weight = found["classifier.weight"][1:] - found["classifier.weight"][:1]
    bias = found["classifier.bias"][1:] - found["classifier.bias"][:1]
    named = label_names(config)
    if labels is not None or any(map(role_of, named)):
        weight, bias = (-weight, -bias) if class_roles(named, labels, folder)[1] == "entailment" else (weight, bias)
    elif named != ["LABEL_0", "LABEL_1"]:
        raise InputError(
            f"the labels of {folder} are called {', '.join(named)}, which does not say what they stand for",
            hint="say it in their order: labels=supported|hallucinated",
        )
    between = {name: found[name] for name in sorted(set(found) - names)}
    tensors = between | {"units.weight": weight, "units.bias": bias, "pair.weight": weight * 0, "pair.bias": bias * 0}
    pairs = pairs or PairSettings(evidence="all", segments=False)
    settings = TokenSettings(pairs, HeadSettings("token", "mean", 0, 0), response_by="worst")
    return settings, PairHead(settings.head, tensors, prediction_head(config, between, folder) if between else None)


def _fp32(tensors: Any, name: str, file: Path) -> NDArray[np.float32]:
    """A tensor of an opened safetensors file; numpy knows no bf16, which torch reads."""
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
    """The layers that ModernBERT has between its states and its classifier: dense, activation, layer norm.

    Args:
        config: The checkpoint's configuration.
        tensors: Their weights, under the checkpoint's names.
        folder: The checkpoint, for the message.

    Raises:
        DataError: For any other layers.
        MissingExtraError: Without torch or transformers, which compute them.
    """
    require_models(f"the layers before the classifier of {folder}")
    import torch
    from transformers.activations import ACT2FN

    known = {f"head.{layer}.{name}" for layer in ("dense", "norm") for name in ("weight", "bias")}
    activation = str(config.get("classifier_activation", "gelu"))
    layers = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    if not {"head.dense.weight", "head.norm.weight"} <= set(layers) <= known or activation not in ACT2FN:
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


def load_tokens(folder: str | Path) -> tuple[Artifact, TokenSettings, PairHead]:
    """The description, settings and head in `folder`; the backbone is loaded apart.

    Raises `DataError` for a folder that holds none, is damaged or of another kind.
    """
    artifact = load_artifact(folder, KIND)
    path = Path(folder) / DETECTOR
    settings = TokenSettings.from_json(artifact.settings, path)
    size = artifact.base.width + settings.head.features
    hidden = settings.head.hidden
    shapes = {
        "units.weight": (1, hidden or size),
        "units.bias": (1,),
        "pair.weight": (1, size),
        "pair.bias": (1,),
    }
    if hidden:
        shapes |= {"hidden.weight": (hidden, size), "hidden.bias": (hidden,)}
    if settings.head.contradiction:
        shapes |= {"contradiction.weight": (1, size), "contradiction.bias": (1,)}
    found = {name: tuple(tensor.shape) for name, tensor in artifact.tensors.items()}
    if found != shapes:
        raise DataError(f"the head has {found}, not {shapes}", path=path, hint="copy or train it again")
    if not all(np.isfinite(tensor).all() for tensor in artifact.tensors.values()):
        raise DataError("the head holds numbers that are not finite", path=path)
    return artifact, settings, PairHead(settings.head, artifact.tensors)
