"""English word lists for rule-based errors: antonyms, transitive verbs, groups of related words, and negations."""

from __future__ import annotations

import re
from collections.abc import Iterable

from veridical.text.vocabulary import ANTONYM_PAIRS, MONTHS, WEEKDAYS
from veridical_lab.corrupt.mentions import COUNTS


def word_set(text: str) -> frozenset[str]:
    """Split a text at white space into a set of words."""
    return frozenset(text.split())


def opposites_of(pairs: Iterable[Iterable[str]]) -> dict[str, str]:
    """Map each word of some pairs to the other word. If a word is in several pairs, the first pair counts."""
    opposites: dict[str, str] = {}
    for first, second in pairs:
        opposites.setdefault(first, second)
        opposites.setdefault(second, first)
    return opposites


ANTONYMS = {word: other for word, other in opposites_of(ANTONYM_PAIRS).items() if word not in ("none", "end")}

# past forms of verbs whose meaning changes when agent and object change places
_TRANSITIVE = """
accused acquired adopted appointed arrested assassinated attacked beat blamed bought captured challenged commanded
conquered convinced created criticised criticized defeated defended described designed directed discovered educated
employed established executed followed founded funded hired influenced inherited injured inspired invaded invited
killed led left mentored murdered named nominated overthrew owned paid painted persuaded praised preceded produced
promoted protected published purchased received recruited rejected released replaced rescued saved sent served
signed sold stabbed kidnapped exiled deposed ousted warned helped assisted coached advised sponsored annexed
occupied besieged outscored succeeded sued supported taught threatened took trained visited wrote
"""
TRANSITIVE = tuple(_TRANSITIVE.split())
PARTICIPLES = {"beat": "beaten", "overthrew": "overthrown", "took": "taken", "wrote": "written"}
"""Participles of the verbs whose participle differs from the past form."""

AUXILIARY = "is are was were will would should must has have had do does did can could".split()  # noqa: SIM905
CONTRACTIONS = {f"{word}n't": word for word in AUXILIARY if word not in ("will", "can")}
CONTRACTIONS |= {"can't": "can", "cannot": "can", "won't": "will"}
_CONTRACTED = re.compile(rf"\b(?:{'|'.join(CONTRACTIONS)})\b".replace("'", "['’]"), re.IGNORECASE)


def contracted(text: str) -> list[tuple[re.Match[str], str]]:
    """Find the contracted negations in a text ("wasn't"), each with its verb ("was")."""
    return [(match, CONTRACTIONS[match[0].replace("’", "'").lower()]) for match in _CONTRACTED.finditer(text)]


def _groups(*lists: str) -> dict[str, tuple[str, ...]]:
    """Map each word to the other words of its list. Lists are split at white space."""
    groups = [tuple(words.split()) for words in lists]
    return {word: tuple(w for w in group if w != word) for group in reversed(groups) for word in group}


VALUE_WORDS = _groups(
    " ".join(COUNTS),
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "first second third fourth fifth sixth seventh eighth ninth tenth",
    " ".join(MONTHS),
    " ".join(month[:3] for month in MONTHS if len(month) > 3),
    " ".join(WEEKDAYS),
)
UNIT_GROUPS = _groups(
    "kilometres metres miles feet",
    "kilometers meters miles feet",
    "kilometre metre mile foot",
    "kilometer meter mile foot",
    "km m mi ft",
    "cm mm inches",
    "kilograms grams pounds ounces tonnes",
    "kg g lb oz",
    "seconds minutes hours days weeks months years decades",
    "second minute hour day week month year decade",
    "thousand million billion trillion",
    "dollars euros pounds yen",
    "$ £ €",
    "°c °f",
    "mph km/h",
)

FALLBACK_CLAUSES = (
    "at a cost of {n} million dollars",
    "in front of {n} invited guests",
    "after {n} years of negotiations",
    "where it remained for another {n} years",
    "a decision that was reversed {n} months later",
    "despite the objections of {n} local residents",
    "with the help of {n} volunteers from abroad",
    "although a later inquiry named {n} other causes",
)
