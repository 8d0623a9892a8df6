"""Find candidate edits for each type of error that rules can make in one sentence of a text.

Each finder yields candidate edits in random order, drawn from the caller's random source. All edits change the text. An
edit may insert a number, date, unit, name, antonym or relation only if the sources do not have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from random import Random

from veridical.records.spans import Span
from veridical.records.types import Edit
from veridical.text import quantities
from veridical.text.names import is_name
from veridical.text.segment import sentences, words
from veridical.text.stemmer import stem
from veridical.text.vocabulary import MONTHS, WEEKDAYS
from veridical_lab.corrupt.english import ANTONYMS, AUXILIARY, FALLBACK_CLAUSES, UNIT_GROUPS, VALUE_WORDS, contracted
from veridical_lab.corrupt.mentions import YEAR, NamedMention, numbers_like, occurrences, written_like
from veridical_lab.corrupt.name_kinds import NamePool, is_whole
from veridical_lab.corrupt.passages import VALUE, Passage, implied
from veridical_lab.corrupt.relations import swapped_sides

_DRAWS = 20
_COMPONENT = re.compile(
    r"[0-9]+(?:st|nd|rd|th)\b|[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|(?:°|℃)?[^\W\d_]+(?:/[^\W\d_]+)?|[$£€]"
)


@dataclass(frozen=True, slots=True)
class Material:
    """Names, clauses and sentences that errors can put into a response if the example's own sources have none.

    Clauses have the comma before them.
    """

    names: NamePool
    clauses: Sequence[str] = ()
    sentences: Sequence[str] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Material:
        """Collect names, clauses and sentences from texts. A text that occurs several times is read only once."""
        once = sorted(dict.fromkeys(texts))
        return cls(
            NamePool(once),
            sorted(clause for text in once for clause in _CLAUSE.findall(text)),
            [sentence for text in once for sentence in plain_sentences(text)],
        )


_pool_of = lru_cache(maxsize=1024)(NamePool)  # cached because examples share sources
_CLAUSE = re.compile(  # a subordinate or coordinate clause with which a sentence ends, with the comma before it
    r", (?:which|who|where|but|while|although|because|after|before|when|and (?:he|she|it|they|was|is|had|were)) "
    r"[^,;:()\[\]\"“”?!.\n]{15,100}(?=\.(?:\s|$))"
)


def plain_sentences(text: str) -> list[str]:
    """Find the complete sentences of `text`: on one line, with a final stop, and of 6 to 60 words."""
    everything = (span.of(text) for span in sentences(text))
    complete = (s for s in everything if s.endswith((".", "!")) and "\n" not in s and s.count("(") == s.count(")"))
    return [s for s in complete if 6 <= len(words(s)) <= 60]


# ------------------------------------------------------------------------------------ numbers, dates and units


def _values(passage: Passage, material: Material, draw: Random, kind: str) -> Iterator[tuple[Edit, ...]]:
    """Change one part of a value ("7" for "3" in "3 May 2021"). The new value has the same kind and is in no source."""
    sentence = passage.sentence
    matches = [m for m in VALUE.finditer(quantities.fold(sentence)) if _has_kind(sentence, m, kind)]
    for match in draw.sample(matches, len(matches)):
        value = sentence[match.start() : match.end()]
        form = _form(match[0])
        parts = [] if re.fullmatch("[0-9]{4}[–-][0-9]{2}", value) else list(_COMPONENT.finditer(value))
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
    """Return the form of a value, which is the letter before the colon of its key, or "" for a plain word."""
    keys = quantities.keys(value)
    return keys[0].partition(":")[0] if keys and ":" in keys[0] else ""


def _has_kind(sentence: str, match: re.Match[str], kind: str) -> bool:
    value, form = match[0], _form(match[0])
    if sentence[: match.start()].endswith(("[", "at ")) and form in ("n", "o"):
        return False  # a reference mark, "at first"
    if form == "o" and value.isalpha() and not _BEFORE_ORDINAL.search(sentence[: match.start()]):
        return False  # "it first appeared"
    if kind == "unit":
        return form == "q" or (form == "n" and any(part in UNIT_GROUPS for part in re.findall("[a-z]+", value)))
    in_name = re.match(r"(?:'s)? [A-Z]", sentence[match.end() :]) is not None  # "the Saturday Evening Post"
    capitalised = sentence[match.start()].isupper() and match.start() > 0
    named = not in_name and (value in WEEKDAYS or (value in MONTHS and capitalised))
    is_year = form == "n" and YEAR.fullmatch(value) is not None
    if form in ("d", "t") or named or is_year:
        return kind == "date"
    return kind == "number" and form in ("n", "q", "o", "r") and value not in ("one", "1")


_BEFORE_ORDINAL = re.compile(
    r"\b(?:the|a|an|his|her|its|their|our|my|your|every|each|[a-z]+ed|in|of)\s$|['’]s\s$", re.I
)


def _value_options(part: str, kind: str, draw: Random) -> list[str]:
    """List other units, numbers, number words, months or weekdays that are written like `part`.

    Whole numbers keep their final zeros.
    """
    if kind == "unit" or not part[0].isdigit():
        groups = UNIT_GROUPS if kind == "unit" else VALUE_WORDS
        return [_cased_like(part, word) for word in groups.get(part.lower(), ())]
    digits = re.sub(r"\D", "", part)
    if not part[-1].isdigit():
        suffixes = {"1": "st", "2": "nd", "3": "rd"}
        numbers = numbers_like(digits, draw)
        return [new + ("th" if new[-2:-1] == "1" else suffixes.get(new[-1], "th")) for new in numbers]
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


# ------------------------------------------------------------------------------------------------------ names


def _names(passage: Passage, material: Material, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """Replace a name by another of its kind, from any source, that the nearest source sentences do not contain."""
    whole = [mention for mention in passage.names if is_whole(passage.text, mention.span)]
    for mention in draw.sample(whole, len(whole)):
        name = mention.span.of(passage.text)
        options: list[str] = []
        for like in (mention, NamedMention(mention.span, "name")):  # names of the same kind first, then of unknown kind
            of_sources = sorted(set(_pool_of(tuple(s.text for s in passage.sources)).like(passage.text, like)))
            elsewhere = material.names.like(passage.text, like)
            drawn = [draw.choice(elsewhere) for _ in range(_DRAWS if elsewhere else 0)]
            options += draw.sample(of_sources, len(of_sources)) + [
                o for o in drawn if not any(occurrences(s.text, o, ignore_case=True) for s in passage.sources)
            ]
        new = next((option for option in options if is_other_name(passage, name, option)), None)
        if new is not None:
            yield (Edit(mention.span, new, "name"),)


def is_other_name(passage: Passage, old: str, new: str) -> bool:
    """Check that a new name differs in meaning from the old one, and that the passage does not mention it.

    Names are assumed to differ in meaning if they have no word in common and different initials.
    """
    parts, others = old.lower().split(), new.lower().split()
    initials = {"".join(w[0] for w in text.split() if w[0].isupper()).lower() for text in (old, new) if " " in text}
    adjective, other = (re.search(_PEOPLE, f" {name.lower()}") is not None for name in (old, new))
    return (
        not {stem(word) for word in parts} & {stem(word) for word in others}
        and not initials & {"".join(parts), "".join(others)}
        and adjective == other
        and passage.near.isdisjoint(implied(new))
        and not occurrences(passage.text, new, ignore_case=True)
    )


_PEOPLE = "(?:ish|ese|ian|ean|[^a-z]french|german|dutch|greek)s?$"


# ------------------------------------------------------------------------- negation, antonyms, invented clauses


def _negations(passage: Passage, material: Material, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """Remove a negation, or add one if there is none. Questions, conditions and the like are not changed."""
    sentence = passage.sentence
    if _OPEN.search(sentence):
        return
    changes = [(m, _cased_like(m[0], verb)) for m, verb in contracted(sentence)]
    changes += [(m, m[1]) for m in _NEGATED.finditer(sentence)]
    if not changes and not _NEGATION.search(sentence):
        changes = [(m, f"{m[0]} not") for m in _AFFIRMED.finditer(sentence)]
        changes += [(m, f"never {m[0]}") for m in _PAST_OF_PRONOUN.finditer(sentence)]
    for match, new in draw.sample(changes, len(changes)):
        yield (passage.edit(match.start(), match.end(), new, "negation"),)


_OPEN = re.compile(r"\b(?:whether|if|unless|not (?:only|necessarily|just|merely|simply|until))\b|\?", re.IGNORECASE)
_NEGATED = re.compile(rf"\b({'|'.join(AUXILIARY)}) not\b(?= \w)")
_NEGATION = re.compile(r"\b(?:not|no|never|nor|neither|none|nobody|nothing|hardly|without)\b|n['’]t\b", re.IGNORECASE)
_AFFIRMED = re.compile(r"(?<= )(?:(?:is|are|was|were|will|would|should)|(?:has|have|had)(?= been\b))(?= [a-z])")
_PAST_OF_PRONOUN = re.compile(r"(?:(?<=\b(?:[Ss]he|[Ww]ho) )|(?<=\b[Hh]e )|(?<=\b[Tt]hey ))[a-z]{2,}ed\b")


def _antonym_swaps(passage: Passage, material: Material, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """Replace a word by its opposite, if the nearest source sentences do not have the opposite."""
    sentence = passage.sentence
    matches = [m for m in re.finditer(r"[^\W\d_]+", sentence) if m[0].lower() in ANTONYMS and _is_plain(sentence, m)]
    for match in draw.sample(matches, len(matches)):
        new = ANTONYMS[match[0].lower()]
        if passage.near.isdisjoint((stem(new), new)) and not occurrences(sentence, new, ignore_case=True):
            yield (passage.edit(match.start(), match.end(), _cased_like(match[0], new), "antonym"),)


def _is_plain(sentence: str, match: re.Match[str]) -> bool:
    """Return whether a word is not part of a name, a compound or an idiom ("named after", "at least")."""
    before, after = sentence[: match.start()], sentence[match.end() : match.end() + 1]
    opens = match.start() == 0 and not is_name(sentence, Span(*match.span()))
    name_follows = re.match(r" [A-Z]", sentence[match.end() :]) is not None and match[0][0].isupper()
    idiom = re.search(r"\b(?:named|looked?|at|as|so|once and for) $", before) is not None
    return (
        (match[0].islower() or opens)
        and not before.endswith(("-", "'", "’"))
        and after not in ("-", "'", "’")
        and not idiom
        and not name_follows
    )


def _inventions(passage: Passage, material: Material, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """Add a clause from elsewhere to the end of the sentence. At least half of its words are in no source."""
    sentence = passage.sentence
    tail = _TAIL.search(sentence)
    if tail is None or not sentence[: tail.start()] or not sentence[tail.start() - 1].isalnum():
        return
    drawn = [draw.choice(material.clauses) for _ in range(_DRAWS if material.clauses else 0)]
    drawn += [f", {draw.choice(FALLBACK_CLAUSES).format(n=draw.randint(2, 60))}"]
    clause = next((clause for clause in drawn if is_foreign(passage, clause)), None)
    if clause is not None:
        yield (passage.edit(tail.start(), tail.start(), clause, "invented"),)


def _foreign_sentences(passage: Passage, material: Material, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """Add a sentence of another document after this one. At least half of its words are in no source."""
    drawn = [draw.choice(material.sentences) for _ in range(_DRAWS if material.sentences else 0)]
    sentence = next((sentence for sentence in drawn if is_foreign(passage, sentence)), None)
    if sentence is not None and passage.sentence.endswith((".", "!", "?", '."', ".”")):
        size = len(passage.span)
        yield (passage.edit(size, size, f" {sentence}", "foreign"),)


def is_foreign(passage: Passage, text: str) -> bool:
    """Return whether at least half of the words and values of `text` are in none of the sources."""
    keys = implied(text)
    unsupported = [key for key in keys if not passage.is_supported((key,))]
    return bool(keys) and 2 * len(unsupported) >= len(keys) and not any(text in s.text for s in passage.sources)


_TAIL = re.compile(r"(?<!\s)\s++[.!]*+$|(?<![\s.!])[.!]*+$")


ERROR_TYPES: dict[str, Callable[[Passage, Material, Random], Iterator[tuple[Edit, ...]]]] = {
    "number": partial(_values, kind="number"),
    "date": partial(_values, kind="date"),
    "unit": partial(_values, kind="unit"),
    "name": _names,
    "negation": _negations,
    "antonym": _antonym_swaps,
    "relation": swapped_sides,
    "invented": _inventions,
    "foreign": _foreign_sentences,
}
"""The finders by type of error. A new value has the form of the old one and is in no source, in any spelling. A name is
replaced by another of its kind, and a word by its antonym, unless the nearest source sentences have the replacement. A
negation is added or removed, unless the sentence leaves the matter open ("whether", "if"). Symmetric relations are not
swapped. At least half of the words of an added clause or sentence are in none of the example's sources."""
