"""Values and names that the sources have of something else."""

from __future__ import annotations

import pytest

from veridical.detectors.default.misplaced import misplaced
from veridical.records.types import Case, Source

TABLE = "Name  Born  City\nAnn   1950  Rome\nBen   1962  Oslo\nCal   1971  Bonn"
PEOPLE = "Ann was born in 1950 and lives in Rome. Ben was born in 1962 and lives in Oslo."


@pytest.mark.parametrize(
    ("response", "source", "expected"),
    [
        ("Ben was born in 1950.", "Ann was born in 1950. Ben was born in 1962.", ["1950"]),
        ("Ben was born in 1950 in Oslo.", TABLE, ["1950"]),
        ("Ben lives in Rome.", PEOPLE, ["Rome"]),
        ("The study had 120 patients.", "The study lasted 120 days. It had 80 patients.", ["120"]),
        ("The study had 120 patients.", "The study with 80 patients lasted 120 days. It was small.", ["120"]),
        ("Ben was born in 1962.", "Ann was born in 1950. Ben was born in 1962.", []),
        ("Ben was born in 1962 in Oslo.", TABLE, []),
        ("Ben lives in Oslo.", PEOPLE, []),
        ("The study had 80 patients.", "The study lasted 120 days. It had 80 patients.", []),
        ("Ben was born in 1962.", "Ben is a painter. He was born in 1962. Ann was born in 1950.", []),
        ("Ann sold 36 paintings and lived in Paris.", "Ann sold 36 paintings in Oslo. She lived in Paris.", []),
        ("Ben was born in 1999.", "Ann was born in 1950. Ben was born in 1962.", []),  # in no source: that is enough
    ],
)
def test_what_stands_elsewhere(response: str, source: str, expected: list[str]) -> None:
    found = misplaced(Case("1", response, (Source("a", source),)))
    assert [mention.span.of(response) for mention in found] == expected
