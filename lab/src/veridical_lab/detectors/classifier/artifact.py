"""Read and write a trained classifier as a folder of `detector.json` and the tuned weights, without the base model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.calibrated import Scale
from veridical.inference.artifact import DETECTOR, Artifact, load_artifact
from veridical.inference.local_model import LocalModel
from veridical.metrics.calibrators import Platt
from veridical.models.base_model import base_of
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.types import Level
from veridical_lab.detectors.classifier.presentation import CLASSIFIER_TASKS, READING_UNITS
from veridical_lab.models.saving import save_artifact

KIND = "classifier"
TUNING_METHODS = ("prompt", "lora", "head", "full")
"""Tune a soft prompt, LoRA, a linear head on a frozen model, or a linear head together with the whole model."""


@dataclass(frozen=True, slots=True)
class ClassifierSettings:
    """What a classifier judges, how it was tuned, and what it reads.

    Attributes:
        task: "hallucination" or "coverage".
        method: How it was tuned, one of `TUNING_METHODS`.
        unit: What is read at once, one of `READING_UNITS`. "whole" is the whole case. "part" is a sentence of the
            response, or a source, and the case gets the score of its worst part. "pair" is a sentence with a source. A
            part then gets the score of its best pair, and the case the score of its worst part.
        labels: What a decoder answers if there is no error, and if there is one.
        virtual_tokens: How many tokens long a soft prompt is.
        rank: The rank of LoRA.
        max_tokens: A part may have at most this many tokens, or its case is not judged. Default: the model's limit.
        scales: How margins become scores: the fitted threshold and calibration for "whole" cases and for a "part".
    """

    task: str = "hallucination"
    method: str = "prompt"
    unit: str = "whole"
    labels: tuple[str, str] = ("YES", "NO")
    virtual_tokens: int = 5
    rank: int = 8
    max_tokens: int | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("task", self.task, CLASSIFIER_TASKS),
            ("method", self.method, TUNING_METHODS),
            ("unit", self.unit, READING_UNITS),
        ):
            if value not in allowed:
                raise UnknownNameError(f"{what} of a classifier", value, allowed)
        if min(self.virtual_tokens, self.rank, self.max_tokens or 1) < 1:
            raise InputError("virtual_tokens, rank and max_tokens are counts of at least 1")

    @property
    def answers(self) -> bool:
        """Whether the score comes from the labels of a language model, not from a head."""
        return self.method in ("prompt", "lora")

    @property
    def levels(self) -> dict[str, Level]:
        """The level of the score of a whole case, and of a part if parts are judged."""
        whole, part = (Level.RESPONSE, Level.SPAN) if self.task == "hallucination" else (Level.COVERAGE, Level.SOURCE)
        return {"whole": whole} if self.unit == "whole" else {"whole": whole, "part": part}

    def scale(self, unit: str) -> Scale:
        """Return the fitted scale of "whole" cases or of a "part".

        If nothing was fitted, the scale is the softmax over the labels, with threshold 0.5.
        """
        return self.scales.get(unit, Scale(0.5, Platt(1.0, 0.0)))


def save_classifier(
    model: LocalModel,
    settings: ClassifierSettings,
    tensors: Mapping[str, NDArray[Any]],
    folder: str | Path,
    records: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
) -> Path:
    """Write a classifier to `folder`. `records` are the record of its training and its validation figures."""
    about = asdict(settings)
    about["scales"] = {
        unit: {"threshold": scale.threshold, **(scale.calibration.parameters() if scale.calibration else {})}
        for unit, scale in settings.scales.items()
    }
    return save_artifact(Artifact(KIND, base_of(model), about, dict(tensors), *records), folder)


def load_classifier(folder: str | Path) -> tuple[Artifact, ClassifierSettings]:
    """Load the classifier in `folder`.

    Raises:
        DataError: The classifier is damaged.
    """
    artifact = load_artifact(folder, KIND)
    path = Path(folder) / DETECTOR
    try:
        stored = dict(artifact.settings)
        scales = {
            unit: Scale(float(about["threshold"]), Platt(float(about["slope"]), float(about["intercept"])))
            for unit, about in stored.pop("scales").items()
        }
        settings = ClassifierSettings(**{**stored, "labels": tuple(stored["labels"]), "scales": scales})
    except (AttributeError, InputError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"the settings cannot be used: {error}", path=path, hint="train the classifier again") from None
    if not artifact.tensors or not all(np.isfinite(array).all() for array in artifact.tensors.values()):
        raise DataError("the weights are missing or not finite", path=path, hint="train the classifier again")
    return artifact, settings
