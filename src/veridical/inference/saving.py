"""Write a trained detector to a folder that `artifact` reads. Each file is written completely or not at all."""

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

from veridical.inference.artifact import DETECTOR, FORMAT, WEIGHTS, Artifact
from veridical.io.files import write_whole
from veridical.io.serialization import encode
from veridical.records.errors import OutputError

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
    """Write a detector to a folder and return the folder.

    The weights are written first. Each file is written completely or not at all.

    Args:
        folder: The folder to write. It is created if it is missing.
        kind: The kind of detector, which `description` and `read_folder` check.
        fields: Further content for `detector.json`.
        tensors: The content of `weights.safetensors`, whose hash is written to `detector.json`.

    Raises:
        OutputError: The folder cannot be written.
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
    write_whole(folder / WEIGHTS, data, follow_link=False)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / DETECTOR, f"{text}\n", follow_link=False)
    return folder


def save_record(record: Any, folder: str | Path) -> Path:
    """Write a record as `detector.json` to a folder, and return the folder.

    `io.serialization` must be able to encode the record.

    Raises:
        OutputError: The folder cannot be written.
    """
    folder = _made(folder)
    write_whole(folder / DETECTOR, encode(record, indent=1) + "\n", follow_link=False)
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
    """Write an artifact to a folder and return the folder.

    The weights are written first. Each file is written completely or not at all.
    """
    about = {
        "base": asdict(artifact.base),
        "settings": artifact.settings,
        "training": artifact.training,
        "validation": artifact.validation,
    }
    return write_folder(folder, artifact.kind, about, artifact.tensors)
