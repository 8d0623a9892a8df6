"""Find all discrepancies of a response with its sources."""

from __future__ import annotations

from functools import lru_cache

from veridical.detectors.discrepancies.answers import answer_discrepancies
from veridical.detectors.discrepancies.discrepancy import Discrepancy
from veridical.detectors.discrepancies.places import place_discrepancies
from veridical.detectors.discrepancies.rates import rate_discrepancies
from veridical.detectors.discrepancies.references import identifier_discrepancies
from veridical.detectors.discrepancies.signs import sign_discrepancies
from veridical.detectors.discrepancies.speakers import speaker_discrepancies
from veridical.detectors.discrepancies.values import value_discrepancies
from veridical.records.spans import overlapping, union
from veridical.records.types import Case

__all__ = ["discrepancies"]


_RULES = (
    identifier_discrepancies,
    sign_discrepancies,
    value_discrepancies,
    rate_discrepancies,
    place_discrepancies,
    answer_discrepancies,
    speaker_discrepancies,
)


@lru_cache(maxsize=32)  # a detector and its checks ask about the same case
def discrepancies(case: Case) -> tuple[Discrepancy, ...]:
    """Return the discrepancies between the response and its sources, in order.

    If two overlap, only the first is returned.
    """
    found: list[Discrepancy] = []
    for rule in _RULES if any(source.text for source in case.sources) else ():
        joined = union(each.span for each in found)
        found += [each for each in rule(case) if not overlapping(joined, each.span)]
    return tuple(sorted(found, key=lambda each: each.span))
