"""Names in English text, by capital letters and common words."""

from __future__ import annotations

import pytest

from veridical.core.names import is_name
from veridical.core.segment import words


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Berlin is the capital of France.", ["Berlin", "France"]),
        ("Towers are tall. Additionally, Furthermore and However open sentences.", ["Furthermore", "However"]),
        ("The iPhone was sold by NASA in Rome.", ["iPhone", "NASA", "Rome"]),
        ("Marie Curie worked there. “Paris” is large; London, too.", ["Marie", "Curie", "Paris", "London"]),
        ("EVERYTHING IS LOUD IN ROME", []),
        ("Residents of it left. Police came.", []),
        ("", []),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert [span.of(text) for span in words(text) if is_name(text, span)] == names
