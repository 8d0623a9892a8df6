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

from veridical.calibration.thresholding import SCALES, completed
from veridical.core.decide import check_threshold
from veridical.core.errors import CannotJudgeError, DataError, InputError, OutputError, UnknownNameError
from veridical.core.files import write_whole
from veridical.core.spans import Span
from veridical.core.spec import digest_of
from veridical.core.types import Case, Detector, Judgement, Omission, Verdict
from veridical.metrics.calibration import Isotonic, Platt, calibrator
from veridical.models.artifact import DETECTOR, FORMAT, description

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap
    from veridical.llm.connection import Connection

__all__ = ["KIND", "Calibrated", "Fitted", "Scale", "fingerprint_of", "load_fitted", "save_fitted"]

KIND = "calibrated"
_LEVEL = {"response": "response", "span": "span", "coverage": "coverage", "source": "coverage"}


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
    """What was fitted for the detector `spec` names: by scale (`metrics.fitting.SCALES`), and on what.

    `fingerprint` says what the detector was then. `training` and `validation` are JSON for people to read.
    """

    spec: str
    fingerprint: dict[str, Any]
    scales: dict[str, Scale]
    training: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The object that `detector.json` holds."""
        scales = {
            name: {
                "threshold": scale.threshold,
                "calibration": None if scale.calibration is None else scale.calibration.parameters(),
            }
            for name, scale in self.scales.items()
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

    `path` is the folder; the detector is the one that it names, or `detector` where its files lie elsewhere now. Scores
    are probabilities as fitted for responses, content words, coverage and source words apart, and `threshold` is the
    fitted one of the words, else of responses. What has no fit is left out, with a note: `levels` say what is there.
    """

    levels: tuple[str, ...] = ("response", "span", "coverage")
    grounded = False
    asks = True

    def __init__(
        self,
        path: str | Path,
        *,
        detector: str | Detector | None = None,
        connection: Connection | None = None,
        name: str | None = None,
    ) -> None:
        from veridical.detectors import load_detector

        self.path = Path(path)
        self.name = name or f"{KIND}:{path}"
        self.fitted = load_fitted(path)
        given = self.fitted.spec if detector is None else detector
        self.spec = given if isinstance(given, str) else given.name
        self.detector = load_detector(given, connection) if isinstance(given, str) else given
        self.levels = tuple(dict.fromkeys(_LEVEL[scale] for scale in self.fitted.scales))
        self.grounded = getattr(self.detector, "grounded", False)
        self.asks = getattr(self.detector, "asks", False)
        self._checked = False

    @classmethod
    def from_spec(cls, argument: str | None, connection: Connection | None = None) -> Calibrated:
        """The detector for `FOLDER[,detector=SPEC]`, such as "fitted,detector=logprob:/elsewhere/reader"."""
        path, comma, rest = (argument or "").partition(",")
        key, _, spec = rest.partition("=")
        if not path.strip():
            raise InputError(f"{KIND} needs a folder", hint=f"{KIND}:FOLDER, as `veridical train threshold` wrote it")
        if comma and (key.strip() != "detector" or not spec.strip()):
            raise UnknownNameError(f"option of {KIND}", rest, ["detector=…"])
        name = f"{KIND}:{argument}"
        return cls(path.strip(), detector=spec.strip() or None, connection=connection, name=name)

    @property
    def threshold(self) -> float:
        """That of the words, else of responses, else of coverage: the one that `check` applies to all spans."""
        order = ("span", *SCALES)
        return next(self.fitted.scales[scale].threshold for scale in order if scale in self.fitted.scales)

    @property
    def thresholds(self) -> dict[str, float]:
        """The fitted threshold of each level ("response", "span", "coverage"); that of source words for coverage."""
        return {_LEVEL[name]: self.fitted.scales[name].threshold for name in SCALES if name in self.fitted.scales}

    @property
    def digest(self) -> str:
        """A hash of all that was fitted, and of what the detector stands for: another one means other scores."""
        document = self.fitted.document()
        said = {name: document[name] for name in ("detector", "fingerprint", "scales")}
        return digest_of([said, getattr(self.detector, "digest", None)])

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on."""
        return {"fitted": self.digest}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """The detector's judgements with fitted scores; `InputError` if it is not the detector that was fitted."""
        self._check(cases)
        return self._all(cases, self.detector.judge(cases) if cases else [])

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """The same, each with the salience map that it was made from (None where the detector makes none)."""
        with_maps = getattr(self.detector, "judge_with_maps", None)
        if with_maps is None:
            return [(judgement, None) for judgement in self.judge(cases)]
        self._check(cases)
        found = with_maps(cases) if cases else []
        judgements = self._all(cases, [judgement for judgement, _ in found])
        return [(judgement, drawn) for judgement, (_, drawn) in zip(judgements, found, strict=True)]

    def _all(self, cases: Sequence[Case], raw: Sequence[Judgement]) -> list[Judgement]:
        if len(raw) != len(cases):
            raise CannotJudgeError(f"detector {self.detector.name!r} gave {len(raw)} judgements for {len(cases)} cases")
        return [self._judgement(case, judgement) for case, judgement in zip(cases, raw, strict=True)]

    def _check(self, cases: Sequence[Case]) -> None:
        """Compares the detector with the one that was fitted, once, and not before there is something to judge."""
        if self._checked or not cases:
            return
        found = fingerprint_of(self.spec, self.detector)
        for name in {**self.fitted.fingerprint, **found}:
            left, right = self.fitted.fingerprint.get(name), found.get(name)
            both = name in found and name in self.fitted.fingerprint
            if left != right and not (both and name == "weights" and None in (left, right)):
                raise InputError(
                    f"what is in {self.path} was fitted for {self.fitted.spec!r} and does not fit {self.spec!r}: "
                    f"the {_TITLES.get(name, name)} differs ({left}, here {right})",
                    hint="give the detector that it was fitted for (,detector=SPEC), or fit anew: "
                    "veridical train threshold",
                )
        self._checked = True

    def _judgement(self, case: Case, raw: Judgement) -> Judgement:
        scales, whole = self.fitted.scales, completed(raw)
        response = _one(scales.get("response"), whole.hallucination)
        verdicts = _verdicts(scales.get("span"), raw.verdicts)
        omission = _one(scales.get("coverage"), whole.omission)
        omissions = _omissions(scales.get("source"), raw.omissions)
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
        if not {"response", "span"} & self.fitted.scales.keys():
            return None  # it speaks of coverage alone
        said = raw.hallucination is not None or raw.verdicts
        if "response" not in self.fitted.scales and raw.judged is None and said:
            return (Span(0, len(case.response)),)
        return raw.judged


_TITLES = {"layers": "number of layers", "config": "configuration", "spec": "detector"}


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


def fingerprint_of(spec: str, detector: Detector) -> dict[str, Any]:
    """What the scores of `detector` depend on: what it says of itself (`fingerprint`), else its spec alone; JSON."""
    own = getattr(detector, "fingerprint", None)
    about: dict[str, Any] = {"spec": spec} if own is None else own()
    return {"method": spec.partition(":")[0], **about}


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
        spec, scales = document["detector"], {name: _scale(each) for name, each in document["scales"].items()}
        parts = {name: dict(document[name]) for name in ("fingerprint", "training", "validation")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = error.message if isinstance(error, InputError) else "a field is missing or of another type"
        raise DataError(why, path=path, hint="detector, fingerprint, scales, training, validation") from None
    if not isinstance(spec, str) or not scales or not scales.keys() <= set(SCALES):
        found = ", ".join(scales) or "nothing"
        raise DataError(f"fitted for {found} of the detector {spec!r}", path=path, hint=f"scales: {', '.join(SCALES)}")
    return Fitted(spec, scales=scales, **parts)


def _scale(about: Mapping[str, Any]) -> Scale:
    calibration = about["calibration"]
    return Scale(check_threshold(about["threshold"]), None if calibration is None else calibrator(calibration))
