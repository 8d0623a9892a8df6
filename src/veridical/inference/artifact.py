"""Load a trained detector (an artifact) from its folder.

The folder contains `detector.json` (everything but the weights) and `weights.safetensors`. Nothing is pickled. A
detector that was trained on the internals of a model only works with this model. The artifact therefore records its
base model, and `base_model.check_base` rejects any other model.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from veridical.io.strict_json import quoted, read_object, record_of
from veridical.records.errors import DataError
from veridical.records.strings import shorten

BACKBONE = "backbone"
ONNX = "onnx"
"""The folder of ONNX exports, inside the artifact."""
FORMAT = 1
DETECTOR, WEIGHTS = "detector.json", "weights.safetensors"


@dataclass(frozen=True, slots=True)
class Base:
    """Identifies the model on which an artifact (a saved detector) was trained, so that no other model is used with it.

    Attributes:
        name: The folder or hub name from which the user loaded the model. It may change, so it does not identify the
            model.
        revision: The commit of a model from the hub. None for a folder.
        architecture: The architecture, such as "llama".
        layers: The number of layers.
        width: The size of the hidden states.
        vocabulary: The number of token ids.
        tokenizer: A hash of the tokenizer.
        config: A hash of the configuration and the tokenizer together.
        weights: A hash of numbers from all weight matrices. The numbers are rounded to bf16 first, so that fp32 and
            bf16 copies of a model have the same hash. None for a model in fp16, which rounds differently.
        dtype: The precision during training, by its name in torch, such as "float32".
    """

    name: str
    revision: str | None
    architecture: str
    layers: int
    width: int
    vocabulary: int
    tokenizer: str
    config: str
    weights: str | None
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Artifact:
    """A trained detector as it is saved in a folder.

    Attributes:
        kind: The type of detector, such as "tokens" or "summac".
        base: The model on which it was trained.
        settings: Its settings, as JSON.
        tensors: Its weights by name.
        training: A record of its training, such as data and hyperparameters, as JSON.
        validation: Its results on validation data, as JSON.
    """

    kind: str
    base: Base
    settings: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    training: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] = field(default_factory=dict)


def read_folder(folder: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Load a detector's folder: the JSON object in `detector.json`, and the tensors of `weights.safetensors` by name.

    `kind` is the type of detector that is expected, such as "tokens".

    Raises:
        DataError: The folder contains no detector, or its detector is damaged, not of this `kind`, or of another format
            version.
    """
    folder = Path(folder)
    from safetensors import SafetensorError
    from safetensors.numpy import load

    document = description(folder, kind)
    path = folder / WEIGHTS
    if not path.is_file():
        raise DataError("no such file", path=path, hint="copy the whole folder of the detector")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != document.get("weights"):
        raise DataError(f"not the weights that {DETECTOR} names (damaged or of another run)", path=path)
    try:
        return document, load(data)
    except (SafetensorError, KeyError) as error:  # KeyError: a type of numbers that NumPy lacks
        raise DataError(f"cannot be read: {shorten(str(error), 200)}", path=path) from None


def read_base(value: Any, path: Path) -> Base:
    """Convert the JSON value `base` of an artifact to a `Base`. Error messages name `path`.

    Raises:
        DataError: A field is missing, unknown or of the wrong type.
    """
    names = [f.name for f in fields(Base)]
    if not isinstance(value, dict) or value.keys() != set(names):
        raise DataError("a field is missing or unknown", path=path, hint=f"base: {', '.join(names)}")
    return record_of(Base, value, path, "base")


def load_artifact(folder: str | Path, kind: str) -> Artifact:
    """Load an artifact (a saved detector) from its folder. Its type must be `kind`, such as "tokens".

    Raises:
        DataError: The folder contains no detector, or its detector is damaged, of another kind, or of another format
            version.
    """
    path = Path(folder) / DETECTOR
    document, tensors = read_folder(folder, kind)
    base = read_base(document.get("base"), path)
    try:
        parts = {name: dict(document[name]) for name in ("settings", "training", "validation")}
    except (KeyError, TypeError, ValueError):
        raise DataError(
            "a field is missing or not an object", path=path, hint="it needs settings, training and validation"
        ) from None
    return Artifact(kind, base, tensors=tensors, **parts)


def description(folder: str | Path, kind: str) -> dict[str, Any]:
    """Load the `detector.json` of a detector's folder, and check the type of detector and the format version.

    Raises:
        DataError: The file is missing, does not describe a detector of this `kind`, or has another format version.
    """
    folder = Path(folder)
    if not (folder / DETECTOR).is_file():
        raise DataError(f"no {DETECTOR} in it", path=folder, hint="name the folder that `veridical train` wrote")
    path = folder / DETECTOR
    document = read_object(path)
    tag, _, number = str(document.get("veridical")).partition("/")
    if tag not in ("detector", "calibrated") or not number.isdecimal():
        raise DataError("not the description of a trained detector", path=path)
    if number != str(FORMAT):
        problem = f"of format {shorten(number, 20)}; this Veridical reads {FORMAT}"
        raise DataError(problem, path=path, hint="install the Veridical that wrote it")
    described = document.get("kind") if tag == "detector" else tag
    if described != kind:
        raise DataError(f"a detector of the kind {quoted(described)}, not {kind!r}", path=path)
    return document


def described_kind(folder: str | Path) -> str | None:
    """Return the type of the detector in a folder, such as "tokens" or "summac".

    The result is None if the folder contains no `detector.json`, and "" if this file cannot be parsed or names no kind.
    """
    path = Path(folder) / DETECTOR
    if not path.is_file():
        return None
    try:
        return str(read_object(path).get("kind", ""))
    except DataError:
        return ""
