"""Read a short answer together with its question: "Yes." alone states nothing that sources could support."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from veridical.core.segment import words
from veridical.core.spans import Span
from veridical.core.types import Case
from veridical.detectors.tokens.scoring import ScoredResponse

__all__ = ["with_question", "without_question"]

MOST_WORDS = 5
_LONGEST_QUESTION = 400  # characters; a longer one is a task with its context


def with_question(case: Case) -> tuple[Case, int]:
    """Return the case with a response that states its question, and how many characters were put before the answer.

    The number is 0 where the case has no question, or an answer of more than `MOST_WORDS` words.

    >>> case, length = with_question(Case("1", "Yes.", question="Is it old?"))
    >>> case.response, case.response[length:]
    ('The answer to "Is it old?" is Yes.', 'Yes.')
    """
    question = " ".join((case.question or "").split())
    if not 0 < len(question) <= _LONGEST_QUESTION or not 0 < len(words(case.response)) <= MOST_WORDS:
        return case, 0
    stated = f'The answer to "{question}" is '
    return replace(case, response=stated + case.response), len(stated)


def without_question(scored: ScoredResponse, length: int) -> ScoredResponse:
    """Drop the units in the first `length` characters, and move the others to where they are in the answer."""
    if length == 0 or scored.problem:
        return scored
    inside = [i for i, unit in enumerate(scored.units) if unit.start >= length]
    return replace(
        scored,
        units=[Span(scored.units[i].start - length, scored.units[i].end - length) for i in inside],
        logits=scored.logits[inside],
        part_of=np.asarray(scored.part_of)[inside],
        features=None if scored.features is None else scored.features[inside],
    )
