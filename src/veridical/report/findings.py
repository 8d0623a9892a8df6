"""What a reader is told of one judgement: flagged words as numbered findings, what was left out, what was not judged.

Shared by the terminal and the page, so that both say the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from veridical.core.decide import flagged, merge, omitted, unjudged
from veridical.core.spans import Span
from veridical.core.types import (
    Case,
    Checked,
    Decision,
    Evidence,
    Judgement,
    Level,
    Omission,
    Outcome,
    Thresholds,
    Verdict,
    check_judgement,
)

__all__ = ["Finding", "Reading", "number", "read", "readings", "thresholds_text", "wording"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Flagged words of the response that read as one, with the verdicts behind them."""

    span: Span
    verdicts: tuple[Verdict, ...]

    @property
    def bare(self) -> bool:
        """Whether it only says which words: no claim, correction or evidence of its own."""
        first = self.verdicts[0]
        return not (first.claim or self.evidence) and first.correction is None

    @property
    def saying(self) -> str:
        """Its label and reason as one line, "" where it has neither."""
        first = self.verdicts[0]
        return " · ".join(part for part in (first.label, first.reason) if part)

    @property
    def score(self) -> float:
        """The highest score of its verdicts."""
        return max(verdict.score for verdict in self.verdicts)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The evidence of its verdicts, each place once, heaviest first."""
        heaviest: dict[tuple[str, Span], Evidence] = {}
        for evidence in (e for verdict in self.verdicts for e in verdict.evidence):
            place = (evidence.source_id, evidence.span)
            if place not in heaviest or evidence.weight > heaviest[place].weight:
                heaviest[place] = evidence
        return tuple(sorted(heaviest.values(), key=lambda e: -e.weight))


@dataclass(frozen=True, slots=True)
class Reading:
    """One judgement and what was decided on it, ready to be shown. `unjudged` are spans of the response.

    `coverage_unknown` says that sources had to be covered and the detector is silent on whether they were.
    """

    judgement: Judgement
    decision: Decision
    findings: tuple[Finding, ...]
    omissions: tuple[Omission, ...]
    unjudged: tuple[Span, ...]
    coverage_unknown: bool


def readings(checked: Checked) -> list[Reading]:
    """One reading for each judgement of `checked`; `InputError` or `SpanError` where one does not fit its case."""
    return [read(checked.case, j, d) for j, d in zip(checked.judgements, checked.decisions, strict=True)]


def read(case: Case, judgement: Judgement, decision: Decision) -> Reading:
    """The judgement of `case` and what was decided on it, ready to be shown."""
    check_judgement(case, judgement)
    order = {source.id: i for i, source in enumerate(case.sources)}
    missing = sorted(omitted(judgement, decision), key=lambda o: (order[o.source_id], o.span))
    return Reading(
        judgement=judgement,
        decision=decision,
        findings=tuple(_findings(case.response, flagged(judgement, decision))),
        omissions=tuple(missing),
        unjudged=tuple(unjudged(case, judgement)),
        coverage_unknown=any(s.must_cover for s in case.sources)
        and judgement.omission is None
        and not judgement.omissions,
    )


def _findings(text: str, verdicts: Sequence[Verdict]) -> list[Finding]:
    """Verdicts that only say which words and share label and reason are joined to runs; the others stand alone."""
    plain: defaultdict[tuple[str | None, str | None], list[Verdict]] = defaultdict(list)
    found: list[Finding] = []
    for verdict in verdicts:
        if verdict.correction is not None or verdict.claim or verdict.span.start == verdict.span.end:
            found.append(Finding(verdict.span, (verdict,)))
        else:
            plain[verdict.label, verdict.reason].append(verdict)
    for same in plain.values():
        runs = merge(text, [verdict.span for verdict in same])
        starts = [run.start for run in runs]
        members: list[list[Verdict]] = [[] for _ in runs]
        for verdict in same:
            members[bisect_right(starts, verdict.span.start) - 1].append(verdict)
        found += [Finding(run, tuple(inside)) for run, inside in zip(runs, members, strict=True)]
    return sorted(found, key=lambda finding: finding.span)


def thresholds_text(thresholds: Thresholds, judgement: Judgement) -> str:
    """The thresholds that apply to what the judgement scores: one number where they are the same.

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
    """`score` with two decimals, or more where rounding would hide on which side of `threshold` it lies.

    >>> number(0.4999, 0.5), number(0.25)
    ('0.4999', '0.25')
    """
    for digits in (2, 3, 4):
        shown = f"{score:.{digits}f}"
        if threshold is None or (float(shown) >= threshold) == (score >= threshold):
            return shown
    return repr(score)


def wording(outcome: Outcome) -> str:
    """The words for an outcome."""
    return {
        Outcome.CLEAR: "Clear",
        Outcome.FLAGGED: "Flagged",
        Outcome.UNJUDGED: "Not fully judged",
    }[outcome]
