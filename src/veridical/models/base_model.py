"""Identify the model on which a detector was trained, load this model again, and reject any other model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from veridical.inference.artifact import Base
from veridical.inference.fast_tokenizer import plain_backend
from veridical.inference.local_model import DTYPE_NAMES, READERS, Kind, LocalModel
from veridical.models.load import load
from veridical.records.errors import InputError

_SAMPLED = 64  # how many numbers of each weight matrix go into the hash
_tokenizer_hashes: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_weight_hashes: WeakKeyDictionary[Any, tuple[list[tuple[int, int]], str | None]] = WeakKeyDictionary()


def base_of(model: LocalModel) -> Base:
    """Build the record that identifies a model, from its configuration and hashes of its tokenizer and weights.

    The tokenizer is hashed only once. A sample of the weights is hashed again only if the weights have changed.
    """
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
    """Check that `model` is the model on which a detector was trained.

    `wanted` is the record of that model in the detector's artifact. `what` names the detector in the error message.

    Raises:
        InputError: The models differ. The message names the first difference.
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
    """Load the model on which an artifact (a saved detector) was trained.

    Args:
        base: The artifact's record of the model.
        what: A name for the artifact in messages, such as "the probe in FOLDER".
        model: Where the model is now. Default: where it was during training.
        device: The device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:N" or "mps".
        dtype: The precision: "auto", "fp32", "bf16" or "fp16". Default: the precision during training.
        kinds: The kinds of model that the caller can use, such as "causal" or "encoder".

    Raises:
        InputError: The model is gone, or differs from `base`. The message names the difference.
    """
    place, revision = (base.name, base.revision) if model is None else (model, None)
    if model is None and revision is None and not Path(place).exists():  # a folder, or a GGUF file
        raise InputError(
            f"the base model of {what} is not in {place!r} any more",
            hint="say where it is: DETECTOR,model=FOLDER; or put it back",
        )
    loaded = load(place, revision=revision, device=device, dtype=dtype or DTYPE_NAMES[base.dtype], kinds=kinds)
    check_base(base, loaded, what)
    return loaded


def identity(model: LocalModel) -> dict[str, Any]:
    """Return what identifies a model in the fingerprints of detectors: all fields of its `Base` that must be equal.

    These are all fields except name, revision and precision. "weights" is None for a model in fp16.
    """
    base = base_of(model)
    return {name: getattr(base, name) for name in _COMPARED}
