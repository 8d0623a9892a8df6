"""Names in English text, by capital letters and common words."""

from __future__ import annotations

import pytest

from veridical.text.names import is_name
from veridical.text.segment import words


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


@pytest.mark.parametrize("word", ["天", "THE", "the"])
def test_a_text_is_searched_for_capitals_once(word: str) -> None:
    class Counting(str):
        searched = 0

        def isupper(self) -> bool:
            Counting.searched += 1
            return super().isupper()

    text = Counting(f"{word} " * 1000)
    assert not any(is_name(text, span) for span in words(text))
    assert Counting.searched <= 1
