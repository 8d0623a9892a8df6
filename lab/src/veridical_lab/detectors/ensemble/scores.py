"""The scores of several members for the same items: the response, its words, coverage, and the words to cover.

One column per member, NaN if it was not asked, could not judge or left the item out. Words (`core.segment.words`) are
the common unit. A member's score of a word is the highest of its verdicts on it, and 0 for a judged word without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from veridical.calibration.thresholding import with_response_scores
from veridical.core.spans import Span
from veridical.core.types import Case, Evidence, Judgement, Omission, Verdict, judged_source_spans, judged_spans
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.tokens import Units, any_in, highest_in, mask, scores_of_characters, word_units

__all__ = ["WordScores", "coverage_scores", "evidence_by_word", "response_scores", "source_word_scores", "word_scores"]

Judgements = Sequence[Judgement | None]


@dataclass(frozen=True, slots=True, eq=False)
class WordScores:
    """The words of one text, with the scores of each member.

    Attributes:
        units: The words. *Shape:* (words, 2)
        scores: The scores, in [0, 1] or NaN. *Shape:* (words, members)
        named: Whether a verdict or omission of any member is about the word. *Shape:* (words,)
    """

    units: Units
    scores: Floats
    named: Bools

    def spans(self) -> list[Span]:
        """Return the words as spans."""
        return [Span(start, end) for start, end in self.units.tolist()]


def response_scores(judgements: Judgements) -> Floats:
    """Return each member's score of the response, or its highest verdict without one. *Shape:* (members,)"""
    scores = [None if j is None or j.judged == () else with_response_scores(j).hallucination for j in judgements]
    return np.array([np.nan if score is None else score for score in scores], dtype=np.float64)


def coverage_scores(judgements: Judgements) -> Floats:
    """Return each member's omission score, or its highest omission without one. *Shape:* (members,)"""
    scores = [None if j is None else with_response_scores(j).omission for j in judgements]
    return np.array([np.nan if score is None else score for score in scores], dtype=np.float64)


def word_scores(case: Case, judgements: Judgements) -> WordScores:
    """Return the words of the response with each member's scores."""
    return _scores_of_words(
        case.response,
        [None if j is None or not _has_score(j) else (j.verdicts, judged_spans(case, j)) for j in judgements],
    )


def source_word_scores(case: Case, judgements: Judgements) -> dict[str, WordScores]:
    """Return the words of each source that must be covered, by source id, with each member's scores."""
    judged = [None if j is None or not _has_coverage(j) else (j, judged_source_spans(case, j)) for j in judgements]
    tables = {}
    for source in case.sources:
        if source.must_cover:
            parts = [
                None if each is None else ([o for o in each[0].omissions if o.source_id == source.id], each[1])
                for each in judged
            ]
            tables[source.id] = _scores_of_words(
                source.text, [None if part is None else (part[0], part[1][source.id]) for part in parts]
            )
    return tables


def _has_score(judgement: Judgement) -> bool:
    """Return whether the judgement scores the response; coverage alone does not count."""
    return judgement.hallucination is not None or bool(judgement.verdicts or judgement.judged)


def _has_coverage(judgement: Judgement) -> bool:
    return judgement.omission is not None or bool(judgement.omissions)


def _scores_of_words(
    text: str, members: Sequence[tuple[Sequence[Verdict] | Sequence[Omission], list[Span]] | None]
) -> WordScores:
    units = word_units(text)
    scores = np.full((len(units), len(members)), np.nan)
    named = np.zeros(len(units), dtype=bool)
    for column, member in enumerate(members):
        if member is None or not len(units):
            continue
        items, judged = member
        inside = any_in(mask(len(text), judged), units)
        highest = highest_in(scores_of_characters(len(text), ((item.span, item.score) for item in items)), units)
        scores[inside, column] = highest[inside]
        named |= any_in(mask(len(text), (item.span for item in items)), units) & inside
    return WordScores(units, scores, named)


def evidence_by_word(units: Units, verdicts: Iterable[Verdict]) -> list[tuple[Evidence, ...]]:
    """Return the evidence of the verdicts on each word, every place once. *Shape:* (words,)"""
    places: list[dict[tuple[str, Span], Evidence]] = [{} for _ in units]
    for verdict in verdicts:
        first = int(np.searchsorted(units[:, 1], verdict.span.start, side="right"))
        for word in range(first, int(np.searchsorted(units[:, 0], verdict.span.end, side="left"))):
            for evidence in verdict.evidence:
                places[word].setdefault((evidence.source_id, evidence.span), evidence)
    return [tuple(by_place.values()) for by_place in places]
