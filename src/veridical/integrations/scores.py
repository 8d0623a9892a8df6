"""Convert the result of a check to named scores, the form that evaluation services accept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from veridical.records.types import Checked
from veridical.report.findings import findings, reasons

OUTCOME = "veridical.outcome"


@dataclass(frozen=True, slots=True)
class NamedScore:
    """One score of a checked response, in the form that services such as MLflow and Langfuse accept.

    Attributes:
        name: "veridical.outcome", "veridical.hallucination" or "veridical.omission". If there are several detectors,
            the last two are followed by "." and the name of the detector.
        label: The outcome, such as "flagged" or "clear".
        explanation: The reasons, one per line. "" if there are none.
        value: The score in [0, 1], where 1 means hallucinated or omitted. None for the outcome, which has only a label.
    """

    name: str
    label: str
    explanation: str
    value: float | None = None


def named_scores(checked: Checked) -> Iterator[NamedScore]:
    """Yield the outcome of a check, and then the hallucination and the omission score of each detector.

    The name of a score says what it measures. If there are several detectors, the name of the detector is added.

    >>> from veridical.workflows.checking import check
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
