"""Which tokens make which units of a text."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical.inference.tokenization import joined_tokens, token_ranges, token_unit_pairs, tokens_of_units, units_of
from veridical.records.spans import Span, union

SPANS = st.tuples(st.integers(0, 20), st.integers(1, 6)).map(lambda s: Span(s[0], s[0] + s[1]))


@given(st.lists(st.none() | SPANS, max_size=12), st.lists(SPANS, max_size=6))
@settings(max_examples=150)
def test_the_tokens_of_a_unit_share_a_character_with_it_in_whatever_order_they_are(
    tokens: list[Span | None], units: list[Span]
) -> None:
    for unit, inside in zip(units, tokens_of_units(tokens, units), strict=True):
        assert inside.tolist() == [i for i, token in enumerate(tokens) if token is not None and token.overlaps(unit)]
    places = [np.array([(s.start, s.end) for s in spans if s]).reshape(-1, 2) for spans in (tokens, units)]
    pairs = token_unit_pairs(*places).tolist()
    there = [token for token in tokens if token is not None]
    assert pairs == [[t, u] for u, unit in enumerate(units) for t, token in enumerate(there) if token.overlaps(unit)]


@given(st.lists(st.none() | SPANS, max_size=12))
@settings(max_examples=100)
def test_joined_tokens_are_disjoint_and_lose_no_character(tokens: list[Span | None]) -> None:
    joined = joined_tokens(tokens)
    assert all(a.end <= b.start for a, b in pairwise(joined))
    assert union(joined) == union(token for token in tokens if token is not None)
    edges = {edge for token in tokens if token is not None for edge in (token.start, token.end)}
    assert {edge for token in joined for edge in (token.start, token.end)} <= edges


def test_tokens_without_characters_are_in_the_range_of_what_is_around_them() -> None:
    assert token_ranges([Span(0, 2), None, Span(2, 4), None], [Span(0, 4), Span(4, 6)]) == [(0, 3), (0, 0)]


def test_units_are_words_or_tokens_without_white_space() -> None:
    tokens = [Span(0, 3), None, Span(2, 4), Span(4, 5), Span(5, 8)]
    assert units_of("It is so", tokens, "word") == [Span(0, 2), Span(3, 5), Span(6, 8)]
    assert units_of("It is so", tokens, "token") == [Span(0, 2), Span(3, 4), Span(4, 5), Span(6, 8)]
