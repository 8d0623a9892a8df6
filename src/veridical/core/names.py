"""Which words of an English text are names, without a model: by capital letters and a list of common words."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files

from veridical.core.spans import Span
from veridical.core.stemmer import stem
from veridical.core.stopwords import STOP_WORDS

__all__ = ["is_name"]

_BEFORE_A_CAPITAL = frozenset('.!?…:;\n•*"“”„«»‘—–')  # what a capital letter may stand after without making a name
_CONNECTIVES = frozenset({"furthermore", "moreover", "meanwhile", "nonetheless", "nevertheless", "likewise", "thus"})


def is_name(text: str, span: Span) -> bool:
    """Whether the word at `span` is a name: an acronym, a capitalised word, or a word such as "iPhone".

    A capitalised word that opens a sentence is one if it is no common English word. In a text that is all capitals
    nothing is.

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


@lru_cache(maxsize=8)  # it is asked for each word of a text
def _is_all_capitals(text: str) -> bool:
    return text.isupper()


@cache
def _common_stems() -> frozenset[str]:
    """The stems of the 6,000 most frequent words in small letters of English Wikipedia articles."""
    text = (files("veridical.core") / "common_words.txt").read_text("utf-8")
    return frozenset(map(stem, text.split()))
