"""Load a trained token classifier from its folder.

The folder contains `detector.json`, the classification head, and the backbone (the encoder or decoder below the head)
if it was trained too. The folder `backbone/` is an ordinary Hugging Face folder. A backbone that was frozen during
training is not copied. Instead, the artifact records which model it was.
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
    """The fitted conversion of logits to probabilities for one level, such as words, and the threshold for these.

    A logit becomes the probability 1 / (1 + exp(-(slope * logit + intercept))).

    Attributes:
        threshold: The lowest probability that is flagged, in [0, 1].
        slope: The slope, above 0.
        intercept: The intercept.
    """

    threshold: float = 0.5
    slope: float = 1.0
    intercept: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The settings of a trained token classifier, as stored in its `detector.json`.

    A unit is a word, a token or a span of the response that gets one logit.

    Attributes:
        pairs: How cases are encoded for the model.
        head: The form of the classification head.
        mode: "offline" if each word is judged by the complete response, "online" if only by the words before it.
        attention: "full" if the sources and the response attend to each other, "prefix" if the sources attend only to
            themselves (`inference.pair_runner.PairRunner`).
        backbone: If true, the folder contains the backbone. If false, the backbone was frozen, and the folder only
            names it.
        span: The threshold and calibration of units.
        response: The threshold and calibration of responses.
        response_by: The origin of a response's logit: "whole" for its own head, or "worst" for its unit with the
            highest logit.
        contradiction: The calibration of the contradiction head. None if the classifier cannot distinguish
            contradiction from absence.
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
        """Parse the settings from JSON.

        Args:
            settings: The settings in `detector.json`.
            path: The path of the file, for error messages.

        Raises:
            DataError: A field is missing or invalid. The message names the first one.
        """
        loaded = record_of(cls, settings, path, "settings")
        if loaded.pairs.template not in TEMPLATES or loaded.mode not in MODES:
            raise DataError(f"settings: template {loaded.pairs.template!r}, mode {loaded.mode!r}", path=path)
        for scale in (loaded.span, loaded.response, loaded.contradiction or loaded.span):
            if not (0.0 <= scale.threshold <= 1.0 and scale.slope > 0.0 and np.isfinite(scale.intercept)):
                raise DataError(f"settings: {scale}", path=path, hint="a threshold in [0, 1] and a slope above 0")
        return loaded


def load_tokens(folder: str | Path) -> tuple[Artifact, TokenSettings, PairHead]:
    """Load a token classifier from a folder: its description, its settings and its classification head.

    Raises:
        DataError: One of them is missing or damaged, or the head does not match the settings.
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
