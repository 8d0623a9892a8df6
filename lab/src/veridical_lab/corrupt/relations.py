"""Swap the two sides of an asymmetric relation in a sentence, which changes its meaning.

The relation must have a direction: "A defeated B", "B was taught by A", "A is the capital of B", "A's son B", "A is
taller than B", "moved from A to B", "rose from 5 to 9", "directed by A and written by B". Symmetric relations are not
changed ("A married B", "a road from A to B", "between A and B").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from random import Random
from typing import Any

from veridical.records.spans import Span
from veridical.records.types import Edit
from veridical.text.vocabulary import MONTHS
from veridical_lab.corrupt.english import TRANSITIVE
from veridical_lab.corrupt.mentions import YEAR
from veridical_lab.corrupt.passages import Passage

_ADVERBS = "was|were|is|had|has|have|been|being|later|also|then|once|never|first|narrowly|has since|finally|eventually"
_VERBS = "|".join(TRANSITIVE)
_KIN = (
    "son|daughter|father|mother|grandson|granddaughter|grandfather|grandmother|nephew|niece|uncle|aunt|student|pupil|"
    "teacher|successor|predecessor|assistant|boss|mentor|heir|deputy|employer|subsidiary|parent company|owner|founder"
)
_OF = (
    rf"{_KIN}|capital|capital city|part|suburb|district|province|region|village|tributary|division|member|leader|head|"
    "president|director|chairman|manager|captain|coach|author|creator|inventor|designer|editor|king|queen|"
    "ruler|emperor|governor|mayor|bishop|disciple|follower|agent|spokesman|vassal|colony|dependency|adaptation|sequel"
)
_BETWEEN = (
    # A (later) defeated (the) B; A was (later) killed by B
    rf" (?:(?:{_ADVERBS}) ){{0,3}}(?:{_VERBS})(?: by)?(?: the| his| her)? ",
    r" (?:(?:was|had|who|had) )?(?:lost to|lost [0-9–-]+ to|won [0-9–-]+ against|won against|worked for|worked under|"
    r"served under|studied under|reported to|surrendered to|gave way to|outscored|outperformed|outranked|overtook|"
    r"borrowed from|belongs to|belonged to|took over from|inherited from|broke away from) (?:the )?",
    # A is taller than B
    r" (?:is|was|are|were) (?:much |far |slightly |even )?(?:[a-z]+er|(?:more|less) [a-z]+) than (?:the )?",
    # A is the capital of B; A, (the) son of B
    r"(?:,? (?:is|was|became|are|were)(?: also| still| now| then)?|,)(?: the| a| an)?(?: [a-z-]+){0,2} "
    rf"(?:{_OF}) of (?:the )?",
    # A's son B
    rf"['’]s?(?: [a-z]+)? (?:{_KIN}),? ",
    # A lies north of B, A is named after B
    r" (?:is|was|lies|lay)(?: located| situated)?(?: about)?(?: [0-9.,]+ (?:km|kilometres|kilometers|miles))? "
    r"(?:north|south|east|west|northeast|northwest|southeast|southwest|downstream|upstream) of (?:the )?",
    r" (?:is|was|are|were)(?: probably| also)? (?:named|modelled|modeled|based) (?:after|on) (?:the )?",
    r" (?:is|was)(?: now| currently)? (?:owned|published|distributed|operated|governed|succeeded|preceded|replaced) by "
    r"(?:the )?",
)
_VERB_BETWEEN = re.compile("|".join(f"(?:{pattern})" for pattern in _BETWEEN))
_FROM_TO = re.compile(
    r"\b(?:mov|travell?|emigrat|immigrat|relocat|transferr|sail|march|fled|flee|migrat|return|went|going|deport|"
    r"convert|switch|promot|rose|fell|grew|declin|increas|decreas|dropp|shr[ai]nk|rais|lower|reduc|jump|climb|expand|renam|"
    r"chang)[a-z]*\b[^,;.]{0,40}? from (?:the |about |around )?"
)
_TO = re.compile(r" to (?:the |about |around )?")
_AMOUNT = re.compile(r"[$£€]?[0-9][0-9,.]*[0-9]%?(?![0-9])|[0-9]+%?")
_ROLE = re.compile(r"\b([a-z]{4,}ed|written|sung|drawn|built) by $")


def swapped_sides(passage: Passage, material: Any, draw: Random) -> Iterator[tuple[Edit, ...]]:
    """Yield edits that swap the two sides of a relation, unless a source already has them in the swapped order."""
    text = passage.text
    spans = [*_pairs_of_names(passage), *_pairs_of_values(passage)]
    pairs = [(Edit(a, b.of(text), "relation"), Edit(b, a.of(text), "relation")) for a, b in spans]
    pairs += _pronoun_pairs(passage)
    for first, second in draw.sample(pairs, len(pairs)):
        one, other = first.span.of(text), second.span.of(text)
        if {word.lower() for word in one.split()} & {word.lower() for word in other.split()}:
            continue
        reverse = re.compile(rf"{re.escape(other)}\b[^.]{{1,60}}\b{re.escape(one)}")
        if not any(reverse.search(source.text) for source in passage.sources):
            yield first, second


def _pairs_of_names(passage: Passage) -> Iterator[tuple[Span, Span]]:
    """Find pairs of names that have only an asymmetric relation between them."""
    text, names = passage.text, passage.names
    for a, b in combinations(names, 2):
        between = text[a.span.end : b.span.start]
        if len(between) > 90 or "people" in (a.kind, b.kind):
            continue
        if a.kind != b.kind and "name" not in (a.kind, b.kind) and not re.search(r"\b(?:by|of|to)\b", between):
            continue
        before = text[passage.span.start : a.span.start]
        is_joined = re.search(r"(?:\band|,|['’]s|\bof) $", before) is not None and " and " in before[-40:]
        after = text[b.span.end : b.span.end + 6]
        if is_joined or after.startswith((" and ", ", and", " or ")) or re.match(r"['’]s? |-|,? [A-Z]", after):
            continue
        moved = list(_FROM_TO.finditer(before)) if _TO.fullmatch(between) else []
        roles = [_ROLE.search(text, passage.span.start, end) for end in (a.span.start, b.span.start)]
        cast = between.startswith(" as ") and text.startswith(" as ", b.span.end)
        credited = cast or (roles[0] and roles[1] and roles[0][1] != roles[1][1] and "." not in between)
        if _VERB_BETWEEN.fullmatch(between) or credited or (moved and moved[-1].end() == len(before)):
            yield a.span, b.span


def _pairs_of_values(passage: Passage) -> Iterator[tuple[Span, Span]]:
    """Find pairs of values with different roles: "from 5 to 9", "12 wins and 5 losses", "won in 1990 and lost in
    2005".
    """
    sentence, start = passage.sentence, passage.span.start
    for match in _FROM_TO.finditer(sentence):
        first = _AMOUNT.match(sentence, match.end())
        to = first and _TO.match(sentence, first.end())
        second = to and _AMOUNT.match(sentence, to.end())
        if first and second and not YEAR.fullmatch(first[0]):
            yield Span(*first.span()).shift(start), Span(*second.span()).shift(start)
    for pattern in (_COUNTED, _DATED):
        for one, other in pairwise(pattern.finditer(sentence)):
            between = sentence[one.end() : other.start()]
            alike = one["n"].isalpha() == other["n"].isalpha() and one["of"].rstrip("s") != other["of"].rstrip("s")
            if alike and re.fullmatch(r"[^.;:()]{1,60}", between):
                yield Span(*one.span("n")).shift(start), Span(*other.span("n")).shift(start)


_COUNT = "[0-9]+(?:,[0-9]{3})*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NO_NOUN = (
    "of|and|or|to|in|on|at|by|for|from|were|was|million|billion|until|after|before|with|when|more|other|others|over|"
    "under|than|with|that|have|seconds|minutes|percent"
)
_MONTH_BEFORE = "".join(rf"(?<!{month.capitalize()} )" for month in MONTHS)
_COUNTED = re.compile(
    rf"(?<![\w.,$£€–-]){_MONTH_BEFORE}(?P<n>(?!(?:1[0-9]|20)[0-9]{{2}}\b)(?:{_COUNT})) "
    rf"(?P<of>(?!(?:{_NO_NOUN})\b)[a-z]{{4,}})\b"
)
_DATED = re.compile(
    r"\b(?P<of>[a-z]+ed|built|born|begun|won|lost|sold|bought|left|sent|held)(?: again)? (?:in|on) "
    r"(?:[A-Z][a-z]+ )?(?P<n>[12][0-9]{3})\b(?![-–])"
)


def _pronoun_pairs(passage: Passage) -> Iterator[tuple[Edit, Edit]]:
    """Yield edits that turn "He defeated Ola Nord" into "Ola Nord defeated him", also for "the company" and such."""
    text = passage.text
    for name in passage.names:
        match = _PRONOUN_BEFORE.search(text, passage.span.start, name.span.start)
        if match is None or not re.match(r"[.,]|$| (?:in|on|at|during|after|before|for)\b", text[name.span.end :][:8]):
            continue
        new, old = name.span.of(text), match["who"]
        opens = match.start("who") == passage.span.start
        low = old[0].lower() + old[1:] if opens else old
        object_form = _OBJECTS.get(low, low)
        yield Edit(Span(*match.span("who")), new, "relation"), Edit(name.span, object_form, "relation")


_OBJECTS = {"he": "him", "she": "her", "they": "them"}
_PRONOUN_BEFORE = re.compile(
    rf"(?:(?<=, )|(?<=and )|(?<=[.!?] )|(?<![\s\S]))(?P<who>[Hh]e|[Ss]he|[Tt]hey|[Tt]he (?:company|club|team|group|"
    rf"party|army|king|couple|band|bank|firm|side|government)) "
    rf"(?:(?:{_ADVERBS}) ){{0,3}}(?:{_VERBS}|lost to|worked for|"
    r"served under|studied under|reported to|surrendered to)(?: by)? $"
)
