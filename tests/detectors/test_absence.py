"""Statements that the sources lack something: what they name, and whether the sources lack it."""

from __future__ import annotations

import pytest

from veridical.detectors.default.absences import answers, lacking, matter_of_absence
from veridical.records.types import Source

HALL = [
    Source(
        "lease_2024.txt",
        "Dogs are not allowed in the hall. The tower was built in 1889 by Ann Berg. Tickets cost 5 euros. "
        "The cause of the fire was not disclosed. Pets may stay in the garden.",
    )
]


@pytest.mark.parametrize(
    ("sentence", "matter"),
    [
        ("The text does not mention the price of tickets.", "the price of tickets"),
        ("I'm sorry, but the provided documents don't say who built it", "who built it"),
        ("Unfortunately, I cannot find the date in the sources.", "the date"),
        ("There is no information about its owner.", "about its owner"),
        ("It is not stated.", ""),
        ("The policy does not mention tents.", "tents"),
        ("Our cancellation policy doesn't specify a fee.", "a fee"),
        ("The lease_2024 does not mention tents.", "tents"),
        ("Tents are not mentioned in the policy.", "Tents"),
        ("Breakfast isn't included in the description.", "Breakfast"),
        ("No mention is made of tents in this report.", "of tents"),
        ("I don't know when it was built.", "when it was built"),
        ("The text does not mention the price, but it is 5.", None),
        ("The text does not only mention the price, it says 5.", None),
        ("The tower does not have a roof.", None),
        ("The tower does not mention a roof.", None),
        ("The minister did not say when it was built.", None),
        ("Breakfast is not included.", None),
        ("I don't have a car.", None),
        ("He said that the report does not mention it.", None),
    ],
)
def test_what_the_sources_do_not_say(sentence: str, matter: str | None) -> None:
    span = matter_of_absence(sentence, HALL)
    assert (None if span is None else span.of(sentence).strip()) == matter


@pytest.mark.parametrize(
    ("matter", "expected"),
    [
        ("tents", True),
        ("the price of tickets", True),
        ("who designed the tower", True),
        ("how many dogs are allowed in the hall", True),
        ("where tickets cost 5 euros", True),
        ("dogs", False),
        ("whether dogs are allowed in the hall", False),
        ("when the tower was built", False),
        ("who built the tower", False),
        ("how much tickets cost", False),
        ("pets in the garden", False),
        ("why the tower was built", None),
        ("pets in the tower", None),
        ("the cause of the fire", None),
    ],
)
def test_whether_the_sources_lack_it(matter: str, expected: bool | None) -> None:
    assert lacking(HALL, matter) is expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When was the tower built?", True),
        ("Who built the tower?", True),
        ("Are dogs allowed in the hall?", True),
        ("How much do tickets cost?", True),
        ("Who designed the tower?", False),
        ("Why was the tower built?", False),
        ("When was the bridge built?", False),
        ("When was it built?", False),
        ("What do tickets cost?", False),
        ("Where is the tower?", False),
    ],
)
def test_whether_the_sources_clearly_answer_a_question(question: str, expected: bool) -> None:
    assert answers(HALL, question) is expected
