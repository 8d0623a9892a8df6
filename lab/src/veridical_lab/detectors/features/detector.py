"""Judge words with a linear classifier on word features, trained on your labels (Liu et al. 2022, §4).

`veridical train features` writes the detector. The features come from a small language model, word statistics, a
tagger, and a look-up of words in the sources. No network is trained, and no large one is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from veridical.inference.artifact import DETECTOR, WEIGHTS, Base, read_base, read_folder
from veridical.inference.heads import LinearClassifier
from veridical.inference.local_model import LocalModel
from veridical.inference.template import get_template
from veridical.io.jsonl import read_json
from veridical.models.base_model import load_base
from veridical.records.detector import DetectorContext, DetectorInfo, digest_of
from veridical.records.errors import DataError, InputError
from veridical.records.judging import not_judged
from veridical.records.spans import Span, union
from veridical.records.spec import Spec
from veridical.records.types import Case, Judgement, Level, Verdict
from veridical.text.segment import words
from veridical_lab.detectors.features.extraction import Extracted, FeatureExtractor, TokenScores
from veridical_lab.detectors.features.settings import KIND, DetectorSettings
from veridical_lab.detectors.features.statistics import WordStatistics
from veridical_lab.detectors.features.tagger import load_tagger
from veridical_lab.models.saving import tensors_digest

_OPTIONS = ("device", "dtype", "model", "tagger", "token_scores")
_STATISTICS = "statistics."  # prefix of the names of their arrays
_REASONS = 3  # features that a verdict names


@dataclass(frozen=True, slots=True, eq=False)
class TrainedFeatures:
    """A trained feature detector: its settings, classifier, word statistics, and the language model that it needs."""

    settings: DetectorSettings
    classifier: LinearClassifier
    statistics: WordStatistics
    base: Base | None
    training: dict[str, Any]
    validation: dict[str, Any]

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        """All numbers by name, as in `weights.safetensors`."""
        counts = {_STATISTICS + name: array for name, array in self.statistics.arrays().items()}
        return {**self.classifier.arrays(), **counts}

    @classmethod
    def load(cls, folder: Path) -> TrainedFeatures:
        """Load the detector in `folder`.

        Raises:
            DataError: The folder is missing, damaged, from a newer Veridical, or has another kind of detector.
        """
        document, tensors = read_folder(folder, KIND)
        settings = DetectorSettings.from_json(document.get("settings"), folder / DETECTOR)
        base = None if document.get("base") is None else read_base(document["base"], folder / DETECTOR)
        if (base is None) != (settings.features.probability is None):
            raise DataError("it names no base model, or one that it does not read", path=folder / DETECTOR)
        counts = {name.removeprefix(_STATISTICS): a for name, a in tensors.items() if name.startswith(_STATISTICS)}
        return cls(
            settings,
            LinearClassifier.from_arrays(tensors, len(settings.names), folder / WEIGHTS),
            WordStatistics.from_arrays(counts, folder / WEIGHTS),
            base,
            dict(document.get("training") or {}),
            dict(document.get("validation") or {}),
        )


class FeatureDetector:
    """Judges words with a linear classifier on their features, trained on your labels (`veridical train features`).

    Each word of the response gets a verdict with the probability that it is hallucinated, and `hallucination` is the
    highest of these probabilities. A detector trained with sources looks up words, names and numbers in the sources,
    and cannot judge cases without sources. A detector trained without sources (`--no-sources`) reads the response
    alone.

    Args:
        path: The folder of the trained detector, or the trained detector itself.
        model: Where the language model is now. It must be the model used in training. Default: its folder at training.
        tagger: The tagger ("rules" or "spacy:PIPELINE"). It must be the one used in training, which is the default.
        token_scores: Scores of the tokens of each response, or a file of them, for a detector trained with such scores.
        device: As in `models.load`.
        dtype: As in `models.load`. Default: the precision at training.
        name: The detector's name. Default: "features:PATH".
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=False)

    def __init__(
        self,
        path: str | Path | TrainedFeatures,
        *,
        model: str | Path | None = None,
        tagger: str | None = None,
        token_scores: str | Path | TokenScores | None = None,
        device: str = "auto",
        dtype: str | None = None,
        name: str | None = None,
    ) -> None:
        self.path = Path("(not saved)") if isinstance(path, TrainedFeatures) else Path(path)
        if isinstance(path, TrainedFeatures):
            self.trained = path
        self.model = model
        self.tagger = tagger
        self.token_scores = token_scores
        self.device = device
        self.dtype = dtype
        self.name = name or f"{KIND}:{self.path}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> FeatureDetector:
        """Build the detector from `features:FOLDER[,OPTION=VALUE,…]`."""
        if spec.accept(_OPTIONS, values=1).value is None:
            raise InputError(f"{KIND} needs a trained detector", hint=f"{KIND}:FOLDER, see: veridical train features")
        if context.artifact is not None and "token_scores" in spec.options:
            raise InputError(f"{context.artifact} names a file of token scores, and an artifact may not name files")
        detector = cls(spec.values[0], name=str(spec), **spec.options)  # type: ignore[arg-type]
        detector.info = DetectorInfo(cls.info.levels, needs_sources=detector.trained.settings.features.sources)
        return detector

    @cached_property
    def trained(self) -> TrainedFeatures:
        """The trained detector. It is loaded when you first use it.

        Raises:
            DataError: The detector is damaged.
        """
        return TrainedFeatures.load(self.path)

    @property
    def thresholds(self) -> dict[Level, float]:
        """Flag words and responses from these probabilities, which were fitted on validation documents."""
        return self.trained.settings.levels

    def fingerprint(self) -> dict[str, Any]:
        """Return everything the scores depend on: the trained detector and the token scores."""
        trained = self.trained
        base = None if trained.base is None else asdict(trained.base)
        about: dict[str, Any] = {KIND: digest_of([trained.settings.to_json(), base, tensors_digest(trained.tensors)])}
        if trained.settings.features.token_scores:
            scores = {id: [(s.start, s.end, v) for s, v in of_case] for id, of_case in self._scores().items()}
            about["token_scores"] = digest_of(scores)
        return about

    def _scores(self) -> TokenScores:
        if not self.trained.settings.features.token_scores:
            return {}
        if self.token_scores is None:
            raise InputError(
                f"the detector in {self.path} was trained with scores of the generator's tokens",
                hint=f"give them: {KIND}:{self.path},token_scores=FILE",
            )
        if isinstance(self.token_scores, str | Path):
            return load_token_scores(Path(self.token_scores))
        return self.token_scores

    def base_model(self, base: Base) -> LocalModel:
        """Load the language model of the features.

        Raises:
            InputError: The model is not the one used in training.
        """
        kind = self.trained.settings.features.probability or "causal"
        return load_base(
            base,
            f"the detector in {self.path}",
            model=self.model,
            device=self.device,
            dtype=self.dtype,
            kinds=(kind,),  # type: ignore[arg-type]
        )

    @cached_property
    def extractor(self) -> FeatureExtractor:
        """The feature extractor. Its tagger and its model must be those used in training."""
        trained = self.trained
        settings = trained.settings
        tagger = load_tagger(self.tagger or settings.tagger)
        if tagger.identity() != settings.tagger_identity:
            raise InputError(
                f"the detector in {self.path} was trained with the tagger {settings.tagger_identity}, "
                f"and {tagger.name} is {tagger.identity()}",
                hint=f"give the same one: {KIND}:{self.path},tagger=NAME; or train it again",
            )
        if settings.template_digest is not None and settings.features.template is not None:
            template = get_template(settings.features.template)
            if template.digest != settings.template_digest:
                raise InputError(
                    f"the template {template.name!r} is not the one that the detector in {self.path} was trained with",
                    hint="train the detector again, or use the Veridical that trained it",
                )
        model = None if trained.base is None else self.base_model(trained.base)
        return FeatureExtractor(settings.features, tagger, trained.statistics, model, self._scores())

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case, with a verdict on each word."""
        return self.judge_spans(cases, [words(case.response) for case in cases])

    def judge_spans(self, cases: Sequence[Case], spans: Sequence[Sequence[Span]]) -> list[Judgement]:
        """Judge each case, with a verdict on each of `spans`.

        The features of a span are pooled from its words and tokens.
        """
        if not any(words(case.response) for case in cases):
            extracted = [Extracted(np.zeros((0, 0)), problem="the response has no words") for _ in cases]
        else:
            extracted = self.extractor.extract(cases, spans)
        judgements = []
        for case, units, result in zip(cases, spans, extracted, strict=True):
            if result.problem is not None or not len(units):
                judgements.append(not_judged(case, self.name, result.problem or "there is nothing to judge"))
                continue
            has_values = ~np.all(np.isnan(result.values), axis=1)
            scores = self.probabilities(result.values)
            reasons = self.reasons(result.values, scores)
            verdicts = tuple(
                Verdict(span, score, reason=reason)
                for span, score, reason, usable in zip(
                    units, scores.tolist(), reasons, has_values.tolist(), strict=True
                )
                if usable
            )
            if not verdicts:
                judgements.append(not_judged(case, self.name, "what was to be judged has no words", *result.notes))
                continue
            whole = list(units) == words(case.response)
            judged = None if whole else tuple(union(verdict.span for verdict in verdicts))
            worst = max(verdict.score for verdict in verdicts)
            judgements.append(
                Judgement(case.id, self.name, worst, verdicts=verdicts, judged=judged, notes=result.notes)
            )
        return judgements

    def reasons(self, rows: np.ndarray, scores: np.ndarray) -> list[str | None]:
        """Name the features that add most to the score of each flagged row of *(n, features)*. None for the others."""
        names = self.trained.settings.names
        reasons: list[str | None] = []
        for parts, score in zip(self.trained.classifier.contributions(rows), scores, strict=True):
            top = [i for i in np.argsort(-parts, kind="stable")[:_REASONS] if parts[i] > 0]
            flagged = bool(top) and score >= self.thresholds[Level.SPAN]
            reasons.append(", ".join(names[i].replace("_", " ") for i in top) if flagged else None)
        return reasons

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        """Compute the probability in [0, 1] that the word of each row of features *(n, features)* is hallucinated."""
        distances = self.trained.classifier.decide(rows)
        values: np.ndarray = np.clip(self.trained.settings.calibrator.apply(distances), 0.0, 1.0)
        return values


def load_token_scores(path: Path) -> TokenScores:
    """Read the scores of the generator's tokens from JSON Lines: {"case": ID, "tokens": [[START, END, SCORE], …]}.

    Any number can be a score, such as a log-probability or a logit. A lower score means a less likely token.

    Raises:
        DataError: The file has other content. The error names the file and the line.
    """
    scores: dict[str, list[tuple[Span, float]]] = {}
    for line, value in read_json(path):
        about: Any = value
        try:
            tokens = [(Span(int(start), int(end)), float(score)) for start, end, score in about["tokens"]]
            scores[str(about["case"])] = tokens
        except (KeyError, TypeError, ValueError):
            raise DataError(
                "not the token scores of a case",
                path=path,
                line=line.number,
                hint='{"case": ID, "tokens": [[START, END, SCORE], …]}',
            ) from None
    return scores
