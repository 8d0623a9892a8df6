"""Read a trained token classifier from its folder: `detector.json`, the head, and the backbone if it was trained, too.

The folder `backbone/` is an ordinary Hugging Face folder. A backbone that was frozen during training is not copied.
Instead, the artifact records which model it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from veridical.inference.artifact import BACKBONE, DETECTOR, ONNX, Artifact, load_artifact
from veridical.inference.heads import HeadSettings, PairHead
from veridical.inference.pair_runner import MODES
from veridical.inference.pairs import PairSettings
from veridical.inference.template import TEMPLATES
from veridical.io.strict_json import record_of
from veridical.records.errors import DataError
from veridical.records.strings import shorten

__all__ = ["BACKBONE", "KIND", "ONNX", "TokenScale", "TokenSettings", "load_tokens"]

KIND = "tokens"


@dataclass(frozen=True, slots=True)
class TokenScale:
    """A threshold and the scale that it is on: probability = 1 / (1 + exp(-(slope * logit + intercept)))."""

    threshold: float = 0.5
    slope: float = 1.0
    intercept: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The settings of a token classifier.

    Attributes:
        pairs: How cases are presented to the model.
        head: The form of the classification head.
        mode: "offline" or "online".
        attention: "full" or "prefix" (`inference.pair_runner.PairRunner`).
        backbone: Whether the artifact has a backbone of its own.
        span: The scale of words or tokens.
        response: The scale of whole responses.
        response_by: Where a response's logit comes from: its own head ("whole"), or its worst unit ("worst").
        contradiction: The scale of the contradiction head. None if the classifier cannot tell contradiction from
            absence.
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
        """Read the settings from JSON. Errors name `path` and the first missing or invalid field.

        Raises:
            DataError: A field is missing or invalid.
        """
        loaded = record_of(cls, settings, path, "settings")
        if loaded.pairs.template not in TEMPLATES or loaded.mode not in MODES:
            raise DataError(f"settings: template {loaded.pairs.template!r}, mode {loaded.mode!r}", path=path)
        for scale in (loaded.span, loaded.response, loaded.contradiction or loaded.span):
            if not (0.0 <= scale.threshold <= 1.0 and scale.slope > 0.0 and np.isfinite(scale.intercept)):
                raise DataError(f"settings: {scale}", path=path, hint="a threshold in [0, 1] and a slope above 0")
        return loaded


def load_tokens(folder: str | Path) -> tuple[Artifact, TokenSettings, PairHead]:
    """Read the description, the settings and the head of a token classifier from a folder.

    Raises:
        DataError: One of them is missing, or they do not fit together.
    """
    artifact = load_artifact(folder, KIND)
    path = Path(folder) / DETECTOR
    settings = TokenSettings.from_json(artifact.settings, path)
    expected = settings.head.shapes(artifact.base.width)
    shapes = {name: tuple(tensor.shape) for name, tensor in artifact.tensors.items()}
    if shapes != expected:
        problem = f"the head has {shorten(str(shapes), 400)}, not {expected}"
        raise DataError(problem, path=path, hint="copy or train it again")
    if not all(np.isfinite(tensor).all() for tensor in artifact.tensors.values()):
        raise DataError("the head holds numbers that are not finite", path=path)
    return artifact, settings, PairHead(settings.head, artifact.tensors)
