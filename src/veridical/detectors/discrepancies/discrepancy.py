"""The record of a discrepancy: words of a response that clearly differ from the sources, as found by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.detectors.explanation.kinds import CONTRADICTION
from veridical.records.spans import Span, furthest_end, overlapping
from veridical.records.types import Evidence, Source, Verdict
from veridical.text.segment import sentence_at, sentences


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Words or a value of a response that differ from the sources, as found by a rule.

    Attributes:
        span: The wrong words, in characters of the response.
        kind: The kind of error (`explanation.kinds.KINDS`).
        reason: What the sources say instead, or that no source says anything about it.
        correction: The text that should replace the wrong words. None if it is not clear.
        evidence: The source passage that contradicts the response. Empty if no source says anything about it.
        within: The span of the complete value, if only a part of it is wrong ("964" in "964 m").
    """

    span: Span
    kind: str
    reason: str
    correction: str | None = None
    evidence: tuple[Evidence, ...] = ()
    within: Span | None = None

    def verdict(self, score: float) -> Verdict:
        """Build the verdict on the wrong words, with a score in [0, 1].

        It has the label "contradiction" if there is evidence (a source passage that contradicts the words), and
        otherwise no label.
        """
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
    """Return the sentence of `source` in which `span` begins, as the single piece of evidence in a tuple."""
    return (Evidence(source.id, sentence_at(source.text, span.start)),)


def with_verdicts(
    text: str,
    found: Sequence[Discrepancy],
    words: Sequence[Verdict],
    scored: Sequence[Verdict] = (),
    at_least: float = 0.0,
) -> tuple[tuple[Verdict, ...], tuple[Verdict, ...]]:
    """Add verdicts on discrepancies to the verdicts on words and sentences of a response.

    A discrepancy and its sentence both get the score that the sentence had, but at least `at_least`. If the sentence
    had no score, both get 1. The verdict on a discrepancy replaces the verdicts on the words inside it. If a
    discrepancy extends beyond its sentence, the span of the sentence is extended.

    Args:
        text: The response.
        found: The discrepancies in the response, which are words that clearly differ from the sources.
        words: The verdicts on words.
        scored: The verdicts on sentences.
        at_least: The lowest score for a discrepancy in a scored sentence.

    Returns:
        The verdicts on words and discrepancies, and the verdicts on sentences.
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
