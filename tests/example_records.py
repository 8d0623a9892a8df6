"""Records that tests build in one line."""

from __future__ import annotations

from veridical.records.decide import decide
from veridical.records.types import Case, Checked, Judgement, Outcome, Thresholds


def checked_at(case: Case, judgements: tuple[Judgement, ...], at: tuple[float, ...], outcome: Outcome) -> Checked:
    """`judgements` decided on at one threshold each, with a given outcome of all."""
    decisions = [decide(case, j, Thresholds.same(t)) for j, t in zip(judgements, at, strict=True)]
    return Checked(case, judgements, tuple(decisions), outcome)
