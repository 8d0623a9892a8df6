"""The settings of a trained feature detector, stored in its artifact and checked on loading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from veridical.io.strict_json import record_of
from veridical.metrics.calibrators import Isotonic, Platt, calibrator
from veridical.records.errors import DataError, VeridicalError
from veridical.records.types import Level
from veridical_lab.detectors.features.extraction import FeatureSettings
from veridical_lab.detectors.features.tagger import load_tagger

KIND = "features"
CLASSIFIERS = ("lr", "svm")
CONTEXTS = ("both", "left")


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """The settings of a trained feature detector. The numbers of classifier and word statistics are stored elsewhere.

    Attributes:
        classifier: "lr" (logistic regression) or "svm" (a linear support vector machine).
        features: The features in use.
        names: The names of the features, in the order of the columns.
        tagger: The name of the tagger.
        tagger_identity: The tagger's `identity()` at training.
        template_digest: A hash of the prompt template at training. None without a causal model.
        calibration: The `parameters()` of the calibrator.
        thresholds: Flag items from this probability, by level ("span", "response").
    """

    classifier: str
    features: FeatureSettings
    names: list[str]
    tagger: str
    tagger_identity: str
    calibration: dict[str, Any]
    thresholds: dict[str, float] = field(default_factory=dict)
    template_digest: str | None = None

    @property
    def calibrator(self) -> Platt | Isotonic:
        """The calibrator that turns the classifier's distance into a probability."""
        return calibrator(self.calibration)

    def to_json(self) -> dict[str, Any]:
        """Convert the settings to JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, settings: object, path: Path) -> DetectorSettings:
        """Read the settings of an artifact.

        Raises:
            DataError: A field is missing or invalid. The message names `path` and the first such field.
        """
        loaded = record_of(cls, settings if isinstance(settings, Mapping) else {}, path, "settings")

        def require(valid: bool, name: str, value: object, allowed: str) -> None:
            if not valid:
                raise DataError(f"settings.{name} is {value!r}", path=path, hint=f"allowed: {allowed}")

        features = loaded.features
        require(loaded.classifier in CLASSIFIERS, "classifier", loaded.classifier, ", ".join(CLASSIFIERS))
        require(features.context in CONTEXTS, "features.context", features.context, ", ".join(CONTEXTS))
        kinds = ("causal", "masked", None)
        require(features.probability in kinds, "features.probability", features.probability, "causal, masked, null")
        if tuple(loaded.names) != features.names:
            raise DataError("its features are not those of this Veridical", path=path, hint="train the detector again")
        require(set(loaded.thresholds) <= {"span", "response"}, "thresholds", loaded.thresholds, "span, response")
        for name, value in loaded.thresholds.items():
            require(0.0 <= value <= 1.0, f"thresholds.{name}", value, "numbers from 0 to 1")
        try:
            load_tagger(loaded.tagger)
            calibrator(loaded.calibration)
        except (VeridicalError, TypeError, ValueError) as error:
            raise DataError(f"settings: {error}", path=path, hint="copy or train it again") from None
        return loaded

    @property
    def levels(self) -> dict[Level, float]:
        """The fitted threshold of each level."""
        return {Level(name): value for name, value in self.thresholds.items()}
