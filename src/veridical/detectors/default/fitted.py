"""The part of the default detector that is fitted on validation data: regressions, calibration curves and thresholds.

It is stored in `detector.json`. The weights of the encoder are not part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from veridical.detectors.default.localization import AnswerCurve
from veridical.detectors.default.regressions import LevelModel, level_models
from veridical.detectors.default.rules import COPIED
from veridical.detectors.default.second_reader import log_odds_of
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.metrics.calibrators import Isotonic, Platt, calibrator
from veridical.records.errors import DataError, InputError
from veridical.records.spans import Span
from veridical.records.types import Level
from veridical.text.languages import LANGUAGES

LOCATED = "located short answer"
_HINT = "copy or train it again"
_Curve = TypeVar("_Curve")


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The regressions and calibration curves of the default detector, loaded from its `detector.json`.

    A curve maps a logit of the encoder to a probability. A short answer is a response of a few words that answers a
    question ("1931").

    Attributes:
        levels: The regression of each level (words, responses and source sentences), with its threshold.
        contradiction: The curve for the probability that an unsupported sentence contradicts the sources. None if the
            detector was not trained to distinguish contradiction from absence.
        short_answer: The curve for the probability that a short answer is wrong, for answers that were encoded only
            with the source text around their occurrences. None if the detector has no such curve.
        located: The curve for short answers whose occurrences the sentence encoder has also compared with the question.
            None if the detector has no such curve.
        languages: The codes of the languages that the detector was trained on, such as "en".
    """

    levels: Mapping[Level, LevelModel]
    contradiction: Platt | Isotonic | None
    short_answer: Platt | None
    located: AnswerCurve | None
    languages: tuple[str, ...]

    @classmethod
    def read(cls, document: Mapping[str, Any], path: Path) -> Fitted:
        """Parse the regressions and curves from the contents of a `detector.json`.

        Args:
            document: The parsed JSON document.
            path: The path of the file, for error messages.

        Raises:
            DataError: A regression is missing or damaged, or a curve or the list of languages is damaged.
        """

        def curve(name: str, read: Callable[[Any], _Curve]) -> _Curve | None:
            try:
                return None if document.get(name) is None else read(document[name])
            except (InputError, KeyError, TypeError, ValueError) as error:
                raise DataError(f"the calibration {name!r} is damaged", path=path, hint=_HINT) from error

        languages = document.get("languages", ["en"])
        if not isinstance(languages, list) or not languages or not LANGUAGES.keys() >= set(map(str, languages)):
            raise DataError("the list of languages is damaged", path=path, hint=_HINT)
        return cls(
            level_models(document, path),
            curve("contradiction", calibrator),
            curve("short answer", _platt),
            curve(LOCATED, AnswerCurve.read),
            tuple(languages),
        )

    def with_thresholds(self, thresholds: Mapping[Level, float]) -> Fitted:
        """Copy the regressions and curves, with `thresholds` in place of their own.

        The scores of each level are shifted by the same log-odds as its threshold, so the decisions stay the same.
        """
        before, levels = self.levels[Level.RESPONSE].threshold, self.levels
        levels = {level: model.with_threshold(thresholds[level]) for level, model in levels.items()}
        change = log_odds_of(thresholds[Level.RESPONSE], before)
        short_answer, located = self.short_answer, self.located
        return replace(
            self,
            levels=levels,
            short_answer=short_answer and replace(short_answer, intercept=short_answer.intercept + change),
            located=located and replace(located, intercept=located.intercept + change),
        )

    @property
    def thresholds(self) -> dict[Level, float]:
        """The lowest score that is flagged at each level (words, responses, source sentences, coverage), in [0, 1].

        Coverage, the score of all sources to cover together, has the threshold of source sentences.
        """
        thresholds = {level: model.threshold for level, model in self.levels.items()}
        return {**thresholds, Level.COVERAGE: thresholds[Level.SOURCE]}

    def short_answer_probability(self, scored: ScoredResponse) -> float | None:
        """Return the probability that a short answer is wrong, or None if no curve applies to it.

        A short answer is a response of a few words, such as "1931". A curve applies only if the answer was encoded with
        just the source text around its occurrences (`ScoredResponse.in_place`). If the question has several sentences,
        it must also have been compared with these occurrences, because the curve `short_answer` was fitted on questions
        that form one sentence with their answer.
        """
        if not scored.in_place or (scored.location is None and len(scored.parts) > 1):
            return None
        logit = float(scored.parts[scored.part_of.max()])
        if scored.location is not None and self.located is not None and logit > COPIED:
            return self.located.probability(logit, scored.location)
        return None if self.short_answer is None else float(self.short_answer.apply([logit])[0])

    def contradicted(self, scored: ScoredResponse | None) -> list[tuple[Span, float]]:
        """Return each sentence with the probability that the sources contradict it, given that it is unsupported.

        The list is empty if the response has no logits, or if the detector cannot distinguish contradiction from
        absence (no source mentions the matter).
        """
        if self.contradiction is None or scored is None or scored.problem:
            return []
        return [
            (scored.span_of(units), float(probability))
            for units, logit in zip(scored.units_of_parts(), scored.contradictions, strict=True)
            if len(units) and np.isfinite(logit)
            for probability in self.contradiction.apply([logit])
        ]


def _platt(parameters: Mapping[str, Any]) -> Platt:
    curve = calibrator(parameters)
    if not isinstance(curve, Platt):
        raise InputError(f"a curve of the kind {curve.kind!r}", hint="platt")
    return curve
