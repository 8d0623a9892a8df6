"""Short answers are read with their question; what is scored lies in the answer."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors.default.rewriting import MOST_WORDS, with_question, without_question
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text.segment import words


def test_the_question_is_stated_before_a_short_answer() -> None:
    case, length = with_question(Case("1", "In 1950.", question="When was\nit built?"))
    assert case.response == 'The answer to "When was it built?" is In 1950.'
    assert case.response[length:] == "In 1950."


def test_without_a_question_or_with_a_whole_sentence_nothing_changes() -> None:
    for case in (
        Case("1", "Yes."),
        Case("2", "Yes.", question=" "),
        Case("3", "", question="Is it old?"),
        Case("4", "It was built in 1950 by two brothers.", question="When was it built?"),
        Case("5", "Yes.", question="Is it old? " * 100),
    ):
        assert with_question(case) == (case, 0)


@given(st.text(max_size=12), st.text(max_size=40))
def test_units_come_back_to_their_places(answer: str, question: str) -> None:
    case = Case("1", answer, question=question)
    stated, length = with_question(case)
    units = words(stated.response)
    logits = np.arange(len(units), dtype=np.float64)
    scored = without_question(ScoredResponse(units, logits, part_of=np.zeros(len(units), dtype=np.int64)), length)
    assert [unit.of(answer) for unit in scored.units] == [
        unit.of(stated.response) for unit in units if unit.start >= length
    ]
    assert len(scored.logits) == len(scored.part_of) == len(scored.units)
    assert length == 0 or len(words(answer)) <= MOST_WORDS
    assert all(Span(0, len(answer)).start <= unit.start and unit.end <= len(answer) for unit in scored.units)
