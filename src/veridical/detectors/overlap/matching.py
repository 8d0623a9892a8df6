"""What counts as a word and as the same word, and the words of a text under that: forms, counts, positions.

The comparing half of the overlap detector; it knows no cases and no judgements.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from veridical.core import quantities
from veridical.core.segment import _BEYOND_LATIN, _UNSPACED, marks
from veridical.core.spans import Span
from veridical.core.stemmer import stem
from veridical.core.stopwords import STOP_WORDS

__all__ = [
    "WORDS",
    "CompoundMatches",
    "Normalization",
    "Profile",
    "clipped_overlap",
    "compiled",
    "word_support",
]

_CACHED_WORDS = 1 << 14  # forms whose keys are kept, about 3 MB


@dataclass(frozen=True, slots=True)
class Normalization:
    """How a text is cut into words and how words are compared.

    A word is supported by a text if any of its `keys` is among what the words of that text imply.

    Attributes:
        fold: Lower-cases a text without moving any character.
        pattern: A regular expression for the words of a folded text.
        keys: What a word may be found by, best first; () for a word that does not count.
        implies: The keys that a word supports in another text.
        exact: Whether a word implies its one key and no more; otherwise "co-operate" also is "cooperate".
    """

    fold: Callable[[str], str]
    pattern: Callable[[str], str]
    keys: Callable[[str], tuple[str, ...]]
    implies: Callable[[str], tuple[str, ...]]
    exact: bool = True


def _fold_rouge(text: str) -> str:
    """`text` in lower case, with "İ" left alone: rouge-score reads it as "i" and a break."""
    return "İ".join(part.lower() for part in text.split("İ"))


_ASCII = "[a-z0-9]+"
_QUICK = r"[a-z0-9]++(?![^\x00-\x7f])"  # most words, at half the time; nothing that a letter or mark could lengthen
_LETTERS = rf"{_QUICK}|[^\W_]+"


@cache
def _rare() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}{marks()}\u200c\u200d]")


def _content_pattern(folded: str) -> str:
    """Runs of letters and digits with their combining marks; one character of a script without spaces.

    The plain patterns find the same in texts that hold none of the rare characters, several times faster.
    """
    if folded.isascii():
        return _ASCII
    if not _BEYOND_LATIN.search(folded) or not _rare().search(folded):  # the table of marks takes a while to make
        return _LETTERS
    return _any_script()


@cache  # one string for all texts: it is long, and every profile has it
def _any_script() -> str:
    mark = rf"[{marks()}\u200c\u200d]"
    return rf"{_QUICK}|[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|{mark})*|(?![\W_])[{_UNSPACED}]{mark}*"


@cache
def _or_quantity(pattern: str) -> str:
    return f"{quantities.PATTERN}|{pattern}"


def _rouge_pattern(folded: str) -> str:
    return "[a-z0-9]*İ|[a-z0-9]+" if "İ" in folded else _ASCII


@lru_cache(maxsize=_CACHED_WORDS)
def _content_keys(word: str) -> tuple[str, ...]:
    return () if word in STOP_WORDS else (stem(word),)


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
    "rouge": Normalization(_fold_rouge, _rouge_pattern, _rouge_keys, _rouge_keys),
    "rouge-plain": Normalization(_fold_rouge, _rouge_pattern, _rouge_plain_keys, _rouge_plain_keys),
}


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """`pattern`, compiled once."""
    return re.compile(pattern)


class Profile:
    """The words of one text, counted by form and by what they imply.

    `types` counts the forms that count as words, in order of first occurrence; `counts` counts keys.
    """

    __slots__ = ("_first_forms", "_first_starts", "counts", "normalization", "pattern", "text", "total", "types")

    def __init__(self, text: str, normalization: Normalization) -> None:
        self.normalization = normalization
        self.text = normalization.fold(text)
        self.pattern = normalization.pattern(self.text)
        self.types: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self._first_starts: dict[str, int] | None = None
        self._first_forms: dict[str, str] | None = None
        implies, types, counts = normalization.implies, self.types, self.counts
        for form, count in Counter(compiled(self.pattern).findall(self.text)).items():
            implied = implies(form)
            if implied:
                types[form] = count
                for key in implied:
                    counts[key] = counts.get(key, 0) + count
        self.total = sum(types.values())

    def first_form(self, key: str) -> str:
        """The form that is the first to imply `key`, which some form must."""
        if self._first_forms is None:
            self._first_forms = {}
            for form in self.types:
                for implied in self.normalization.implies(form):
                    self._first_forms.setdefault(implied, form)
        return self._first_forms[key]

    def first_span(self, form: str) -> Span:
        """The first occurrence of the word `form`."""
        text, start = self.text, -1
        if self.normalization.exact and (
            text.isascii() or (self.normalization.fold is quantities.fold and form.isalnum())
        ):  # plain search is fast, and sure where the neighbours show that it is a whole word
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
        """The key by which this text has the word `form` of another text, or None."""
        for key in self.normalization.keys(form):
            if key in self.counts:
                return key
        return None


class CompoundMatches:
    """Words that differ only by a hyphen or a space ("co-operate", "cooperate"), shortened names ("Lib Dems"), and
    ranges of which a source states the ends apart ("1901 to 1911", "from 1901 until 1911").

    `response_forms` and `source_forms` are the matching forms of each side. `split_spans` has, for a word of the
    response that the source writes in two parts, the span of those, and for both words of a shortened name the span of
    the other form; `joined_forms` has, for a part of a word in the response, the one word that the source has instead.
    """

    __slots__ = ("joined_forms", "response_forms", "source_forms", "split_spans")

    def __init__(self, response: Profile, source: Profile) -> None:
        self.response_forms: set[str] = set()
        self.source_forms: set[str] = set()
        self.split_spans: dict[str, Span] = {}
        self.joined_forms: dict[str, str] = {}
        if response.normalization.exact:
            return
        for a, b in quantities.adjacent_words(response.text, response.types):
            key = source.matching_key(a + b)
            if key is not None:
                form = source.first_form(key)
                self.response_forms |= {a, b}
                self.source_forms.add(form)
                self.joined_forms.update({a: form, b: form})
            elif source.matching_key(a) is None and source.matching_key(b) is None:
                name = quantities.abbreviation(a, b, source.text)
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
            for a, b, at in quantities.split_compound(form, source.text, source.types):
                self.response_forms.add(form)
                self.source_forms |= {a, b}
                self.split_spans[form] = Span(at, at + len(a) + 1 + len(b))


def word_support(text: Profile, words: Sequence[Span], others: Sequence[Profile]) -> list[tuple[bool, bool, bool]]:
    """Look up the words of a text in other texts; the profiles are of one normalization.

    Args:
        text: The text.
        words: Its words, or some of them, in order.
        others: The other texts.

    Returns:
        For each word whether it counts as one to look for (a stop word does not, unless it is part of a value); whether
        it counts and it, and each value that it is part of ("3 May 2021", "300 m"), is in another text; and whether it
        is, or is part of, a number, date, time or quantity.
    """
    content, missing, value = ([False] * len(words) for _ in range(3))
    spelled: set[str] = set().union(*(CompoundMatches(text, other).response_forms for other in others))
    found = {
        form: form in spelled or any(other.matching_key(form) is not None for other in others) for form in text.types
    }
    starts, ends = [word.start for word in words], [word.end for word in words]
    for match in compiled(text.pattern).finditer(text.text):
        form = match[0]
        if form in found:
            is_value = quantities.is_value(form)
            for i in range(bisect_right(ends, match.start()), bisect_left(starts, match.end())):
                content[i] = True
                missing[i] |= not found[form]
                value[i] |= is_value
    return [(c, c and not m, v) for c, m, v in zip(content, missing, value, strict=True)]


def clipped_overlap(words: Sequence[Profile], others: Sequence[Profile], compounds: Iterable[set[str]]) -> float:
    """Calculate which share of the words of some texts other texts have too, with clipped counts.

    Args:
        words: The texts whose words are counted.
        others: The texts in which they are looked for.
        compounds: Forms of `words` that `others` have in another spelling (`CompoundMatches`), per pair of texts.

    Returns:
        The share in [0, 1]; 0 if there are no words.
    """
    total = sum(profile.total for profile in words)
    if not total:
        return 0.0
    if words[0].normalization.exact:
        a, b = _pooled(words), _pooled(others)
        if len(a) > len(b):
            a, b = b, a
        return sum([count if count < b[key] else b[key] for key, count in a.items() if key in b]) / total
    other_spellings = set().union(*compounds)
    wanted: dict[str, int] = {}
    available: dict[str, int] = {}
    matched = 0
    keys = words[0].normalization.keys
    counts = [profile.counts for profile in others]
    for profile in words:
        for form, count in profile.types.items():
            for key in keys(form):
                there = sum([c[key] for c in counts if key in c])
                if there:
                    available[key] = there
                    wanted[key] = wanted.get(key, 0) + count
                    break
            else:
                matched += count if form in other_spellings else 0
    return (matched + sum(min(count, available[key]) for key, count in wanted.items())) / total


def _pooled(profiles: Sequence[Profile]) -> dict[str, int]:
    if len(profiles) == 1:
        return profiles[0].counts
    pool: Counter[str] = Counter()
    for profile in profiles:
        pool.update(profile.counts)
    return pool
