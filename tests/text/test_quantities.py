"""What counts as the same value, and what must not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.value_pairs import DIFFERENT, LESS, SAME
from veridical.detectors.overlap.detector import Overlap
from veridical.records.types import Case, Source
from veridical.text import quantities as values


def score(response: str, source: str) -> float | None:
    return Overlap(words="values").judge([Case("1", response, (Source("1", source),))])[0].hallucination


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_same_value_both_ways(a: str, b: str) -> None:
    assert (score(a, b), score(b, a)) == (0.0, 0.0)


@pytest.mark.parametrize(("less", "more"), LESS)
def test_the_less_specific_is_supported_and_not_the_other_way_round(less: str, more: str) -> None:
    assert (score(less, more), score(more, less)) == (0.0, 1.0)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_another_value(a: str, b: str) -> None:
    assert score(a, b) not in (None, 0.0)
    assert score(b, a) not in (None, 0.0)


def test_the_table_of_pairs_is_read() -> None:
    assert len(SAME) + len(LESS) + len(DIFFERENT) >= 245


def test_what_a_form_needs_is_in_all_of_its_words() -> None:
    texts = [values.fold(text) for pairs in (SAME, LESS, DIFFERENT) for pair in pairs for text in pair]
    words = {word for text in texts for word in re.findall(values.PATTERN, text)}
    for form, needed in values._NEEDS.items():
        own = [word for word in words if values._compiled(values._FORMS[form]).fullmatch(word)]
        assert own
        assert all(re.search(needed, word) for word in own)


def test_a_number_of_any_length_is_read() -> None:
    assert score("1" * 5000, "1" * 5000) == 0.0
    assert score("1" * 5000, "1" * 4999) == 1.0


def test_a_value_is_one_word() -> None:
    text = "About 1.2 thousand of the 23-year-old men paid $5m on 3 May, 2021."
    verdicts = Overlap(words="values").judge([Case("1", text, (Source("1", "x"),))])[0].verdicts
    assert [v.span.of(text) for v in verdicts] == ["1.2 thousand", "23-year-old", "men", "paid", "$5m", "3 May, 2021"]


PIECES = st.lists(
    st.sampled_from(
        [
            *"0123459",
            ",",
            ".",
            "-",
            "–",
            ":",
            "/",
            " ",
            "\n",
            "$",
            "%",
            "m",
            "km",
            " may ",
            "twenty",
            "one",
            " and ",
            "hundred",
            "million",
            "u.s.",
            "st",
            "year-old",
            "pm",
            "a ",
            "é",
            "一",
            "½",
            "٣",
            "half",
            " a third",
            "minus ",
            "between ",
            " to ",
            " in ",
            "version ",
            "#",
            "€",
            "eur ",
            "h",
            " and a half",
            " hour",
            " min",
            "'",
            "s",
            "\u2009",
        ]
    ),
    max_size=14,
).map("".join)


@given(PIECES)
def test_whatever_is_found_can_be_read_alone(text: str) -> None:
    """What a pattern finds in its text, the reader reads without it: keys and what they imply agree."""
    for match in re.finditer(values.PATTERN, text):
        assert match[0]
        assert values.keys(match[0])
        assert set(values.keys(match[0])) <= set(values.implies(match[0]))


@given(PIECES)
def test_a_text_supports_itself(text: str) -> None:
    assert score(text, text) in (None, 0.0)


@pytest.mark.parametrize(
    "form", ["{}", "{}.5", ".{}", "0.{}", "${}", "-{}", "{}%", "{} km", "{} million", "{}th", "{}-{}", "1,{}"]
)
@pytest.mark.parametrize("digits", [400, 4299, 4301, 100_000])
def test_a_number_of_any_length_is_a_value(form: str, digits: int) -> None:
    one, other = (form.format(*[digit * digits] * 2) for digit in "78")
    assert re.fullmatch(values.PATTERN, one)
    assert values.keys(one) == values.keys(one) != values.keys(other)
    assert set(values.keys(one)) <= set(values.implies(one))


def test_the_ends_of_a_range_in_words_may_be_stated_apart() -> None:
    assert score("1901 to 1911", "from 1901 until 1911") == 0.0
    assert score("between 3 and 5 km", "3 km, at most 5 km") == 0.0
    assert score("1901 to 1911", "from 1901 until 1912") == 1.0
    assert score("3–5 km", "3 km, at most 5 km") == 1.0


@pytest.mark.parametrize("text", ['"min": 5', '"month": 5', "5 months"])
def test_a_key_that_may_be_no_unit_gives_none(text: str) -> None:
    assert values.keyed(text.removeprefix('"')) == (0, "")
