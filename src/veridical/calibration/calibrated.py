"""Wrap any detector with thresholds and probabilities that were fitted for it on validation data.

`veridical calibrate` writes the folder (`detector.json`, no weights). It belongs to one detector with its options and
its model; for another one the error names the difference. Scores of levels without a fit are left out of the
judgements, because a raw score beside a probability would be taken for one.
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
from veridical.core.serialization import TAG, decode, encode, tag_of
from veridical.core.spans import Span
from veridical.core.spec import Spec
from veridical.core.strict_json import parse
from veridical.core.types import Case, Judgement, Level, Omission, Verdict, check_threshold
from veridical.models.artifact import DETECTOR, description

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = ["KIND", "Calibrated", "FittedCalibration", "Scale", "difference", "load_calibration"]

KIND = "calibrated"
Scored = TypeVar("Scored", Verdict, Omission)


@dataclass(frozen=True, slots=True)
class Scale:
    """The threshold and the calibration fitted for one level.

    `threshold`, in [0, 1], applies to the calibrated scores; with `calibration` None, to the raw ones.
    """

    threshold: float
    calibration: Platt | Isotonic | None = None

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def apply(self, scores: Sequence[float]) -> list[float]:
        """Return the probability of each score, in [0, 1]; without a calibration, the scores themselves."""
        if self.calibration is None:
            return list(scores)
        return [min(max(score, 0.0), 1.0) for score in self.calibration.apply(list(scores)).tolist()]

    def calibrate(self, items: Sequence[Scored]) -> tuple[Scored, ...]:
        """Return `items` with calibrated scores."""
        probabilities = self.apply([item.score for item in items])
        return tuple(replace(item, score=score) for item, score in zip(items, probabilities, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class FittedCalibration:
    """Everything fitted for a detector, stored as `detector.json` in the folder.

    Attributes:
        detector: The spec of the detector.
        fingerprint: Its fingerprint when it was fitted (`core.detector.fingerprint_of`).
        scales: The fitted threshold and calibration of each level.
        training: The data, options and date of fitting, for people to read.
        validation: Figures by level, for people to read.
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

    Probabilities and thresholds are fitted for each of four levels: responses, content words, coverage and source
    words. Scores of levels without a fit are left out, with a note; `info.levels` lists the fitted ones.

    Args:
        path: The folder that `veridical calibrate` wrote.
        detector: The detector that it was fitted for.
        name: The name of the detector. Default: "calibrated:PATH".
    """

    info = DetectorInfo(needs_sources=False, needs_chat_model=True)  # the class; an object has its detector's info

    def __init__(self, path: str | Path, detector: Detector, *, name: str | None = None) -> None:
        self.path = Path(path)
        self.name = name or f"{KIND}:{path}"
        self.fitted = load_calibration(path)
        self.detector = detector
        self.info = replace(info_of(detector), levels=tuple(self.fitted.scales))
        self._compared = False

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Calibrated:
        """Make the detector of `calibrated:FOLDER[,detector=SPEC]`; put a SPEC with commas in double quotes.

        Without `detector` the folder names the detector to wrap. The user did not write that spec, so it must not say
        how a chat model is reached (`DetectorContext.artifact`).
        """
        outer, inner = spec.split(["detector"])
        if spec.value is None:
            raise InputError(f"{KIND} needs a folder", hint=f"{KIND}:FOLDER, as `veridical calibrate` wrote it")
        folder = spec.value
        if "detector" in outer.options:  # all other options are those of that detector
            detector = context.load(replace(inner, values=(outer.options["detector"], *spec.values[1:])).nested(""))
        else:
            spec.accept(["detector"], values=1)
            detector = context.inside(folder).load(load_calibration(folder).detector)
        return cls(folder, detector, name=str(spec))

    @property
    def thresholds(self) -> dict[Level, float]:
        """The threshold of each fitted level."""
        return {level: scale.threshold for level, scale in self.fitted.scales.items()}

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on: the fitted scales and the detector's fingerprint."""
        return {"fitted": digest_of(parse(encode(self.fitted))["scales"]), "detector": fingerprint_of(self.detector)}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Return the detector's judgements with fitted scores; raise `InputError` if another detector was fitted."""
        return [judgement for judgement, _ in self.judge_with_maps(cases)]

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """Return the judgements of `judge`, each with the detector's salience map (None if it makes none)."""
        if cases and not self._compared:  # only now, because a fingerprint may load a model
            differs = difference(self.fitted.fingerprint, fingerprint_of(self.detector))
            if differs is not None:
                raise InputError(
                    f"{self.path} was fitted for {self.fitted.detector!r} and does not fit "
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
        """Replace the scores of `raw`, a judgement of `case`, by fitted ones; leave out others, with a note."""
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
        notes = [f"{part}: left out, for nothing was fitted for it" for part, applies in left_out.items() if applies]
        judged = raw.judged
        if judged != () and not (response or span):
            judged = None  # the judgement is about coverage alone
        elif judged is None and not response and (raw.hallucination is not None or raw.verdicts):
            judged = (Span(0, len(case.response)),)  # no response score: say that words without a verdict were judged
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
    """Describe the first difference between two fingerprints; return None if the detectors' scores mean the same.

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
    """Flatten a fingerprint, without the address of the chat model's server, which may change."""
    facts: dict[str, Any] = {}
    for name, value in fingerprint.items():
        facts |= _facts(value) if isinstance(value, Mapping) else {name: value}
    return {name: value for name, value in facts.items() if name != "server"}


def load_calibration(folder: str | Path) -> FittedCalibration:
    """Read what `veridical calibrate` wrote to `folder`.

    Raises `DataError` for a folder without a trained detector, with one of another kind, or with a damaged file.
    """
    document = description(folder, KIND)
    if document.pop("kind", None) is not None:  # written before this kind of document existed
        document[TAG] = tag_of(KIND)
        if isinstance(document.get("fingerprint"), dict):
            document["fingerprint"].pop("method", None)
    try:
        fitted: FittedCalibration = decode(document, KIND)
    except WireError as error:
        hint = error.hint or "copy the folder again, or fit again: veridical calibrate"
        raise DataError(error.message, path=Path(folder) / DETECTOR, hint=hint) from None
    return fitted
