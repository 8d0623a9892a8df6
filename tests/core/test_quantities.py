"""What counts as the same value, and what must not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.core import quantities as values
from veridical.core.types import Case, Source
from veridical.detectors.overlap.detector import Overlap

SAME = """
1,200 = 1200
1.2 thousand = 1,200
7 = seven
twenty-one = 21
twenty one = 21
one hundred and five = 105
two hundred thousand = 200,000
a million = 1,000,000
5 million = 5,000,000
5m = 5,000,000
5bn = five billion
50% = 50 percent
50 per cent = 50%
3 May 2021 = May 3, 2021
3rd of May 2021 = 2021-05-03
3 May 2021 = 2021-05-03
Sept 4 = 4 September
1st = first
twenty-first = 21st
5 km = 5 kilometres
5km = 5,000 m
two weeks = 14 days
$5m = 5 million dollars
US$5bn = $5 billion
£3.50 = 3.5 pounds
30 °C = 30 degrees Celsius
10:30 pm = 22:30
10.30am = 10:30 a.m.
2010-15 = 2010 to 2015
23-year-old = 23 years old
Obama's = Obama
U.S. = US
the U.N. = the UN
José Núñez = Jose Nunez
co-operate = cooperate
co operate = cooperate
health care = healthcare
−5 = -5
"""
PAIRS = [tuple(line.split(" = ")) for line in SAME.strip().split("\n")]

DIFFERENT = [
    ("1,200", "1 and 200"),
    ("3.5", "3 and 5"),
    ("5", "3.5"),
    ("200", "1,200"),
    ("21", "twenty and one"),
    ("3 May 2021", "4 May 2021"),
    ("3 May 2021", "May 2021"),
    ("2021-05-03", "2021-05-04"),
    ("2-1", "1-2"),
    ("2-1", "2 and 1"),
    ("5 km", "5 miles"),
    ("5 km", "5"),
    ("$5m", "£5m"),
    ("5%", "5"),
    ("10:30", "10 and 30"),
    ("-5", "5"),
    ("1st", "1"),
    ("v 1.2.3", "v 1.2"),
    ("carport", "car. Port"),
]
LESS = [
    ("May 2021", "3 May 2021"),
    ("2021", "2021-05-03"),
    ("3 May", "May 3rd, 2021"),
    ("5", "5 km"),
    ("5 million", "$5m"),
]


def score(response: str, source: str) -> float | None:
    return Overlap(words="values").judge([Case("1", response, (Source("1", source),))])[0].hallucination


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_same_value_both_ways(a: str, b: str) -> None:
    assert (score(a, b), score(b, a)) == (0.0, 0.0)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_another_value(a: str, b: str) -> None:
    found = score(a, b)
    assert found is not None
    assert found > 0.0


@pytest.mark.parametrize(("less", "more"), LESS)
def test_the_less_specific_is_supported_and_not_the_other_way_round(less: str, more: str) -> None:
    assert (score(less, more), score(more, less)) == (0.0, 1.0)


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
            "'",
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
