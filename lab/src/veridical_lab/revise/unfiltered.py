"""Revise responses once and keep every revision."""

from __future__ import annotations

from collections.abc import Sequence

from veridical.records.edits import apply
from veridical.records.types import Case, Judgement, Thresholds
from veridical.workflows.revise import Progress, Revised, Reviser, RevisionTask


def revise_unfiltered(
    cases: Sequence[Case], reviser: Reviser, judgements: Sequence[Judgement] | None, thresholds: Thresholds
) -> list[Revised]:
    """Revise each response once, and keep every revision as in George and Stuhlmüller 2023, §4.

    The new texts are not judged, so if a text changed, `after` in its result is None.

    Args:
        cases: The cases whose responses to revise.
        reviser: Proposes the edits.
        judgements: The judgements of the cases. Responses without unsupported parts are not changed. Pass
            None for a reviser that finds errors itself, such as `SelfCorrection`, so that it revises every case.
        thresholds: The lowest scores at which a statement counts as unsupported, by level.
    """
    before = judgements or [Judgement(case.id, reviser.name, judged=()) for case in cases]
    all_progress = [
        Progress(case, judgement, thresholds, case, judgement, usages=[judgement.usage])
        for case, judgement in zip(cases, before, strict=True)
    ]
    tasks: list[tuple[Progress, RevisionTask]] = []
    for progress in all_progress:
        task = progress.task() if judgements else RevisionTask(progress.case, ())
        if task is not None:
            tasks.append((progress, task))
    for (progress, _), draft in zip(tasks, reviser.draft([task for _, task in tasks]), strict=True):
        text = apply(progress.case.response, draft.edits)
        changed = text != progress.case.response
        reason = "every revision is kept" if changed else draft.problem or "the revision changes nothing"
        progress.record(draft, text, None, changed, reason)
        progress.reason = reason
    return [progress.result() for progress in all_progress]
