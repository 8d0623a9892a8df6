"""Short answers are read with their question, where the sources have them; what is scored lies in the answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.detectors.default_artifact import tiny_default
from veridical.detectors.default.detector import Default
from veridical.detectors.default.rules import score
from veridical.detectors.default.short_answers import (
    MOST_WORDS,
    answer_in,
    in_its_places,
    with_question,
    without_question,
)
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.inference.artifact import DETECTOR
from veridical.records.spans import Span
from veridical.records.types import Case, Source
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


LIBRARIES = Source("s", "It rains. The old library opened in 1913. It burnt down in 1930. The new one opened in 1931.")
WHEN = "When did the new library open?"
WHO = "Who designed the new library?"


def places(answer: str, *sources: Source, question: str | None = WHEN) -> list[str]:
    case = Case("1", answer, sources or (LIBRARIES,), question)
    found = in_its_places(case)
    assert all(replace(each, sources=case.sources) == case for each in found), "only the sources change"
    return [source.text for each in found for source in each.sources]


def test_a_short_answer_is_read_where_the_sources_have_it() -> None:
    assert places("1913") == ["It rains. The old library opened in 1913."]
    assert places("During 1931.") == [], "the source says it in other words"
    assert places("In 1931.") == ["It burnt down in 1930. The new one opened in 1931."]
    assert places("THE OLD  LIBRARY") == ["It rains. The old library opened in 1913."]
    assert places("brary") == [], "a part of a word"
    other = Source("t", "In 1913, the market opened.")
    assert places("1913", LIBRARIES, other) == ["It rains. The old library opened in 1913.", other.text], (
        "that with more words of the question first"
    )


def test_other_answers_are_read_with_the_whole_sources() -> None:
    assert places("1913", question=None) == []
    assert places("1913", question="When? " * 100) == []
    assert places("It opened in 1913, on a Monday") == []
    assert places("No.", Source("s", "There is no library.")) == []
    assert places("1913", Source("s", "| library | opened |\n| --- | --- |\n| old | 1913 |")) == []
    assert places("1913", Source("s", '{"opened": 1913}')) == []


def test_of_many_places_those_near_the_question_are_read() -> None:
    often = " ".join(f"Train {n} left at noon in 1931." for n in range(100))
    found = places("1931", Source("s", f"{often} The new library opened in 1931. {often}"))
    assert len(found) == 8
    assert found[0].endswith("The new library opened in 1931.")


def test_a_place_in_a_long_sentence_is_cut_around_the_answer() -> None:
    (text,) = places("1931", Source("s", f"{'very ' * 500}new, it opened in 1931, {'soon ' * 500}."))
    assert 100 < len(text) < 600
    assert "it opened in 1931, soon" in text


def test_the_best_place_of_a_short_answer_counts(tmp_path: Path) -> None:
    detector = Default(tiny_default(tmp_path / "detector"))
    sources = (LIBRARIES, Source("t", "In 1913, the market opened."))
    case = Case("1", "1913", sources, WHEN)
    of_places = score(detector.scorer, [replace(case, sources=each.sources) for each in in_its_places(case)])
    (scored,) = score(detector.scorer, [case])
    assert len({each.whole for each in of_places}) == 2
    assert scored.whole == min(each.whole for each in of_places)
    assert [unit.of("1913") for unit in scored.units] == ["1913"]
    document = json.loads((tmp_path / "detector" / DETECTOR).read_text())
    document["short answer"] = {"kind": "platt", "slope": 0.5, "intercept": 1.0}
    (tmp_path / "detector" / DETECTOR).write_text(json.dumps(document))
    (judgement,) = Default(tmp_path / "detector").judge([case])
    assert judgement.hallucination == pytest.approx(1 / (1 + np.exp(-0.5 * scored.whole - 1.0)))


@pytest.mark.parametrize(
    ("response", "question", "wanted"),
    [
        ("The new library opened in 1931.", WHEN, "1931"),
        ("The new library was designed by Anna Berg.", WHO, "Anna Berg"),
        ("It was opened in the year 1931.", WHEN, "1931"),
        ("Rain had flooded the old market in 1931.", WHEN, None),  # it answers another question
        ("It opened in 1931, after the fire of 1930.", WHEN, None),
        ("It did not open in 1931, I think.", WHEN, None),
        ("It opened. That was in 1931.", WHEN, None),
        ("The new library opened in 1931.", "Which library opened in 1931?", None),
        ("The new library opened in 1931.", None, None),
        ("1931.", WHEN, None),  # it is the whole response
        # a name of more words than a short answer has
        ("It was Royal Welsh Stained Glass Painters Guild Hall.", WHO, None),
        (f"The {'very ' * 20}new library opened in 1931.", WHEN, None),
    ],
)
def test_the_answer_in_a_statement_is_what_the_question_lacks(
    response: str, question: str | None, wanted: str | None
) -> None:
    found = answer_in(Case("1", response, (LIBRARIES,), question))
    assert (found and found.of(response)) == wanted


def test_the_answer_in_a_statement_is_also_read_as_a_short_answer(tmp_path: Path) -> None:
    folder = tiny_default(tmp_path / "detector")
    case = Case("1", "The new library opened in 1913.", (LIBRARIES,), WHEN)
    plain = Default(folder, without=frozenset({"answer"}))
    (short,) = score(plain.scorer, [replace(case, response="1913")])
    (scored,) = score(plain.scorer, [case])
    assert scored.answer is not None
    assert (scored.answer[0], scored.answer[1].whole) == (Span(26, 30), short.whole)
    (before,) = plain.judge([case])
    document = json.loads((folder / DETECTOR).read_text())
    for intercept, low in ((9.0, False), (-9.0, True)):
        document["short answer"] = {"kind": "platt", "slope": 0.01, "intercept": intercept}
        (folder / DETECTOR).write_text(json.dumps(document))
        (judgement,) = Default(folder).judge([case])
        word = next(each for each in judgement.verdicts if each.span == Span(26, 30))
        assert before.hallucination is not None
        assert judgement.hallucination is not None
        assert (judgement.hallucination < before.hallucination) == low
        assert low or word.score == judgement.hallucination > max(0.9, before.hallucination)
