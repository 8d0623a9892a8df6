"""Write a trained detector to a folder that `veridical.inference.artifact` can read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.artifact import DETECTOR, FORMAT, WEIGHTS, Artifact
from veridical.inference.saving import make_folder
from veridical.io.files import write_whole


def write_folder(folder: str | Path, kind: str, fields: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Path:
    """Write a detector to a folder and return the folder.

    The weights are written first, and each file is written whole or not at all.

    Args:
        folder: The folder to write. It is created if it is missing.
        kind: The kind of detector. `description` and `read_folder` check it.
        fields: More fields for `detector.json`.
        tensors: The arrays for `weights.safetensors`. The hash of this file is written to `detector.json`.

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
    folder = make_folder(folder)
    write_whole(folder / WEIGHTS, data, follow_link=False)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / DETECTOR, f"{text}\n", follow_link=False)
    return folder


def tensors_digest(tensors: Mapping[str, NDArray[Any]], about: str = "") -> str:
    """Hash a text together with arrays and their names, to 64 hexadecimal digits."""
    digest = hashlib.sha256(about.encode())
    for name, array in sorted(tensors.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_artifact(artifact: Artifact, folder: str | Path) -> Path:
    """Write an artifact to a folder and return the folder.

    The weights are written first, and each file is written whole or not at all.
    """
    about = {
        "base": asdict(artifact.base),
        "settings": artifact.settings,
        "training": artifact.training,
        "validation": artifact.validation,
    }
    return write_folder(folder, artifact.kind, about, artifact.tensors)
