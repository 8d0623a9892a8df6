"""Prepare one judgement for display: flagged spans in order, omissions, and spans that were not judged.

The terminal and the HTML page use the same view, so that both show the same findings.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from veridical.records.decide import flagged, merge, omitted, unjudged
from veridical.records.spans import Span
from veridical.records.types import (
    Checked,
    Decision,
    Evidence,
    Judgement,
    Level,
    Omission,
    Outcome,
    Thresholds,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class FlaggedSpan:
    """Flagged words of the response that are displayed as one span.

    A verdict is a detector's score of a span. Neighbouring verdicts with the same label, kind, reason and correction
    are joined, unless they are about claims.

    Attributes:
        span: The displayed span.
        verdicts: The flagged verdicts that are joined in the span.
    """

    span: Span
    verdicts: tuple[Verdict, ...]

    @property
    def only_marks(self) -> bool:
        """True if the verdicts have no claim, correction or evidence, so that the span needs no entry of its own."""
        first = self.verdicts[0]
        return not (first.claim or self.evidence) and first.correction is None

    @property
    def label_and_reason(self) -> str:
        """The label, kind of error and reason of the span as one line, or "" if there are none."""
        first = self.verdicts[0]
        return " · ".join(part for part in (label_and_kind(first), first.reason) if part)

    @property
    def score(self) -> float:
        """The highest score of its verdicts."""
        return max(verdict.score for verdict in self.verdicts)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The evidence of all verdicts in the span, each source passage once, highest weight first."""
        by_span: dict[tuple[str, Span], Evidence] = {}
        for evidence in (e for verdict in self.verdicts for e in verdict.evidence):
            key = (evidence.source_id, evidence.span)
            if key not in by_span or evidence.weight > by_span[key].weight:
                by_span[key] = evidence
        return tuple(sorted(by_span.values(), key=lambda e: -e.weight))


@dataclass(frozen=True, slots=True)
class JudgementView:
    """One judgement with its decision, prepared for display.

    Attributes:
        judgement: The judgement.
        decision: The decision, which says which findings are flagged.
        flagged: The flagged spans of the response, in order.
        omissions: The source passages that are flagged as omitted, in the order of the sources.
        unjudged: The spans of the response that were not judged.
        coverage_unknown: True if the case has sources to cover, but the detector did not judge their coverage.
    """

    judgement: Judgement
    decision: Decision
    flagged: tuple[FlaggedSpan, ...]
    omissions: tuple[Omission, ...]
    unjudged: tuple[Span, ...]
    coverage_unknown: bool


def judgement_views(checked: Checked) -> list[JudgementView]:
    """Prepare a checked case for display. Return one view for each judgement, in the order of the judgements."""
    case = checked.case
    order = {source.id: i for i, source in enumerate(case.sources)}
    must_cover = any(source.must_cover for source in case.sources)
    views = []
    for judgement, decision in zip(checked.judgements, checked.decisions, strict=True):
        views.append(
            JudgementView(
                judgement=judgement,
                decision=decision,
                flagged=tuple(_flagged_spans(case.response, flagged(judgement, decision))),
                omissions=tuple(sorted(omitted(judgement, decision), key=lambda o: (order[o.source_id], o.span))),
                unjudged=() if judgement.no_claim else tuple(unjudged(case, judgement)),
                coverage_unknown=must_cover and judgement.omission is None and not judgement.omissions,
            )
        )
    return views


def _flagged_spans(text: str, verdicts: Sequence[Verdict]) -> list[FlaggedSpan]:
    """Join neighbouring verdicts with the same label, kind, reason and correction. Verdicts on claims stay single."""
    spans: list[FlaggedSpan] = []
    plain: defaultdict[tuple[str | None, ...], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.claim or verdict.span.start == verdict.span.end:
            spans.append(FlaggedSpan(verdict.span, (verdict,)))
        else:
            plain[verdict.label, verdict.kind, verdict.reason, verdict.correction].append(verdict)
    for alike in plain.values():
        runs = merge(text, [verdict.span for verdict in alike])
        starts = [run.start for run in runs]
        members: list[list[Verdict]] = [[] for _ in runs]
        for verdict in alike:
            members[bisect_right(starts, verdict.span.start) - 1].append(verdict)
        spans += [FlaggedSpan(run, tuple(inside)) for run, inside in zip(runs, members, strict=True)]
    return sorted(spans, key=lambda flagged_span: flagged_span.span)


def label_and_kind(verdict: Verdict) -> str:
    """Return the label and the kind of error of a verdict, such as "contradiction · value".

    Return "" if the verdict has neither.

    >>> label_and_kind(Verdict(Span(0, 1), 1.0, "contradiction", kind="value"))
    'contradiction · value'
    """
    return " · ".join(part for part in (verdict.label, verdict.kind) if part)


def thresholds_text(thresholds: Thresholds, judgement: Judgement) -> str:
    """Write the thresholds as text, for the levels (such as "response" or "span") that the judgement scores.

    If all these thresholds are the same, the text is a single number.

    >>> thresholds_text(Thresholds(span=0.4), Judgement("1", "x", 0.3, 0.2))
    '0.50'
    >>> thresholds_text(Thresholds(coverage=0.4), Judgement("1", "x", 0.3, 0.2))
    'response 0.50, coverage 0.40'
    """
    scored = {
        Level.RESPONSE: judgement.hallucination is not None,
        Level.SPAN: bool(judgement.verdicts),
        Level.COVERAGE: judgement.omission is not None,
        Level.SOURCE: bool(judgement.omissions),
    }
    applied = {level: thresholds[level] for level in Level if scored[level]} or {Level.RESPONSE: thresholds.response}
    if len(set(applied.values())) == 1:
        return number(next(iter(applied.values())))
    return ", ".join(f"{level.value} {number(value)}" for level, value in applied.items())


def number(score: float, threshold: float | None = None) -> str:
    """Write a score with two decimals.

    If rounding would hide whether the score reaches the threshold, more decimals are shown.

    >>> number(0.4999, 0.5), number(0.25)
    ('0.4999', '0.25')
    """
    for digits in (2, 3, 4):
        rounded = f"{score:.{digits}f}"
        if threshold is None or (float(rounded) >= threshold) == (score >= threshold):
            return rounded
    return repr(score)


def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as text for people, such as "Not fully judged"."""
    return {
        Outcome.CLEAR: "Clear",
        Outcome.FLAGGED: "Flagged",
        Outcome.NO_CLAIM: "No claim",
        Outcome.UNJUDGED: "Not fully judged",
    }[outcome]
