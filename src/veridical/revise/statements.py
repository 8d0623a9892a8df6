"""Read a judgement as statements of the response to revise: each with its span, its score and reasons against it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from veridical.core.decide import unjudged
from veridical.core.segment import has_words, sentences
from veridical.core.spans import Span
from veridical.core.types import Case, Judgement, Verdict

__all__ = ["Statement", "statements_of"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim, or a sentence if the detector gives no claims.

    Attributes:
        span: The characters of the response that make it.
        text: The claim's own words, or the sentence.
        score: In [0, 1], 1 = hallucinated.
        reasons: The reasons of verdicts against it.
        correction: The text that should replace it ("" = nothing); None if no verdict has one.
    """

    span: Span
    text: str
    score: float
    reasons: tuple[str, ...] = ()
    correction: str | None = None

    @property
    def critique(self) -> str:
        """The reasons against it as one text."""
        return "; ".join(self.reasons) or "not backed by the sources"


def statements_of(case: Case, judgement: Judgement) -> list[Statement]:
    """Return the statements of a judged response, in order; several claims may have the same span.

    A verdict about a claim counts for this claim only. A verdict without a claim (on words, or on a citation) counts
    for the sentences that it overlaps. If no verdict has a claim, every sentence is a statement; if there are no
    verdicts at all, the whole response is one. Statements that are partly unjudged are left out, unless flagged.

    >>> case = Case("1", "It rains. It is 9 m tall.")
    >>> [(s.text, s.score) for s in statements_of(case, Judgement("1", "x", verdicts=(Verdict(Span(16, 17), 1.0),)))]
    [('It rains.', 0.0), ('It is 9 m tall.', 1.0)]
    """
    text = case.response
    if not judgement.verdicts:
        if judgement.hallucination is None or judgement.judged == () or not text.strip():
            return []
        stripped = Span(len(text) - len(text.lstrip()), len(text.rstrip()))
        return [Statement(stripped, stripped.of(text), judgement.hallucination)]
    statements: dict[tuple[Span, str], Statement] = {}
    about_claims = [verdict for verdict in judgement.verdicts if verdict.claim]
    for verdict in sorted(about_claims, key=lambda v: v.label is not None):  # first verdicts on the claim itself
        assert verdict.claim is not None
        spans = verdict.claim.spans or (verdict.span,)
        span = Span(min(s.start for s in spans), max(s.end for s in spans))
        _add(statements, span, verdict.claim.text, verdict)
    all_sentences = [span for span in sentences(text) if has_words(span.of(text))]
    starts = [span.start for span in all_sentences]
    for verdict in (v for v in judgement.verdicts if not v.claim):
        first = max(0, bisect_right(starts, verdict.span.start) - 1)
        for span in (s for s in all_sentences[first:] if s.start < max(verdict.span.end, verdict.span.start + 1)):
            if span.end > verdict.span.start:
                _add(statements, span, span.of(text), verdict)
    if not about_claims:
        for span in all_sentences:
            statements.setdefault((span, span.of(text)), Statement(span, span.of(text), 0.0))
    gaps = [gap for gap in unjudged(case, judgement) if has_words(gap.of(text))]
    return [
        statement
        for statement in sorted(statements.values(), key=lambda statement: statement.span)
        if statement.score > 0 or not any(gap.overlaps(statement.span) for gap in gaps)
    ]


def _add(statements: dict[tuple[Span, str], Statement], span: Span, text: str, verdict: Verdict) -> None:
    """Count a verdict for a statement: the worst score decides, and all reasons against it are kept."""
    old = statements.get((span, text), Statement(span, text, 0.0))
    reason = ": ".join(part for part in (verdict.label, verdict.reason) if part) if verdict.score > 0 else ""
    worst = verdict.score >= old.score and verdict.correction is not None
    statements[span, text] = replace(
        old,
        score=max(old.score, verdict.score),
        reasons=tuple(dict.fromkeys([*old.reasons, *([reason] if reason else [])])),
        correction=verdict.correction if worst and verdict.claim else old.correction,
    )
