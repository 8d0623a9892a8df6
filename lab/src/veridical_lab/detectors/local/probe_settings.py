"""The settings of a trained probe, stored in its artifact (`detector.json`) and checked on loading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from veridical.inference.template import TEMPLATES
from veridical.io.strict_json import record_of
from veridical.metrics.calibrators import calibrator
from veridical.records.errors import DataError, InputError
from veridical_lab.models.probe_heads import OBJECTIVES, PROBE_KINDS


@dataclass(frozen=True, slots=True)
class ProbeHeadSettings:
    """The probes of one objective, without their weights.

    Attributes:
        kind: "linear", "pooling" or "mlp".
        sublayers: The sublayer of each probe.
        mix_bias: The intercept of the ensemble.
        threshold: Flag a token or response from this score, which was fitted on validation data.
        calibration: The `parameters()` of a fitted calibrator, or None.
    """

    kind: str
    sublayers: list[int]
    mix_bias: float
    threshold: float
    calibration: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """How cases are presented to the base model, and the probes by objective.

    Attributes:
        template: The name of the template that turns a case into a text for the model.
        max_tokens: The model reads at most this many tokens at once. Default: its context.
        max_windows: Read at most this many windows over long sources. Default: all.
        select: "ensemble" for probes on several sublayers, or "best" for a single sublayer.
        heads: The probes by objective, "token" or "response". There is at least one.
        template_digest: A hash of the template at training, or None if the artifact does not record it.
    """

    template: str
    max_tokens: int | None
    max_windows: int | None
    select: str
    heads: dict[str, ProbeHeadSettings]
    template_digest: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert the settings to JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, settings: Mapping[str, Any], path: Path) -> ProbeSettings:
        """Read the settings of an artifact.

        Raises:
            DataError: A field is missing or invalid. The message names `path` and the first such field.
        """
        loaded = record_of(cls, settings, path, "settings")

        def require(valid: bool, field: str, value: object, allowed: str) -> None:
            if not valid:
                raise DataError(f"settings.{field} is {value!r}", path=path, hint=f"allowed: {allowed}")

        require(loaded.template in TEMPLATES, "template", loaded.template, ", ".join(sorted(TEMPLATES)))
        for name, count in (("max_tokens", loaded.max_tokens), ("max_windows", loaded.max_windows)):
            require(count is None or count > 0, name, count, "whole numbers from 1, or null")
        heads = loaded.heads
        require(bool(heads) and set(heads) <= set(OBJECTIVES), "heads", list(heads), " and ".join(OBJECTIVES))
        for objective, head in heads.items():
            field, sublayers = f"heads.{objective}", head.sublayers
            require(head.kind in PROBE_KINDS, f"{field}.kind", head.kind, ", ".join(PROBE_KINDS))
            ascending = sublayers == sorted(set(sublayers)) and all(s >= 0 for s in sublayers)
            require(ascending and bool(sublayers), f"{field}.sublayers", sublayers, "whole numbers from 0, ascending")
            require(math.isfinite(head.mix_bias), f"{field}.mix_bias", head.mix_bias, "finite numbers")
            require(0 < head.threshold <= 1, f"{field}.threshold", head.threshold, "numbers above 0, up to 1")
            try:
                calibrator(head.calibration or {"kind": "platt", "slope": 1.0, "intercept": 0.0})
            except (InputError, TypeError, ValueError):
                require(False, f"{field}.calibration", head.calibration, "what `train probe --calibrate` writes")
        return loaded
