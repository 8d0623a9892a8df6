"""Revise responses: propose edits, judge the edited text, and keep it only if it is better.

The method follows George and Stuhlmüller 2023, §4 and Algorithm 1. A detector finds unsupported statements, a reviser
proposes edits, the same detector judges the edited text, and `acceptance` decides whether to keep it. If the new text
is not better, the earlier text is kept and the result says why.

The revisers `Delete` and `Flag` need no model. `Factored` and `SelfCorrection`
(`veridical.workflows.revise.llm_revisers`) ask a chat model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from veridical.records.decide import outcome
from veridical.records.detector import Detector
from veridical.records.edits import apply, compose
from veridical.records.errors import InputError
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.types import Case, Edit, Judgement, Outcome, Revision, Thresholds, Usage
from veridical.workflows.revise.acceptance import Candidate, accept
from veridical.workflows.revise.rule_revisers import Delete, Draft, Flag, Reviser, RevisionTask
from veridical.workflows.revise.statements import Statement, statements_of

__all__ = [
    "MAX_ROUNDS",
    "Delete",
    "Draft",
    "Flag",
    "Progress",
    "Revised",
    "Reviser",
    "RevisionTask",
    "Round",
    "Statement",
    "revise",
]

MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Round:
    """One attempt to revise a response: the proposed edits, and whether the edited text was kept.

    Attributes:
        edits: The edits, with positions in the text before the attempt.
        text: The text after the edits.
        judgement: The judgement of the new text. None if the new text was not judged.
        kept: If true, the new text replaced the old one.
        reason: Why the new text was kept or rejected.
        critique: The criticism of the old text on which the edits are based. "" if there is none.
        notes: Remarks of the reviser, for example about claims that it did not change.
        usage: The calls to chat models and the tokens that the reviser used.
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
    """The result of revising one response.

    Attributes:
        case: The case as given.
        revision: The edits and the final text.
        before: The judgement of the original response.
        after: The judgement of the final text. None if the final text was not judged.
        thresholds: The scores from which the response, its spans and omissions are flagged.
        rounds: The attempts, in order.
        reason: Why the revision ended.
        usage: The calls and tokens of all language models, including models that the detector called.
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
        """Whether the final text differs from the response."""
        return self.revision.text != self.case.response

    @property
    def outcome(self) -> Outcome:
        """Whether anything in the final text is flagged or could not be judged, as an `Outcome`.

        If the final text was not judged, this is the outcome of the original response.
        """
        if self.after is None:
            return outcome(self.case, self.before, self.thresholds)
        return outcome(replace(self.case, response=self.revision.text), self.after, self.thresholds)


@dataclass(slots=True)
class Progress:
    """The state of one case while `revise` works on it, with its current text and the attempts so far.

    Attributes:
        case: The case as given.
        before: The judgement of the original response.
        thresholds: The scores from which the response, its spans and omissions are flagged.
        current: The case with the current text as its response.
        judgement: The judgement of the current text. None if the text was not judged.
        edits: All edits that were kept, with positions in the original response.
        rounds: The attempts so far.
        usages: The calls and tokens of each step so far.
        reason: Why the revision has ended. "" while it continues.
    """

    case: Case
    before: Judgement
    thresholds: Thresholds
    current: Case
    judgement: Judgement | None
    edits: tuple[Edit, ...] = ()
    rounds: list[Round] = field(default_factory=list)
    usages: list[Usage | None] = field(default_factory=list)
    reason: str = ""

    def task(self) -> RevisionTask | None:
        """Make the next task for the reviser: the current text with its supported and unsupported statements.

        Return None if the revision has ended. It ends here, with a `reason`, if nothing in the text is unsupported, or
        if the text could not be judged.
        """
        if self.reason or self.judgement is None:
            return None
        statements = statements_of(self.current, self.judgement, self.thresholds)
        unsupported = tuple(s for s in statements if s.unsupported)
        if unsupported:
            return RevisionTask(self.current, unsupported, tuple(s for s in statements if not s.unsupported))
        if self.judgement.hallucination is None and not self.judgement.verdicts:
            self.reason = f"it could not be judged: {'; '.join(self.judgement.notes) or 'no score'}"
        else:
            self.reason = "nothing is unsupported" + (" any more" if self.rounds else "")
        return None

    def record(self, draft: Draft, text: str, judgement: Judgement | None, kept: bool, reason: str) -> None:
        """Record the result of an attempt.

        If the new text is kept, it becomes the current text. Otherwise, the revision ends with `reason`.

        Args:
            draft: The edits that the reviser proposed.
            text: The text after the edits.
            judgement: The judgement of this text. None if it was not judged.
            kept: Whether the text is kept.
            reason: Why it is kept or rejected.
        """
        if kept:
            self.edits = compose(self.case.response, self.edits, draft.edits)
            self.current = replace(self.current, response=text)
            self.judgement = judgement
        else:
            self.reason = reason
        self.usages += [draft.usage, judgement.usage if judgement else None]
        attempt = Round(draft.edits, text, judgement, kept, reason, draft.critique, draft.notes, draft.usage)
        self.rounds.append(attempt)

    def result(self) -> Revised:
        """Build the result after the last round."""
        reason = self.reason
        if not reason:
            statements = statements_of(self.current, self.judgement, self.thresholds) if self.judgement else []
            n = sum(statement.unsupported for statement in statements)
            still = f"{n} statements are still unsupported after the last round"
            reason = still if n else "nothing is unsupported any more"
        revision = Revision(self.case.id, self.edits, self.current.response)
        usage = Usage.total(self.usages)
        rounds = tuple(self.rounds)
        return Revised(self.case, revision, self.before, self.judgement, self.thresholds, rounds, reason, usage)


def revise(
    cases: Sequence[Case],
    detector: Detector,
    reviser: Reviser,
    *,
    threshold: float | Mapping[str, float] | None = None,
    rounds: int = 1,
) -> list[Revised]:
    """Revise the statements that a detector finds unsupported, and return one result for each case.

    In each round, the reviser proposes edits, the detector judges the edited texts, and an edited text is kept only if
    it is better than the text before (`accept`). If the reviser only marks statements, its text is kept without a
    judgement, and the case is finished. Each step handles all cases together. A case is also finished when nothing in
    it is unsupported, or after the first attempt that is not kept.

    Args:
        cases: The cases whose responses to revise.
        detector: The detector that judges each text before and after its revision.
        reviser: The object that proposes edits.
        threshold: The score in [0, 1] from which a statement counts as unsupported. Pass one number, or a dict with
            numbers for "response", "span", "coverage" or "source" (as for `check`). Default: the detector's own
            thresholds, or 0.5.
        rounds: How many attempts to make per case at most, from 1 to `MAX_ROUNDS`.

    Raises:
        InputError: The number of rounds or a threshold is out of range.

    >>> from veridical.records.types import Source
    >>> from veridical.detectors import load_detector
    >>> case = Case("1", "It rains in Rome. Pigs fly.", (Source("a", "It rains in Rome today."),))
    >>> result = revise([case], load_detector("overlap"), Delete())[0]
    >>> result.revision.text, result.revision.edits[0].because
    ('It rains in Rome.', 'not in any source')
    """
    if not 1 <= rounds <= MAX_ROUNDS:
        raise InputError(f"{rounds} rounds of revision", hint=f"from 1 to {MAX_ROUNDS}")
    thresholds = thresholds_in_force(detector, threshold)
    all_progress = [
        Progress(case, judgement, thresholds, case, judgement, usages=[judgement.usage])
        for case, judgement in zip(cases, judge(detector, cases), strict=True)
    ]
    for _ in range(rounds):
        open_tasks = [(progress, task) for progress in all_progress if (task := progress.task())]
        if open_tasks:
            _one_round(open_tasks, detector, reviser)
    return [progress.result() for progress in all_progress]


def _one_round(tasks: Sequence[tuple[Progress, RevisionTask]], detector: Detector, reviser: Reviser) -> None:
    """Make one attempt per task. If the new text is better, it replaces the current text."""
    drafts = reviser.draft([task for _, task in tasks])
    changed: list[tuple[Progress, Draft, Case]] = []
    for (progress, _), draft in zip(tasks, drafts, strict=True):
        text = apply(progress.current.response, draft.edits)
        if text == progress.current.response:
            progress.record(draft, text, None, False, draft.problem or "the revision changes nothing")
        elif not reviser.rewrites:
            progress.record(draft, text, None, True, "marked only: not judged again")
            progress.reason = "unsupported statements are marked, not revised"
        else:
            changed.append((progress, draft, replace(progress.current, response=text)))
    candidates = []
    for (progress, draft, case), judgement in zip(changed, judge(detector, [c for _, _, c in changed]), strict=True):
        assert progress.judgement is not None
        candidates.append(Candidate(progress.current, progress.judgement, draft.edits, case, judgement))
    for i, acceptance in enumerate(accept(candidates, detector, tasks[0][0].thresholds)):
        progress, draft, case = changed[i]
        progress.usages.append(acceptance.usage)
        reason = acceptance.problem or "the hallucination score falls and nothing supported is lost"
        judgement = candidates[i].judgement_after
        progress.record(draft, case.response, judgement, acceptance.problem is None, reason)
