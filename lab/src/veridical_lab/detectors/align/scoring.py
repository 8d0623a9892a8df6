"""From matches to scores: the untrained mapping, and heads trained on labels, as an artifact has them.

Without training a word's score is 0 where its best match is identical and 1 where it is no better than among texts
about other things. A number or name that the other texts do not have scores 1, a number that they write otherwise 0.
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
    """The score of each word without training, in [0, 1]. *Shape:* (words,)

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
    """The mean score of the content words with tokens (of all words where none is one); `weights` may be given."""
    chosen = matches.text.has_tokens & matches.content
    if not chosen.any():
        chosen = matches.text.has_tokens
    w = np.ones(len(scores)) if weights is None else weights
    w = w if w[chosen].any() else np.ones(len(scores))
    return float(min(max(scores[chosen] @ w[chosen] / w[chosen].sum(), 0.0), 1.0))


def pool(parts: Sequence[tuple[Floats, WordMatches]]) -> Floats:
    """What a head reads of one or more whole texts: see `POOLED`, over their content words. *Shape:* (4,)"""
    chosen = [s[m.text.has_tokens & m.content] for s, m in parts]
    scores = np.sort(np.concatenate(chosen))[::-1]
    if not len(scores):
        scores = np.sort(np.concatenate([s for s, _ in parts]))[::-1]
    return np.array([scores.mean(), scores[0], scores[:3].mean(), np.log1p(len(scores))])


@dataclass(frozen=True, slots=True)
class AlignSettings:
    """What an artifact of `veridical train align` holds beside weights.

    Attributes:
        layers: Whose states are compared.
        window: The most tokens read at once; None: as many as the model can.
        baseline: The cosine that counts as no support, for levels without a head.
        features: The columns that the heads on words read.
        heads: The levels that have a head.
        scales: By level the threshold, and the calibration or None.
    """

    layers: list[int]
    window: int | None
    baseline: float
    features: list[str]
    heads: list[str]
    scales: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The settings as an artifact has them."""
        return asdict(self)

    @classmethod
    def from_json(cls, settings: Mapping[str, Any], path: Path) -> AlignSettings:
        """The settings in an artifact; `DataError` with the first field that is missing or invalid."""
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
        """The fitted threshold and calibration of each level; `KeyError`, `TypeError` or `ValueError` if damaged."""
        scales = {}
        for name, about in self.scales.items():
            calibration = about["calibration"]
            scales[Level(name)] = Scale(
                float(about["threshold"]),
                None if calibration is None else calibrator(calibration),
            )
        return scales


def load_heads(artifact: Artifact, settings: AlignSettings, path: Path) -> dict[Level, LogisticLayer]:
    """The heads in an artifact by level; `DataError` for weights that are missing, of a wrong shape or not finite."""
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
