"""Any detector with what was fitted for it on validation data: its scores as probabilities, and its thresholds.

`veridical calibrate` writes the folder (`detector.json`, no weights). What was fitted belongs to one detector
with its options and its model; another one is refused with the difference named. A scale for which nothing was fitted
is left out of the judgements: a raw score beside a probability would be read as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from veridical.calibration.calibrators import Isotonic, Platt
from veridical.calibration.thresholding import with_response_scores
from veridical.core.detector import (
    Detector,
    DetectorContext,
    DetectorInfo,
    digest_of,
    fingerprint_of,
    info_of,
)
from veridical.core.errors import DataError, InputError, WireError
from veridical.core.judging import judge_with_maps
from veridical.core.serialization import TAG, decode, encode, parse, tag_of
from veridical.core.spans import Span
from veridical.core.spec import Spec
from veridical.core.types import Case, Judgement, Level, Omission, Verdict, check_threshold
from veridical.models.artifact import DETECTOR, description

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = ["KIND", "Calibrated", "FittedCalibration", "Scale", "difference", "load_calibration"]

KIND = "calibrated"
Scored = TypeVar("Scored", Verdict, Omission)


@dataclass(frozen=True, slots=True)
class Scale:
    """What was fitted for one level: the score from which it flags, in [0, 1], and how scores become probabilities.

    `threshold` is on the scale of what comes out (with `calibration` None, the scores as they are).
    """

    threshold: float
    calibration: Platt | Isotonic | None = None

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def apply(self, scores: Sequence[float]) -> list[float]:
        """The probability of each score, in [0, 1]."""
        if self.calibration is None:
            return list(scores)
        return [min(max(score, 0.0), 1.0) for score in self.calibration.apply(list(scores)).tolist()]

    def calibrate(self, items: Sequence[Scored]) -> tuple[Scored, ...]:
        """`items` with probabilities as their scores."""
        probabilities = self.apply([item.score for item in items])
        return tuple(replace(item, score=score) for item, score in zip(items, probabilities, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class FittedCalibration:
    """What was fitted for a detector, by level, and on what; `detector.json` of the folder holds it.

    Attributes:
        detector: The spec of the detector.
        fingerprint: On what its scores depended then (`core.detector.fingerprint_of`).
        scales: What was fitted for each level.
        training: On which data, with which options, when; for people to read.
        validation: Figures by level; for people to read.
    """

    detector: str
    fingerprint: dict[str, Any]
    scales: dict[Level, Scale]
    training: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.scales:
            raise InputError(f"nothing is fitted for the detector {self.detector!r}")


class Calibrated:
    """Any detector with thresholds and probabilities fitted on your labels (`veridical calibrate`).

    Scores are probabilities as fitted for responses, content words, coverage and source words apart, and so are the
    thresholds. What has no fit is left out, with a note: `info.levels` say what is there.

    Args:
        path: The folder that `veridical calibrate` wrote.
        detector: The detector that it was fitted for.
        name: Default: "calibrated:PATH".
    """

    info = DetectorInfo(needs_chat_model=True)  # where the fitted detector does

    def __init__(self, path: str | Path, detector: Detector, *, name: str | None = None) -> None:
        self.path = Path(path)
        self.name = name or f"{KIND}:{path}"
        self.fitted = load_calibration(path)
        self.detector = detector
        self.info = replace(info_of(detector), levels=tuple(self.fitted.scales))
        self._compared = False

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Calibrated:
        """The detector for `calibrated:FOLDER[,detector=SPEC]`; a SPEC with commas stands in double quotes.

        Without `detector` it is the one that the folder names. That spec is not the user's own, so it may not say how a
        chat model is reached (`DetectorContext.artifact`).
        """
        own, inner = spec.split(["detector"])
        if spec.value is None:
            raise InputError(f"{KIND} needs a folder", hint=f"{KIND}:FOLDER, as `veridical calibrate` wrote it")
        folder = spec.value
        if "detector" in own.options:  # what follows it are options of that detector
            detector = context.load(replace(inner, values=(own.options["detector"], *spec.values[1:])).nested(""))
        else:
            spec.accept(["detector"], values=1)
            detector = context.inside(folder).load(load_calibration(folder).detector)
        return cls(folder, detector, name=str(spec))

    @property
    def thresholds(self) -> dict[Level, float]:
        """The fitted threshold of each level that was fitted."""
        return {level: scale.threshold for level, scale in self.fitted.scales.items()}

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on: all that was fitted, and the detector."""
        return {"fitted": digest_of(parse(encode(self.fitted))["scales"]), "detector": fingerprint_of(self.detector)}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """The detector's judgements with fitted scores; `InputError` if it is not the detector that was fitted."""
        return [judgement for judgement, _ in self.judge_with_maps(cases)]

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """The same, each with the salience map that it was made from (None where the detector makes none)."""
        if cases and not self._compared:  # not before there is something to judge: a fingerprint may load a model
            differs = difference(self.fitted.fingerprint, fingerprint_of(self.detector))
            if differs is not None:
                raise InputError(
                    f"what is in {self.path} was fitted for {self.fitted.detector!r} and does not fit "
                    f"{self.detector.name!r}: {differs}",
                    hint="give the detector that it was fitted for (,detector=SPEC), or fit again: veridical calibrate",
                )
            self._compared = True
        pairs = judge_with_maps(self.detector, cases)
        return [
            (self.calibrate(case, judgement), salience_map)
            for case, (judgement, salience_map) in zip(cases, pairs, strict=True)
        ]

    def calibrate(self, case: Case, raw: Judgement) -> Judgement:
        """The judgement `raw` of `case` with fitted scores; what has no fit is left out, with a note."""
        scales, scored = self.fitted.scales, with_response_scores(raw)
        response, coverage = scales.get(Level.RESPONSE), scales.get(Level.COVERAGE)
        span, source = scales.get(Level.SPAN), scales.get(Level.SOURCE)
        hallucination = scored.hallucination if response else None
        omission = scored.omission if coverage else None
        omissions = source.calibrate(raw.omissions) if source else ()
        left_out = {
            "the score of the whole response": not response and scored.hallucination is not None,
            "the scores of words": not span and bool(raw.verdicts),
            "coverage": omission is None and not omissions and scored.omission is not None,
            "the scores of source words": omission is not None and not omissions and bool(raw.omissions),
        }
        notes = [f"{what}: left out, for nothing was fitted for it" for what, applies in left_out.items() if applies]
        judged = raw.judged
        if judged != () and not (response or span):
            judged = None  # the judgement is about coverage alone
        elif judged is None and not response and (raw.hallucination is not None or raw.verdicts):
            judged = (Span(0, len(case.response)),)  # without a score of the response, words without a verdict need it
        return replace(
            raw,
            by=self.name,
            hallucination=response.apply([hallucination])[0] if response and hallucination is not None else None,
            omission=coverage.apply([omission])[0] if coverage and omission is not None else None,
            verdicts=span.calibrate(raw.verdicts) if span else (),
            sentences=response.calibrate(raw.sentences) if response else (),
            omissions=omissions,
            judged=judged,
            notes=(*raw.notes, *notes),
        )


_TITLES = {"layers": "number of layers", "config": "configuration", "name": "detector"}


def difference(fitted: Mapping[str, Any], current: Mapping[str, Any]) -> str | None:
    """What differs between the fingerprints of two detectors, in words; None where their scores mean the same.

    >>> difference({"weights": "abc", "layers": 2}, {"weights": None, "layers": 6})
    'the number of layers differs (2, here 6)'
    """
    left, right = _facts(fitted), _facts(current)
    for name in {**left, **right}:
        one, two = left.get(name), right.get(name)
        if one != two and not (name == "weights" and None in (one, two)):
            return f"the {_TITLES.get(name, name)} differs ({one}, here {two})"
    return None


def _facts(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """All facts, those of a detector within the detector too; a chat model may be reached under another address."""
    facts: dict[str, Any] = {}
    for name, value in fingerprint.items():
        facts |= _facts(value) if isinstance(value, Mapping) else {name: value}
    return {name: value for name, value in facts.items() if name != "server"}


def load_calibration(folder: str | Path) -> FittedCalibration:
    """What was fitted, from `folder`.

    Raises `DataError` for a folder that holds no such thing, a trained detector of another kind, or a damaged one.
    """
    document = description(folder, KIND)
    if document.pop("kind", None) is not None:  # written before there was a document of this kind
        document[TAG] = tag_of(KIND)
        if isinstance(document.get("fingerprint"), dict):
            document["fingerprint"].pop("method", None)
    try:
        fitted: FittedCalibration = decode(document, KIND)
    except WireError as error:
        hint = error.hint or "copy the folder again, or fit again: veridical calibrate"
        raise DataError(error.message, path=Path(folder) / DETECTOR, hint=hint) from None
    return fitted
