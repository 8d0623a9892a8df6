"""A quote is found where it stands, in characters of the text as it is, and nowhere when it is not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.text.quotes import find_quote

TOWER = "The tower – built in 1889, by Eiffel’s firm – is 330 m tall. It stands in “Paris, France”."


def test_verbatim_places_come_in_order_and_unused() -> None:
    text = "a cat, a dog, a cat"
    first = find_quote(text, "a cat")
    assert first == Span(0, 5)
    assert find_quote(text, "a cat", used=[first]) == Span(14, 19)
    assert find_quote(text, "a cat", used=[first, Span(14, 15)]) is None
    assert find_quote(text, "a cat", used=[Span(5, 14), Span(2, 2)]) == Span(0, 5)


def test_a_place_between_used_ones_is_found() -> None:
    assert find_quote("aaaa", "aa", used=[Span(0, 1)]) == Span(1, 3)
    assert find_quote("aaaa", "aa", used=[Span(1, 2)]) == Span(2, 4)
    assert find_quote("aaaa", "aa", used=[Span(2, 3)]) == Span(0, 2)


@given(st.text(max_size=40), st.data())
def test_any_part_of_a_text_is_found(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    found = find_quote(text, text[start:end])
    if start == end:
        assert found is None
    else:
        assert found is not None
        assert found.of(text) == text[start:end]
        assert found.start <= start


TOLERANT = [
    ("the TOWER", "The tower"),
    ("Eiffel's firm", "Eiffel’s firm"),
    ('"Paris, France"', "Paris, France"),
    ("tower - built in 1889", "tower – built in 1889"),
    ("Built in 1889 by Eiffel's firm", "built in 1889, by Eiffel’s firm"),
    ("  330 m\n tall.\tIt stands", "330 m tall. It stands"),
    ("is 330 m tall ...", "is 330 m tall"),
    ("it stands in Pari", "It stands in “Paris"),
    ("is 330 metres tall. It stands in", "is 330 m tall. It stands in"),
    ("The tower was built in 1889, by Eiffel's firm", "The tower – built in 1889, by Eiffel’s firm"),
]


@pytest.mark.parametrize("quote, wanted", TOLERANT)
def test_a_quote_that_is_not_verbatim_is_found_at_words(quote: str, wanted: str) -> None:
    assert find_quote(TOWER, quote) is None
    found = find_quote(TOWER, quote, min_similarity=0.8)
    assert found is not None
    assert found.of(TOWER) == wanted


@pytest.mark.parametrize("quote", ["The bridge was closed for a year", "zzzz", "???", "…", " \n", "", "12345"])
def test_an_absent_quote_is_nowhere(quote: str) -> None:
    assert find_quote(TOWER, quote, min_similarity=0.8) is None


@pytest.mark.parametrize("text", ["", "?!", " "])
def test_nothing_is_found_where_no_word_is(text: str) -> None:
    assert find_quote(text, "word", min_similarity=0.1) is None


FOLDED = [
    ("Die STRASSE in İstanbul ist lang.", "die straße in i̇stanbul", "Die STRASSE in İstanbul"),
    ("👩‍👩‍👧 Die Straße ist lang. 🎉", "DIE STRASSE IST LANG", "Die Straße ist lang"),
    ("Le cafe\u0301 noir, là-bas", "LE CAF\u00c9 NOIR", "Le cafe\u0301 noir"),
    ("Le caf\u00e9 noir", "le cafe\u0301 Noir", "Le caf\u00e9 noir"),
    ("a line\r\n  broken here", "A line broken", "a line\r\n  broken"),
    ("infor\u00admation is\u200b here", "Information is", "infor\u00admation is"),
    ("concatenate a Cat", "CAT", "Cat"),
    ("catalogue of a Cat", "CAT", "Cat"),
    ("我喜欢猫。Wo xihuan", "喜欢猫 wo", "喜欢猫。Wo"),
    ("हिन्दी में, लिखा", "हिन्दी में लिखा", "हिन्दी में, लिखा"),
]


@pytest.mark.parametrize("text, quote, wanted", FOLDED)
def test_places_are_characters_of_the_text_as_it_is(text: str, quote: str, wanted: str) -> None:
    found = find_quote(text, quote, min_similarity=0.75)
    assert found is not None
    assert found.of(text) == wanted


def test_accents_and_exponents_still_count() -> None:
    assert find_quote("10² m", "102 M", min_similarity=0.99) is None
    assert find_quote("le café", "LE CAFE", min_similarity=0.99) is None


def test_tolerant_places_come_unused_and_in_order() -> None:
    text = "A Cat, a dog, A CAT, a cot"
    first = find_quote(text, "a cat", min_similarity=0.9)
    assert first == Span(0, 5)
    second = find_quote(text, "a cat", used=[first], min_similarity=0.9)
    assert second == Span(14, 19)
    assert find_quote(text, "a cat", used=[first, second], min_similarity=0.9) is None
    assert find_quote(text, "a cat", used=[first, second], min_similarity=0.8) == Span(21, 26)
    # a used span that runs past the text, or splits every word, leaves no place
    assert find_quote(text, "a cat", used=[Span(0, 999)], min_similarity=0.1) is None


def test_min_similarity_is_the_share_that_must_agree() -> None:
    # "abcd" and "abxd": 3 of 4 characters agree on both sides, 1 - 2/8 = 0.75
    assert find_quote("abxd", "abcd", min_similarity=0.75) == Span(0, 4)
    assert find_quote("abxd", "abcd", min_similarity=0.76) is None


@pytest.mark.parametrize("value", [0.0, -0.5, 1.01, float("nan")])
def test_min_similarity_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"min_similarity is .*above 0 and at most at 1"):
        find_quote("a", "a", min_similarity=value)


@given(st.text("aAßİé\u0301 ,’'\n🎉猫", max_size=25), st.text("aAßİé\u0301 ,’'\n🎉猫", max_size=8), st.data())
def test_a_tolerant_place_lies_in_the_text_and_overlaps_nothing_used(
    text: str, quote: str, data: st.DataObject
) -> None:
    cut = sorted(data.draw(st.tuples(st.integers(0, 25), st.integers(0, 25))))
    used = [Span(*cut)]
    found = find_quote(text, quote, used=used, min_similarity=0.6)
    if found is not None:
        assert found.of(text).strip() or found.of(text) == quote
        assert not found.overlaps(used[0])
