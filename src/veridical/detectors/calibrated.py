"""Give a detector thresholds and probabilities that were fitted for it on validation data.

`veridical calibrate` writes the fit to a folder, which contains `detector.json` but no weights. The folder works only
with the same detector, options and model. For any others, an error names the difference.

There is one fit for each level (`records.types.Level`): responses, words of the response, coverage of the sources, and
words of the sources. Judgements omit the scores of levels that were not fitted, because a raw score could be mistaken
for a probability. Words in scored sentences are the exception. They only locate the error in a flagged sentence, so
they keep the detector's own scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from veridical.inference.artifact import DETECTOR, description
from veridical.io.serialization import TAG, decode, encode, tag_of
from veridical.io.strict_json import parse
from veridical.metrics.calibrators import Isotonic, Platt
from veridical.metrics.thresholding import with_response_scores
from veridical.records.detector import (
    Detector,
    DetectorContext,
    DetectorInfo,
    digest_of,
    fingerprint_of,
    info_of,
    thresholds_of,
)
from veridical.records.errors import DataError, InputError, WireError
from veridical.records.judging import judge_with_maps
from veridical.records.spans import Span
from veridical.records.spec import Spec
from veridical.records.types import Case, Judgement, Level, Omission, Verdict, check_threshold

if TYPE_CHECKING:
    from veridical.records.salience_map import SalienceMap

KIND = "calibrated"
Scored = TypeVar("Scored", Verdict, Omission)


@dataclass(frozen=True, slots=True)
class Scale:
    """The threshold and the calibration that were fitted for one level (`records.types.Level`), such as responses.

    Attributes:
        threshold: The lowest score that is flagged, in [0, 1]. It applies to calibrated scores, or to raw scores if
            there is no calibration.
        calibration: The function that maps raw scores to probabilities. None if only a threshold was fitted.
    """

    threshold: float
    calibration: Platt | Isotonic | None = None

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def apply(self, scores: Sequence[float]) -> list[float]:
        """Map raw scores to calibrated probabilities in [0, 1].

        If there is no calibration, the scores are returned unchanged.
        """
        if self.calibration is None:
            return list(scores)
        return [min(max(score, 0.0), 1.0) for score in self.calibration.apply(list(scores)).tolist()]

    def calibrate(self, items: Sequence[Scored]) -> tuple[Scored, ...]:
        """Copy verdicts or omissions, with their scores replaced by calibrated ones (`apply`)."""
        probabilities = self.apply([item.score for item in items])
        return tuple(replace(item, score=score) for item, score in zip(items, probabilities, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class FittedCalibration:
    """Everything that was fitted for a detector, as stored in the folder's `detector.json`.

    Attributes:
        detector: The spec of the detector.
        fingerprint: Everything that the detector's scores depended on when it was fitted
            (`records.detector.fingerprint_of`). The detector is rejected if it differs now.
        scales: The threshold and calibration of each level that was fitted, such as responses or words.
        training: The data, options and date of fitting. For information only.
        validation: The metrics on validation data by level. For information only.
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
    """Gives any detector thresholds and probabilities fitted on your labels (`veridical calibrate`).

    There are four levels, each with its own fit: responses, content words of the response, coverage of the sources, and
    words of the sources. If a level was not fitted, its scores are removed, and a note says so. You can see the fitted
    levels in `info.levels`.

    There is one exception: if responses were fitted and the wrapped detector scores sentences, words that were not
    fitted keep that detector's scores and threshold, because sentences decide what is flagged.

    Args:
        path: The folder that `veridical calibrate` wrote, or its loaded content.
        detector: The detector to wrap, which must be the one that was fitted.
        name: The name of the detector. Default: "calibrated:PATH".
    """

    info = DetectorInfo(needs_sources=False, needs_chat_model=True)  # the class; an object has its detector's info

    def __init__(self, path: str | Path | FittedCalibration, detector: Detector, *, name: str | None = None) -> None:
        self.path = None if isinstance(path, FittedCalibration) else Path(path)
        self.fitted = path if isinstance(path, FittedCalibration) else load_calibration(path)
        self.name = name or f"{KIND}:{self.path or self.fitted.detector}"
        self.detector = detector
        self.info = replace(info_of(detector), levels=tuple(self.fitted.scales))
        self.explains: bool = getattr(detector, "explains", False)
        self._compared = False

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Calibrated:
        """Make the detector of `calibrated:FOLDER[,detector=SPEC]`. A SPEC with commas goes in double quotes.

        If you leave out `detector`, the spec in the folder names the detector to wrap. That spec must not say how to
        reach a chat model, because you did not write it (`DetectorContext.artifact`).
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
        """The lowest score that is flagged at each fitted level, such as responses or words, in [0, 1].

        If responses were fitted but words were not, the words have the threshold of the wrapped detector, if it has
        one.
        """
        fitted = {level: scale.threshold for level, scale in self.fitted.scales.items()}
        own = thresholds_of(self.detector)
        return {Level.SPAN: own[Level.SPAN], **fitted} if Level.RESPONSE in fitted and Level.SPAN in own else fitted

    def fingerprint(self) -> dict[str, Any]:
        """Return what the scores depend on: the fitted thresholds and calibrations, and the detector's fingerprint."""
        return {"fitted": digest_of(parse(encode(self.fitted))["scales"]), "detector": fingerprint_of(self.detector)}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge cases with the wrapped detector, and replace its scores with calibrated ones.

        Raises:
            InputError: The folder was fitted for another detector.
        """
        return [judgement for judgement, _ in self.judge_with_maps(cases)]

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """Judge cases with calibrated scores, and pair each judgement with the wrapped detector's salience map.

        The map shows how strongly each source word influences each response word. It is None if the wrapped detector
        computes no such maps.

        Raises:
            InputError: The folder was fitted for another detector.
        """
        if cases and not self._compared:  # only now, because a fingerprint may load a model
            differs = difference(self.fitted.fingerprint, fingerprint_of(self.detector))
            if differs is not None:
                raise InputError(
                    f"{self.path or 'the calibration'} was fitted for {self.fitted.detector!r} and does not fit "
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
        """Replace the raw scores in a judgement of `case` with calibrated scores.

        If a level (responses, words, coverage or source words) was not fitted, its scores are removed, and a note says
        so. There is one exception: if the judgement has calibrated scores of sentences, words that were not fitted keep
        their raw scores.
        """
        scales, scored = self.fitted.scales, with_response_scores(raw)
        response, coverage = scales.get(Level.RESPONSE), scales.get(Level.COVERAGE)
        span, source = scales.get(Level.SPAN), scales.get(Level.SOURCE)
        hallucination = scored.hallucination if response else None
        omission = scored.omission if coverage else None
        omissions = source.calibrate(raw.omissions) if source else ()
        keeps_words = bool(response and raw.sentences)
        left_out = {
            "the score of the whole response": not response and scored.hallucination is not None,
            "the scores of words": not span and not keeps_words and bool(raw.verdicts),
            "coverage": omission is None and not omissions and scored.omission is not None,
            "the scores of source words": omission is not None and not omissions and bool(raw.omissions),
        }
        notes = [f"left out, because no labels were fitted: {part}" for part, applies in left_out.items() if applies]
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
            verdicts=span.calibrate(raw.verdicts) if span else raw.verdicts if keeps_words else (),
            sentences=response.calibrate(raw.sentences) if response else (),
            omissions=omissions,
            judged=judged,
            notes=(*raw.notes, *notes),
        )


_TITLES = {"layers": "number of layers", "config": "configuration", "name": "detector"}


def difference(fitted: Mapping[str, Any], current: Mapping[str, Any]) -> str | None:
    """Describe the first difference between the fingerprints of two detectors, or return None if there is none.

    A fingerprint holds everything that a detector's scores depend on. The address of the chat model's server may
    differ. So may the weights, if one fingerprint does not record them.

    Args:
        fitted: The fingerprint of the detector when it was fitted.
        current: The fingerprint of the detector to use now.

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
    """Flatten a fingerprint, and drop the address of the chat model's server, because it may change."""
    facts: dict[str, Any] = {}
    for name, value in fingerprint.items():
        facts |= _facts(value) if isinstance(value, Mapping) else {name: value}
    return {name: value for name, value in facts.items() if name != "server"}


def load_calibration(folder: str | Path) -> FittedCalibration:
    """Load the calibration that `veridical calibrate` wrote to a folder.

    Raises:
        DataError: The folder contains no `detector.json`, a trained detector instead of a calibration, or a damaged
            file.
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
