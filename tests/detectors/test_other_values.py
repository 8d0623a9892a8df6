"""Values that no source has, in sentences that a source has with another value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical import check
from veridical.detectors.discrepancies.other_values import other_values
from veridical.records.types import Case, Source

TOWER = "The tower in Rome is 971 m tall. It was built in 1903 by the city."


def found(response: str, source: str) -> list[tuple[str, str | None]]:
    return [
        (each.span.of(response), each.correction) for each in other_values(Case("1", response, (Source("s", source),)))
    ]


@pytest.mark.parametrize(
    ("response", "source", "wanted"),
    [
        ("The tower is 964 m tall.", TOWER, [("964", "971")]),
        ("The tower was built in 1904.", TOWER.replace("It", "The tower"), [("1904", "1903")]),
        ("The team won 24 medals in Oslo.", "The team won 26 medals in Oslo in May.", [("24", "26")]),
        ("Tickets cost $15 at the door.", "Tickets cost $12 at the door.", [("15", "12")]),
        (
            "The fair opens on 4 May 2021 in Bonn.",
            "The fair opens on 3 May 2021 in Bonn.",
            [("4", "3")],
        ),
    ],
)
def test_another_value_in_the_same_sentence_is_found(response: str, source: str, wanted: list[tuple[str, str]]) -> None:
    assert found(response, source) == wanted


@pytest.mark.parametrize(
    ("response", "source"),
    [
        ("The tower in Rome is 971 m tall.", TOWER),
        ("The tower in Rome is over 900 m tall.", TOWER),
        ("The tower in Rome is about 970 m tall.", TOWER),
        ("The tower in Rome is not 964 m tall.", TOWER),
        ("The tower in Rome is 3,186 ft tall.", TOWER),
        ("The bridge in Rome is 964 m tall.", TOWER),  # the encoder reads what is not the same sentence
        ("Plan A pays up to 20,000 euros.", "Plan L pays up to 40,000 euros, plan A half of that."),
        ("The team won 1.2 million votes in Oslo.", "The team won 1,203,517 votes in Oslo."),
        ("The class is for the -78 kg division.", "The class is for the 78 kg division."),
    ],
)
def test_a_value_that_may_follow_is_not_found(response: str, source: str) -> None:
    assert found(response, source) == []


def test_a_value_that_a_source_has_elsewhere_is_left_to_the_encoder() -> None:
    assert found("The tower is 964 m tall.", f"{TOWER} The mast is 964 m tall.") == []


@given(st.text(alphabet="The tower is 971 964 m tall.\n-", max_size=80), st.text(max_size=80))
def test_any_text_is_read(response: str, source: str) -> None:
    for each in other_values(Case("1", response, (Source("s", source), Source("t", TOWER)))):
        assert 0 <= each.span.start < each.span.end <= len(response)


def test_the_default_detector_flags_it_and_shows_the_right_value() -> None:
    result = check("The tower in Rome is 964 m tall.", TOWER)
    assert result.flagged
    verdict = next(v for v in result.judgements[0].verdicts if v.correction)
    assert (verdict.correction, verdict.kind) == ("971", "value")
