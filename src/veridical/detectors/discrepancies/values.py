"""Find values of a response whose number has another sign or unit in the sources: 2 MB for 2 GB, -3 % for 3 %.

A value is reported only if no source has it, and no source has its number without a unit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache

from veridical.detectors.discrepancies.discrepancy import Discrepancy, passage
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text import quantities
from veridical.text.lexical import source_profile
from veridical.text.matching import WORDS, Profile, compiled
from veridical.text.segment import sentence_at, word_forms
from veridical.text.units import CURRENCIES
from veridical.text.vocabulary import MONTHS

_GROUPS = {"month": "time", "fahrenheit": "celsius", "degree": "celsius", "mph": "speed", "kmh": "speed"}
_GROUPS |= dict.fromkeys(CURRENCIES, "money")
_LOWERS = re.compile(  # words that say "minus" in a text
    r"\b(?:minus|negative|below|fell|fall\w*|drop\w*|declin\w*|decreas\w*|los[et]\w*|loss\w*|down\w*|lower\w*|less|fewer|"
    r"reduc\w*|shr[aiu]nk\w*|contract\w*|cuts?|cutting|deficit|worse\w*|debit\w*|debt|ow(?:e|es|ed|ing)|overdr\w+|slid\w*|"
    r"slip\w*|plung\w*|dip\w*|under|behind|short\w*|before|bc|bce|discount\w*|off|sav(?:e|es|ed|ings?)|refund\w*|credit\w*|"
    r"subtract\w*|weaken\w*)\b",
    re.IGNORECASE,
)
_MAGNITUDE = re.compile(r"(?<![a-z])(?:[kmb]|[mbt]n|thousand|millions?|billions?|trillion|mio|mrd)(?![a-z])")
_FELL = re.compile(  # before the value that something fell by
    r"\b(?:fell|fall(?:en|s|ing)?|drop(?:ped|s|ping)?|declin(?:ed?|es|ing)|decreas(?:ed?|es|ing)|los[est]\w?|losing|loss|"
    r"shr[aiu]nk\w*|contract(?:ed|s|ion)|down|slid|slipped|dipped|plunged|negative|minus)"
    r"(?: (?:by|of|about|around|roughly|nearly)){0,2} \Z",
    re.IGNORECASE,
)
_OFTEN = re.compile(r"once |twice |thrice ")
_EITHER = re.compile(r"(?<![\d/])\d{1,2}/\d{1,2}/\d{4}(?![\d/])")
_MAGNITUDES = [Fraction(10) ** power for power in (3, 6, 9, -3, -6, -9)]
_FREQUENCY = Fraction(1, 10**9)  # stands for the number in "twice a day", which is compared as a whole
_NEAR = 40  # characters around two values of other kinds that must share some words
_SHARED = 2  # words
_SMALL = 12  # up to this number, days, weeks … in two texts may be equal by chance


def value_discrepancies(case: Case) -> Iterator[Discrepancy]:
    """Yield values of the response whose number the sources have only with another sign, unit or magnitude.

    The source's value becomes the correction. A source counts only if it always gives this number the same sign and
    unit.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "The file has 2 MB.", (Source("s", "A file of 2 GB was sent."),))
    >>> [(each.span.of(case.response), each.reason) for each in value_discrepancies(case)]
    [('2 MB', 'the source has 2 GB, not 2 MB')]
    """
    response = Profile(case.response, WORDS["values"])
    profiles = [source_profile(source.text) for source in case.sources]
    for match in compiled(response.pattern).finditer(response.text):
        form = match[0]
        if form not in response.types or _measure(form) is None:
            continue
        if any(profile.matching_key(form) is not None for profile in profiles):
            continue
        span = Span(*match.span())
        if _OFTEN.match(form) and any(form.partition(" ")[0] in profile.types for profile in profiles):
            continue  # "once a week; now it is twice"
        for source, profile in zip(case.sources, profiles, strict=True):
            other = _other(case.response, span, form, source.text, profile)
            if other is not None:
                old, new = span.of(case.response), quantities.in_sentence(other.of(source.text))
                kind = "value" if (new[0] in "-−–") != (old[0] in "-−–") else "unit"
                yield Discrepancy(span, kind, f"the source has {new}, not {old}", new, passage(source, other))
                break


def lowered_values(case: Case) -> Iterator[Span]:
    """Yield phrases such as "fell 3.2%" if a source has the negative value (-3.2%) and no source has 3.2%.

    The sources support these phrases, although the values differ in their sign.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "Sales fell by 3.2%.", (Source("s", "Sales: -3.2%"),))
    >>> [span.of(case.response) for span in lowered_values(case)]
    ['fell by 3.2%']
    """
    response = source_profile(case.response)
    if not _LOWERS.search(response.text):
        return
    profiles = [source_profile(source.text) for source in case.sources]
    for match in compiled(response.pattern).finditer(response.text):
        verb = _FELL.search(response.text[max(0, match.start() - 40) : match.start()])
        number, kind = _measure(match[0]) or (Fraction(0), "")
        if verb is None or number <= 0 or any(profile.matching_key(match[0]) is not None for profile in profiles):
            continue
        rivals = [rival for source in case.sources for rival in _by_number(source.text).get(number, ())]
        if any(negative and other == kind for _, negative, other in rivals):
            yield Span(max(0, match.start() - 40) + verb.start(), match.end())


def ambiguous_dates(case: Case) -> Iterator[str]:
    """Yield a note for the user on each date whose day and month could be exchanged ("05/01/2020").

    There is a note on a date in the response if a source writes the same date unambiguously, and on a date in a source
    if the response does.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "It opened on 1 May 2020.", (Source("s", "Opening: 05/01/2020"),))
    >>> list(ambiguous_dates(case))
    ['the date 05/01/2020 is ambiguous (1 May or 5 January 2020): it was accepted in either order']
    """
    texts = [case.response, *(source.text for source in case.sources)]
    if not any(map(_has_ambiguous_date, texts)):
        return
    response, *profiles = [source_profile(text) for text in texts]
    for one, others in ((response, profiles), *((profile, [response]) for profile in profiles)):
        for form in filter(_EITHER.fullmatch, one.types):
            dates = quantities.keys(form)
            found = [other for other in others if len(dates) > 1 and any(date in other.counts for date in dates)]
            if any(all(quantities.keys(same) != dates for same in other.types) for other in found):
                days = [date.removeprefix("d:").split("-") for date in dates]
                written = " or ".join(f"{day} {MONTHS[int(month) - 1].title()}" for _, month, day in days)
                yield f"the date {form} is ambiguous ({written} {days[0][0]}): it was accepted in either order"


@lru_cache(maxsize=64)
def _has_ambiguous_date(text: str) -> bool:
    return _EITHER.search(text) is not None


@lru_cache(maxsize=1 << 14)
def _measure(form: str) -> tuple[Fraction, str] | None:
    """Return the number in a value, and what it measures ("" for a plain number).

    Return None for dates, ranges and words.
    """
    keys, implied = quantities.keys(form), quantities.implies(form)
    if keys and keys[0].startswith("f:"):
        return _FREQUENCY, keys[0]
    number = next((key[2:] for key in implied if key.startswith("n:")), None)
    if number is None or not keys or keys[0][:2] not in ("n:", "q:"):
        return None
    kinds = {key.split(":")[1] for key in keys if key.startswith("q:")}
    return Fraction(number), kinds.pop() if len(kinds) == 1 else ""


@lru_cache(maxsize=64)
def _by_number(text: str) -> Mapping[Fraction, list[tuple[str, bool, str]]]:
    """Index the values of a source by the absolute value of their number.

    Each entry is the form of the value, whether the value is negative, and what it measures.
    """
    found: defaultdict[Fraction, list[tuple[str, bool, str]]] = defaultdict(list)
    for form in source_profile(text).types:
        measure = _measure(form) if quantities.is_value(form) else None
        if measure is not None:
            found[abs(measure[0])].append((form, measure[0] < 0, measure[1]))
    return found


def _other(response: str, span: Span, form: str, text: str, profile: Profile) -> Span | None:
    """Find the value in a source that has the same number as a value in the response, but another sign or unit.

    Return None if the source has several such values, or the number without a unit.
    """
    number, kind = _measure(form) or (Fraction(0), "")
    rivals = _by_number(text).get(abs(number), []) or _of_other_magnitude(form, number, kind, text)
    if len({(negative, other) for _, negative, other in rivals}) != 1 or not rivals:
        return None
    rival, negative, other = rivals[0]
    rival_span = profile.first_span(rival)
    if other == kind and negative != (number < 0):
        passages = sentence_at(response, span.start).of(response), sentence_at(text, rival_span.start).of(text)
        return None if any(map(_LOWERS.search, passages)) else rival_span
    if not kind or not other or negative != (number < 0):
        return None
    alike = kind == other or _GROUPS.get(kind, kind) == _GROUPS.get(other, other)
    likely = alike and (abs(number) > _SMALL or _GROUPS.get(kind, kind) != "time")  # three days here, three weeks there
    return rival_span if likely or len(_near(response, span) & _near(text, rival_span)) >= _SHARED else None


@lru_cache(maxsize=1 << 12)  # a stream has the same values again with each of its sentences
def _of_other_magnitude(form: str, number: Fraction, kind: str, text: str) -> list[tuple[str, bool, str]]:
    """Find source values that differ by a factor of a thousand, a million … ("$890K", "$890M").

    Both values must have the same digits, and more than one digit. At least one must be written with its magnitude
    ("K", "million").
    """
    found = []
    for factor in _MAGNITUDES if len(str(abs(number.numerator)).rstrip("0")) > 1 else ():
        for rival in _by_number(text).get(abs(number) * factor, ()):
            if rival[2] == kind and (_MAGNITUDE.search(form) or _MAGNITUDE.search(rival[0])):
                found.append(rival)
    return found


def _near(text: str, span: Span) -> set[str]:
    """Return the stems of the content words around a value."""
    around = f"{text[max(0, span.start - _NEAR) : span.start]} {text[span.end : span.end + _NEAR]}"
    return {key for word in word_forms(around) for key in quantities.keys(word.lower()) if word.isalpha()}
