"""Run a detector on cases.

Only this module decides which cases cannot be judged and which thresholds apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from veridical.records.detector import Detector, DetectorInfo, HasSalienceMaps, info_of, thresholds_of
from veridical.records.errors import CannotJudgeError, UnknownNameError
from veridical.records.strings import answer_start, is_blank
from veridical.records.types import Case, Judgement, Level, Thresholds, check_judgement

if TYPE_CHECKING:
    from veridical.records.salience_map import SalienceMap

JudgementWithMap = tuple[Judgement, "SalienceMap | None"]

NO_CLAIM = "the response makes no claim"
"""The note on a judgement that has no score because the response says nothing that could be wrong."""
_REASONING = "the reasoning before the answer was not judged"


def not_judged(case: Case, by: str, *notes: str) -> Judgement:
    """Build the judgement of a case that the detector `by` could not judge, with notes that say why.

    If the response makes no claim, use the note `NO_CLAIM`.
    """
    return Judgement(case.id, by, judged=(), notes=notes, no_claim=NO_CLAIM in notes)


def nothing_to_judge(case: Case, info: DetectorInfo) -> str | None:
    """Return the reason why a detector cannot judge `case`, or None if it can.

    `info` says what the detector scores and needs. Normally, a case with a blank response cannot be judged. A detector
    that scores coverage does judge it, if the case has a source that must be covered, because a blank response omits
    all of it.

    >>> nothing_to_judge(Case("1", "It is red."), DetectorInfo())
    'there are no sources to compare with'
    >>> nothing_to_judge(Case("1", "It is red."), DetectorInfo(needs_sources=False)) is None
    True
    """
    texts = [source for source in case.sources if not is_blank(source.text)]
    if is_blank(case.response):
        scores_coverage = Level.COVERAGE in info.levels or Level.SOURCE in info.levels
        if not (scores_coverage and any(source.must_cover for source in texts)):
            return "the response is empty"
    if info.needs_sources and not texts:
        return "the sources are empty" if case.sources else "there are no sources to compare with"
    return None


def judge(detector: Detector, cases: Sequence[Case]) -> list[Judgement]:
    """Judge each case with a detector, check the judgements, and return them in the order of the cases.

    The detector is not called for cases that it cannot judge (`nothing_to_judge`). Their judgements have no scores, and
    a note says why. If a response begins with the model's tagged reasoning (`records.strings.answer_start`), the
    detector gets as many spaces instead, so that the reasoning is not judged and the positions stay the same.

    Raises:
        CannotJudgeError: The detector returned too many or too few judgements.
        InputError: A judgement is not about its case.
        SpanError: A span of a judgement runs past the end of its text.
    """
    return [judgement for judgement, _ in judge_with_maps(detector, cases)]


def judge_with_maps(detector: Detector, cases: Sequence[Case]) -> list[JudgementWithMap]:
    """Judge each case with a detector, and pair each judgement with its salience map, or with None if there is no map.

    A salience map shows how strongly each source word influences each response word. Everything else is as in `judge`:
    cases that the detector cannot judge get no scores, reasoning before the answer is not judged, and the judgements
    are checked.
    """
    info = info_of(detector)
    starts = [answer_start(case.response) for case in cases]
    cases = [
        replace(case, response=" " * start + case.response[start:]) if start else case
        for case, start in zip(cases, starts, strict=True)
    ]
    reasons = [nothing_to_judge(case, info) for case in cases]
    rest = [case for case, reason in zip(cases, reasons, strict=True) if reason is None]
    if not rest:
        pairs = []
    elif isinstance(detector, HasSalienceMaps):
        pairs = list(detector.judge_with_maps(rest))
    else:
        pairs = [(judgement, None) for judgement in detector.judge(rest)]
    if len(pairs) != len(rest):
        raise CannotJudgeError(f"detector {detector.name!r} gave {len(pairs)} judgements for {len(rest)} cases")
    for case, (judgement, _) in zip(rest, pairs, strict=True):
        check_judgement(case, judgement)
    judged = iter(pairs)
    answers = [
        next(judged) if reason is None else (not_judged(case, detector.name, reason), None)
        for case, reason in zip(cases, reasons, strict=True)
    ]
    return [
        (replace(judgement, notes=(*judgement.notes, _REASONING)), salience) if start else (judgement, salience)
        for (judgement, salience), start in zip(answers, starts, strict=True)
    ]


def thresholds_in_force(
    detector: Detector | None = None, given: float | Mapping[str, float] | Thresholds | None = None
) -> Thresholds:
    """Return the decision threshold that applies to each level: response, span, coverage and source.

    A threshold that you pass comes first, then the detector's own threshold, then 0.5.

    Args:
        detector: Its fitted thresholds apply to the levels for which you pass no threshold.
        given: The thresholds that you pass: one number for all levels, a number for some of the levels "response",
            "span", "coverage" and "source", or a complete `Thresholds`.

    Raises:
        InputError: A threshold lies outside [0, 1], or a level does not exist.

    >>> thresholds_in_force(None, {"span": 0.3})
    Thresholds(response=0.5, span=0.3, coverage=0.5, source=0.5)
    """
    if isinstance(given, Thresholds):
        return given
    if given is not None and not isinstance(given, Mapping):
        return Thresholds.same(given)
    levels = set(Level)
    for name in given or {}:
        if name not in levels:
            raise UnknownNameError("level", str(name), [level.value for level in Level])
    fitted = thresholds_of(detector) if detector is not None else {}
    applied = {level.value: value for level, value in fitted.items()} | dict(given or {})
    return replace(Thresholds(), **{Level(name).value: value for name, value in applied.items()})
