"""From matches to scores: the untrained mapping, and trained heads loaded from an artifact.

Without training, a word scores 0 if its best match is identical, and 1 if its best match is no better than among texts
about other things. A number or name that the other texts lack scores 1; a number they write differently scores 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.calibration.calibrated import Scale
from veridical.calibration.calibrators import calibrator
from veridical.core.errors import DataError
from veridical.core.types import Level
from veridical.models.artifact import Artifact
from veridical.models.linear import LogisticLayer
from veridical_lab.detectors.align.words import WordMatches, feature_names

__all__ = ["POOLED", "AlignSettings", "content_mean", "load_heads", "pool", "untrained_scores"]

POOLED = ("mean", "highest", "mean of the highest three", "words")
Floats = NDArray[np.float64]


def untrained_scores(matches: WordMatches, baseline: float, values: bool = True) -> Floats:
    """Return the score of each word without training, in [0, 1]. *Shape:* (words,)

    Args:
        matches: The matches.
        baseline: The cosine that counts as no support (`reader.unrelated_cosine`).
        values: Whether numbers and names are compared by value.
    """
    scores: Floats = np.clip((1.0 - matches.cosine[-1]) / (1.0 - baseline), 0.0, 1.0)
    if values:
        scores[matches.value & matches.found & ~matches.exact] = 0.0
        scores[(matches.value | matches.name) & matches.content & ~matches.found] = 1.0
    return scores


def content_mean(scores: Floats, matches: WordMatches, weights: Floats | None = None) -> float:
    """Return the mean score of the content words with tokens, or of all words with tokens if there are none.

    `weights` are optional. *Shape:* (words,)
    """
    counted = matches.text.has_tokens & matches.content
    if not counted.any():
        counted = matches.text.has_tokens
    w = np.ones(len(scores)) if weights is None else weights
    w = w if w[counted].any() else np.ones(len(scores))
    return float(min(max(scores[counted] @ w[counted] / w[counted].sum(), 0.0), 1.0))


def pool(parts: Sequence[tuple[Floats, WordMatches]]) -> Floats:
    """Return the input of a head on whole texts: `POOLED` over their content words. *Shape:* (4,)"""
    chosen = [s[m.text.has_tokens & m.content] for s, m in parts]
    scores = np.sort(np.concatenate(chosen))[::-1]
    if not len(scores):
        scores = np.sort(np.concatenate([s for s, _ in parts]))[::-1]
    return np.array([scores.mean(), scores[0], scores[:3].mean(), np.log1p(len(scores))])


@dataclass(frozen=True, slots=True)
class AlignSettings:
    """The settings in an artifact of `veridical train align`, besides the weights.

    Attributes:
        layers: The layers whose states are compared.
        window: The most tokens read at once; None: the model's limit.
        baseline: The cosine that counts as no support, for levels without a head.
        features: The feature columns that the heads on words read.
        heads: The levels that have a head.
        scales: The threshold of each level, and its calibration or None.
    """

    layers: list[int]
    window: int | None
    baseline: float
    features: list[str]
    heads: list[str]
    scales: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, settings: Mapping[str, Any], path: Path) -> AlignSettings:
        """Read the settings of an artifact; `DataError` names the first missing or invalid field."""
        from pydantic import TypeAdapter, ValidationError

        hint = "copy the folder again, or train again: veridical train align"
        try:
            loaded = TypeAdapter(cls).validate_json(json.dumps(dict(settings)), strict=True)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in ("settings", *problem["loc"]))
            raise DataError(f"{where}: {problem['msg']}", path=path, hint=hint) from None
        problems = {
            "layers": not loaded.layers or min(loaded.layers) < 0,
            "window": loaded.window is not None and loaded.window < 1,
            "baseline": not -1.0 <= loaded.baseline < 1.0,
            "heads": not set(loaded.heads) <= set(Level),
            "features": loaded.features != feature_names(loaded.layers),
        }
        for name, wrong in problems.items():
            if wrong:
                raise DataError(f"settings.{name} is {getattr(loaded, name)!r}", path=path, hint=hint)
        try:
            loaded.scale_of_levels()
        except (KeyError, TypeError, ValueError):
            raise DataError("settings.scales: not thresholds and calibrations", path=path, hint=hint) from None
        return loaded

    def scale_of_levels(self) -> dict[Level, Scale]:
        """Return the fitted threshold and calibration of each level.

        Raise `KeyError`, `TypeError` or `ValueError` if they are damaged.
        """
        scales = {}
        for name, about in self.scales.items():
            calibration = about["calibration"]
            scales[Level(name)] = Scale(
                float(about["threshold"]),
                None if calibration is None else calibrator(calibration),
            )
        return scales


def load_heads(artifact: Artifact, settings: AlignSettings, path: Path) -> dict[Level, LogisticLayer]:
    """Load the heads of an artifact by level; `DataError` for weights that are missing, misshapen or not finite."""
    heads = {}
    for name in settings.heads:
        size = len(settings.features) if name in (Level.SPAN, Level.SOURCE) else len(POOLED)
        weight, bias = (artifact.tensors.get(f"{name}.{part}") for part in ("weight", "bias"))
        if weight is None or bias is None or weight.shape != (size,) or bias.shape != (1,):
            raise DataError(f"the weights of the {name}-level head are missing or of a wrong shape", path=path)
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise DataError(f"the {name}-level head holds numbers that are not finite", path=path)
        heads[Level(name)] = LogisticLayer(weight.astype(np.float64), float(bias[0]))
    return heads
