"""Errors that a rule can make in one sentence of a text: a finder of candidate edits for each type of error.

A finder yields what could be changed, in an order drawn by the caller's source of randomness. What it yields differs
from the text, and a number, date, unit, name, antonym or swapped relation that it puts in is not what the sources say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from random import Random

from veridical.core import quantities
from veridical.core.names import is_name
from veridical.core.segment import sentences
from veridical.core.spans import Span
from veridical.core.stemmer import stem
from veridical.core.types import Edit
from veridical.core.vocabulary import MONTHS, WEEKDAYS
from veridical.corrupt.english import (
    ANTONYMS,
    AUXILIARY,
    CONTRACTIONS,
    FALLBACK_CLAUSES,
    TRANSITIVE,
    UNITS,
    VALUE_WORDS,
)
from veridical.corrupt.mentions import Mention, Names, numbers_like, occurrences, written_like

__all__ = ["ERROR_TYPES", "Passage", "SourceText", "clauses_in", "implied", "read_source"]

_DRAWS = 20
_WORD = re.compile(rf"{quantities.PATTERN}|[^\W_]+")
_COMPONENT = re.compile(
    r"[0-9]+(?:st|nd|rd|th)\b|[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|(?:°|℃)?[^\W\d_]+(?:/[^\W\d_]+)?|[$£€]"
)


@dataclass(frozen=True, slots=True)
class SourceText:
    """One source, read once: what its words imply as a whole and by sentence."""

    text: str
    keys: frozenset[str]
    sentence_keys: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """One sentence of a response, and what is needed to say something else in it.

    Attributes:
        text: The whole response.
        span: The sentence that is to be changed.
        mentions: The names that the response mentions.
        sources: What the response rests on.
        near: What the words of those source sentences imply that say most of what this sentence says.
        other_names: Names to draw from where the sources offer none.
        clauses: Clauses of any source, with their comma.
    """

    text: str
    span: Span
    mentions: Sequence[Mention]
    sources: Sequence[SourceText]
    near: frozenset[str]
    other_names: Names
    clauses: Sequence[str]

    @property
    def sentence(self) -> str:
        """The characters of the sentence."""
        return self.span.of(self.text)

    def edit(self, start: int, end: int, new: str, kind: str) -> Edit:
        """The edit that puts `new` for the characters `start` to `end` of the sentence."""
        return Edit(Span(start, end).shift(self.span.start), new, kind)

    def is_supported(self, keys: Sequence[str]) -> bool:
        """Whether a source implies any of `keys`."""
        return any(not source.keys.isdisjoint(keys) for source in self.sources)


def implied(text: str) -> frozenset[str]:
    """What the words and values of `text` support in another text; stop words support nothing."""
    return frozenset(key for word in set(_WORD.findall(quantities.fold(text))) for key in quantities.implies(word))


@lru_cache(maxsize=256)
def read_source(text: str) -> SourceText:
    """Read a source; the last 256 are kept, because examples share sources."""
    by_sentence = tuple(implied(span.of(text)) for span in sentences(text))
    return SourceText(text, implied(text), by_sentence)


@lru_cache(maxsize=256)
def _names_of(text: str) -> Names:
    return Names([text])


def clauses_in(text: str) -> list[str]:
    """The subordinate and coordinate clauses that end a sentence of `text`, each with the comma before it."""
    return _CLAUSE.findall(text)


_CLAUSE = re.compile(
    r"(, (?:which|who|where|but|while|although|because|after|before|when|and (?:he|she|it|they|was|is|had|were)) "
    r"[^,;:()\[\]\"“”?!.\n]{15,100})(?=\.(?:\s|$))"
)


# ------------------------------------------------------------------------------------ numbers, dates and units


def _values(passage: Passage, draw: Random, kind: str) -> Iterator[tuple[Edit, ...]]:
    """One part of one value ("7" for "3" in "3 May 2021") so that its value is of the same kind and in no source."""
    sentence = passage.sentence
    matches = [m for m in _WORD.finditer(quantities.fold(sentence)) if _has_kind(sentence, m, kind)]
    for match in draw.sample(matches, len(matches)):
        value = sentence[match.start() : match.end()]
        form = _form(match[0])
        parts = list(_COMPONENT.finditer(value))
        for part in draw.sample(parts, len(parts)):
            options = _value_options(part[0], kind, draw)
            for new in draw.sample(options, len(options)):
                changed = quantities.fold(value[: part.start()] + new + value[part.end() :])
                keys = quantities.keys(changed)
                if not keys or _form(changed) != form or passage.is_supported(keys):
                    continue
                yield (passage.edit(match.start() + part.start(), match.start() + part.end(), new, kind),)
                break


def _form(value: str) -> str:
    """What kind of value it is read as: the letter before the colon of its key; "" for a plain word."""
    keys = quantities.keys(value)
    return keys[0].partition(":")[0] if keys and ":" in keys[0] else ""


def _has_kind(sentence: str, match: re.Match[str], kind: str) -> bool:
    value, form = match[0], _form(match[0])
    if sentence[: match.start()].endswith(("[", "at ")) and form in ("n", "o"):
        return False  # a reference mark, "at first"
    if kind == "unit":
        return form == "q" or (form == "n" and any(part in UNITS for part in re.findall("[a-z]+", value)))
    in_name = re.match(r"(?:'s)? [A-Z]", sentence[match.end() :]) is not None  # "the Saturday Evening Post"
    capitalised = sentence[match.start()].isupper() and match.start() > 0
    named = not in_name and (value in WEEKDAYS or (value in MONTHS and capitalised))
    is_year = form == "n" and re.fullmatch("1[0-9]{3}|20[0-9]{2}", value) is not None
    if form in ("d", "t") or named or is_year:
        return kind == "date"
    return kind == "number" and form in ("n", "q", "o", "r") and value not in ("one", "1")


def _value_options(part: str, kind: str, draw: Random) -> list[str]:
    """Units; or numbers, number words, months or weekdays of the same form; final zeros of whole numbers stay."""
    if kind == "unit":
        return [_cased_like(part, word) for word in UNITS.get(part.lower(), ())]
    if not part[0].isdigit():
        return [_cased_like(part, word) for word in VALUE_WORDS.get(part.lower(), ())]
    digits = re.sub(r"\D", "", part)
    if not part[-1].isdigit():
        suffixes = {1: "st", 2: "nd", 3: "rd"}
        return [
            new + ("th" if int(new) // 10 % 10 == 1 else suffixes.get(int(new) % 10, "th"))
            for new in numbers_like(digits, draw)
        ]
    head = digits if "." in part else digits.rstrip("0")
    if not head:
        return []
    rest = digits[len(head) :]
    whole = numbers_like(digits, draw) if len(part) == 4 and 1000 <= int(digits) <= 2100 else []
    return whole or [written_like(part, re.sub(r"\D", "", new) + rest) for new in numbers_like(head, draw)]


def _cased_like(old: str, new: str) -> str:
    if old.isupper() and len(old) > 1:
        return new.upper()
    return new.capitalize() if old[:1].isupper() else new


# ------------------------------------------------------------------------------------------ names and relations


def _names(passage: Passage, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """Another name of the same source, or of another one: alike in form, and in none of the nearest sentences."""
    spans = [mention.span for mention in passage.mentions if passage.span.contains(mention.span)]
    for span in draw.sample(spans, len(spans)):
        name = span.of(passage.text)
        of_sources = sorted({other for source in passage.sources for other in _names_of(source.text).like(name)})
        elsewhere = passage.other_names.like(name)
        drawn = [draw.choice(elsewhere) for _ in range(_DRAWS if elsewhere else 0)]
        options = draw.sample(of_sources, len(of_sources)) + [
            o for o in drawn if not any(occurrences(s.text, o, ignore_case=True) for s in passage.sources)
        ]
        for new in options:
            if _is_other_name(passage, name, new):
                yield (Edit(span, new, "name"),)
                break


def _is_other_name(passage: Passage, old: str, new: str) -> bool:
    """Whether `new` is another thing than `old` (no word in common, not its initials) that is not meant here."""
    words, others = old.lower().split(), new.lower().split()
    initials = {"".join(w[0] for w in text.split() if w[0].isupper()).lower() for text in (old, new) if " " in text}
    return (
        not {stem(word) for word in words} & {stem(word) for word in others}
        and not initials & {"".join(words), "".join(others)}
        and _is_adjective(old) == _is_adjective(new)
        and passage.near.isdisjoint(implied(new))
        and not occurrences(passage.text, new, ignore_case=True)
    )


def _is_adjective(name: str) -> bool:
    """Whether a name looks like one of a people or language ("Spanish", "Peruvian")."""
    return re.search("(?:ish|ese|ian|ean|[^a-z]french|german|dutch|greek)s?$", f" {name.lower()}") is not None


def _relations(passage: Passage, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """Doer and object of a verb in each other's place, where both are names."""
    spans = [mention.span for mention in passage.mentions if passage.span.contains(mention.span)]
    pairs = [(a, b) for a, b in pairwise(spans) if _VERB_BETWEEN.fullmatch(passage.text, a.end, b.start)]
    for first, second in draw.sample(pairs, len(pairs)):
        one, other = first.of(passage.text), second.of(passage.text)
        if {word.lower() for word in one.split()} & {word.lower() for word in other.split()}:
            continue
        reverse = re.compile(rf"{re.escape(other)}\b[^.]{{1,60}}\b{re.escape(one)}")
        if not any(reverse.search(source.text) for source in passage.sources):
            yield Edit(first, other, "relation"), Edit(second, one, "relation")


_ADVERBS = "was|were|is|had|has|have|been|later|also|then|once|never|first|narrowly"
_VERB_BETWEEN = re.compile(rf" (?:(?:{_ADVERBS}) ){{0,3}}(?:{'|'.join(TRANSITIVE)})(?: by)?(?: the)? ")


# ------------------------------------------------------------------------- negation, antonyms, invented clauses


def _negations(passage: Passage, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """A negation taken out where there is one, else one put in; no sentences that leave open what is so."""
    sentence = passage.sentence
    if _OPEN.search(sentence):
        return
    changes = [
        (m, _cased_like(m[0], CONTRACTIONS[m[0].replace("’", "'").lower()])) for m in _CONTRACTED.finditer(sentence)
    ]
    changes += [(m, m[1]) for m in _NEGATED.finditer(sentence)]
    if not changes and not _NEGATION.search(sentence):
        changes = [(m, f"{m[0]} not") for m in _AFFIRMED.finditer(sentence)]
        changes += [(m, f"never {m[0]}") for m in _PAST_OF_PRONOUN.finditer(sentence)]
    for match, new in draw.sample(changes, len(changes)):
        yield (passage.edit(match.start(), match.end(), new, "negation"),)


_OPEN = re.compile(r"\b(?:whether|if|unless|not (?:only|necessarily|just|merely|simply|until))\b|\?", re.IGNORECASE)
_CONTRACTED = re.compile(rf"\b(?:{'|'.join(CONTRACTIONS)})\b".replace("'", "['’]"), re.IGNORECASE)
_NEGATED = re.compile(rf"\b({'|'.join(AUXILIARY)}) not\b(?= \w)")
_NEGATION = re.compile(r"\b(?:not|no|never|nor|neither|none|nobody|nothing|hardly|without)\b|n['’]t\b", re.IGNORECASE)
_AFFIRMED = re.compile(r"(?<= )(?:(?:is|are|was|were|will|would|should)|(?:has|have|had)(?= been\b))(?= [a-z])")
_PAST_OF_PRONOUN = re.compile(
    r"(?<=\b(?:[Ss]he|Who|who) )[a-z]{2,}ed\b|(?<=\b[Hh]e )[a-z]{2,}ed\b|(?<=\b[Tt]hey )[a-z]{2,}ed\b"
)


def _antonym_swaps(passage: Passage, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """A word's opposite, where none of the nearest source sentences has that word."""
    sentence = passage.sentence
    matches = [m for m in re.finditer(r"[^\W\d_]+", sentence) if m[0].lower() in ANTONYMS and _is_plain(sentence, m)]
    for match in draw.sample(matches, len(matches)):
        new = ANTONYMS[match[0].lower()]
        if passage.near.isdisjoint((stem(new), new)) and not occurrences(sentence, new, ignore_case=True):
            yield (passage.edit(match.start(), match.end(), _cased_like(match[0], new), "antonym"),)


def _is_plain(sentence: str, match: re.Match[str]) -> bool:
    """Whether a word is no part of a name, a compound or an idiom ("named after", "at least")."""
    before, after = sentence[: match.start()], sentence[match.end() : match.end() + 1]
    opens = match.start() == 0 and not is_name(sentence, Span(*match.span()))
    idiom = re.search(r"\b(?:named|looked?|at|as|so|once and for) $", before) is not None
    return (
        (match[0].islower() or opens)
        and not before.endswith(("-", "'", "’"))
        and after not in ("-", "'", "’")
        and not idiom
    )


def _inventions(passage: Passage, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """A clause at the end of the sentence: one of another source, with words that are in none of the example's own."""
    sentence = passage.sentence
    tail = _TAIL.search(sentence)
    if tail is None or not sentence[: tail.start()] or not sentence[tail.start() - 1].isalnum():
        return
    drawn = [draw.choice(passage.clauses) for _ in range(_DRAWS if passage.clauses else 0)]
    drawn += [f", {draw.choice(FALLBACK_CLAUSES).format(n=draw.randint(2, 60))}"]
    for clause in drawn:
        keys = implied(clause)
        unsupported = [key for key in keys if not passage.is_supported((key,))]
        if keys and 2 * len(unsupported) >= len(keys) and not any(clause in s.text for s in passage.sources):
            yield (passage.edit(tail.start(), tail.start(), clause, "invented"),)
            return


_TAIL = re.compile(r"\s*[.!]*$")


ERROR_TYPES: dict[str, Callable[[Passage, Random], Iterator[tuple[Edit, ...]]]] = {
    "number": partial(_values, kind="number"),
    "date": partial(_values, kind="date"),
    "unit": partial(_values, kind="unit"),
    "name": _names,
    "negation": _negations,
    "antonym": _antonym_swaps,
    "relation": _relations,
    "invented": _inventions,
}
