"""Classify words of an English text as names or not, by capital letters and a list of common words.

This does not need a model.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files

from veridical.records.spans import Span
from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS

_BEFORE_A_CAPITAL = frozenset('.!?…:;\n•*"“”„«»‘—–')  # after these, any word may have a capital letter
_CONNECTIVES = frozenset({"furthermore", "moreover", "meanwhile", "nonetheless", "nevertheless", "likewise", "thus"})


def is_name(text: str, span: Span) -> bool:
    """Check whether the word at `span` is a name, such as an acronym, a capitalised word, or a word like "iPhone".

    A capitalised word at the beginning of a sentence is a name unless it is a common English word. A text that is all
    in capitals has no names.

    >>> [is_name("Berlin is grey. Rain falls in Rome.", Span(*at)) for at in ((0, 6), (16, 20), (30, 34))]
    [True, False, True]
    """
    word = span.of(text)
    if not any(char.isupper() for char in word) or _is_all_capitals(text):
        return False
    if any(char.isupper() for char in word[1:]):
        return True
    before = text[max(0, span.start - 8) : span.start].rstrip(" \t")
    opens_sentence = before == "" or before[-1] in _BEFORE_A_CAPITAL
    if not opens_sentence:
        return True
    lower = word.lower()
    is_adverb = lower.endswith("ly")
    return not (is_adverb or lower in STOP_WORDS or lower in _CONNECTIVES or stem(lower) in _common_stems())


@lru_cache(maxsize=8)  # `is_name` asks once per word of a text
def _is_all_capitals(text: str) -> bool:
    return text.isupper()


@cache
def _common_stems() -> frozenset[str]:
    """Load the stems of the 6,000 most frequent lower-case words of English Wikipedia articles."""
    text = (files("veridical.text") / "common_words.txt").read_text("utf-8")
    return frozenset(map(stem, text.split()))
