"""Revise responses once, and keep every revision."""

from __future__ import annotations

from collections.abc import Sequence

from veridical.records.edits import apply
from veridical.records.types import Case, Judgement, Thresholds
from veridical.workflows.revise import Progress, Revised, Reviser, RevisionTask

__all__ = ["revise_unfiltered"]


def revise_unfiltered(
    cases: Sequence[Case], reviser: Reviser, judgements: Sequence[Judgement] | None, thresholds: Thresholds
) -> list[Revised]:
    """Revise each response once and keep every revision, as George and Stuhlmüller 2023, §4, do.

    The new texts are not judged. If a text changed, its `after` is None.

    Args:
        cases: The cases whose responses to revise.
        reviser: The object that proposes edits.
        judgements: The judgements of the cases. A response without unsupported statements is not changed. Pass None for
            a reviser that finds errors itself, such as `SelfCorrection`, which then revises every case.
        thresholds: The scores from which a statement counts as unsupported.
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
