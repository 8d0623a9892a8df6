"""Turn a judgement into a list of statements, each with its span, its score and the reasons against it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from veridical.records.decide import decide, unjudged
from veridical.records.spans import Span, overlapping
from veridical.records.types import Case, Judgement, Thresholds, Verdict
from veridical.text.segment import has_words, sentences
from veridical.text.segment import words as words_of

_BETWEEN = 1  # most unflagged words between the flagged words of one value ("May" in "3 May 2021")


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim of the response, or a sentence if the detector gives no claims.

    Attributes:
        span: The characters of the response that make the statement.
        text: The claim in its own words, or the sentence.
        score: The hallucination score in [0, 1], where 1 means hallucinated.
        unsupported: True if the statement or some words in it are flagged, because a score reaches its threshold.
        reasons: The reasons that the detector gives against the statement.
        corrections: The spans to replace, each with its new text ("" deletes the span). Together they correct all
            flagged parts of the statement. Empty if a flagged part has no correction.
    """

    span: Span
    text: str
    score: float
    unsupported: bool = False
    reasons: tuple[str, ...] = ()
    corrections: tuple[tuple[Span, str], ...] = ()

    @property
    def critique(self) -> str:
        """The reasons against the statement, joined to one text."""
        return "; ".join(self.reasons) or "not backed by the sources"


def statements_of(case: Case, judgement: Judgement, thresholds: Thresholds | None = None) -> list[Statement]:
    """List the statements of a judged response, in order. Several claims may have the same span.

    A verdict is the detector's score of a span. If verdicts have claims, each claim is a statement. If no verdict has a
    claim, each sentence is a statement. A verdict without a claim (on words, or on a citation) is added to the
    sentences that it overlaps. If there are no verdicts at all, the whole response is a single statement.

    A statement is not listed if a part of it was not judged, unless its score is above 0.

    >>> case = Case("1", "It rains. It is 9 m tall.")
    >>> [(s.text, s.score) for s in statements_of(case, Judgement("1", "x", verdicts=(Verdict(Span(16, 17), 1.0),)))]
    [('It rains.', 0.0), ('It is 9 m tall.', 1.0)]
    """
    text, decision = case.response, decide(case, judgement, thresholds)
    if not judgement.verdicts:
        if judgement.hallucination is None or judgement.judged == () or not text.strip():
            return []
        stripped = Span(len(text) - len(text.lstrip()), len(text.rstrip()))
        return [Statement(stripped, stripped.of(text), judgement.hallucination, bool(decision.hallucination))]
    flagged = set(decision.verdicts)
    verdicts: defaultdict[tuple[Span, str], list[tuple[Verdict, bool]]] = defaultdict(list)
    about_claims = [(v, i in flagged) for i, v in enumerate(judgement.verdicts) if v.claim]
    about_claims.sort(key=lambda pair: pair[0].label is not None)  # the claim's own first
    for verdict, is_flagged in about_claims:
        assert verdict.claim is not None
        spans = verdict.claim.spans or (verdict.span,)
        span = Span(min(s.start for s in spans), max(s.end for s in spans))
        verdicts[span, verdict.claim.text].append((verdict, is_flagged))
    all_sentences = [span for span in sentences(text) if has_words(span.of(text))]
    starts = [span.start for span in all_sentences]
    for i, verdict in enumerate(judgement.verdicts):
        if verdict.claim:
            continue
        first = max(0, bisect_right(starts, verdict.span.start) - 1)
        for span in all_sentences[first : bisect_left(starts, max(verdict.span.end, verdict.span.start + 1))]:
            if span.end > verdict.span.start:
                verdicts[span, span.of(text)].append((verdict, i in flagged))
    if not about_claims:
        for span in all_sentences:
            verdicts[span, span.of(text)] += []
    gaps = [gap for gap in unjudged(case, judgement) if has_words(gap.of(text))]
    statements = [_statement(text, span, words, given) for (span, words), given in verdicts.items()]
    return [
        statement
        for statement in sorted(statements, key=lambda statement: statement.span)
        if statement.score > 0 or not overlapping(gaps, statement.span)
    ]


def _statement(text: str, span: Span, words: str, verdicts: Sequence[tuple[Verdict, bool]]) -> Statement:
    """Build the statement with the text `words` from its verdicts, each paired with whether it is flagged."""
    against = [verdict for verdict, is_flagged in verdicts if is_flagged]
    reasons = (": ".join(filter(None, (v.label, v.reason))) for v, _ in verdicts if v.score > 0)
    return Statement(
        span,
        words,
        max((verdict.score for verdict, _ in verdicts), default=0.0),
        bool(against),
        tuple(dict.fromkeys(filter(None, reasons))),
        tuple(_corrections(text, span, against)),
    )


def _corrections(text: str, span: Span, flagged: Sequence[Verdict]) -> list[tuple[Span, str]]:
    """List the spans to replace, each with its new text. Return [] if a flagged verdict has no correction.

    The correction of a claim replaces the whole claim. Neighbouring words with the same correction and the same reason
    are replaced together.
    """
    if not flagged or any(verdict.correction is None for verdict in flagged):
        return []
    if flagged[0].claim:
        return [(span, max(flagged, key=lambda verdict: verdict.score).correction or "")]
    parts: list[tuple[Span, Verdict]] = []
    for verdict in sorted(flagged, key=lambda verdict: verdict.span):
        if parts:
            span_so_far, last = parts[-1]
            between = words_of(text[span_so_far.end : verdict.span.start])
            if (last.correction, last.reason) == (verdict.correction, verdict.reason) and len(between) <= _BETWEEN:
                parts[-1] = Span(span_so_far.start, max(span_so_far.end, verdict.span.end)), verdict
                continue
        parts.append((verdict.span, verdict))
    return [(span_so_far, verdict.correction or "") for span_so_far, verdict in parts]
