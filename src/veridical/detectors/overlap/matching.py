"""What counts as a word and as the same word, and a text read once under that: forms, counts, places.

The comparing half of `detectors/overlap.py`; it knows no cases and no judgements.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from veridical.core.segment import _UNSPACED, marks
from veridical.core.spans import Span
from veridical.core.stopwords import STOP_WORDS
from veridical.detectors.overlap import quantities as values
from veridical.detectors.overlap.stemmer import stem

__all__ = ["WORDS", "Kin", "Profile", "Reading", "compiled", "share"]

_CACHED_WORDS = 1 << 17  # forms whose keys are kept, about 20 MB


@dataclass(frozen=True, slots=True)
class Reading:
    """How a text is cut and compared. `fold` keeps offsets; `keys` of a word is () where it does not count.

    A word is supported by a text if any of its `keys` is among what the words of that text imply.
    """

    fold: Callable[[str], str]
    pattern: Callable[[str], str]
    keys: Callable[[str], tuple[str, ...]]
    implies: Callable[[str], tuple[str, ...]]
    exact: bool = True  # a word implies its one key and no more; else also "co-operate" is "cooperate"


def _fold(text: str) -> str:
    """`text` in lower case with every character at its place ("İ" alone would become two)."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.replace("İ", "i").lower()


def _fold_rouge(text: str) -> str:
    """The same, with "İ" left alone: rouge-score reads it as "i" and a break."""
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
    if not _rare().search(folded):
        return _LETTERS
    mark = rf"[{marks()}\u200c\u200d]"
    return rf"{_QUICK}|[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|{mark})*|(?![\W_])[{_UNSPACED}]{mark}*"


def _values_pattern(folded: str) -> str:
    return f"{values.PATTERN}|{_content_pattern(folded)}"


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
    "content": Reading(_fold, _content_pattern, _content_keys, _content_keys),
    "values": Reading(_fold, _values_pattern, values.keys, values.implies, exact=False),
    "rouge": Reading(_fold_rouge, _rouge_pattern, _rouge_keys, _rouge_keys),
    "rouge-plain": Reading(_fold_rouge, _rouge_pattern, _rouge_plain_keys, _rouge_plain_keys),
}


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """`pattern`, compiled once."""
    return re.compile(pattern)


class Profile:
    """The words of one text, counted by form and by what they imply.

    `types` counts the forms that count as words, in order of first occurrence.
    """

    __slots__ = ("_places", "counts", "pattern", "reading", "text", "total", "types")

    def __init__(self, text: str, reading: Reading) -> None:
        self.reading = reading
        self.text = reading.fold(text)
        self.pattern = reading.pattern(self.text)
        self.types: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self._places: dict[str, int] | None = None
        implies, types, counts = reading.implies, self.types, self.counts
        for form, count in Counter(compiled(self.pattern).findall(self.text)).items():
            implied = implies(form)
            if implied:
                types[form] = count
                for key in implied:
                    counts[key] = counts.get(key, 0) + count
        self.total = sum(types.values())

    def first(self, key: str) -> str:
        """The form that is the first to imply `key`, which some form must."""
        implies = self.reading.implies
        return next(form for form in self.types if key in implies(form))

    def place(self, form: str) -> Span:
        """Where the word `form` first stands."""
        at = self._quick_place(form)
        if at < 0:
            if self._places is None:
                self._places = {}
                for match in compiled(self.pattern).finditer(self.text):
                    self._places.setdefault(match[0], match.start())
            at = self._places[form]
        return Span(at, at + len(form))

    def _quick_place(self, form: str) -> int:
        """The same by plain search, for words whose neighbours show where they end; -1 where they do not."""
        text = self.text
        if not self.reading.exact or not (text.isascii() or (self.reading.fold is _fold and form.isalnum())):
            return -1
        rare = None if self.pattern in (_ASCII, _LETTERS) else _rare()
        at = text.find(form)
        while at >= 0:
            around = text[at - 1 : at] + text[at + len(form) : at + len(form) + 1]
            if rare and rare.search(form + around):
                return -1
            if not any(map(str.isalnum, around)):
                break
            at = text.find(form, at + 1)
        return at

    def supported(self, form: str) -> str | None:
        """The key by which this text has the word `form` of another text, or None."""
        for key in self.reading.keys(form):
            if key in self.counts:
                return key
        return None


class Kin:
    """Words of a response and of a source that differ only by a hyphen or a space: forms of ours and of theirs.

    `parts` has, for a word of ours that stands parted in the source, the place of its parts.
    """

    __slots__ = ("ours", "parts", "theirs", "wholes")

    def __init__(self, response: Profile, source: Profile) -> None:
        self.ours: set[str] = set()
        self.theirs: set[str] = set()
        self.parts: dict[str, Span] = {}
        self.wholes: dict[str, str] = {}
        if response.reading.exact:
            return
        for a, b in values.neighbours(response.text, response.types):
            whole = source.supported(a + b)
            if whole is not None:
                form = source.first(whole)
                self.ours |= {a, b}
                self.theirs.add(form)
                self.wholes.update({a: form, b: form})
        for form in response.types:
            if source.supported(form) is not None:
                continue
            for a, b, at in values.parted(form, source.text, source.types):
                self.ours.add(form)
                self.theirs |= {a, b}
                self.parts[form] = Span(at, at + len(a) + 1 + len(b))


def share(ours: Sequence[Profile], theirs: Sequence[Profile], kin: Iterable[set[str]]) -> float:
    """The share of the words of `ours` that `theirs` have, with clipped counts; 0 if there are none."""
    total = sum(profile.total for profile in ours)
    if not total:
        return 0.0
    if ours[0].reading.exact:
        return _same_keys(ours, theirs) / total
    same = set().union(*kin)
    wanted: dict[str, int] = {}
    have: dict[str, int] = {}
    matched = 0
    keys = ours[0].reading.keys
    counts = [profile.counts for profile in theirs]
    for profile in ours:
        for form, count in profile.types.items():
            for key in keys(form):
                there = sum([c[key] for c in counts if key in c])
                if there:
                    have[key] = there
                    wanted[key] = wanted.get(key, 0) + count
                    break
            else:
                matched += count if form in same else 0
    return (matched + sum(min(count, have[key]) for key, count in wanted.items())) / total


def _same_keys(ours: Sequence[Profile], theirs: Sequence[Profile]) -> int:
    """The clipped count of keys that both have."""
    a, b = _pooled(ours), _pooled(theirs)
    if len(a) > len(b):
        a, b = b, a
    return sum([count if count < b[key] else b[key] for key, count in a.items() if key in b])


def _pooled(profiles: Sequence[Profile]) -> dict[str, int]:
    if len(profiles) == 1:
        return profiles[0].counts
    pool: Counter[str] = Counter()
    for profile in profiles:
        pool.update(profile.counts)
    return pool
