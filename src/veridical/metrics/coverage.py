"""From an example and a judgement to what of the sources was left out: one pair a case, one a source, one a word.

Only sources that must be covered count. Where a side says nothing about coverage the answer is None: the case does
not count and is reported as not judged. Gold is positive from 0.5 on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veridical.core.types import GOLD_THRESHOLD, Example, Judgement, check_judgement
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.tokens import any_in, highest_in, scores_of_characters, word_units

__all__ = ["coverage_pair", "omitted_sources", "source_words"]


def _omission_score(judgement: Judgement) -> float | None:
    if judgement.omission is not None:
        return judgement.omission
    return max((o.score for o in judgement.omissions), default=None)


def coverage_pair(example: Example, judgement: Judgement) -> tuple[bool, float] | None:
    """Whether gold says that something was left out, and the predicted score of that; None where a side does not say.

    The response-level omission score, else the highest omission.

    >>> from veridical.core.types import Case
    >>> example = Example(Case("1", "a"), Judgement("1", "human:a", omission=0.0))
    >>> coverage_pair(example, Judgement("1", "me", omission=0.3))
    (False, 0.3)
    """
    check_judgement(example.case, judgement)
    gold, score = _omission_score(example.gold), _omission_score(judgement)
    return None if gold is None or score is None else (gold >= GOLD_THRESHOLD, score)


def _says_which(judgement: Judgement) -> bool:
    """Whether it says which sources were left out: it lists some, or says that there are none."""
    return bool(judgement.omissions) or (judgement.omission is not None and judgement.omission < GOLD_THRESHOLD)


def omitted_sources(example: Example, judgement: Judgement, threshold: float) -> tuple[Bools, Bools] | None:
    """For each source that must be covered, whether gold and the prediction call it (or part of it) omitted.

    None where there is no such source or a side does not say which.

    >>> from veridical.core.types import Case, Omission, Source, Span
    >>> case = Case("1", "a", (Source("pro", "yes", must_cover=True), Source("con", "no", must_cover=True)))
    >>> gold = Judgement("1", "human:a", omissions=(Omission("con", Span(0, 2), 1.0),))
    >>> omitted_sources(Example(case, gold), Judgement("1", "me", omission=0.2), 0.5)
    (array([False,  True]), array([False, False]))
    """
    check_judgement(example.case, judgement)
    wanted = [source.id for source in example.case.sources if source.must_cover]
    if not wanted or not (_says_which(example.gold) and _says_which(judgement)):
        return None
    gold = {o.source_id for o in example.gold.omissions if o.score >= GOLD_THRESHOLD}
    found = {o.source_id for o in judgement.omissions if o.score >= threshold}
    return np.array([id in gold for id in wanted]), np.array([id in found for id in wanted])


def source_words(
    example: Example, judgement: Judgement, *, is_stop_word: Callable[[str], bool] | None = None
) -> tuple[Bools, Floats] | None:
    """Gold label and score of each word of the sources that must be covered (A §5.3); None where a side does not say.

    >>> from veridical.core.types import Case, Omission, Source, Span
    >>> case = Case("1", "a", (Source("pro", "very good", must_cover=True),))
    >>> gold = Judgement("1", "human:a", omissions=(Omission("pro", Span(5, 9), 1.0),))
    >>> source_words(Example(case, gold), gold)
    (array([False,  True]), array([0., 1.]))
    """
    check_judgement(example.case, judgement)
    wanted = [source for source in example.case.sources if source.must_cover]
    if not wanted or not (_says_which(example.gold) and _says_which(judgement)):
        return None
    labels, scores = [np.zeros(0, dtype=np.bool_)], [np.zeros(0)]
    for source in wanted:
        units = word_units(source.text, is_stop_word=is_stop_word)
        gold, score = (
            scores_of_characters(len(source.text), ((o.span, o.score) for o in j.omissions if o.source_id == source.id))
            for j in (example.gold, judgement)
        )
        labels.append(any_in(gold >= GOLD_THRESHOLD, units))
        scores.append(highest_in(score, units))
    return np.concatenate(labels), np.concatenate(scores)
