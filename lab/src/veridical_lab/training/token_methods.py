"""Train detectors of hallucinated phrases or words from labelled data, by methods with a common protocol.

Methods are named like detectors, such as "features:svm,model=models/bert". Another package can add methods in the
entry-point group `veridical.methods`. The spec of any detector (see `veridical detectors`) is also a method, which uses
the detector as it is, without training.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from veridical.detectors import load_detector
from veridical.detectors.tokens.detector import Tokens
from veridical.inference.heads import POOLINGS
from veridical.inference.local_model import READERS
from veridical.inference.pair_runner import ATTENTIONS, MODES
from veridical.inference.pairs import PairSettings
from veridical.models.load import load
from veridical.records.detector import Detector
from veridical.records.errors import InputError
from veridical.records.registry import Registry
from veridical.records.spec import Spec, parse_spec
from veridical.records.types import Example
from veridical_lab.detectors.features.detector import FeatureDetector
from veridical_lab.detectors.features.extraction import FeatureSettings
from veridical_lab.detectors.features.settings import CLASSIFIERS, CONTEXTS
from veridical_lab.detectors.features.statistics import WordStatistics
from veridical_lab.training.features import FeatureOptions, Inputs, train_features
from veridical_lab.training.token_options import TokenTraining
from veridical_lab.training.tokens import train_tokens

_FEATURE_OPTIONS = (
    *("context", "device", "dtype", "max_windows", "model", "paper", "seed", "sources", "statistics", "tagger"),
    "template",
)
_TOKEN_OPTIONS = (
    *("attention", "device", "epochs", "frozen", "hidden", "learning_rate", "mode", "model", "pooling", "seed"),
    "sources",
)


class TokenMethod(Protocol):
    """A method that makes a detector from labelled examples."""

    @property
    def name(self) -> str:
        """The name of the method in results."""
        ...

    def fit(self, train: Sequence[Example], validation: Sequence[Example]) -> Detector:
        """Train a detector on `train`. Use `validation` for model selection, calibration and thresholds.

        A detector with `judge_spans` (`records.detector.JudgesSpans`) is asked about the labelled phrases. For other
        detectors, the score of a phrase is the highest score of a verdict on it.
        """
        ...


TOKEN_METHODS = Registry(
    "method",
    {
        "features": "veridical_lab.training.token_methods:FeatureMethod",
        "tokens": "veridical_lab.training.token_methods:ClassifierMethod",
    },
    group="veridical.methods",
)


def load_method(text: str) -> TokenMethod:
    """Load a method by its spec.

    Raises:
        UnknownNameError: There is no such method. The message suggests the closest names.
    """
    spec = parse_spec(text)
    if spec.name in TOKEN_METHODS and not (spec.value and Path(spec.value).is_dir()):
        method: TokenMethod = TOKEN_METHODS.load(spec.name).from_spec(spec)
        return method
    return ReadyMethod(load_detector(spec))


@dataclass(frozen=True, slots=True)
class ReadyMethod:
    """Uses a detector as it is, without training."""

    detector: Detector

    @property
    def name(self) -> str:
        """The name of the detector."""
        return self.detector.name

    def fit(self, train: Sequence[Example], validation: Sequence[Example]) -> Detector:
        """Return the detector itself."""
        return self.detector


@dataclass(frozen=True, slots=True)
class FeatureMethod:
    """Trains a linear classifier on word features (`training.features`).

    If `sources` is None, responses are compared with their sources whenever the training data have sources.
    """

    name: str
    options: FeatureOptions = field(default_factory=FeatureOptions)
    sources: bool | None = None
    model: str | None = None
    statistics: Path | None = None
    device: str = "auto"
    dtype: str = "auto"

    @classmethod
    def from_spec(cls, spec: Spec) -> FeatureMethod:
        """Build the method from `features[:lr|svm][,model=FOLDER,tagger=NAME,statistics=FILE,template=NAME]`.

        Other options are context, sources, max_windows, paper, seed, device and dtype.
        """
        spec.accept(_FEATURE_OPTIONS, values=1)
        classifier = spec.value or "lr"
        if classifier not in CLASSIFIERS:
            hint = f"{' or '.join(CLASSIFIERS)}, or the folder of a trained detector"
            raise InputError(f"there is no classifier and no folder {classifier!r}", hint=hint)
        given_options = spec.options
        features = FeatureSettings(
            context=spec.choice("context", "both", CONTEXTS),
            template=given_options.get("template"),
            max_windows=spec.whole("max_windows"),
            paper=spec.flag("paper", False),
        )
        options = FeatureOptions(
            classifier=classifier,
            features=features,
            tagger=given_options.get("tagger", "rules"),
            criterion="balanced_accuracy",
            seed=spec.whole("seed", 0) or 0,
        )
        return cls(
            name=str(spec),
            options=options,
            sources=spec.flag("sources", True) if "sources" in given_options else None,
            model=given_options.get("model"),
            statistics=Path(given_options["statistics"]) if "statistics" in given_options else None,
            device=given_options.get("device", "auto"),
            dtype=given_options.get("dtype", "auto"),
        )

    def fit(self, train: Sequence[Example], validation: Sequence[Example]) -> FeatureDetector:
        """Train a detector on `train`.

        Regularisation, calibration and thresholds are chosen on `validation`.
        """
        sources = any(e.case.sources for e in train) if self.sources is None else self.sources
        options = replace(self.options, features=replace(self.options.features, sources=sources))
        model = None
        if self.model is not None:
            model = load(self.model, device=self.device, dtype=self.dtype, kinds=("causal", "masked"))
        statistics = None if self.statistics is None else WordStatistics.load(self.statistics)
        trained = train_features(train, options, Inputs(model=model, statistics=statistics), validation=validation)
        return FeatureDetector(trained, name=self.name, device=self.device)


@dataclass(frozen=True, slots=True)
class ClassifierMethod:
    """Trains a span classifier on a transformer (`training.tokens`), in a temporary folder."""

    name: str
    model: str
    options: TokenTraining
    device: str = "auto"

    @classmethod
    def from_spec(cls, spec: Spec) -> ClassifierMethod:
        """Build the method from `tokens:model=FOLDER[,OPTION=VALUE,…]`.

        The options are pooling, hidden, mode, attention, epochs, frozen, learning_rate, seed, sources and device.
        """
        spec.accept(_TOKEN_OPTIONS, values=0)
        if "model" not in spec.options:
            raise InputError("tokens needs a transformer to train", hint="tokens:model=FOLDER")
        pairs = PairSettings(sources=spec.flag("sources", True))
        options = TokenTraining(
            pairs=pairs,
            pooling=spec.choice("pooling", "mean", POOLINGS),
            hidden=spec.whole("hidden"),
            mode=spec.choice("mode", "offline", MODES),
            attention=spec.choice("attention", "full", ATTENTIONS),
            frozen=spec.flag("frozen", False),
            learning_rate=spec.number("learning_rate", 5e-5),
            epochs=spec.whole("epochs", 4) or 4,
            seed=spec.whole("seed", 0) or 0,
        )
        return cls(str(spec), spec.options["model"], options, spec.options.get("device", "auto"))

    def fit(self, train: Sequence[Example], validation: Sequence[Example]) -> Tokens:
        """Train a classifier on `train`. `validation` decides when to stop, and fits calibration and thresholds."""
        folder = tempfile.TemporaryDirectory(prefix="veridical-tokens-")
        model = load(self.model, device=self.device, dtype="fp32", kinds=READERS)
        train_tokens(model, {"data": train}, self.options, out=folder.name, validation={"data": validation})
        detector = Tokens(folder.name, device=self.device, dtype="fp32", name=self.name)
        weakref.finalize(detector, folder.cleanup)
        return detector
