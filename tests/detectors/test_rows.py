"""Values in another row or cell than the one that a sentence names: tables, JSON, lists, and sentences alike."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors.discrepancies import rows as discrepancy_rows
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.detectors.discrepancies.rows import row_discrepancies
from veridical.records.types import Case, Source

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
    return [each.span.of(response) for each in row_discrepancies(case)]


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


GAMES = "game: 76; team: Oslo; points: 67\ngame: 75; team: Roma; points: 77"
TENTS = [  # the same in several formats
    "- Small tent: 60 euros\n- Large tent: 90 euros",
    "The small tent costs 60 euros. The large tent costs 90 euros.",
    "The small tent costs 60 euros and the large tent costs 90 euros.",
    "Prices\n\n| Tent | Price |\n|---|---|\n| Small tent | 60 euros |\n| Large tent | 90 euros |\n\nBook early.",
    "Tent\tPrice\nSmall tent\t60 euros\nLarge tent\t90 euros",
    "tent,price_eur,weight_kg\nSmall tent,60,2.1\nLarge tent,90,3.4",
    '[{"tent": "Small tent", "price": "60 euros"}, {"tent": "Large tent", "price": "90 euros"}]',
    '{"shop": "Camp", "items": [{"name": "Small tent", "price": 60}, {"name": "Large tent", "price": 90}]}',
    "<table><tr><th>Tent<th>Price</tr><tr><td><b>Small tent</b></td><td>60 euros</td></tr>"
    "<tr><td>Large tent</td><td>90 euros</td></tr></table>",
]
RIGHT = [
    "The large tent costs 90 euros.",
    "The small tent costs 60 euros; the large tent is 90 euros.",
    "The large tent costs 30 euros more than the small tent.",
    "The large tent does not cost 60 euros.",
    "If you return the large tent late, you pay 60 euros.",
    "Tents cost 60 euros.",
]


@pytest.mark.parametrize("source", TENTS)
def test_the_value_of_another_row_is_a_discrepancy(source: str) -> None:
    for response, place, correction in (
        ("The large tent costs 60 euros.", "60 euros", "90 euros"),
        ("You pay €90 for the small tent.", "€90", "60 euros"),
    ):
        (found,) = discrepancies(Case("1", response, (Source("1", source),)))
        assert found.span.of(response) == place
        assert found.correction in (correction, "€60")
        assert found.evidence
    assert [response for response in [*RIGHT, source] if misread(response, source)] == []


@pytest.mark.parametrize(
    ("response", "source", "wanted"),
    [
        ("On Saturday it opens from 9 am to 5 pm.", "Monday: 9 am to 5 pm\nSaturday: 10 am to 2 pm", ["9 am", "5 pm"]),
        ("The blue line has 18 stops.", "The red line has 18 stops and the blue line has 25 stops.", ["18"]),
        ("Ben was born in 1950.", "Ann was born in 1950. Ben was born in 1962.", ["1950"]),
        ("For children, it costs 5 euros.", "It costs 5 euros for adults. It costs 3 euros for children.", ["5 euros"]),
        ("The large family tent costs 90 euros.", f"{TENTS[3]}\n", []),  # no such row
        ("The large tent costs 60 euros.", f"{TENTS[1]} In winter, the large tent costs 60 euros.", []),
        ("The large tent costs 60 euros.", f"{TENTS[3]}\nBookings cost 60 euros.", []),  # so do bookings
        ("The large tent costs 70 euros.", TENTS[0], []),  # no row has it: other words decide
        ("In game 75 was Oslo, in game 77 Roma.", GAMES, []),
    ],
)
def test_only_certain_places_count(response: str, source: str, wanted: list[str]) -> None:
    assert misread(response, source) == wanted


def test_the_reason_names_both_rows() -> None:
    (found,) = discrepancies(Case("1", "The large tent costs 60 euros.", (Source("1", TENTS[0]),)))
    assert found.reason == "60 euros is for “Small tent”; the source has 90 euros for “Large tent”"


TEXTS = st.text(st.sampled_from('ab 12|,;\t\n:"{}[]'), max_size=60)


@given(TEXTS, TEXTS)
def test_any_text_is_read(response: str, source: str) -> None:
    for value in misread(response, source):
        assert value in response


def test_each_row_of_a_long_table_is_compared_with_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[object] = []
    differing = discrepancy_rows._differing
    monkeypatch.setattr(discrepancy_rows, "_differing", lambda *args: pairs.append(args) or differing(*args))
    counts = []
    for n in (300, 600):
        cities = ("Oslo", "Perth")
        rows = [f"| name {i} | {cities[i % 2]} | {1000 + i} |" for i in range(n)]
        wrong = [row.replace("Perth", "Oslo") for row in rows]
        pairs.clear()
        misread("\n".join(wrong), "\n".join(rows))
        counts.append(len(pairs))
    assert counts[1] <= 2 * counts[0]
