"""Kinds of errors: which one a flagged sentence has, and when none is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.detectors.test_explanation import BERG, explain
from veridical.detectors.explanation import CONTRADICTION, REFERENCE, explained, kinds
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement, Source, Verdict
from veridical.text.mentions import SentenceIndex


@pytest.mark.parametrize(
    ("response", "flagged", "kind"),
    [
        ("She wrote 3,000 letters to her brother.", "3,000", "value"),
        ("The tower near Bergen is 330 feet tall.", "feet", "unit"),
        ("In May 1906 she sold 36 paintings.", "1906", "time"),
        ("Anna Stern was a Danish painter.", "Stern", "name"),
        ("She never wrote letters to her brother.", "never", "negation"),
        ("She is certain to have written letters to her brother.", "is certain to have", "status"),
        ("She wrote letters only if her brother asked.", "only if", "scope"),
        ("She sold the paintings before she came to Paris.", "before", "order"),
        ("She wrote to her brother because she missed their home.", "because she missed their home", "addition"),
        ("Her letters are read by `parse_letters()`.", "parse_letters()", REFERENCE),
    ],
)
def test_a_flagged_sentence_says_what_kind_of_error_it_has(response: str, flagged: str, kind: str) -> None:
    assert explain(response, flagged).kind == kind


def test_an_invented_reference_is_the_reason() -> None:
    assert explain("Read more in letters.csv today.", "letters.csv").reason == "no source has “letters.csv”"
    known = explain("Read more in letters.csv today.", "letters.csv", source="All is in letters.csv now.")
    assert known.kind != REFERENCE


def test_what_the_detector_says_stays() -> None:
    assert explain("She wrote 3,000 letters to her brother.", "3,000", kind="mine").kind == "mine"


def test_what_a_source_contradicts_is_no_addition(monkeypatch: pytest.MonkeyPatch) -> None:
    certain = {kind: 0.9 if kind == kinds.ADDITION else 0.01 for kind in kinds.LEARNED}
    monkeypatch.setattr(kinds, "probabilities", lambda values: certain | {"value": 0.02})
    lacking = explain("She wrote dreary letters to her brother.", "dreary")
    assert (lacking.label, lacking.kind) == (None, kinds.ADDITION)
    monkeypatch.setattr(kinds, "_CLEAR", 0.1)
    contradicted = explain("She wrote 3,000 letters to her brother.", "3,000")
    assert (contradicted.label, contradicted.kind) == (CONTRADICTION, "value")


def test_what_is_not_clear_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (sentence,) = SentenceIndex(["She wrote 3,000 letters."]).sentences
    sources, parts = SentenceIndex([BERG]), [Span(10, 15)]
    assert kinds.kind_of_error(sources, sentence, parts) == "value"
    monkeypatch.setattr(kinds, "_CLEAR", 1.1)
    assert kinds.kind_of_error(sources, sentence, parts) is None


@given(
    st.text(max_size=60), st.text(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=4)
)
def test_any_text_has_features_and_probabilities(response: str, source: str, places: list[tuple[int, int]]) -> None:
    parts = [Span(start, start + size) for start, size in places]
    for sentence in SentenceIndex([response]).sentences:
        values = kinds.features(SentenceIndex([source]), sentence, parts)
        assert all(0 <= value <= 1 for value in values.values())
        by_kind = kinds.probabilities(values)
        assert tuple(by_kind) == kinds.LEARNED
        assert sum(by_kind.values()) == pytest.approx(1)


def test_what_no_source_has_is_not_turned_round() -> None:
    source = "Repairs are free in the first two years. Send the item with its receipt to our workshop in Lyon."
    response = "Repairs are free in the first two years. We also collect the item from your home."
    case = Case("1", response, (Source("a", source),))
    spans = [Span(response.index(word), response.index(word) + len(word)) for word in ("collect", "from your home")]
    judged = Judgement("1", "x", 0.9, verdicts=tuple(Verdict(span, 0.9) for span in spans))
    verdicts = explained(case, judged, contradicted=[(Span(41, len(response)), 0.05)]).verdicts
    assert {verdict.label for verdict in verdicts} == {"absence"}
    assert {verdict.kind for verdict in verdicts} <= {None, "addition"}


def test_the_kind_of_a_whole_sentence_in_an_unknown_language_is_not_told() -> None:
    response, source = "Paul legte Marie den Brief hin.", "Marie legte Paul den Brief hin."
    assert explain(response, response, source=source).kind is None
    english = "She does not write letters."
    assert explain(english, english, source="She writes letters to Paul.").kind == "negation"
