"""A trained detector as a folder: `detector.json` (everything but the weights) and `weights.safetensors`.

A detector that was trained on a model's internals fits that model only. So the artifact records its base model, and
`check_base` rejects any other one and names the difference. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import DataError, InputError, OutputError, WireError
from veridical.core.files import read_text, write_whole
from veridical.core.serialization import encode, parse
from veridical.core.text import shorten
from veridical.models.fast_tokenizer import plain_backend
from veridical.models.load import READERS, Kind, LocalModel, load

__all__ = [
    "DETECTOR",
    "FORMAT",
    "WEIGHTS",
    "Artifact",
    "Base",
    "base_of",
    "check_base",
    "described_kind",
    "description",
    "identity",
    "load_artifact",
    "load_base",
    "read_base",
    "read_folder",
    "save_artifact",
    "save_record",
    "versions",
    "write_folder",
]

FORMAT = 1
DETECTOR, WEIGHTS = "detector.json", "weights.safetensors"
_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_SAMPLED = 64  # how many numbers of each weight matrix go into the hash


@dataclass(frozen=True, slots=True)
class Base:
    """The model that an artifact belongs to.

    `tokenizer` is a hash of the tokenizer, `config` a hash of configuration and tokenizer together. `weights` is a hash
    of numbers from all matrices, rounded to bf16 so that fp32 and bf16 copies agree; it is None for a model in fp16,
    which rounds differently. `name` is the user's name for the model: it says where to look for it, and does not
    identify it.
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
    """A detector of `kind` trained on `base`: `settings` (JSON), `tensors` by name, and records of its training."""

    kind: str
    base: Base
    settings: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    training: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] = field(default_factory=dict)


_tokenizer_hashes: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_weight_hashes: WeakKeyDictionary[Any, tuple[list[tuple[int, int]], str | None]] = WeakKeyDictionary()


def base_of(model: LocalModel) -> Base:
    """Return the record that identifies `model`; hash its tokenizer once, and its weights again only after a change."""
    config = model.model.config.get_text_config()
    if model.tokenizer not in _tokenizer_hashes:
        plain = plain_backend(model.tokenizer.backend_tokenizer.to_str()).to_str()
        _tokenizer_hashes[model.tokenizer] = hashlib.sha256(plain.encode()).hexdigest()[:16]
    state = [(weight.data_ptr(), weight._version) for weight in model.model.parameters()]
    cached = _weight_hashes.get(model.model)
    if cached is None or cached[0] != state:
        digest = hashlib.sha256()
        comparable = str(model.dtype) != "torch.float16"
        for name, weight in sorted(model.model.named_parameters()) if comparable else ():
            if weight.ndim > 1:
                flat = weight.detach().reshape(-1)
                sample = flat[:: max(1, flat.numel() // _SAMPLED)].bfloat16().float().cpu().numpy()
                digest.update(name.encode() + sample.tobytes())
        cached = _weight_hashes[model.model] = state, digest.hexdigest()[:16] if comparable else None
    return Base(
        name=model.name,
        revision=model.revision,
        architecture=model.model_type,
        layers=int(config.num_hidden_layers),
        width=int(config.hidden_size),
        vocabulary=int(config.vocab_size),
        tokenizer=_tokenizer_hashes[model.tokenizer],
        config=model.hash,
        weights=cached[1],
        dtype=str(model.dtype).removeprefix("torch."),
    )


_COMPARED = {
    "architecture": "architecture",
    "layers": "number of layers",
    "width": "width",
    "vocabulary": "vocabulary",
    "tokenizer": "tokenizer",
    "config": "configuration",
    "weights": "weights",
}


def check_base(wanted: Base, model: LocalModel, what: str = "the detector") -> None:
    """Raise `InputError` with the first difference if `model` is not the one that `wanted` describes.

    `what` names the detector in the message.
    """
    base = base_of(model)
    for name, title in _COMPARED.items():
        expected, actual = getattr(wanted, name), getattr(base, name)
        if expected != actual and None not in (expected, actual):
            raise InputError(
                f"{what} was trained on {wanted.name!r} and does not fit {model.name!r}: the {title} differs "
                f"({expected}, here {actual})",
                hint="give the model that it was trained on, or train it on this one",
            )


def load_base(
    base: Base,
    what: str,
    *,
    model: str | Path | None = None,
    device: str = "auto",
    dtype: str | None = None,
    kinds: tuple[Kind, ...] = READERS,
) -> LocalModel:
    """Load the model that an artifact was trained on.

    Args:
        base: The artifact's record of the model.
        what: The artifact, for messages: "the probe in FOLDER".
        model: The model's place now; None: its place at training.
        device: As in `models.load`.
        dtype: As in `models.load`; None: the precision at training.
        kinds: As in `models.load`.

    Raises:
        InputError: If the model is gone, or differs from `base`; the message names the difference.
    """
    place, revision = (base.name, base.revision) if model is None else (model, None)
    if model is None and revision is None and not Path(place).exists():  # a folder, or a GGUF file
        raise InputError(
            f"the base model of {what} is not in {place!r} any more",
            hint="say where it is: DETECTOR,model=FOLDER; or put it back",
        )
    loaded = load(place, revision=revision, device=device, dtype=dtype or _DTYPES[base.dtype], kinds=kinds)
    check_base(base, loaded, what)
    return loaded


def identity(model: LocalModel) -> dict[str, Any]:
    """Return the fields that two models share if they give the same numbers; "weights" is None where it is unknown."""
    base = base_of(model)
    return {name: getattr(base, name) for name in _COMPARED}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that numbers may depend on."""
    installed = {"python": platform.python_version()}
    for name in ("veridical", "torch", "transformers", "tokenizers", "numpy"):
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def write_folder(folder: str | Path, kind: str, fields: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Path:
    """Write a detector to `folder` and return that: weights first, each file whole or not at all.

    Args:
        folder: The folder; it is made if it is missing.
        kind: The detector's kind, which `description` and `read_folder` check.
        fields: Further content of `detector.json`.
        tensors: The content of `weights.safetensors`, whose hash goes into `detector.json`.

    Raises:
        OutputError: If the folder cannot be written.
    """
    from safetensors.numpy import save

    data = save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    document = {
        "veridical": f"detector/{FORMAT}",
        "kind": kind,
        **fields,
        "weights": hashlib.sha256(data).hexdigest(),
    }
    folder = _made(folder)
    write_whole(folder / WEIGHTS, data)
    write_whole(folder / DETECTOR, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return folder


def save_record(record: Any, folder: str | Path) -> Path:
    """Write `record`, which `core.serialization` must be able to encode, as `detector.json` to `folder`; return that.

    Raises:
        OutputError: If the folder cannot be written.
    """
    folder = _made(folder)
    write_whole(folder / DETECTOR, encode(record, indent=1) + "\n")
    return folder


def _made(folder: str | Path) -> Path:
    """Create `folder` if it is missing and return it; raise `OutputError` if that fails."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}", hint="choose another place") from None
    return folder


def read_folder(folder: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the object in `detector.json` and the tensors of the detector in `folder`.

    Raises:
        DataError: If the folder holds no detector, or one that is damaged, of another kind or of a newer format.
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
    except SafetensorError as error:
        raise DataError(f"cannot be read: {error}", path=path) from None


def read_base(value: Any, path: Path) -> Base:
    """Read the base model that an artifact records; raise `DataError` if a field is missing or unknown."""
    try:
        return Base(**value)
    except TypeError:
        expected = ", ".join(f.name for f in fields(Base))
        raise DataError("a field is missing or unknown", path=path, hint=f"base: {expected}") from None


def save_artifact(artifact: Artifact, folder: str | Path) -> Path:
    """Write the artifact to `folder` and return that: weights first, each file whole or not at all."""
    about = {
        "base": asdict(artifact.base),
        "settings": artifact.settings,
        "training": artifact.training,
        "validation": artifact.validation,
    }
    return write_folder(folder, artifact.kind, about, artifact.tensors)


def load_artifact(folder: str | Path, kind: str) -> Artifact:
    """Read the artifact of `kind` in `folder`.

    Raises:
        DataError: If the folder holds no detector, or one that is damaged, of another kind or of a newer format.
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
    """Read the `detector.json` in `folder`; raise `DataError` unless it describes a detector of `kind`."""
    folder = Path(folder)
    if not (folder / DETECTOR).is_file():
        raise DataError(f"no {DETECTOR} in it", path=folder, hint="name the folder that `veridical train` wrote")
    path = folder / DETECTOR
    try:
        document = parse(read_text(path))
    except WireError as error:
        raise DataError(error.message, path=path) from None
    tag, _, number = str(document.get("veridical")).partition("/")
    if tag not in ("detector", "calibrated") or not number.isdecimal():
        raise DataError("not the description of a trained detector", path=path)
    if number != str(FORMAT):
        problem = f"of format {shorten(number, 20)}; this Veridical reads {FORMAT}"
        raise DataError(problem, path=path, hint="install the Veridical that wrote it")
    described = document.get("kind") if tag == "detector" else tag
    if described != kind:
        raise DataError(f"a detector of the kind {described!r}, not {kind!r}", path=path)
    return document


def described_kind(folder: str | Path) -> str | None:
    """Return the kind of the detector in `folder`; None if it holds none, "" if its description cannot be read."""
    path = Path(folder) / DETECTOR
    if not path.is_file():
        return None
    try:
        return str(parse(read_text(path)).get("kind", ""))
    except (WireError, DataError):
        return ""
