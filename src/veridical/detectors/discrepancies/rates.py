"""Find rates that the sources have for another period: "900 euros a week" where a source has "900 euros a month".

A rate is reported only if every source that has its value gives it for one and the same other period.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from veridical.detectors.discrepancies.discrepancy import Discrepancy, passage
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text import quantities
from veridical.text.lexical import source_profile
from veridical.text.matching import compiled
from veridical.text.segment import sentence_at, word_forms

_ADVERBS = {
    "hourly": "hour",
    "daily": "day",
    "nightly": "day",
    "weekly": "week",
    "fortnightly": "fortnight",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annual": "year",
    "annually": "year",
    "per annum": "year",
    "p.a.": "year",
}
_SHORT = {"sec": "second", "s": "second", "min": "minute", "h": "hour", "hr": "hour", "d": "day", "night": "day"}
_SHORT |= {"wk": "week", "mo": "month", "yr": "year"}
_NAMES = "second|minute|hour|day|night|week|fortnight|month|quarter|year"
_LY = "|".join(re.escape(adverb) for adverb in _ADVERBS)
_AFTER = re.compile(  # behind a value, with up to two words between: "30 visitors a day"
    rf"(?P<between>(?:[ -][^\W\d_]{{2,20}}){{0,2}}?)"
    rf"(?:(?: (?:an?|per|each|every) | ?/ ?(?:per )?)(?P<name>{_NAMES})| ?/ ?(?P<short>{'|'.join(_SHORT)})"
    rf"|,? (?P<ly>{_LY}))"
    r"(?![\w'’-])(?! (?:ago|later|earlier|before|after|long|old|or))"
)
_BEFORE = re.compile(rf"(?<!\w)(?P<ly>{_LY})(?:[ _]+[^\W\d_]{{2,20}}){{1,3}}[ _:|=\"'*]{{1,5}}(?:of |is )?\Z")
_WINDOW = 60  # characters around a value
_PERIOD = re.compile(rf"(?<![^\W_])(?:(?P<ly>{_LY})|(?P<name>{_NAMES})s?)(?![^\W_])")
_OFTEN = re.compile(
    rf"(?<!\w)(?:(?:once (?:an?|per|each|every)|each|every|per) (?P<name>{_NAMES})|(?P<ly>{_LY}))(?!\w)"
)
_LARGE = 12  # numbers above this are rarely equal by chance


@dataclass(frozen=True, slots=True)
class _Rate:
    """A value with its period, such as "30 visitors a day".

    `between` contains the words between the value and the period. `span` is the whole place, and `named` is the part
    that names the period.
    """

    form: str
    value: Span
    period: str
    between: str
    span: Span
    named: Span

    @property
    def is_before(self) -> bool:
        """Whether the period stands before the value ("the monthly rent is 900 euros")."""
        return self.named.end <= self.value.start


def rate_discrepancies(case: Case) -> Iterator[Discrepancy]:
    """Yield rates of the response whose value the sources have only for another period ("a week", not "a month").

    All sources that give the value for a period must give it for the same one, which becomes the correction.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "It costs 900 euros a week.", (Source("s", "The rent is 900 euros a month."),))
    >>> [(each.span.of(case.response), each.reason) for each in rate_discrepancies(case)]
    [('900 euros a week', 'the source has 900 euros a month, not 900 euros a week')]
    """
    for rate in _rates(case.response):
        found = [(source, *each) for source in case.sources for each in _with_value(source.text, rate.form)]
        rates = [other for *_, other in found if other is not None]
        if len({other.period for other in rates}) != 1 or any(rate.period in periods for _, _, periods, _ in found):
            continue
        source, other = next((source, other) for source, _, _, other in found if other is not None)
        near_value, near_source_value = _around(case.response, rate.value), _around(source.text, other.value)
        alone = len(rates) == len(found) and _number(rate.form) > _LARGE
        if not (
            _stems(rate.between) <= near_source_value
            and _stems(other.between) <= near_value
            and (alone or near_value & near_source_value)
        ):
            continue
        span, new = rate.span, other.span.of(source.text)
        if rate.is_before or other.is_before:
            span = rate.named
            adverb = next(adverb for adverb, period in _ADVERBS.items() if period == other.period)
            new = (
                adverb if span.of(case.response).lower() in _ADVERBS else f"a{'n' * (adverb[0] == 'h')} {other.period}"
            )
        source_rate = (other.named if other.is_before else other.span).of(source.text)
        reason = f"the source has {source_rate}, not {span.of(case.response)}"
        yield Discrepancy(span, "unit", reason, new, passage(source, other.value))


def same_rates(case: Case) -> Iterator[Span]:
    """Yield rates of the response that a source writes in another form, such as "weekly" for "every week".

    >>> from veridical.records.types import Source
    >>> case = Case("1", "It costs 4% annually.", (Source("s", "The loan costs 4 per cent a year."),))
    >>> [span.of(case.response) for span in same_rates(case)]
    ['4% annually']
    """
    for rate in _rates(case.response):
        written = rate.span.of(case.response)
        found = [other for source in case.sources for _, _, other in _with_value(source.text, rate.form)]
        if any(other and other.period == rate.period for other in found) and not _is_in(written, case):
            yield rate.span
    often = [(match, _period(match)) for match in _OFTEN.finditer(quantities.fold(case.response))]
    for match, period in often:
        if not _is_in(match[0], case) and any(period in _often(source.text) for source in case.sources):
            yield Span(*match.span())


def _is_in(written: str, case: Case) -> bool:
    return any(written in source.text for source in case.sources)


def _period(match: re.Match[str]) -> str:
    groups = match.groupdict()
    name = groups.get("name") or groups.get("short")
    return _SHORT.get(name, name) if name else _ADVERBS[match["ly"]]


@lru_cache(maxsize=64)
def _often(text: str) -> frozenset[str]:
    return frozenset(_period(match) for match in _OFTEN.finditer(quantities.fold(text)))


@lru_cache(maxsize=64)
def _rates(text: str) -> tuple[_Rate, ...]:
    """Find the values in a text that are given for a period."""
    profile = source_profile(text)
    if not _PERIOD.search(profile.text) and "/" not in profile.text:
        return ()
    matches = compiled(profile.pattern).finditer(profile.text)
    return tuple(rate for match in matches if (rate := _rate(profile.text, match)) is not None)


def _rate(text: str, match: re.Match[str]) -> _Rate | None:
    form = match[0]
    if not quantities.is_value(form) or not any(key.startswith(("n:", "q:")) for key in quantities.keys(form)[:1]):
        return None
    value = Span(*match.span())
    after = _AFTER.match(text, match.end(), match.end() + _WINDOW)
    if after is not None:
        end = after.end("between")
        return _Rate(
            form, value, _period(after), after["between"], Span(value.start, after.end()), Span(end + 1, after.end())
        )
    before = _BEFORE.search(text[max(0, value.start - _WINDOW) : value.start])
    if before is None:
        return None
    named = Span(*before.span("ly")).shift(max(0, value.start - _WINDOW))
    return _Rate(form, value, _period(before), "", Span(named.start, value.end), named)


def _with_value(text: str, form: str) -> Sequence[tuple[Span, frozenset[str], _Rate | None]]:
    """Find the occurrences of a value in a source.

    Each occurrence is its span, its periods, and its rate, or None if the value is not part of a rate. The periods are
    those that the rate names, or else those that the sentence names.
    """
    places = _places(text)
    found = {each[0]: each for key in quantities.keys(form) for each in places.get(key, ())}
    return list(found.values())


@lru_cache(maxsize=64)
def _places(text: str) -> Mapping[str, list[tuple[Span, frozenset[str], _Rate | None]]]:
    profile = source_profile(text)
    rates = {rate.value: rate for rate in _rates(text)}
    places: defaultdict[str, list[tuple[Span, frozenset[str], _Rate | None]]] = defaultdict(list)
    for match in compiled(profile.pattern).finditer(profile.text):
        if quantities.is_value(match[0]):
            span = Span(*match.span())
            rate = rates.get(span)
            around = rate.span if rate else sentence_at(text, span.start)
            periods = frozenset(map(_period, _PERIOD.finditer(around.of(profile.text)))) | {rate.period if rate else ""}
            for key in quantities.implies(match[0]):
                places[key].append((span, periods, rate))
    return places


def _number(form: str) -> float:
    number = next((key[2:] for key in quantities.implies(form) if key.startswith("n:")), "0")
    numerator, _, denominator = number.partition("/")
    return abs(int(numerator) / int(denominator or 1))


def _around(text: str, value: Span) -> set[str]:
    around = sentence_at(text, value.start)
    return _stems(f"{text[around.start : value.start]} {text[value.end : around.end]}")


def _stems(text: str) -> set[str]:
    """Return the stems of the content words in a text, except words for periods."""
    words = (word for word in word_forms(quantities.fold(text)) if word.isalpha() and not _PERIOD.fullmatch(word))
    return {key for word in words for key in quantities.keys(word)}
