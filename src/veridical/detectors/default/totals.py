"""Recognise amounts of money that a response computes correctly, as sums and differences of its other amounts.

If a response lists flights of $105 and $102, it can say "$207" although no source has this number. An encoder cannot
add, so without this rule every correct total would be flagged. The two amounts themselves are still judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text.mentions import Mention, index_of

_MOST = 40  # amounts of one currency that are compared


def computed_amounts(case: Case) -> Iterator[Span]:
    """Yield the amounts of money that occur in no source but can be computed from earlier amounts in the response.

    Such an amount is the sum of two or more successive amounts in the same currency, or the difference of two of them.

    >>> from veridical.records.types import Source
    >>> text = "The flights cost $105 and $102, together $207. Of your $250, $43 remain."
    >>> prices = Source("s", "105, 102 and 250 dollars")
    >>> [span.of(text) for span in computed_amounts(Case("1", text, (prices,)))]
    ['$207', '$43']
    """
    amounts: defaultdict[str, list[tuple[Fraction, Mention]]] = defaultdict(list)
    for sentence in index_of((case.response,)).sentences:
        for mention in sentence.mentions:
            currency, _, size = mention.keys[0].rpartition(":")
            if mention.kind == "money" and len(mention.keys) == 1:
                amounts[currency].append((Fraction(size), mention))
    for of_currency in amounts.values():
        numbers = [number for number, _ in of_currency[:_MOST]]
        for i, (number, mention) in enumerate(of_currency[:_MOST]):
            before = numbers[:i]
            in_a_row = (accumulate(before[start:]) for start in range(i))
            is_sum = any(number in list(sums)[1:] for sums in in_a_row)
            is_difference = number > 0 and any(other + number in before for other in before)
            if (is_sum or is_difference) and mention.keys[0] not in index_of(tuple(s.text for s in case.sources)):
                yield mention.span
