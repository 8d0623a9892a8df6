"""Values in another cell of a table or of JSON than the one that a sentence names."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.core.types import Case, Source
from veridical.detectors.default.cells import misread_cells

STOCK = "item | colour | Oslo | Bergen\n--- | --- | --- | ---\nhelmet | red | 12 | 40\nhelmet | blue | 9 | 31"
GOODS = json.dumps(
    {
        "file": "A",
        "goods": [{"item": "lamps", "pieces": 40, "mass_kg": 120}, {"item": "rugs", "pieces": 15, "mass_kg": 90}],
    }
)
FLIGHTS = json.dumps(
    {"id": "F1", "flights": [{"from": "EWR", "flight_number": "HAT056", "date": "2024-05-25", "price": 71}]}
)
LOG = "station\tdelay_ms\tretries\nElm\t1500\t3\nOak\t300\t7"


def misread(response: str, *sources: str) -> list[str]:
    case = Case("1", response, tuple(Source(str(i), text) for i, text in enumerate(sources)))
    return [mention.span.of(response) for mention in misread_cells(case)]


@pytest.mark.parametrize(
    ("response", "source", "wanted"),
    [
        ("There are 31 blue helmets in Oslo.", STOCK, ["31"]),  # another column
        ("There are 12 blue helmets in Oslo.", STOCK, ["12"]),  # another row
        ("There are nine blue helmets in Oslo.", STOCK, []),
        ("There are 8 blue helmets in Oslo.", STOCK, []),  # in no cell: other words decide
        ("There are 31 helmets in Oslo.", STOCK, []),  # two rows
        ("There are 31 blue helmets.", STOCK, []),  # no column
        ("In Oslo there are 22 blue helmets fewer than the 31 in Bergen.", STOCK, []),  # a comparison
        ("The file has 15 pieces of lamps.", GOODS, ["15"]),
        ("The lamps have a mass of 120 kg.", GOODS, []),
        ("The lamps have a mass of 90 kg.", GOODS, ["90 kg"]),
        ("For file A, the wait is 40 days.", GOODS, []),  # days are in no other cell
        ("Oak has a delay of 1.5 seconds.", LOG, ["1.5 seconds"]),
        ("Elm has a delay of 1.5 seconds.", LOG, []),
        ("The room for 2 has a price of 40.", '{"room": "small", "beds": 2, "price": 40}', []),
        ("The price is 2.", '{"room": "small", "beds": 2, "price": 40}', ["2"]),
        ("The price is 2.", '{"price": 40, "beds": 2, "note": "a price of 2 for members"}', []),
        ("The price is 2.", "A price of 40, for 2 beds.", []),
        ("It starts from EWR on 2024-05-25, flight number HAT056.", FLIGHTS, []),  # a date and a code, no amounts
    ],
)
def test_a_value_belongs_to_the_cell_that_is_named(response: str, source: str, wanted: list[str]) -> None:
    assert misread(response, source) == wanted


TEXTS = st.text(st.sampled_from('ab 12|,;\t\n:"{}[]'), max_size=60)


@given(TEXTS, TEXTS)
def test_any_text_is_read(response: str, source: str) -> None:
    for value in misread(response, source):
        assert value in response
