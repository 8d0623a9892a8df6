"""Yes and no belong to their question or field, and words to who said them."""

from __future__ import annotations

import pytest

from tests.detectors.test_signs import case, judged
from veridical.detectors.default.detector import PACKAGED
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.inference.artifact import DETECTOR
from veridical.records.types import Outcome

QUESTIONS = "Q: Do you ship to Norway?\nA: No.\nQ: Do you ship to Sweden?\nA: Yes, within five days."
HOTEL = '{"name": "Hotel Elm", "pets_allowed": false, "minibar": null, "parking": true, "rooms": 40}'
HOTELS = (
    '[{"name": "Hotel Elm", "pets_allowed": false, "pool": true}, {"name": "Hotel Oak", '
    '"pets_allowed": true, "pool": false}]'
)
LIST = "Hotel Elm\n- Pets allowed: no\n- Breakfast: included\n- Wi-Fi: yes\n- Minibar: —"
PLANS = "| Plan | Export | Support |\n|---|---|---|\n| Free | No | ✗ |\n| Pro | Yes | ✓ |"
FEATURES = "| Feature | Included |\n|---|---|\n| Towels | No |\n| Sauna | Yes |"
SUPPORT = (
    "Customer: I paid on Monday.\nAgent: Thank you. I will send the receipt today.\n"
    "Customer: My account number is 4471."
)
MEETING = (
    "Ana: We need more staff.\nBen: I think the budget is too small for that.\nCarla: I will call the bank tomorrow."
)
QUOTED = "“The bridge will close in May,” said Ana Berg. Ben Holt said that the detour is short."
MAILS = (
    "From: Ana Berg <ana@acme.io>\nTo: Ben Holt <ben@acme.io>\nSubject: Offer\n\n"
    "I accept the offer of 40 euros.\n\nFrom: Ben Holt <ben@acme.io>\nTo: Ana Berg <ana@acme.io>\n\n"
    "I will send the contract on Friday."
)
OFFERS = "| Plan | Backup | Support |\n|---|---|---|\n| Free | No | Yes |\n| Team | Yes | Yes |"
TURNS = '[{"speaker": "Ana", "text": "We need more staff."}, {"speaker": "Ben", "text": "I will ask the board."}]'
WRONG = [
    (QUESTIONS, "We ship to Norway."),
    (QUESTIONS, "The shop ships to Norway."),
    (QUESTIONS, "We do not ship to Sweden."),
    ("Do you ship to Norway?\nNo.", "We ship to Norway."),
    ("Is the pool heated? No, it is not.", "The pool is heated."),
    ("Can I cancel my order after dispatch? Unfortunately not.", "You can cancel your order after dispatch."),
    ("**Are dogs allowed on the beach?**\n\nNo, never.", "Dogs are allowed on the beach."),
    (HOTEL, "Pets are allowed."),
    (HOTEL, "The hotel allows pets."),
    (HOTEL, "There is a minibar."),
    (HOTEL, "The rooms have a minibar."),
    (HOTEL, "There is no parking."),
    (HOTELS, "Hotel Elm allows pets."),
    (HOTELS, "Hotel Oak has a pool."),
    (LIST, "Pets are allowed."),
    (LIST, "There is a minibar in the room."),
    (PLANS, "The Free plan has export."),
    (PLANS, "The Free plan includes support."),
    (FEATURES, "Towels are included."),
    (SUPPORT, "The agent paid on Monday."),
    (SUPPORT, "The customer will send the receipt today."),
    (SUPPORT, "The agent said the account number is 4471."),
    (MEETING, "Ben said they need more staff."),
    (MEETING, "According to Carla, the budget is too small."),
    (MEETING, "Ana will call the bank tomorrow."),
    (QUOTED, "Ben Holt said the bridge will close in May."),
    (QUOTED, "Berg said that the detour is short."),
    (MAILS, "Ben Holt accepted the offer of 40 euros."),
    (MAILS, "Ana will send the contract on Friday."),
    (TURNS, "Ben said they need more staff."),
    (TURNS, "Ana will ask the board."),
    (f"{QUOTED} Rolf Aam disagreed: “The detour is fine.”", "Rolf Aam said the bridge will close in May."),
]
RIGHT = [
    (QUESTIONS, "You do not ship to Norway."),
    (QUESTIONS, "They don't ship to Norway."),
    (QUESTIONS, "We ship to Sweden."),
    ("Do you ship to Norway?\nNo.", "You do not ship to Norway."),
    ("Is the pool heated? No, it is not.", "The pool is not heated."),
    ("Is the pool heated? Yes.", "The pool is heated."),
    (HOTEL, "Pets are not allowed."),
    (HOTEL, "The hotel does not allow pets."),
    (HOTEL, "There is no minibar."),
    (HOTEL, "Parking is available."),
    (HOTELS, "Hotel Oak allows pets."),
    (HOTELS, "Hotel Elm has a pool."),
    (LIST, "Pets are not allowed."),
    (LIST, "Breakfast is included."),
    (LIST, "Wi-Fi is available."),
    (PLANS, "The Pro plan has export."),
    (PLANS, "The Free plan does not include support."),
    (FEATURES, "Towels are not included."),
    (FEATURES, "A sauna is included."),
    (SUPPORT, "The customer paid on Monday."),
    (SUPPORT, "The agent will send the receipt today."),
    (MEETING, "Ana said they need more staff."),
    (MEETING, "Ben thinks the budget is too small."),
    (MEETING, "Carla will call the bank tomorrow."),
    (QUOTED, "Ana Berg said the bridge will close in May."),
    (QUOTED, "Holt said the detour is short."),
    (MAILS, "Ana Berg accepted the offer of 40 euros."),
    (TURNS, "Ana said they need more staff."),
    ("Agent: I see that you paid on Monday.\nCustomer: Yes, that is right.", "The customer paid on Monday."),
]


@pytest.mark.parametrize(("source", "response"), WRONG)
def test_the_opposite_and_another_speaker_are_discrepancies(source: str, response: str) -> None:
    (found,) = discrepancies(case(source, response))
    assert found.kind in ("negation", "name")
    assert found.reason.startswith("the source has “") or " said this, not " in found.reason
    assert found.evidence


@pytest.mark.parametrize(("source", "response"), RIGHT)
def test_what_a_source_says_is_none(source: str, response: str) -> None:
    assert discrepancies(case(source, response)) == ()


def test_a_cell_of_a_table_in_the_response_is_compared_with_the_same_one() -> None:
    response = OFFERS.replace("No | Yes", "Yes | No")
    (found,) = discrepancies(case(OFFERS, response))
    assert (found.span.of(response), found.reason) == ("| Free | Yes | No |", "the source has “Free, Backup: No”")


def test_the_right_speaker_is_the_correction() -> None:
    (found,) = discrepancies(case(SUPPORT, "The agent paid on Monday."))
    assert (found.correction, found.reason) == ("customer", "customer said this, not agent")
    (found,) = discrepancies(case(QUOTED, "Ben Holt said the bridge will close in May."))
    assert (found.correction, found.reason) == ("Ana Berg", "Ana Berg said this, not Ben Holt")


@pytest.mark.parametrize(
    ("source", "response"),
    [
        (QUESTIONS, "We ship to Norway only with a partner."),  # a condition
        (HOTEL, "The minibar menu is long."),  # does not say that there is one
        (HOTELS, "The hotel has a pool."),  # which hotel?
        ("Note: no pets. Price: 40 euros. Terms: as agreed.", "The note is about the price."),
        (MEETING, "Ben heard from Ana that they need more staff."),
        (MEETING, "Ben and Ana met."),
        ("Umang Poddar of the Mithila Review writes that the tale is dull.", "Poddar writes that the tale is dull."),
        (OFFERS, OFFERS),
    ],
)
def test_what_is_not_clear_is_none(source: str, response: str) -> None:
    assert discrepancies(case(source, response)) == ()


@pytest.mark.skipif(not (PACKAGED / DETECTOR).is_file(), reason="the default detector is not in this checkout")
def test_the_default_detector_decides_them() -> None:
    for pairs, wanted in ((WRONG, Outcome.FLAGGED), (RIGHT, Outcome.CLEAR)):
        cases = [case(*pair) for pair in pairs]
        for (result, _), each in zip(judged("default", cases), cases, strict=True):
            assert result is wanted, each.response


PIECES = ("Is it? ", "a: no\n", '"a": null, ', "| a | no | yes |\n", "Ana: We go.\n", '"I go," said Ana. ', "****")


@pytest.mark.parametrize("piece", [*PIECES, "From: a\n"])
def test_long_texts_take_linear_time(piece: str) -> None:
    assert len(discrepancies(case(piece * 3000, piece * 300))) < 1000
