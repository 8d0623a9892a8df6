"""The layer of SummaC Conv as a folder: `detector.json` with the form, and its weights; the model stays where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from veridical.core.errors import DataError, InputError
from veridical.detectors.align.scoring import Head
from veridical.detectors.entailment.forms import Form
from veridical.models.artifact import DETECTOR, Artifact, Base, load_artifact

__all__ = ["KIND", "layer_artifact", "load_layer"]

KIND = "summac"


def layer_artifact(
    base: Base, form: Form, layer: Head, training: Mapping[str, Any], validation: Mapping[str, Any]
) -> Artifact:
    """The artifact of a layer trained on the probabilities of `base`."""
    tensors = {"weight": layer.weight, "bias": np.array([layer.bias])}
    return Artifact(KIND, base, asdict(form), tensors, dict(training), dict(validation))


def load_layer(folder: Path) -> tuple[Base, Form, Head]:
    """The model, form and layer in `folder`; `DataError` if it holds none, or is damaged."""
    from pydantic import TypeAdapter, ValidationError

    artifact = load_artifact(folder, KIND)
    path = folder / DETECTOR
    try:
        form: Form = TypeAdapter(Form).validate_json(json.dumps(artifact.settings), strict=True)
    except (ValidationError, InputError) as error:
        problem = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else error.message
        raise DataError(f"settings: {problem}", path=path, hint="copy or train it again") from None
    weight, bias = (artifact.tensors.get(name, np.zeros(0)).astype(np.float64) for name in ("weight", "bias"))
    if not form.bins or weight.shape != (form.bins,) or bias.shape != (1,):
        raise DataError(f"no layer for {form.bins} bins", path=path, hint="copy or train it again")
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise DataError("the layer holds numbers that are not finite", path=path)
    return artifact.base, form, Head(weight, float(bias[0]))
