"""A place in a response that clearly differs from the sources, as found by a rule."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from veridical.detectors.explanation.kinds import CONTRADICTION
from veridical.records.spans import Span, furthest_end, overlapping
from veridical.records.types import Evidence, Source, Verdict
from veridical.text.segment import sentences


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A place in a response that differs from the sources, with what the sources say instead.

    Attributes:
        span: The place, in characters of the response.
        kind: The kind of error (`explanation.kinds.KINDS`).
        reason: What the sources say instead, or that no source says anything about it.
        correction: The right text for this place. None if it is not clear.
        evidence: The source passage that contradicts the response. Empty if no source says anything about it.
        within: The whole value, if only this part of the value is wrong.
    """

    span: Span
    kind: str
    reason: str
    correction: str | None = None
    evidence: tuple[Evidence, ...] = ()
    within: Span | None = None

    def verdict(self, score: float) -> Verdict:
        """Build the verdict on this place, with a score in [0, 1]."""
        return Verdict(
            self.span,
            score,
            CONTRADICTION if self.evidence else None,
            evidence=self.evidence,
            reason=self.reason,
            correction=self.correction,
            kind=self.kind,
        )


def passage(source: Source, span: Span) -> tuple[Evidence, ...]:
    """Return the source sentence that contains the beginning of `span`, as evidence."""
    return (Evidence(source.id, sentence_at(source.text, span.start)),)


def sentence_at(text: str, position: int) -> Span:
    """Return the sentence of a text that holds the character at `position`."""
    spans = sentences(text)
    i = bisect_right(spans, position, key=lambda sentence: sentence.start) - 1
    return spans[max(i, 0)]


def with_verdicts(
    text: str,
    found: Sequence[Discrepancy],
    words: Sequence[Verdict],
    scored: Sequence[Verdict] = (),
    at_least: float = 0.0,
) -> tuple[tuple[Verdict, ...], tuple[Verdict, ...]]:
    """Add the verdicts on discrepancies to the verdicts on words and on sentences.

    A discrepancy and its sentence get the score of the sentence, but at least `at_least`. If the sentence has no score,
    both get 1. The verdict on a discrepancy replaces the verdicts on the words inside it. If a discrepancy goes beyond
    its sentence, the sentence is extended.

    Return the verdicts on words and discrepancies, and the verdicts on sentences.
    """
    spans = sentences(text)
    sentences_scored: list[Verdict] = []
    first_of: dict[Span, int] = {}  # the first scored sentence that overlaps each sentence of the text

    def put(i: int, sentence: Verdict) -> None:
        sentences_scored[i : i + 1] = [sentence]
        for around in overlapping(spans, sentence.span):
            first_of[around] = min(i, first_of.get(around, i))

    for i, sentence in enumerate(scored):
        put(i, sentence)
    added = []
    for each in found:
        i = first_of.get(sentence_at(text, each.span.start), len(sentences_scored))
        if i == len(sentences_scored):
            added.append(each.verdict(1.0))
            put(i, Verdict(each.span, 1.0))  # a link alone makes no claim otherwise
        else:
            span, score = sentences_scored[i].span, max(sentences_scored[i].score, at_least)
            put(i, Verdict(Span(min(span.start, each.span.start), max(span.end, each.span.end)), score))
            added.append(each.verdict(score))
    end_before = furthest_end(each.within or each.span for each in found)
    others = [word for word in words if end_before(word.span.start + 1) < word.span.end]
    verdicts = tuple(sorted((*others, *added), key=lambda verdict: verdict.span))
    return verdicts, tuple(sorted(sentences_scored, key=lambda sentence: sentence.span))
