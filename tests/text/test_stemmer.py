"""The stemmer against NLTK's own, word by word, and the list of stop words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS

porter = pytest.importorskip("nltk.stem.porter", reason="NLTK is a development dependency")


@pytest.fixture(scope="module")
def oracle():
    return porter.PorterStemmer(mode=porter.PorterStemmer.NLTK_EXTENSIONS)


def test_twenty_thousand_word_types_as_nltk_stems_them(shared_data: Path, oracle) -> None:
    text = (shared_data / "wikipedia" / "articles.txt").read_text(encoding="utf-8").lower()
    types = list(dict.fromkeys(re.findall(r"[^\W_]+", text)))[:20_000]
    assert len(types) == 20_000
    assert {w: stem(w) for w in types} == {w: oracle.stem(w) for w in types}


@pytest.mark.parametrize("word", ["ies", "ties", "flies", "sses", "ied", "tied"])
def test_short_words_that_are_little_more_than_an_ending(word: str, oracle) -> None:
    assert stem(word) == oracle.stem(word)


@given(
    st.text("abcdeiglnostuyz", min_size=1, max_size=7),
    st.sampled_from(
        [
            "",
            "s",
            "ies",
            "ied",
            "ing",
            "ed",
            "eed",
            "ational",
            "alli",
            "fulli",
            "logi",
            "iviti",
            "icate",
            "ful",
            "ement",
            "ion",
            "tion",
            "sion",
            "e",
            "ll",
            "y",
            "ability",
            "ousness",
            "izer",
            "ization",
        ]
    ),
)
def test_any_letters_as_nltk_stems_them(start: str, end: str) -> None:
    word = start + end
    assert stem(word) == porter.PorterStemmer().stem(word)


def test_stop_words_are_the_198_with_their_fragments() -> None:
    assert len(STOP_WORDS) == 198
    assert {"don", "t", "s", "won", "not", "we've"} <= STOP_WORDS
    assert not {"us", "may", "one", "would", "could"} & STOP_WORDS
