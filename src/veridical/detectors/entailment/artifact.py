"""Read the trained layer of SummaC Conv from a folder. The folder names the base model but does not contain it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from veridical.detectors.entailment.forms import Form
from veridical.inference.artifact import DETECTOR, Base, load_artifact
from veridical.inference.heads import LogisticLayer
from veridical.io.strict_json import record_of
from veridical.records.errors import DataError

KIND = "summac"


@dataclass(frozen=True, slots=True, eq=False)
class TrainedLayer:
    """A trained layer of SummaC Conv, which scores a sentence from a histogram of its entailment probabilities.

    Attributes:
        base: The base model that computes the probabilities. The folder names it but does not contain it.
        form: The published method whose texts and arithmetic are used, with the number of bins of the histogram.
        labels: The meanings of the base model's classes, separated by "|", such as "contradiction|neutral|entailment".
        layer: The weights of the layer.
    """

    base: Base
    form: Form
    labels: str
    layer: LogisticLayer


@dataclass(frozen=True, slots=True)
class _Settings:
    form: Form
    labels: str


def load_layer(folder: Path) -> TrainedLayer:
    """Load the layer that `veridical train summac` wrote to a folder.

    Raises:
        DataError: The folder contains no layer, or a damaged layer.
    """
    artifact = load_artifact(folder, KIND)
    path = folder / DETECTOR
    settings = record_of(_Settings, artifact.settings, path, "settings")
    form = settings.form
    weight, bias = (artifact.tensors.get(name, np.zeros(0)).astype(np.float64) for name in ("weight", "bias"))
    if not form.bins or weight.shape != (form.bins,) or bias.shape != (1,):
        raise DataError(f"no layer for {form.bins} bins", path=path, hint="copy or train it again")
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise DataError("the layer holds numbers that are not finite", path=path)
    return TrainedLayer(artifact.base, form, settings.labels, LogisticLayer(weight, float(bias[0])))
