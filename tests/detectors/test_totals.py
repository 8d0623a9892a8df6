"""Amounts of money that a response computes from others in it: sums and differences, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from veridical.detectors.default.rules import COPIED, with_supported
from veridical.detectors.default.totals import computed_amounts
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.records.types import Case, Source
from veridical.text.segment import words

PRICES = Source("prices", '[{"price": 105}, {"price": 102}, {"price": 250}]')


def case(response: str) -> Case:
    return Case("1", response, (PRICES,))


@pytest.mark.parametrize(
    ("response", "computed"),
    [
        ("They cost $105 and $102, in all $207.", ["$207"]),
        ("They cost $105 and $102, in all $208.", []),
        ("In all $207: $105 and $102.", []),  # before its parts
        ("It costs $105. Of your $250, $145 remain.", ["$145"]),
        ("It costs $105 and the bag $20, in all $125.", ["$125"]),  # and not $20, from the total that it is part of
        ("$105, $102 and $250 make $457. Two of them make $352.", ["$457", "$352"]),
        ("They cost $105 and $102, in all 207 euros.", []),  # another unit
        ("It weighs 2 kg, the lid 1 kg: 3 kg.", []),  # no money
        ("There are 105 and 102, in all 207.", []),  # no unit
        ("They cost $105 and $102. It costs $105.", []),  # a source has it
    ],
)
def test_what_follows_from_other_amounts(response: str, computed: list[str]) -> None:
    assert [span.of(response) for span in computed_amounts(case(response))] == computed


def test_a_right_total_is_no_longer_held_against_its_sentence() -> None:
    response = "They cost $105 and $102. The total is $207."
    units = [span for span in words(response) if span.of(response) != "$"]
    part_of = np.array([0 if unit.start < 24 else 1 for unit in units])
    logits = np.array([3.0 if unit.of(response) == "207" else -2.0 for unit in units])
    scored = ScoredResponse(units, logits, parts=np.array([-2.0, 3.0]), part_of=part_of, whole=3.0)
    lowered = with_supported(case(response), scored, computed_amounts(case(response)))
    assert lowered.logits[-1] == COPIED
    assert lowered.parts.tolist() == [-2.0, -2.0]
    assert lowered.whole == -2.0
    wrong = case(response.replace("207", "208"))
    assert with_supported(wrong, scored, computed_amounts(wrong)) is scored
