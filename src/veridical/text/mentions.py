"""Split texts into sentences of words and values, and index the sentences to find those closest to a query.

Words are compared by their stems, and numbers, dates and quantities by value (as in `overlap:values`). Building an
index takes linear time. These nouns are used throughout:

- A token is a word, or a value such as "3 May 2021", which is a single token.
- A mention is a value or a name in a sentence.
- A key is a string under which words are compared: the stem of a word, or a canonical form of a value ("n:330").
- A token supports (implies) a key in another text: "330 m" supports the length and the number 330.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import nsmallest
from math import log

from veridical.records.spans import Span
from veridical.text import quantities
from veridical.text.json_records import json_records
from veridical.text.markup import list_numbers
from veridical.text.matching import WORDS, compiled
from veridical.text.names import is_name
from veridical.text.segment import sentences
from veridical.text.stopwords import STOP_WORDS
from veridical.text.units import CURRENCIES
from veridical.text.vocabulary import MONTHS, SHORT_MONTHS, WEEKDAYS

_FORMS = {"f": "frequency", "d": "date", "t": "time", "o": "ordinal", "r": "range", "dec": "decade"}
_MONTHS = frozenset({*MONTHS, *SHORT_MONTHS})
_DAYS = frozenset({*WEEKDAYS, *(f"{day}s" for day in WEEKDAYS)})
_BEFORE_YEAR = frozenset(
    {"in", "since", "by", "of", "until", "from", "during", "before", "after", "to", "and", "early"}
)
_TITLES = frozenset({"mr", "mrs", "ms", "miss", "dr", "prof", "sir", "lady", "lord", "president", "king", "queen"})
_INTERJECTIONS = frozenset(
    {"yes", "yeah", "yep", "oh", "ah", "wow", "hi", "hey", "hello", "ok", "okay", "thanks", "lol"}
)
_INSIDE_NAME = frozenset({"of", "the", "de", "la", "van", "von", "der", "del", "di", "da", "bin", "al"})
_INSIDE_GAP = re.compile(r"\.? |-|['’]|\.(?=[A-Z])")
_BEFORE_MARK = re.compile(r"\[$|[^\W\d_][-‐‑]$")
_PEOPLE = re.compile(r"(?:ish|ese|[a-z]ian|[a-z]ean|[a-z]ican|^french|^german|^dutch|^greek|^roman|^swiss)s?$")


@dataclass(frozen=True, slots=True)
class Token:
    """A word in a text, or a complete value such as "3 May 2021".

    Attributes:
        span: The characters of the token.
        form: The token in lower case.
    """

    span: Span
    form: str

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which to look up this token in other texts, best key first.

        A key is the stem of a word, or the canonical form of a value. A stop word has no keys.
        """
        return quantities.keys(self.form)


@dataclass(frozen=True, slots=True)
class Mention:
    """A value or a name in a sentence.

    A key is the stem of a word, or the canonical form of a value ("q:length:330" for "330 m").

    Attributes:
        kind: The kind of value or name, such as "name", "people" ("French"), "number", "year", "date", "month",
            "weekday", "time", "age", "duration", "money", "percent" or "length". A mention can replace another mention
            of the same kind.
        span: The characters of the mention in the text.
        first: The index of its first token in the sentence.
        last: The index of its last token in the sentence.
        keys: The keys under which to look up the mention in other texts. A text has a value if it supports any of the
            keys, and a name if it supports all of them (the stems of its words).
        parts: The keys that the mention supports in another text. "3 May 2021" supports "May 2021", and a name supports
            each of its words.
    """

    kind: str
    span: Span
    first: int
    last: int
    keys: tuple[str, ...]
    parts: frozenset[str] = frozenset()

    @property
    def is_name(self) -> bool:
        """Whether the mention is a name, not a value."""
        return self.kind in ("name", "people")

    def same(self, other: Mention) -> bool:
        """Check whether two mentions may mean the same.

        Two values may mean the same if one of them supports the other ("3 May 2021" and "May 2021"). Two names may mean
        the same if one has all words of the other, or is an acronym of it.
        """
        one, two = set(self.keys), set(other.keys)
        if self.is_name:
            return one <= two or two <= one or self._initials(other) or other._initials(self)
        return not (one.isdisjoint(other.parts) and two.isdisjoint(self.parts))

    def _initials(self, other: Mention) -> bool:
        """Check whether this is an acronym of `other`, perhaps with a final "a" ("USA" for "United States")."""
        letters = "".join(key[0] for key in other.keys)
        return len(self.keys) == 1 < len(letters) and self.keys[0] in (letters, f"{letters}a")

    def distance(self, token_i: int) -> int:
        """Return the distance in tokens from this mention to the token with the index `token_i` in the same sentence.

        An adjacent token has the distance 1, and a token inside the mention has a distance of 0 or less.
        """
        return max(self.first - token_i, token_i - self.last)


def word_pattern(folded: str) -> re.Pattern[str]:
    """Return the regular expression that matches the words and values of a text.

    The text must be folded, which means lower-cased with `quantities.fold`.
    """
    return compiled(WORDS["values"].pattern(folded))


class Sentence:
    """A sentence of a text, a row of a table, a record of JSON, or a piece of a very long sentence, split into tokens.

    A token is a word, or a value such as "3 May 2021". To split a text into sentences, use `read_sentences`.

    Args:
        text: The complete text.
        folded: The same text, lower-cased with `quantities.fold`.
        pattern: The regular expression for words and values (`word_pattern`).
        span: The characters of the sentence in the text.
        text_i: The position of the text in the list of texts that a `SentenceIndex` was built from.
        item_numbers: The positions of the digits of list numbers ("1."), which are not values.
    """

    def __init__(
        self,
        text: str,
        folded: str,
        pattern: re.Pattern[str],
        span: Span,
        text_i: int = 0,
        item_numbers: Collection[int] = (),
    ) -> None:
        self.text = text
        self.span = span
        self.text_i = text_i
        self.item_numbers = item_numbers
        self._folded = folded
        self._pattern = pattern

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """The words and values of the sentence, in order. A value such as "3 May 2021" is a single token."""
        matches = self._pattern.finditer(self._folded, self.span.start, self.span.end)
        return tuple(Token(Span(*match.span()), match[0]) for match in matches)

    def inside(self, span: Span) -> range:
        """Return the indices of the tokens that overlap `span`."""
        first = bisect_right(self.tokens, span.start, key=lambda token: token.span.end)
        return range(first, bisect_left(self.tokens, span.end, lo=first, key=lambda token: token.span.start))

    @cached_property
    def positions(self) -> Mapping[str, Sequence[int]]:
        """The indices of the tokens that support each key, by key.

        A key is the stem of a word, or a value. One token may support several keys: "330 m" supports the length and the
        number 330.
        """
        positions: defaultdict[str, list[int]] = defaultdict(list)
        for i, token in enumerate(self.tokens):
            for key in quantities.implies(token.form):
                positions[key].append(i)
        return positions

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        """The values and names of the sentence, in order.

        After a date, its year and its month follow as further mentions.
        """
        return tuple(self._mentions())

    def form(self, i: int) -> str:
        """Return token `i` in lower case, or "" if there is no such token."""
        return self.tokens[i].form if 0 <= i < len(self.tokens) else ""

    def counts(self, i: int) -> bool:
        """Check whether token `i` may be a number of things, as in "120 patients".

        This is the case if a word that is not a stop word follows after a single space.
        """
        if i + 1 >= len(self.tokens) or not self.tokens[i + 1].keys:
            return False
        return self.text[self.tokens[i].span.end : self.tokens[i + 1].span.start] == " "

    def _mentions(self) -> Iterator[Mention]:
        last = -1
        for i, token in enumerate(self.tokens):
            if i <= last:
                continue
            kind = self._value_kind(i)
            if kind is not None:
                yield Mention(kind, token.span, i, i, token.keys, frozenset(quantities.implies(token.form)))
                if kind == "date":
                    for match in re.finditer("[12][0-9]{3}|[a-z]{3,}", token.form):
                        if match[0].isdigit() or match[0] in _MONTHS:
                            span = Span(*match.span()).shift(token.span.start)
                            part = "year" if match[0].isdigit() else "month"
                            keys = quantities.keys(match[0])
                            yield Mention(part, span, i, i, keys, frozenset(keys))
            elif self._is_name(i):
                last = self._name_end(i)
                span = Span(token.span.start, self.tokens[last].span.end)
                bracketed = self.text[span.start - 1 : span.start] == "(" and self.text[span.end : span.end + 1] == ")"
                if not bracketed and not (i == last and token.form in _TITLES):
                    keys = tuple(key for t in self.tokens[i : last + 1] for key in t.keys[:1])
                    people = i == last and _PEOPLE.search(token.form) is not None
                    yield Mention("people" if people else "name", span, i, last, keys, frozenset(keys))

    def _value_kind(self, i: int) -> str | None:
        """Return the kind of value that token `i` is.

        Return None if the token is not a value. For example, a reference mark ("[3]") and a number that is part of a
        name ("COVID-19") are not values.
        """
        token, text = self.tokens[i], self.text
        form, keys = token.form, token.keys
        if form in _DAYS or form in _MONTHS:
            return ("weekday" if form in _DAYS else "month") if text[token.span.start].isupper() else None
        if token.span.start in self.item_numbers:
            return None
        if not keys or _BEFORE_MARK.search(text[max(0, token.span.start - 2) : token.span.start]):
            return None
        family, colon, rest = keys[0].partition(":")
        if not colon:
            return "code" if any(char.isdigit() for char in form) else None
        if family == "q":
            measure = rest.partition(":")[0]
            if measure in ("time", "month"):
                return "age" if "old" in form else "duration"
            return "money" if measure in CURRENCIES else measure
        return _FORMS.get(family) or self._number_kind(i)

    def _number_kind(self, i: int) -> str:
        """Tell whether a plain number is a year ("in 1990", not "1990 owls"), an age ("Ann, 30, said") or a number."""
        token, text, before = self.tokens[i], self.text, self.form(i - 1)
        start, end = token.span.start, token.span.end
        if re.fullmatch("1[0-9]{3}|20[0-9]{2}", token.form):
            following = self.tokens[i + 1] if i + 1 < len(self.tokens) else None
            if following is None or before in _BEFORE_YEAR or not following.keys:
                return "year"
            return "number" if text[end : following.span.start + 1] == f" {following.form[0]}" else "year"
        if token.form.isdecimal() and 0 < int(token.form) < 111:
            bracketed = text[max(0, start - 1) : start] == "(" and text[end : end + 1] == ")"
            after_name = i > 0 and text[self.tokens[i - 1].span.start].isupper()
            apposed = after_name and text[max(0, start - 2) : start] == ", " and text[end : end + 1] in (",", ".", ";")
            if bracketed or apposed or before in ("aged", "age"):
                return "age"
        return "number"

    def _is_name(self, i: int) -> bool:
        token = self.tokens[i]
        if token.form in STOP_WORDS or not token.form.isalnum() or not token.form[0].isalpha():
            return False
        if i == 0 and (token.form in _INTERJECTIONS or token.form.endswith(("ing", "ed"))):
            return False
        return self._value_kind(i) is None and is_name(self.text, token.span)

    def _name_end(self, first: int) -> int:
        """Return the last token of the name that begins with token `first`."""
        last = first
        for i in range(first + 1, len(self.tokens)):
            gap = self.text[self.tokens[i - 1].span.end : self.tokens[i].span.start]
            if not _INSIDE_GAP.fullmatch(gap):
                break
            if self._is_name(i):
                last = i
            elif gap != " " or i > last + 2 or self.tokens[i].span.of(self.text) not in _INSIDE_NAME:
                break
        return last


_LONG, _PIECE = 100, 50  # "sentences" of more than 100 words (tables, texts without full stops) are cut into pieces


def read_sentences(text: str, text_i: int = 0) -> Iterator[tuple[Sentence, frozenset[str]]]:
    """Split a text into sentences, and pair each one with the keys that it supports in another text.

    A key is the stem of a word, or a value. Sentences without words are skipped. Each row of a table and each record of
    JSON becomes a sentence, and very long sentences are split into pieces.

    Args:
        text: The text.
        text_i: The index of the text, which is stored in its sentences.
    """
    folded = quantities.fold(text)
    pattern = word_pattern(folded)
    item_numbers = frozenset(
        i for number in list_numbers(text) for i in range(number.start, number.end) if text[i].isdigit()
    )
    for span in _units(text):
        forms = pattern.findall(folded, span.start, span.end)
        pieces = [(span, forms)] if forms else []
        if len(forms) > _LONG:
            matches = list(pattern.finditer(folded, span.start, span.end))
            parts = [matches[i : i + _PIECE] for i in range(0, len(matches), _PIECE)]
            pieces = [(Span(part[0].start(), part[-1].end()), [match[0] for match in part]) for part in parts]
        for piece, piece_forms in pieces:
            keys = frozenset(key for form in set(piece_forms) for key in quantities.implies(form))
            yield Sentence(text, folded, pattern, piece, text_i, item_numbers), keys


def _units(text: str) -> list[Span]:
    """Split a text into sentences, rows of tables and records of JSON, in order."""
    pieces = [(records[0].start, records[-1].end, records) for records in json_records(text).values()]
    starts = [start for start, _, _ in pieces]
    units = [record for _, _, records in pieces for record in records]
    for sentence in sentences(text):
        before = bisect_right(starts, sentence.start) - 1
        inside = before >= 0 and pieces[before][1] > sentence.start
        if not inside and not (before + 1 < len(starts) and starts[before + 1] < sentence.end):
            units += _rows(text, sentence)
    return sorted(units)


def _rows(text: str, span: Span) -> list[Span]:
    """Split `span` into its lines if they are rows of a table or fields of a record. Otherwise return `span` alone."""
    lines = [Span(*match.span()).shift(span.start) for match in re.finditer(r"[^\n]*\S[^\n]*", span.of(text))]
    for divider in _DIVIDERS if len(lines) > 1 else ():
        counts = {len(divider.findall(line.of(text))) for line in lines}
        if len(counts) == 1 and counts.pop() > 0:
            return lines
    return [span]


_DIVIDERS = [
    re.compile(divider)
    for divider in (r"\t", r"\|", ";", r" {2,}(?=\S)", r"(?<=[^,\s]),(?=[^,\s])", r"^[^:\n]{1,40}: ")
]


@dataclass(frozen=True, slots=True)
class WeightedWord:
    """A word of a query to a `SentenceIndex`, weighted by its rarity.

    Attributes:
        token_i: The index of its token in the sentence of the query.
        key: Its key (stem or value) in the index. None if the index does not have the word.
        weight: The weight, which is higher for words that occur in fewer sentences of the index.
    """

    token_i: int
    key: str | None
    weight: float

    def scaled(self, factor: float) -> WeightedWord:
        """Return the same word with its weight multiplied by `factor`."""
        return WeightedWord(self.token_i, self.key, self.weight * factor)


class SentenceIndex:
    """An inverted index of the sentences of some texts, to find those that share words or values with a query.

    A key is the stem of a word, or the canonical form of a value. Write `key in index` to check whether a sentence
    supports a key.

    Args:
        texts: The texts, such as the sources of a case.

    Attributes:
        sentences: All sentences, in order. Methods refer to them by their index in this list.
        keys: The keys that each sentence supports.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self.sentences: list[Sentence] = []
        self.keys: list[frozenset[str]] = []
        self._with_key: defaultdict[str, list[int]] = defaultdict(list)
        for text_i, text in enumerate(texts):
            for sentence, keys in read_sentences(text, text_i):
                for key in keys:
                    self._with_key[key].append(len(self.sentences))
                self.sentences.append(sentence)
                self.keys.append(keys)
        mean_size = sum(map(len, self.keys)) / max(1, len(self.keys)) or 1.0
        self._penalties = [0.8 + 0.2 * max(1.0, len(keys) / mean_size) for keys in self.keys]

    def __contains__(self, key: str) -> bool:
        return key in self._with_key

    def has_number(self, number: str) -> bool:
        """Check whether a text contains a number in exactly these digits, such as "1.2", with any unit or magnitude."""
        digits = re.compile(rf"(?<![0-9])(?<![0-9][.,]){re.escape(number)}(?![0-9]|[.,][0-9])")
        return any(number in text and digits.search(text) for text in self._texts)  # most texts do not have it

    def with_key(self, key: str) -> Sequence[int]:
        """Return the indices of the sentences that support a key (the stem of a word, or a value)."""
        return self._with_key.get(key, ())

    def weighted(self, sentence: Sentence) -> list[WeightedWord]:
        """Weight the words of a sentence from another text, to use it as a query.

        Words that are rare in the index have a higher weight. Stop words and list numbers are skipped.
        """
        weighted = []
        for i, token in enumerate(sentence.tokens):
            keys = token.keys
            if keys and token.span.start not in sentence.item_numbers:
                key = next((key for key in keys if key in self._with_key), None)
                count = 1 if key is None else len(self._with_key[key])
                weighted.append(WeightedWord(i, key, log(1 + max(1, len(self.sentences)) / count)))
        return weighted

    def proportion(self, sentence_i: int, words: Sequence[WeightedWord]) -> float:
        """Compute the proportion of the words of a query that a sentence of the index has, by weight, in [0, 1].

        `sentence_i` is the index of the sentence in `sentences`, and `words` is the query, from `weighted`.
        """
        total = sum(word.weight for word in words) or 1.0
        return min(1.0, sum(word.weight for word in words if word.key in self.keys[sentence_i]) / total)

    def closest(self, words: Sequence[WeightedWord], limit: int) -> list[tuple[int, float]]:
        """Find the sentences that share the most words with a query. Rare words count more.

        Sentences that are longer than the mean get a lower score.

        Args:
            words: The words of the query, from `weighted`. Words with the same key are counted only once.
            limit: The maximum number of sentences to return.

        Returns:
            The index of each sentence and its score in [0, 1], best first. Sentences that share no words are not
            returned.
        """
        shared: defaultdict[int, float] = defaultdict(float)
        for key, weight in {word.key: word.weight for word in words if word.key is not None}.items():
            for i in self._with_key[key]:
                shared[i] += weight
        total = sum(word.weight for word in words) or 1.0
        ranked = nsmallest(limit, ((-share / self._penalties[i], i) for i, share in shared.items()))
        return [(i, min(1.0, -score / total)) for score, i in ranked]

    def closeness(self, sentence_i: int, words: Sequence[WeightedWord]) -> float:
        """Compute the score by which `closest` ranks a sentence of the index for a query, in [0, 1].

        The score is the proportion of `words`, the words of the query, that the sentence has, by weight. It is reduced
        if the sentence is longer than the mean. `sentence_i` is the index of the sentence in `sentences`.
        """
        shared = {word.key: word.weight for word in words if word.key in self.keys[sentence_i]}
        total = sum(word.weight for word in words) or 1.0
        return min(1.0, sum(shared.values()) / self._penalties[sentence_i] / total)


@lru_cache(maxsize=4)
def index_of(texts: tuple[str, ...]) -> SentenceIndex:
    """Build the index of some texts, or return a cached one.

    The last four indices are cached, because cases share sources, and several rules use the index of the same source.
    """
    return SentenceIndex(texts)
