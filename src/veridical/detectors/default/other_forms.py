"""The same in another form: "330 m" for "330 metres", "4 July 1998" for "July 4, 1998", "isn't", "analysed".

An encoder of a few million weights has not learned that these are equal. It reads the sources with such values, words
and negations written as the response writes them; which values are equal is known by rule (`core.quantities`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from veridical.core import quantities
from veridical.core.types import Case, Source
from veridical.detectors.overlap.matching import WORDS, Profile, compiled
from veridical.detectors.tokens.lexical import source_profile

__all__ = ["in_forms_of_response"]


def in_forms_of_response(case: Case) -> Case:
    """`case` with values, words and negations of its sources as the response writes them, where no source does.

    >>> case = Case("1", "It isn't 330 m tall.", (Source("s", "It is not 330 metres tall."),))
    >>> in_forms_of_response(case).sources[0].text
    "It isn't 330 m tall."
    """
    case = _with_negations(case)
    response = Profile(case.response, WORDS["values"])
    profiles = [source_profile(source.text) for source in case.sources]
    foreign = [form for form in response.types if not any(form in profile.types for profile in profiles)]
    values: dict[str, str] = {}
    words: dict[str, str] = {}
    for form in foreign:
        if not quantities.is_value(form):
            words.update(dict.fromkeys(_spellings(form), form))
            continue
        for key in quantities.keys(form) if not _LEFT.match(form) else ():
            kind, _, amount = key.partition(":")
            if kind in _KINDS or (kind == "n" and abs(Fraction(amount)) >= _LARGE):
                values.setdefault(key, response.first_span(form).of(case.response))
    if not values and not any(form in profile.types for form in words for profile in profiles):
        return case
    sources = []
    for source, profile in zip(case.sources, profiles, strict=True):
        forms = {form: words[form] for form in words if form in profile.types}
        for form in profile.types if values else ():
            if quantities.is_value(form) and not _LEFT.match(form):
                written = next((values[key] for key in quantities.keys(form) if key in values), None)
                if written is not None:
                    forms[form] = written
        sources.append(_rewritten(source, profile, forms) if forms else source)
    return replace(case, sources=tuple(sources))


_KINDS = ("d", "t", "q", "r", "o", "dec")  # dates, times, quantities, ranges, places in an order, decades
_LARGE = 1000  # smaller numbers in digits and in words are known to the encoder, and tables are full of them
_LEFT = re.compile(r"\d{4}[-/]\d|.*[ -]olds?$")  # a date as records have it; "100 years old" is more than "100 years"


def _rewritten(source: Source, profile: Profile, forms: Mapping[str, str]) -> Source:
    parts: list[str] = []
    end = 0
    for match in compiled(profile.pattern).finditer(profile.text):
        if match[0] in forms:
            parts += (source.text[end : match.start()], forms[match[0]])
            end = match.end()
    return replace(source, text="".join([*parts, source.text[end:]]))


_ISE = "(?=(?:e|ed|er|ers|es|ing|ation|ations|ational)$)"
_OUR = "(?=(?:s|ed|ing|able|ful|ite|ites|less|hood|hoods|er|ers)?$)"
_LL = "(?=(?:ed|ing|er|ers|or|ors)$)"
_SPELLINGS = [
    (re.compile(there + after), here, shortest)
    for one, other, after, shortest in (
        *(("is", "iz", _ISE, 5), ("ys", "yz", _ISE, 5), ("our", "or", _OUR, 5), ("ll", "l", _LL, 7)),
        *(("tre", "ter", "(?=s?$)", 5), ("bre", "ber", "(?=s?$)", 5), ("enc", "ens", "(?=es?$)", 5)),
        *(("ogue", "og", "(?=s?$)", 5), ("gramme", "gram", "(?=s?$)", 5)),
    )
    for there, here in ((one, other), (other, one))
]


@lru_cache(maxsize=1 << 14)
def _spellings(word: str) -> tuple[str, ...]:
    """How British or American English may spell `word`; most of it is no word at all.

    >>> _spellings("colour"), _spellings("analyzed"), _spellings("four")
    (('color',), ('analysed',), ())
    """
    found = [(pattern.sub(here, word, count=1), shortest) for pattern, here, shortest in _SPELLINGS]
    return tuple(form for form, shortest in found if form != word and min(len(form), len(word)) >= shortest)


_VERBS = "can|could|do|does|did|is|are|was|were|has|have|had|would|should|must|need|will"
_SHORT = {f"{verb}n": verb for verb in _VERBS.split("|")} | {"can": "can", "won": "will"}
_NEGATION = re.compile(rf"\b(?:(?P<verb>{_VERBS}) ?not|(?P<short>{'|'.join(_SHORT)})['’]t)\b", re.IGNORECASE)


def _with_negations(case: Case) -> Case:
    wanted: dict[tuple[str, bool], str] = {}
    for match in _NEGATION.finditer(case.response):
        wanted.setdefault(_negation(match), match[0])
    if not wanted:
        return case
    in_sources = {_negation(match) for source in case.sources for match in _NEGATION.finditer(source.text)}
    written = {(verb, not short): text for (verb, short), text in wanted.items() if (verb, short) not in in_sources}
    if not written.keys() & in_sources:
        return case
    return replace(
        case,
        sources=tuple(
            replace(source, text=_NEGATION.sub(lambda match: written.get(_negation(match), match[0]), source.text))
            for source in case.sources
        ),
    )


def _negation(match: re.Match[str]) -> tuple[str, bool]:
    """The verb of a negation, and whether it is contracted."""
    short = match["short"]
    return (_SHORT[short.lower()], True) if short else (match["verb"].lower(), False)
