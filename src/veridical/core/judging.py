"""The one way in which a detector is run, and the one place that says which thresholds are in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from veridical.core.detector import Detector, HasSalienceMaps, thresholds_of
from veridical.core.errors import CannotJudgeError, UnknownNameError
from veridical.core.types import Case, Judgement, Level, Thresholds, check_judgement

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = ["judge", "judge_with_maps", "thresholds_in_force"]


def judge(detector: Detector, cases: Sequence[Case]) -> list[Judgement]:
    """The detector's judgements, one per case in the same order, checked (a detector may be anybody's).

    Raises `CannotJudgeError` for another number of judgements than cases, `InputError` or `SpanError` for a judgement
    that is not about its case or points outside its texts.
    """
    judgements = detector.judge(cases) if cases else []
    _check(detector, cases, judgements)
    return list(judgements)


def judge_with_maps(detector: Detector, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
    """The same with the salience map of each judgement, None where the detector makes none."""
    if not isinstance(detector, HasSalienceMaps):
        return [(judgement, None) for judgement in judge(detector, cases)]
    pairs = detector.judge_with_maps(cases) if cases else []
    _check(detector, cases, [judgement for judgement, _ in pairs])
    return list(pairs)


def _check(detector: Detector, cases: Sequence[Case], judgements: Sequence[Judgement]) -> None:
    if len(judgements) != len(cases):
        raise CannotJudgeError(f"detector {detector.name!r} gave {len(judgements)} judgements for {len(cases)} cases")
    for case, judgement in zip(cases, judgements, strict=True):
        check_judgement(case, judgement)


def thresholds_in_force(
    detector: Detector | None = None, given: float | Mapping[str, float] | Thresholds | None = None
) -> Thresholds:
    """The thresholds that apply: what is given, else the detector's own, else 0.5, for each level by itself.

    Args:
        detector: Its fitted thresholds apply where none is given.
        given: One number for all levels, or a number per level ("response", "span", "coverage", "source").

    Raises:
        InputError: A threshold outside [0, 1], or a level that does not exist.

    >>> thresholds_in_force(None, {"span": 0.3})
    Thresholds(response=0.5, span=0.3, coverage=0.5, source=0.5)
    """
    if isinstance(given, Thresholds):
        return given
    if given is not None and not isinstance(given, Mapping):
        return Thresholds.same(given)
    known = set(Level)
    for name in given or {}:
        if name not in known:
            raise UnknownNameError("level", str(name), [level.value for level in Level])
    own = thresholds_of(detector) if detector is not None else {}
    applied = {level.value: value for level, value in own.items()} | dict(given or {})
    return replace(Thresholds(), **{Level(name).value: value for name, value in applied.items()})
