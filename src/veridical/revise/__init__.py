"""Mending a response: critique, revision as edits, judged again; kept only if it is better (C §4, Algorithm 1).

A detector says what is not supported, a reviser proposes edits, the same detector judges the edited text, and
`weigh` decides. Where it is not better, the best earlier text stands and the reason is said. Revisers: `Delete` and
`Flag` (no model), `Factored` and `SelfCorrection` (`veridical.revise.llm_revisers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from veridical.core.decide import outcome
from veridical.core.detector import Detector
from veridical.core.edits import apply, compose
from veridical.core.errors import InputError
from veridical.core.judging import judge, thresholds_in_force
from veridical.core.types import Case, Edit, Judgement, Outcome, Revision, Thresholds, Usage
from veridical.revise.acceptance import Trial, weigh
from veridical.revise.rule_revisers import Delete, Draft, Flag, Reviser, Task
from veridical.revise.statements import Unit, statements_of

__all__ = ["MAX_ROUNDS", "Delete", "Draft", "Flag", "Revised", "Reviser", "Round", "Task", "Unit", "revise"]

MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Round:
    """One attempt: the edits of the text before it, what they gave, how that was judged, whether it was kept and why.

    `judgement` is None where nothing was judged: there were no edits, or they only mark.
    """

    edits: tuple[Edit, ...]
    text: str
    judgement: Judgement | None
    kept: bool
    reason: str
    critique: str = ""
    notes: tuple[str, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Revised:
    """What became of a case. `revision` holds the edits of the response as it was, and the text that stands in the end.

    `before` judges the response, `after` the text that stands (None where it was only marked). `reason` says why no
    more was changed. `usage` is all that was spent, judging included.
    """

    case: Case
    revision: Revision
    before: Judgement
    after: Judgement | None
    thresholds: Thresholds
    rounds: tuple[Round, ...]
    reason: str
    usage: Usage | None = None

    @property
    def changed(self) -> bool:
        """Whether another text stands than the response."""
        return self.revision.text != self.case.response

    @property
    def outcome(self) -> Outcome:
        """What is decided of the final text; a text that is only marked keeps the outcome of the response."""
        if self.after is None:
            return outcome(self.case, self.before, self.thresholds)
        return outcome(replace(self.case, response=self.revision.text), self.after, self.thresholds)


@dataclass(slots=True)
class _Course:
    """One case on its way through the rounds: the text that stands now, and how it came to be."""

    case: Case
    before: Judgement
    now: Case
    judgement: Judgement
    edits: tuple[Edit, ...] = ()
    rounds: list[Round] = field(default_factory=list)
    spent: list[Usage | None] = field(default_factory=list)
    marked: bool = False
    reason: str = ""


def revise(
    cases: Sequence[Case],
    detector: Detector,
    reviser: Reviser,
    *,
    threshold: float | Mapping[str, float] | None = None,
    rounds: int = 1,
) -> list[Revised]:
    """One result a case, in order. At most `rounds` (1 to 10) attempts each; a case ends with its first failed one.

    `threshold` in [0, 1] is the score from which a statement counts as unsupported, for all levels or per level
    (default: the detector's own, else 0.5). All cases of a round go to the reviser, and to the detector, in one call.
    Raises `InputError` for a number of rounds or a threshold out of range.

    >>> from veridical.core.types import Source
    >>> from veridical.detectors import load_detector
    >>> case = Case("1", "It rains in Rome. Pigs fly.", (Source("a", "It rains in Rome today."),))
    >>> result = revise([case], load_detector("overlap"), Delete())[0]
    >>> result.revision.text, result.revision.edits[0].because
    ('It rains in Rome.', 'not in any source')
    """
    if not 1 <= rounds <= MAX_ROUNDS:
        raise InputError(f"{rounds} rounds of revision", hint=f"from 1 to {MAX_ROUNDS}")
    limits = thresholds_in_force(detector, threshold)
    courses = [
        _Course(case, judgement, case, judgement, spent=[judgement.usage])
        for case, judgement in zip(cases, judge(detector, cases), strict=True)
    ]
    for _ in range(rounds):
        tasks = [(course, task) for course in courses if not course.reason if (task := _task(course, limits))]
        if tasks:
            _round(tasks, detector, reviser, limits)
    return [_result(course, limits) for course in courses]


def _task(course: _Course, thresholds: Thresholds) -> Task | None:
    """What is left to mend; None, and the reason noted, where there is nothing."""
    units = statements_of(course.now, course.judgement)
    wrong = tuple(unit for unit in units if unit.score >= thresholds.span)
    if wrong:
        return Task(course.now, wrong, tuple(unit for unit in units if unit.score < thresholds.span))
    if course.judgement.hallucination is None and not course.judgement.verdicts:
        course.reason = f"it could not be judged: {'; '.join(course.judgement.notes) or 'no score'}"
    else:
        course.reason = "nothing is unsupported" + (" any more" if course.rounds else "")
    return None


def _round(tasks: Sequence[tuple[_Course, Task]], detector: Detector, reviser: Reviser, thresholds: Thresholds) -> None:
    """One attempt for each task; what is better replaces the text that stands."""
    drafts = reviser.draft([task for _, task in tasks])
    trying: list[tuple[_Course, Draft, Case]] = []
    for (course, _), draft in zip(tasks, drafts, strict=True):
        text = apply(course.now.response, draft.edits)
        if text == course.now.response:
            _end(course, draft, text, None, draft.why or "the revision changes nothing")
        elif not reviser.rewrites:
            _keep(course, draft, replace(course.now, response=text), None, "marked only: not judged again")
            course.reason = "unsupported statements are marked, not mended"
        else:
            trying.append((course, draft, replace(course.now, response=text)))
    judged = judge(detector, [case for _, _, case in trying])
    trials = [
        Trial(course.now, course.judgement, draft.edits, case, judgement)
        for (course, draft, case), judgement in zip(trying, judged, strict=True)
    ]
    weighed = weigh(trials, detector, thresholds)
    for (course, draft, case), judgement, (why, cost) in zip(trying, judged, weighed, strict=True):
        course.spent.append(cost)
        if why is None:
            _keep(course, draft, case, judgement, "the hallucination score falls and nothing supported is lost")
        else:
            _end(course, draft, case.response, judgement, why)


def _keep(course: _Course, draft: Draft, case: Case, judgement: Judgement | None, reason: str) -> None:
    course.edits = compose(course.case.response, course.edits, draft.edits)
    course.now = case
    course.marked = judgement is None
    course.judgement = judgement or course.judgement
    _note(course, draft, case.response, judgement, True, reason)


def _end(course: _Course, draft: Draft, text: str, judgement: Judgement | None, reason: str) -> None:
    course.reason = reason
    _note(course, draft, text, judgement, False, reason)


def _note(course: _Course, draft: Draft, text: str, judgement: Judgement | None, kept: bool, reason: str) -> None:
    course.spent += [draft.usage, judgement.usage if judgement else None]
    course.rounds.append(Round(draft.edits, text, judgement, kept, reason, draft.critique, draft.notes, draft.usage))


def _result(course: _Course, thresholds: Thresholds) -> Revised:
    if not course.reason:
        left = [u for u in statements_of(course.now, course.judgement) if u.score >= thresholds.span]
        course.reason = f"{len(left)} statements are still unsupported after the last round" if left else (
            "nothing is unsupported any more"
        )  # fmt: skip
    return Revised(
        course.case,
        Revision(course.case.id, course.edits, course.now.response),
        course.before,
        None if course.marked else course.judgement,
        thresholds,
        tuple(course.rounds),
        course.reason,
        Usage.total(course.spent),
    )
