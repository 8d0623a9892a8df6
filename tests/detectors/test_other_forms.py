"""Values, words and negations that a source has in another form than the response."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors.default.rewriting import in_forms_of_response
from veridical.records.types import Case, Source


def read(response: str, *sources: str) -> list[str]:
    case = Case("1", response, tuple(Source(str(i), text) for i, text in enumerate(sources)))
    return [source.text for source in in_forms_of_response(case).sources]


@pytest.mark.parametrize(
    ("response", "source", "wanted"),
    [
        ("It is 330 m tall.", "Its height: 330 metres (330 METRES).", "Its height: 330 m (330 m)."),
        ("It cost £1.5 million.", "It cost £1,500,000.", "It cost £1.5 million."),
        ("On 4 July 1998.", "date: 1998-07-04", "date: 4 July 1998"),
        ("It opens at 7:05 pm.", '{"at": "1998-07-04T19:05:00Z"}', '{"at": "1998-07-04 7:05 pm"}'),
        ("It costs $40.", '{"price": 40}', '{"price": $40}'),
        ("Signed on July 4, 1998.", "On 4 July 1998 it was signed.", "On July 4, 1998 it was signed."),
        ("It opens at 3 pm.", "It opens at 15:00.", "It opens at 3 pm."),
        ("The 6th minute.", "The sixth minute.", "The 6th minute."),
        ("It ended 2–1.", "It ended 2-1.", "It ended 2–1."),
        ("It isn’t red and can't be.", "It is not red; it cannot be.", "It isn’t red; it can't be."),
        ("It will not rain.", "It won't rain.", "It will not rain."),
        ("It costs 40 euros.", '{"price_eur": 40, "id": 40}', '{"price_eur": 40 euros, "id": 40}'),
        ("It took 1.5 seconds.", "duration_ms = 1500", "duration_ms = 1.5 seconds"),
        ("The colour was analysed.", "Analyzed: its Color.", "analysed: its colour."),
    ],
)
def test_what_a_source_has_in_another_form_is_read_in_that_of_the_response(
    response: str, source: str, wanted: str
) -> None:
    assert read(response, source) == [wanted]


@pytest.mark.parametrize(
    ("response", "source"),
    [
        ("It is 330 m tall.", "It is 320 metres tall."),  # another value
        ("It is 330 m tall.", "It is 330 metres tall, 330 m."),  # a source has the form
        ("Two goals.", "goals: 2"),  # small numbers are known, and tables are full of them
        ("On 1998-07-04.", "On 4 July 1998."),  # texts do not become records
        ("In July 1998.", "On 4 July 1998."),  # less than the source says
        ("It is 100 years old.", "It took 100 years."),
        ("It took 100 years.", "It is 100 years old."),
        ("It is not red.", "It is red."),
        ("It isn't red.", "It was not red."),
        ("It costs 40 dollars.", '{"price_eur": 40}'),
        ("It isn't red.", "It is not, it isn't red."),
        ("Four of them filed it.", "For them it was filled."),
        ("It is red.", ""),
    ],
)
def test_everything_else_stays(response: str, source: str) -> None:
    case = Case("1", response, (Source("s", source),))
    assert in_forms_of_response(case) == case


def test_a_form_that_one_source_has_is_in_no_need_of_another() -> None:
    assert read("It is 5 km long.", "It is 5 km long.", "It is 5 kilometres long.")[1] == "It is 5 kilometres long."
    assert read("It is 5 km long.", "It is long.", "It is 5 kilometres long.")[1] == "It is 5 km long."
    assert in_forms_of_response(Case("1", "It is 5 km long.")).sources == ()


PIECES = ("It ", "isn't ", "is not ", "5 km ", "5 kilometres, ", "4 July 1998. ", "July 4, 1998 ", "colour ", "color ")


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.lists(st.sampled_from(PIECES)).map("".join))
def test_what_a_source_writes_like_the_response_stays(text: str, other: str) -> None:
    case = Case("1", text, (Source("a", text), Source("b", other)))
    assert in_forms_of_response(case) == case


def test_a_long_source_and_a_long_response_take_no_quadratic_time() -> None:  # the limit of each test says so
    source = "It isn't 5 kilometres, nor the colour; it is not " * 20_000
    changed = read("It isn't 5 km or its color. " * 2_000, source)
    assert "5 km," in changed[0]
