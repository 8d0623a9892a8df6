"""Classify hallucination and coverage with models tuned on labelled responses (Chang et al. 2024, §3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from veridical.inference.artifact import DETECTOR, Artifact
from veridical.models.base_model import load_base
from veridical.records.detector import DetectorContext, DetectorInfo, digest_of
from veridical.records.errors import DataError, InputError
from veridical.records.judging import not_judged
from veridical.records.spans import Span
from veridical.records.spec import Spec
from veridical.records.types import Case, Judgement, Level, Omission, SourceSpan, Verdict
from veridical.text.segment import has_words
from veridical_lab.detectors.classifier.artifact import ClassifierSettings, load_classifier
from veridical_lab.detectors.classifier.network import ClassifierNetwork
from veridical_lab.detectors.classifier.presentation import CasePart, EncodedPart, case_parts
from veridical_lab.detectors.local.forced_decoding import NO_WORDS
from veridical_lab.models.saving import tensors_digest

_Scored = tuple[list[tuple[CasePart, float]], str | None]  # the margin of each part, or none and the reason


def score_cases(network: ClassifierNetwork, cases: Sequence[Case]) -> list[_Scored]:
    """Score the parts of each case, all batched together. Return their margins, or why a case cannot be judged."""
    settings = network.settings
    parts: list[tuple[list[CasePart], str | None]] = []
    encoded: list[tuple[EncodedPart, ...]] = []
    for case in cases:
        of_case = case_parts(case, settings.task, settings.unit)
        tokens = [network.encode(part) for part in of_case]
        problem = next((each for each in tokens if isinstance(each, str)), None)
        if not of_case:
            problem = "nothing that it would be compared with has words"
        parts.append(([], problem) if problem else (of_case, None))
        if not problem:
            encoded += [each for each in tokens if not isinstance(each, str)]
    margins = iter(network.scores(encoded).tolist() if encoded else [])
    return [([(part, next(margins)) for part in of_case], problem) for of_case, problem in parts]


class Classifier:
    """Judges whole responses, or their coverage, with a tuned prompt, LoRA or a head (`train classifier`).

    A case is read as question, response and arguments. A tuned prompt or LoRA answers YES or NO, and the score is the
    softmax over the log-likelihoods of these two labels. Scores are calibrated on validation data.

    A classifier of hallucination scores the response, and a classifier of coverage scores how well the sources are
    covered. Pass two folders to get both scores. A classifier of parts also scores single sentences or sources.

    Args:
        paths: One or two folders that `veridical train classifier` wrote.
        model: Where the base model is now. Default: its folder at training.
        device: As in `models.load`.
        dtype: As in `models.load`. Default: the precision at training.
        name: The detector's name. Default: "classifier:" and the folders.
    """

    info = DetectorInfo()

    def __init__(
        self,
        *paths: str | Path,
        model: str | Path | None = None,
        device: str = "auto",
        dtype: str | None = None,
        name: str | None = None,
    ) -> None:
        self.paths = tuple(map(Path, paths))
        self.model, self.device, self.dtype = model, device, dtype
        self.name = name or f"classifier:{','.join(map(str, paths))}"
        self.artifacts: list[tuple[Artifact, ClassifierSettings]] = [load_classifier(path) for path in self.paths]
        tasks = [settings.task for _, settings in self.artifacts]
        if not tasks or len(set(tasks)) < len(tasks):
            raise InputError(
                f"{self.name} has {len(tasks)} classifiers of {', '.join(tasks) or 'nothing'}",
                hint="one of hallucination, one of coverage, or both",
            )
        levels = {level for _, settings in self.artifacts for level in settings.levels.values()}
        self.info = DetectorInfo(tuple(level for level in Level if level in levels))

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Classifier:
        """Build the detector from `classifier:FOLDER[,FOLDER][,OPTION=VALUE,…]`."""
        if spec.accept(("device", "dtype", "model"), values=2).value is None:
            raise InputError(
                "classifier needs a trained classifier", hint="classifier:FOLDER, from `veridical train classifier`"
            )
        options: dict[str, Any] = dict(spec.options)
        return cls(*spec.values, name=str(spec), **options)

    @property
    def thresholds(self) -> dict[Level, float]:
        """The thresholds fitted on validation data."""
        return {
            level: settings.scale(unit).threshold
            for _, settings in self.artifacts
            for unit, level in settings.levels.items()
        }

    @cached_property
    def networks(self) -> list[ClassifierNetwork]:
        """The networks. They are loaded when you first use them.

        Raises:
            InputError: The base model is not the one used in training. The message names the difference.
        """
        return [self._network(*pair) for pair in zip(self.paths, self.artifacts, strict=True)]

    def _network(self, path: Path, loaded: tuple[Artifact, ClassifierSettings]) -> ClassifierNetwork:
        import torch

        artifact, settings = loaded
        model = load_base(
            artifact.base,
            f"the classifier in {path}",
            model=self.model,
            device=self.device,
            dtype=self.dtype,
        )
        network = ClassifierNetwork(model, settings)
        try:
            network.set_weights({name: torch.from_numpy(array) for name, array in artifact.tensors.items()})
        except InputError as error:
            raise DataError(error.message, path=path / DETECTOR, hint=error.hint) from None
        network.model.model.requires_grad_(False)
        return network

    def fingerprint(self) -> dict[str, Any]:
        """Return everything the scores depend on: the settings, the tuned weights and the base models."""
        digests = []
        for artifact, _ in self.artifacts:
            about = digest_of([artifact.settings, artifact.base.weights, artifact.base.config])
            digests.append(tensors_digest(artifact.tensors, about)[:16])
        return {"classifier": digests, "dtype": self.dtype}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. The parts of all cases are batched together."""
        if not cases:
            return []
        scored = [score_cases(network, cases) for network in self.networks]
        return [self._judgement(case, [of_task[i] for of_task in scored]) for i, case in enumerate(cases)]

    def _judgement(self, case: Case, scored: Sequence[_Scored]) -> Judgement:
        """Turn the margins of a case into its judgement."""
        if not has_words(case.response) or not case.sources:
            return not_judged(case, self.name, NO_WORDS if case.sources else "there are no sources to compare with")
        judgement = Judgement(case.id, self.name)
        for network, (parts, problem) in zip(self.networks, scored, strict=True):
            settings = network.settings
            if problem is not None:
                about = f"{settings.task} was not judged: {problem}"
                if settings.task == "hallucination":
                    judgement = replace(judgement, judged=(), notes=(*judgement.notes, about))
                elif any(source.must_cover for source in case.sources):
                    judgement = replace(judgement, judged_sources=(), notes=(*judgement.notes, about))
                continue
            (whole,) = settings.scale("whole").apply([max(margin for _, margin in parts)])
            of_parts = settings.scale("part").apply([margin for _, margin in parts])
            if settings.task == "hallucination":
                verdicts = [
                    Verdict(part.span, score)
                    for (part, _), score in zip(parts, of_parts, strict=True)
                    if part.span is not None
                ]
                judgement = replace(judgement, hallucination=whole, verdicts=tuple(verdicts))
                continue
            sources = [part.source for part, _ in parts]
            omissions = [
                Omission(source.id, Span(0, len(source.text)), score)
                for source, score in zip(sources, of_parts, strict=True)
                if source is not None
            ]
            judgement = replace(judgement, omission=whole, omissions=tuple(omissions))
            judged_ids = {source.id for source in sources if source is not None}
            if settings.unit != "whole" and any(s.must_cover and s.id not in judged_ids for s in case.sources):
                spans = tuple(SourceSpan(o.source_id, o.span) for o in omissions)
                judgement = replace(judgement, judged_sources=spans)
        return judgement
