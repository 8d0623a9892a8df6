"""Find all discrepancies between a response and its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from veridical.detectors.discrepancies.discrepancy import Discrepancy
from veridical.detectors.discrepancies.other_values import other_values
from veridical.detectors.discrepancies.rates import rate_discrepancies
from veridical.detectors.discrepancies.references import identifier_discrepancies
from veridical.detectors.discrepancies.rows import row_discrepancies
from veridical.detectors.discrepancies.signs import sign_discrepancies
from veridical.detectors.discrepancies.speakers import speaker_discrepancies
from veridical.detectors.discrepancies.values import value_discrepancies
from veridical.detectors.discrepancies.yes_no import yes_no_discrepancies
from veridical.records.spans import overlapping, union
from veridical.records.types import Case

RULES: Mapping[str, tuple[Callable[[Case], Iterator[Discrepancy]], str]] = {
    "identifiers": (identifier_discrepancies, "an address, version, flag or other identifier that no source has"),
    "signs": (sign_discrepancies, "a sign that a source contradicts: > for <"),
    "values": (value_discrepancies, "a number with another sign, unit or magnitude: 2 MB for 2 GB"),
    "rates": (rate_discrepancies, "a rate for another period: 900 euros a week for 900 euros a month"),
    "rows": (row_discrepancies, "a value from another row of a table, list or record"),
    "other_values": (other_values, "a value that no source has, in a sentence that a source has with another value"),
    "yes_no": (yes_no_discrepancies, "a sentence that contradicts an answer or a field with yes or no"),
    "speakers": (speaker_discrepancies, "words of another speaker"),
}
"""The rules by name. Each has a function, and a description of what the function finds."""
MISSING_VALUES = frozenset({"other_values"})
"""The rules that find values that no source has. Detectors that compare words flag such values anyway."""


def discrepancies(case: Case, without: frozenset[str] = frozenset()) -> tuple[Discrepancy, ...]:
    """Find the words of a response that clearly differ from its sources, with all rules in `RULES`.

    If two discrepancies overlap, only the one from the rule that comes first in `RULES` is kept. The rules named in
    `without` are switched off. The result is in text order, and empty if the sources have no text.
    """
    found: list[Discrepancy] = []
    for name in RULES if any(source.text for source in case.sources) else ():
        if name not in without:
            joined = union(each.span for each in found)
            found += [each for each in _found(name, case) if not overlapping(joined, each.span)]
    return tuple(sorted(found, key=lambda each: each.span))


@lru_cache(maxsize=32 * len(RULES))  # several detectors, and one detector several times, ask about the same case
def _found(name: str, case: Case) -> tuple[Discrepancy, ...]:
    find, _ = RULES[name]
    return tuple(find(case))
