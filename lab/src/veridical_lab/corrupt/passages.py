"""Analyse the sentences of a response together with its sources, for rules that change sentences.

Words and values are compared by keys. Texts with the same meaning in different forms have the same keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from veridical.records.spans import Span
from veridical.records.types import Case, Edit
from veridical.text import quantities
from veridical.text.names import is_name
from veridical.text.segment import sentences, words
from veridical_lab.corrupt.mentions import NamedMention
from veridical_lab.corrupt.name_kinds import name_mentions

VALUE = re.compile(rf"{quantities.PATTERN}|[^\W_]+")
"""Matches a value (a number, date, quantity …) or, if there is none, a word. The text must be in lower case."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source with the keys that its words imply, for the whole source and for each sentence."""

    text: str
    keys: frozenset[str]
    sentence_keys: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence of a response, with everything needed to reword it or to put an error into it.

    Attributes:
        text: The whole response.
        span: The sentence to change.
        mentions: The names in the response. Their `kind` is person, place, organisation … or "name" if unknown.
        sources: The sources of the response.
        near: The keys that the nearest source sentences imply (see `passages_of`).
    """

    text: str
    span: Span
    mentions: Sequence[NamedMention]
    sources: Sequence[SourceText]
    near: frozenset[str]

    @property
    def sentence(self) -> str:
        """The text of the sentence."""
        return self.span.of(self.text)

    @property
    def names(self) -> list[NamedMention]:
        """The names in the sentence, in order."""
        return [mention for mention in self.mentions if self.span.contains(mention.span)]

    def edit(self, start: int, end: int, new: str, kind: str) -> Edit:
        """Make an edit that replaces the characters `start` to `end` of the sentence with `new`."""
        return Edit(Span(start, end).shift(self.span.start), new, kind)

    def is_supported(self, keys: Sequence[str]) -> bool:
        """Return whether a source implies any of `keys`."""
        return any(not source.keys.isdisjoint(keys) for source in self.sources)


def implied(text: str) -> frozenset[str]:
    """Compute the keys that the words and values of `text` support in other texts. Stop words support nothing."""
    return frozenset(key for word in set(VALUE.findall(quantities.fold(text))) for key in quantities.implies(word))


@lru_cache(maxsize=1024)
def read_source(text: str) -> SourceText:
    """Compute the keys of a source. The last 1,024 sources are cached, because examples share them."""
    by_sentence = tuple(implied(span.of(text)) for span in sentences(text))
    return SourceText(text, frozenset().union(*by_sentence), by_sentence)


def passages_of(case: Case) -> list[Passage]:
    """Make a passage for each sentence of the response that has words.

    A source sentence counts as near if it has at least half of the keys of the response's sentence, or more of them
    than any other source sentence.
    """
    sources = tuple(read_source(source.text) for source in case.sources)
    mentions = name_mentions(case.response, [source.text for source in case.sources])
    passages = []
    for span in sentences(case.response):
        sentence = span.of(case.response)
        if not words(sentence):
            continue
        keys = implied(sentence)
        shared = [(len(keys & of_sentence), of_sentence) for source in sources for of_sentence in source.sentence_keys]
        enough = min(len(keys) / 2, max((count for count, _ in shared), default=0))
        near = frozenset().union(*(of_sentence for count, of_sentence in shared if count >= enough > 0))
        passages.append(Passage(case.response, span, mentions, sources, near))
    return passages


def is_apart(edit: Edit, others: Iterable[Edit]) -> bool:
    """Return whether at least two characters lie between an edit and each of the others."""
    return all(edit.span.end + 1 < o.span.start or o.span.end + 1 < edit.span.start for o in others)


def article_fits(text: str, edit: Edit) -> bool:
    """Return whether "a" or "an" before an edit still fits its replacement.

    >>> [article_fits("It is an owl.", Edit(Span(9, 12), new, "")) for new in ("eagle", "bird")]
    [True, False]
    """
    article = re.search(r"\b[Aa](n?) $", text[max(0, edit.span.start - 4) : edit.span.start])
    return not article or bool(article[1]) == (_VOWEL.match(edit.replacement.lower()) is not None)


_VOWEL = re.compile(r"[aeio]|u(?!ni|s[aeiu])|8|1[18](?![0-9])")


def opens_with_name(text: str) -> bool:
    """Return whether a sentence begins with a word that is always capitalised, such as a name, "I" or an acronym."""
    first = next(iter(words(text)), None)
    return first is not None and (first.of(text) == "I" or is_name(text, first))
