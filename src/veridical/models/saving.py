"""Write a trained detector to a folder that `artifact` reads, each file whole or not at all."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import OutputError
from veridical.core.files import write_whole
from veridical.core.serialization import encode
from veridical.models.artifact import DETECTOR, FORMAT, WEIGHTS, Artifact

__all__ = ["save_artifact", "save_record", "versions", "write_folder"]


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


def save_artifact(artifact: Artifact, folder: str | Path) -> Path:
    """Write the artifact to `folder` and return that: weights first, each file whole or not at all."""
    about = {
        "base": asdict(artifact.base),
        "settings": artifact.settings,
        "training": artifact.training,
        "validation": artifact.validation,
    }
    return write_folder(folder, artifact.kind, about, artifact.tensors)
