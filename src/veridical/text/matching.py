"""Split texts into words and compare the words, by one of the definitions in `WORDS`.

A definition (`Normalization`) says what a word is, and when two words are equal. These nouns are used throughout:

- The form of a word is its lower-case spelling in a text ("metres").
- A key is a string under which words are compared, such as the stem of a word ("metr") or a value ("q:length:330").
- A word implies the keys that it supports in another text: "330 m" implies both the length and the number 330.

The overlap detector uses this module, which knows nothing about cases and judgements.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from veridical.records.spans import Span
from veridical.text import quantities
from veridical.text.segment import _BEYOND_LATIN, UNSPACED, marks
from veridical.text.spellings import WordPairs, adjacent_words
from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS
from veridical.text.superscripts import RAISED_DIGITS, without_mark

_CACHED_WORDS = 1 << 14  # forms whose keys are cached, about 3 MB


@dataclass(frozen=True, slots=True)
class Normalization:
    """Defines how a text is split into words and how words are compared.

    A key is a string under which words are compared, such as a stem or a value. A text supports a word if one of the
    word's `keys` is among the keys that the words of the text imply.

    Attributes:
        fold: A function that lower-cases a text without moving any character.
        pattern: A function that returns a regular expression for the words of a folded text.
        keys: A function that returns the keys under which to look up a word in a text, best key first. A word that is
            ignored, such as a stop word, has no keys.
        implies: A function that returns the keys that a word supports in another text. For example, "330 m" also
            supports the number 330.
        exact: If true, a word implies only its own key. If false, "co-operate" also matches "cooperate".
        signs: If true, the overlap detector also compares symbols ("<", "$") and identifiers such as file names.
    """

    fold: Callable[[str], str]
    pattern: Callable[[str], str]
    keys: Callable[[str], tuple[str, ...]]
    implies: Callable[[str], tuple[str, ...]]
    exact: bool = True
    signs: bool = True


def _fold_rouge(text: str) -> str:
    """Lower-case `text` except "İ", which rouge-score reads as "i" and a break."""
    return "İ".join(part.lower() for part in text.split("İ"))


_ASCII = "[a-z0-9]+"
_QUICK = (
    r"[a-z0-9]++(?![^\x00-\x7f])"  # most words, in half the time; no word that a non-ASCII letter or mark continues
)
_LETTERS = rf"{_QUICK}|[^\W_]+(?:\u00ad[^\W_]+)*"


@cache
def _rare() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED}{marks()}\u200c\u200d]")


def _content_pattern(folded: str) -> str:
    """Choose a pattern for runs of letters and digits with their combining marks.

    In scripts without spaces, each character is a word. If a text has no rare characters, a plain pattern matches the
    same words several times faster.
    """
    if folded.isascii():
        return _ASCII
    if not _BEYOND_LATIN.search(folded) or not _rare().search(folded):  # the table behind `_rare` is slow to build
        return _LETTERS
    return _any_script()


@cache  # the string is long, and every profile holds it
def _any_script() -> str:
    mark = rf"[{marks()}\u200c\u200d]"
    return rf"{_QUICK}|[^\W_{UNSPACED}](?:[^\W_{UNSPACED}]|{mark})*|(?![\W_])[{UNSPACED}]{mark}*"


@cache
def _or_quantity(pattern: str) -> str:
    """Extend a word pattern so that it matches values first.

    ASCII text uses the pattern for Latin letters, because each further pattern takes long to compile.
    """
    return f"{quantities.PATTERN}|{_LETTERS if pattern == _ASCII else pattern}"


def _rouge_pattern(folded: str) -> str:
    return "[a-z0-9]*İ|[a-z0-9]+" if "İ" in folded else _ASCII


@lru_cache(maxsize=_CACHED_WORDS)
def _content_keys(word: str) -> tuple[str, ...]:
    if word in STOP_WORDS or not word.strip(RAISED_DIGITS):  # a raised number alone is the mark of a note
        return ()
    return (stem(word if word.isascii() else without_mark(word.replace("\u00ad", ""))),)


@lru_cache(maxsize=_CACHED_WORDS)
def _rouge_keys(word: str) -> tuple[str, ...]:
    word = word.replace("İ", "i")
    return (stem(word) if len(word) > 3 else word,)


@lru_cache(maxsize=_CACHED_WORDS)
def _rouge_plain_keys(word: str) -> tuple[str, ...]:
    return (word.replace("İ", "i"),)


WORDS = {
    "content": Normalization(quantities.fold, _content_pattern, _content_keys, _content_keys),
    "values": Normalization(
        quantities.fold,
        lambda folded: _or_quantity(_content_pattern(folded)),
        quantities.keys,
        quantities.implies,
        exact=False,
    ),
    "rouge": Normalization(_fold_rouge, _rouge_pattern, _rouge_keys, _rouge_keys, signs=False),
    "rouge-plain": Normalization(_fold_rouge, _rouge_pattern, _rouge_plain_keys, _rouge_plain_keys, signs=False),
}


_SEARCHES = 32  # of single words in a text, before the positions of all its words are read


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a regular expression. Each pattern is compiled only once per process."""
    return re.compile(pattern)


class Profile:
    """Counts the words of one text, to compare it with other texts.

    Words are counted by form (the lower-case spelling) and by key (the stem or value by which words are compared).
    Ignored words, such as stop words, are not counted.

    Attributes:
        normalization: The definition of words and their keys.
        text: The lower-cased text.
        pattern: The regular expression for the words of this text.
        types: The count of each form, in order of first occurrence.
        counts: For each key, the number of words that imply it (support it in another text).
        total: The number of words.
    """

    __slots__ = (
        *("_first_forms", "_first_starts", "_pairs", "_searches"),
        *("counts", "normalization", "pattern", "text", "total", "types"),
    )

    def __init__(self, text: str, normalization: Normalization) -> None:
        self.normalization = normalization
        self.text = normalization.fold(text)
        self.pattern = normalization.pattern(self.text)
        self.types: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self._first_starts: dict[str, int] | None = None
        self._first_forms: dict[str, str] | None = None
        self._pairs: WordPairs | None = None
        self._searches = 0
        implies, types, counts = normalization.implies, self.types, self.counts
        for form, count in Counter(compiled(self.pattern).findall(self.text)).items():
            implied = implies(form)
            if implied:
                types[form] = count
                for key in implied:
                    counts[key] = counts.get(key, 0) + count
        self.total = sum(types.values())

    @property
    def pairs(self) -> WordPairs:
        """The pairs of adjacent words of the text, to find words that are spelled as one word elsewhere."""
        if self._pairs is None:
            self._pairs = WordPairs(self.text)
        return self._pairs

    def first_form(self, key: str) -> str:
        """Return the first form (word as spelled in this text) that implies `key`, such as "metres" for "metr".

        Raises:
            KeyError: No form of this text implies the key.
        """
        if self._first_forms is None:
            self._first_forms = {}
            for form in self.types:
                for implied in self.normalization.implies(form):
                    self._first_forms.setdefault(implied, form)
        return self._first_forms[key]

    def first_span(self, form: str) -> Span:
        """Return the span of the first occurrence of a word, given by its form (its lower-case spelling)."""
        text, start = self.text, -1
        self._searches += 1
        if (self.normalization.exact and self._searches <= _SEARCHES) and (
            text.isascii() or (self.normalization.fold is quantities.fold and form.isalnum())
        ):  # plain search is fast, and safe if the neighbouring characters show that the match is a whole word
            rare = None if self.pattern in (_ASCII, _LETTERS) else _rare()
            start = text.find(form)
            while start >= 0:
                around = text[start - 1 : start] + text[start + len(form) : start + len(form) + 1]
                if rare and rare.search(form + around):
                    start = -1
                elif any(map(str.isalnum, around)):
                    start = text.find(form, start + 1)
                else:
                    break
        if start < 0:
            if self._first_starts is None:
                self._first_starts = {}
                for match in compiled(self.pattern).finditer(text):
                    self._first_starts.setdefault(match[0], match.start())
            start = self._first_starts[form]
        return Span(start, start + len(form))

    def matching_key(self, form: str) -> str | None:
        """Look up a word of another text in this text, and return the first of its keys that this text supports.

        A key is the stem or value by which words are compared. Return None if this text supports none of the word's
        keys. `form` is the word in lower case.
        """
        for key in self.normalization.keys(form):
            if key in self.counts:
                return key
        return None


class CompoundMatches:
    """Finds words of a response that a source writes differently.

    There are three cases:

    - Words that differ only by a hyphen or a space ("co-operate", "cooperate").
    - Shortened names ("Lib Dems").
    - Ranges of which the source states both ends separately ("1901 to 1911", "from 1901 until 1911").

    A form is a word in its lower-case spelling.

    Attributes:
        response_forms: The forms of the response that match.
        source_forms: The forms of the source that match.
        split_spans: For a response word that the source writes in two parts, the span of both parts. For each word of a
            shortened name, the span of the name in the source.
        joined_forms: For each part of a word that the response splits, the single word in the source. For a range, the
            form in which the source states the first end.
    """

    __slots__ = ("joined_forms", "response_forms", "source_forms", "split_spans")

    def __init__(self, response: Profile, source: Profile) -> None:
        self.response_forms: set[str] = set()
        self.source_forms: set[str] = set()
        self.split_spans: dict[str, Span] = {}
        self.joined_forms: dict[str, str] = {}
        if response.normalization.exact:
            return
        for a, b in adjacent_words(response.text, response.types):
            key = source.matching_key(a + b)
            if key is not None:
                form = source.first_form(key)
                self.response_forms |= {a, b}
                self.source_forms.add(form)
                self.joined_forms.update({a: form, b: form})
            elif source.matching_key(a) is None and source.matching_key(b) is None:
                name = source.pairs.abbreviation(a, b)
                if name is not None:
                    self.response_forms |= {a, b}
                    self.source_forms |= set(name.of(source.text).split())
                    self.split_spans |= {a: name, b: name}
        for form in response.types:
            if source.matching_key(form) is not None:
                continue
            ends = quantities.ends(form)
            if ends and all(end in source.counts for end in ends):
                self.response_forms.add(form)
                self.joined_forms[form] = source.first_form(ends[0])
            for a, b, start in source.pairs.splits(form, source.types):
                self.response_forms.add(form)
                self.source_forms |= {a, b}
                self.split_spans[form] = Span(start, start + len(a) + 1 + len(b))


def word_support(text: Profile, words: Sequence[Span], others: Sequence[Profile]) -> list[tuple[bool, bool, bool]]:
    """Check for each word of a text whether one of the other texts supports it.

    All profiles must have the same normalization.

    Args:
        text: The profile of the text, such as a response.
        words: The spans of the words to check, in order.
        others: The profiles of the other texts, such as the sources.

    Returns:
        Three flags for each word:

        - content: The word is checked, because it is not a stop word or is part of a value.
        - supported: The word occurs in one of the other texts. If it is part of a value such as "3 May 2021" or "300
          m", the complete value must occur there.
        - value: The word is a number, date, time or quantity, or part of one.
    """
    content, missing, value = ([False] * len(words) for _ in range(3))
    spelled: set[str] = set().union(*(CompoundMatches(text, other).response_forms for other in others))
    supported = {
        form: form in spelled or any(other.matching_key(form) is not None for other in others) for form in text.types
    }
    starts, ends = [word.start for word in words], [word.end for word in words]
    for match in compiled(text.pattern).finditer(text.text):
        form = match[0]
        if form in supported:
            is_value = quantities.is_value(form)
            for i in range(bisect_right(ends, match.start()), bisect_left(starts, match.end())):
                content[i] = True
                missing[i] |= not supported[form]
                value[i] |= is_value
    return [(c, c and not m, v) for c, m, v in zip(content, missing, value, strict=True)]
