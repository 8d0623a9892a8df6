"""Any detector with what was fitted for it on validation data: its scores as probabilities, and its thresholds.

`veridical train threshold` writes the folder (`detector.json`, no weights). What was fitted belongs to one detector
with its options and its model; another one is refused with the difference named. A scale for which nothing was fitted
is left out of the judgements: a raw score beside a probability would be read as one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.calibration.thresholding import completed
from veridical.core.detector import (
    Detector,
    DetectorContext,
    DetectorInfo,
    digest_of,
    fingerprint_of,
    info_of,
)
from veridical.core.errors import DataError, InputError, OutputError
from veridical.core.files import write_whole
from veridical.core.judging import judge_with_maps
from veridical.core.spans import Span
from veridical.core.spec import Spec
from veridical.core.types import Case, Judgement, Level, Omission, Verdict, check_threshold
from veridical.metrics.calibration import Isotonic, Platt, calibrator
from veridical.models.artifact import DETECTOR, FORMAT, description

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = ["KIND", "Calibrated", "Fitted", "Scale", "load_fitted", "save_fitted"]

KIND = "calibrated"


@dataclass(frozen=True, slots=True)
class Scale:
    """What was fitted for one scale: the score from which it flags, in (0, 1], and how scores become probabilities.

    `threshold` is on the scale of what comes out (with `calibration` None, the scores as they are).
    """

    threshold: float
    calibration: Platt | Isotonic | None = None

    def apply(self, scores: Sequence[float]) -> list[float]:
        """The probability of each score, in [0, 1]."""
        if self.calibration is None:
            return list(scores)
        return [min(max(score, 0.0), 1.0) for score in self.calibration.apply(list(scores)).tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What was fitted for the detector that `spec` names, by level, and on what.

    `fingerprint` says what the detector was then (`core.detector.fingerprint_of`). `training` and `validation` are JSON
    for people to read.
    """

    spec: str
    fingerprint: dict[str, Any]
    scales: dict[Level, Scale]
    training: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The object that `detector.json` holds."""
        scales = {
            Level(level).value: {
                "threshold": scale.threshold,
                "calibration": None if scale.calibration is None else scale.calibration.parameters(),
            }
            for level, scale in self.scales.items()
        }
        return {
            "veridical": f"detector/{FORMAT}",
            "kind": KIND,
            "detector": self.spec,
            "fingerprint": self.fingerprint,
            "scales": scales,
            "training": self.training,
            "validation": self.validation,
        }


class Calibrated:
    """Any detector with thresholds and probabilities fitted on your labels (`veridical train threshold`).

    Scores are probabilities as fitted for responses, content words, coverage and source words apart, and so are the
    thresholds. What has no fit is left out, with a note: `info.levels` say what is there.

    Args:
        path: The folder that `veridical train threshold` wrote.
        detector: The detector that it was fitted for.
        name: Default: "calibrated:PATH".
    """

    info = DetectorInfo(needs_chat_model=True)  # where the fitted detector does

    def __init__(self, path: str | Path, detector: Detector, *, name: str | None = None) -> None:
        self.path = Path(path)
        self.name = name or f"{KIND}:{path}"
        self.fitted = load_fitted(path)
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
            raise InputError(f"{KIND} needs a folder", hint=f"{KIND}:FOLDER, as `veridical train threshold` wrote it")
        folder = spec.value
        if "detector" in own.options:  # what follows it are options of that detector
            detector = context.load(replace(inner, values=(own.options["detector"], *spec.values[1:])).nested(""))
        else:
            spec.accept(["detector"], values=1)
            detector = replace(context, artifact=folder).load(load_fitted(folder).spec)
        return cls(folder, detector, name=str(spec))

    @property
    def thresholds(self) -> dict[Level, float]:
        """The fitted threshold of each level that was fitted."""
        return {level: scale.threshold for level, scale in self.fitted.scales.items()}

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on: all that was fitted, and the detector."""
        return {"fitted": digest_of(self.fitted.document()["scales"]), "detector": fingerprint_of(self.detector)}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """The detector's judgements with fitted scores; `InputError` if it is not the detector that was fitted."""
        return [judgement for judgement, _ in self.judge_with_maps(cases)]

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """The same, each with the salience map that it was made from (None where the detector makes none)."""
        self._compare(cases)
        pairs = judge_with_maps(self.detector, cases)
        return [
            (self._judgement(case, judgement), salience_map)
            for case, (judgement, salience_map) in zip(cases, pairs, strict=True)
        ]

    def _compare(self, cases: Sequence[Case]) -> None:
        """Compare the detector with the one that was fitted, once, and not before there is something to judge."""
        if self._compared or not cases:
            return
        fitted, current = _flat(self.fitted.fingerprint), _flat(fingerprint_of(self.detector))
        for name in {**fitted, **current}:
            left, right = fitted.get(name), current.get(name)
            if left != right and not (name == "weights" and None in (left, right)):
                raise InputError(
                    f"what is in {self.path} was fitted for {self.fitted.spec!r} and does not fit "
                    f"{self.detector.name!r}: the {_TITLES.get(name, name)} differs ({left}, here {right})",
                    hint="give the detector that it was fitted for (,detector=SPEC), or fit again: "
                    "veridical train threshold",
                )
        self._compared = True

    def _judgement(self, case: Case, raw: Judgement) -> Judgement:
        scales, whole = self.fitted.scales, completed(raw)
        response = _one(scales.get(Level.RESPONSE), whole.hallucination)
        verdicts = _verdicts(scales.get(Level.SPAN), raw.verdicts)
        omission = _one(scales.get(Level.COVERAGE), whole.omission)
        omissions = _omissions(scales.get(Level.SOURCE), raw.omissions)
        lost = {
            "the score of the whole response": response is None and whole.hallucination is not None,
            "the scores of words": not verdicts and bool(raw.verdicts),
            "coverage": omission is None and not omissions and whole.omission is not None,
            "the scores of source words": omission is not None and not omissions and bool(raw.omissions),
        }
        left_out = tuple(
            f"{what}: left out, for nothing was fitted for it" for what, is_lost in lost.items() if is_lost
        )
        return replace(
            raw,
            by=self.name,
            hallucination=response,
            omission=omission,
            verdicts=verdicts,
            omissions=omissions,
            judged=self._judged(case, raw),
            notes=(*raw.notes, *left_out),
        )

    def _judged(self, case: Case, raw: Judgement) -> tuple[Span, ...] | None:
        """What of the response is judged: where its own score is left out, that has to be said of words without any."""
        if raw.judged == ():
            return ()
        if not {Level.RESPONSE, Level.SPAN} & self.fitted.scales.keys():
            return None  # it speaks of coverage alone
        said = raw.hallucination is not None or raw.verdicts
        if Level.RESPONSE not in self.fitted.scales and raw.judged is None and said:
            return (Span(0, len(case.response)),)
        return raw.judged


_TITLES = {"layers": "number of layers", "config": "configuration", "name": "detector"}


def _flat(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """All facts, those of a detector within the detector too; a chat model may be reached under another address."""
    facts: dict[str, Any] = {}
    for name, value in fingerprint.items():
        facts |= _flat(value) if isinstance(value, Mapping) else {name: value}
    return {name: value for name, value in facts.items() if name != "server"}


def _one(scale: Scale | None, score: float | None) -> float | None:
    return None if scale is None or score is None else scale.apply([score])[0]


def _verdicts(scale: Scale | None, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    if scale is None:
        return ()
    scores = scale.apply([verdict.score for verdict in verdicts])
    return tuple(replace(verdict, score=score) for verdict, score in zip(verdicts, scores, strict=True))


def _omissions(scale: Scale | None, omissions: Sequence[Omission]) -> tuple[Omission, ...]:
    if scale is None:
        return ()
    scores = scale.apply([omission.score for omission in omissions])
    return tuple(replace(omission, score=score) for omission, score in zip(omissions, scores, strict=True))


def save_fitted(fitted: Fitted, folder: str | Path) -> Path:
    """`folder`, which now holds what was fitted, as `detector.json`, written whole or not at all."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}", hint="choose another place") from None
    document = json.dumps(fitted.document(), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / DETECTOR, document + "\n")
    return folder


def load_fitted(folder: str | Path) -> Fitted:
    """What was fitted, from `folder`.

    Raises `DataError` for a folder that holds no such thing, a trained detector of another kind, or a damaged one.
    """
    document = description(folder, KIND)
    path = Path(folder) / DETECTOR
    try:
        spec, scales = document["detector"], {Level(name): _scale(each) for name, each in document["scales"].items()}
        parts = {name: dict(document[name]) for name in ("fingerprint", "training", "validation")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = error.message if isinstance(error, InputError) else "a field is missing or of another type"
        raise DataError(why, path=path, hint="detector, fingerprint, scales, training, validation") from None
    parts["fingerprint"].pop("method", None)  # written before 0.2
    if not isinstance(spec, str) or not scales:
        raise DataError(f"nothing is fitted for the detector {spec!r}", path=path, hint=f"scales: {', '.join(Level)}")
    return Fitted(spec, scales=scales, **parts)


def _scale(about: Mapping[str, Any]) -> Scale:
    calibration = about["calibration"]
    return Scale(check_threshold(about["threshold"]), None if calibration is None else calibrator(calibration))
