"""The result of a check as named scores, in the form that services for evaluation take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from veridical.core.types import Checked
from veridical.report.findings import findings, reasons

__all__ = ["OUTCOME", "NamedScore", "named_scores"]

OUTCOME = "veridical.outcome"


@dataclass(frozen=True, slots=True)
class NamedScore:
    """A score of a response: `value` from 0 to 1, where 1 = hallucinated or omitted; None for the outcome alone."""

    name: str
    label: str
    explanation: str
    value: float | None = None


def named_scores(checked: Checked) -> Iterator[NamedScore]:
    """Yield the outcome of a check, then each response-level score, named by its kind and, among several, its detector.

    >>> from veridical.checking import check
    >>> for score in named_scores(check("It is blue.", "It is red.", detector="overlap")):
    ...     print(score.name, score.label, score.value)
    veridical.outcome flagged None
    veridical.hallucination flagged 1.0
    """
    yield NamedScore(OUTCOME, checked.outcome.value, "\n".join(reasons(checked)))
    for judgement, decision in zip(checked.judgements, checked.decisions, strict=True):
        detector = f".{judgement.by}" if len(checked.judgements) > 1 else ""
        for kind in ("hallucination", "omission"):
            value = getattr(judgement, kind)
            if value is not None:
                own = [f.message for f in findings(checked) if (f.kind, f.detector) == (kind, judgement.by)]
                label = decision.outcome.value
                yield NamedScore(f"veridical.{kind}{detector}", label, "\n".join(own), value)
