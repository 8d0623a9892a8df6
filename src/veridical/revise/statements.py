"""The statements of a response as they can be mended: each with its place, its score and what is said against it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from veridical.core.decide import unjudged
from veridical.core.segment import sentences, words
from veridical.core.spans import Span
from veridical.core.types import Case, Claim, Judgement, Verdict

__all__ = ["Unit", "statements_of"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A claim, or a sentence where the detector knows no claims. `score` in [0, 1], 1 = hallucinated.

    `reasons` are what verdicts say against it; `correction` is what should stand in its place ("" = nothing).
    """

    span: Span
    text: str
    score: float
    reasons: tuple[str, ...] = ()
    correction: str | None = None


def statements_of(case: Case, judgement: Judgement) -> list[Unit]:
    """The statements that were judged whole, in order of their place; several claims may stand at one place.

    A verdict about a claim speaks of it alone; one without a claim (words, a citation) of the sentences it lies in,
    and where no verdict has a claim every sentence is a statement. A judge that only scores the whole response makes
    one statement of it.

    >>> case = Case("1", "It rains. It is 9 m tall.")
    >>> [(u.text, u.score) for u in statements_of(case, Judgement("1", "x", verdicts=(Verdict(Span(16, 17), 1.0),)))]
    [('It rains.', 0.0), ('It is 9 m tall.', 1.0)]
    """
    if not judgement.verdicts:
        return list(_whole(case, judgement))
    units: dict[tuple[Span, str], Unit] = {}
    claimed = [verdict for verdict in judgement.verdicts if verdict.claim]
    for verdict in claimed:
        _add(units, _place(verdict), verdict.claim.text if verdict.claim else "", verdict)
    found = [span for span in sentences(case.response) if words(span.of(case.response))]
    starts = [span.start for span in found]
    for verdict in (v for v in judgement.verdicts if not v.claim):
        first = max(0, bisect_right(starts, verdict.span.start) - 1)
        for span in (s for s in found[first:] if s.start < max(verdict.span.end, verdict.span.start + 1)):
            if span.end > verdict.span.start:
                _add(units, span, span.of(case.response), verdict)
    if not claimed:
        for span in found:
            units.setdefault((span, span.of(case.response)), Unit(span, span.of(case.response), 0.0))
    return _judged(case, judgement, sorted(units.values(), key=lambda unit: unit.span))


def _place(verdict: Verdict) -> Span:
    spans = verdict.claim.spans if isinstance(verdict.claim, Claim) else ()
    return Span(min(s.start for s in spans), max(s.end for s in spans)) if spans else verdict.span


def _add(units: dict[tuple[Span, str], Unit], span: Span, text: str, verdict: Verdict) -> None:
    """The worst verdict decides; what the others say against the statement is kept, too."""
    old = units.get((span, text), Unit(span, text, 0.0))
    said = [part for part in (verdict.label, verdict.reason) if part] if verdict.score > 0 else []
    reasons = dict.fromkeys([*old.reasons, *([": ".join(said)] if said else [])])
    worse = verdict.score >= old.score and verdict.correction is not None
    units[span, text] = replace(
        old,
        score=max(old.score, verdict.score),
        reasons=tuple(reasons),
        correction=verdict.correction if worse and verdict.claim else old.correction,
    )


def _judged(case: Case, judgement: Judgement, units: list[Unit]) -> list[Unit]:
    """What was flagged, and what is supported and was judged to its last word."""
    open_spans = unjudged(case, judgement)
    return [
        unit
        for unit in units
        if unit.score > 0 or not any(s.overlaps(unit.span) and words(s.of(case.response)) for s in open_spans)
    ]


def _whole(case: Case, judgement: Judgement) -> Iterator[Unit]:
    if judgement.hallucination is not None and judgement.judged != () and case.response.strip():
        text = case.response
        span = Span(len(text) - len(text.lstrip()), len(text.rstrip()))
        yield Unit(span, span.of(text), judgement.hallucination)
