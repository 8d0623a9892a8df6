"""Members of an ensemble that say what they are scripted to say, and ensembles of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from veridical.core.detector import DetectorInfo
from veridical.core.errors import InputError
from veridical.core.types import Case, Judgement, Level, Span, Verdict
from veridical_lab.detectors.ensemble.artifact import FittedEnsemble, Member, Stage
from veridical_lab.detectors.ensemble.combination import Combination, LevelCombinations


class Scripted:
    """Gives the score that `scores` has for a case, also to its first word; None judges nothing, an error is raised."""

    def __init__(
        self,
        name: str,
        scores: Mapping[str, float | Exception | None] | Callable[[Case], Judgement],
        levels: tuple[Level, ...] = (Level.RESPONSE, Level.SPAN),
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.scores = scores
        self.info = DetectorInfo(levels, needs_sources=True)
        self.about = dict(about or {"name": name})
        self.asked: list[str] = []

    def fingerprint(self) -> dict[str, Any]:
        return self.about

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.asked += [case.id for case in cases]
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        if callable(self.scores):
            return replace(self.scores(case), case_id=case.id, by=self.name)
        score = self.scores[case.id]
        if isinstance(score, Exception):
            raise score
        if score is None:
            return Judgement(case.id, self.name, judged=(), notes=("cannot read it",))
        verdicts = (Verdict(Span(0, 4), score),) if Level.SPAN in self.info.levels else ()
        return Judgement(case.id, self.name, score, verdicts=verdicts)


REFUSED = InputError("too long for this model")

# of two members, then of each alone
TWO = LevelCombinations(
    0.4,
    (
        Combination((0, 1), (0.3, 0.6), (0.2, 0.25), (1.5, 0.5), -0.25),
        Combination((0,), (0.3,), (0.2,), (1.75,), -0.5),
        Combination((1,), (0.6,), (0.25,), (0.75,), 0.125),
    ),
)


def fitted(
    levels: Mapping[Level, LevelCombinations] | None = None, *, stages: tuple[Stage, ...] = ()
) -> FittedEnsemble:
    """An ensemble of "first" and "second"."""
    members = (Member("first", {"name": "first"}, 0.001), Member("second", {"name": "second"}, 0.1))
    return FittedEnsemble(members, dict(levels or {Level.RESPONSE: TWO, Level.SPAN: TWO}), stages)
