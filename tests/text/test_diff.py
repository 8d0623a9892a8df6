"""As many items as can be correspond, in order, and what both sides begin and end with always does."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.text.diff import matches

ITEMS = st.lists(st.sampled_from(["a", "b", "c", "an", "ab"]), max_size=8)


@given(ITEMS, ITEMS)
def test_a_longest_common_subsequence(before: list[str], after: list[str]) -> None:
    @cache
    def longest(i: int, j: int) -> int:
        if i == len(before) or j == len(after):
            return 0
        if before[i] == after[j]:
            return 1 + longest(i + 1, j + 1)
        return max(longest(i + 1, j), longest(i, j + 1))

    pairs = matches(before, after)
    assert all(before[i] == after[j] for i, j in pairs)
    assert all(i < k and j < n for (i, j), (k, n) in pairwise(pairs))
    assert len(pairs) == longest(0, 0)


def test_both_ends_correspond_first() -> None:
    assert matches(["a", "b", "a", "b"], ["a", "b"]) == [(0, 0), (1, 1)]
    assert matches(["x", "a", "b", "a", "b"], ["y", "a", "b"]) == [(3, 1), (4, 2)]


def test_where_too_much_would_be_compared_only_the_ends_correspond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veridical.text.diff.MAX_CELLS", 0)
    assert matches(["a", "b", "c", "d", "e"], ["a", "x", "c", "y", "e"]) == [(0, 0), (4, 4)]
