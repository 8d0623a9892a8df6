"""Relations with a direction are swapped; those that hold both ways, or that a source has, are not."""

import random

import pytest

from veridical.records.edits import apply
from veridical.records.types import Case, Source
from veridical_lab.corrupt.passages import passages_of
from veridical_lab.corrupt.relations import swapped_sides

NAMES = "So Ann Berg, Ola Nord, Lima, Quito, Peru and Acme were there."


def swapped(response: str, source: str = NAMES) -> set[str]:
    (passage,) = passages_of(Case("c", response, (Source("a", source),)))
    return {apply(response, edits) for edits in swapped_sides(passage, None, random.Random(0))}


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ("So Ann Berg defeated Ola Nord.", "So Ola Nord defeated Ann Berg."),
        ("So Ann Berg was later killed by Ola Nord.", "So Ola Nord was later killed by Ann Berg."),
        ("So Ann Berg lost to Ola Nord.", "So Ola Nord lost to Ann Berg."),
        ("So Ann Berg is taller than Ola Nord.", "So Ola Nord is taller than Ann Berg."),
        ("So Lima is the capital of Peru.", "So Peru is the capital of Lima."),
        ("So Ann Berg, daughter of Ola Nord, left.", "So Ola Nord, daughter of Ann Berg, left."),
        ("So Ann Berg's daughter Ola Nord left.", "So Ola Nord's daughter Ann Berg left."),
        ("She moved from Lima to Quito.", "She moved from Quito to Lima."),
        ("It rose from 5 to 9 that year.", "It rose from 9 to 5 that year."),
        ("They had 3 sons and 2 daughters.", "They had 2 sons and 3 daughters."),
        ("It was built in 1990 and sold in 2005.", "It was built in 2005 and sold in 1990."),
        (
            "A play directed by Ann Berg and written by Ola Nord.",
            "A play directed by Ola Nord and written by Ann Berg.",
        ),
        ("It has Ann Berg as a nurse and Ola Nord as a thief.", "It has Ola Nord as a nurse and Ann Berg as a thief."),
        ("She defeated Ola Nord.", "Ola Nord defeated her."),
        ("In it, he was taught by Ann Berg.", "In it, Ann Berg was taught by him."),
        ("The company bought Acme in 2019.", "Acme bought the company in 2019."),
    ],
)
def test_what_has_a_direction(response: str, result: str) -> None:
    assert swapped(response) == {result}


@pytest.mark.parametrize(
    "response",
    [
        "So Ann Berg married Ola Nord.",
        "So Ann Berg met Ola Nord.",
        "It was between Ann Berg and Ola Nord.",
        "The road runs from Lima to Quito.",
        "So Ann Berg and Ola Nord won.",
        "So Ann Berg, sister of Ola Nord, left.",
        "She won from 1990 to 1995, and 3 owls and 4 owls.",
        "So Ann Berg beat Ola Nord and Eva Lind.",
        "Many like Eva Lind and Ann Berg defeated Ola Nord.",
        "It rose on 3 May.",
    ],
)
def test_what_is_left_alone(response: str) -> None:
    assert swapped(response) == set()


def test_not_where_a_source_has_it_the_other_way_round() -> None:
    both = "Ann Berg defeated Ola Nord in May. Ola Nord defeated Ann Berg in June."
    assert swapped("So Ann Berg defeated Ola Nord.", both) == set()
