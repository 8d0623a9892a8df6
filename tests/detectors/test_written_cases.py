"""The rules find wrong statements of six kinds, and nothing in right ones or in the sources themselves."""

from __future__ import annotations

import pytest

from tests.detectors.test_signs import case
from tests.written_cases import CASES
from veridical.detectors.discrepancies.finding import discrepancies


@pytest.mark.parametrize("kind", CASES)
def test_wrong_statements_are_discrepancies_and_right_ones_are_none(kind: str) -> None:
    for source, right, wrong in CASES[kind]:
        assert discrepancies(case(source, right)) == discrepancies(case(source, source)) == (), right
        assert discrepancies(case(source, wrong)) != (), wrong
