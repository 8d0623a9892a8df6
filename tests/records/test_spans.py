"""The algebra of spans against sets of integers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.errors import SpanError
from veridical.records.spans import Span, TextSpan, complement, cut, intersection, length, subtract, union

SPAN = st.builds(lambda a, b: Span(min(a, b), max(a, b)), st.integers(0, 30), st.integers(0, 30))
SPANS = st.lists(SPAN, max_size=8)


def characters(spans: list[Span]) -> set[int]:
    return {i for span in spans for i in range(span.start, span.end)}


def is_normal(spans: list[Span]) -> bool:
    return all(len(s) > 0 for s in spans) and all(a.end < b.start for a, b in pairwise(spans))


@given(SPANS)
def test_union(spans: list[Span]) -> None:
    assert is_normal(union(spans))
    assert characters(union(spans)) == characters(spans)
    assert union(union(spans)) == union(spans)


@given(SPANS, SPANS)
def test_intersection(a: list[Span], b: list[Span]) -> None:
    assert is_normal(intersection(a, b))
    assert characters(intersection(a, b)) == characters(a) & characters(b)


@given(SPANS, SPANS)
def test_subtract(a: list[Span], b: list[Span]) -> None:
    assert is_normal(subtract(a, b))
    assert characters(subtract(a, b)) == characters(a) - characters(b)


@given(SPANS, st.integers(0, 35))
def test_complement(spans: list[Span], size: int) -> None:
    assert is_normal(complement(spans, size))
    assert characters(complement(spans, size)) == set(range(size)) - characters(spans)


@given(SPANS)
def test_length(spans: list[Span]) -> None:
    assert length(spans) == len(characters(spans))


@given(SPANS)
def test_cut(spans: list[Span]) -> None:
    text = "".join(chr(0x1F600 + i) for i in range(30))
    pieces = cut(text, spans)
    assert "".join(piece for piece, _ in pieces) == text
    assert all(piece for piece, _ in pieces)
    covered = "".join(piece for piece, inside in pieces if inside)
    assert covered == "".join(text[i] for i in sorted(characters(spans)))


def test_cut_refuses_a_span_past_the_text() -> None:
    with pytest.raises(SpanError, match="runs past its text of 3 characters"):
        cut("abc", [Span(1, 4)])
    assert cut("", []) == []


@given(SPAN, SPAN)
def test_overlaps_and_contains(a: Span, b: Span) -> None:
    assert a.overlaps(b) == b.overlaps(a) == bool(characters([a]) & characters([b]))
    if len(b):
        assert a.contains(b) == (characters([b]) <= characters([a]))


def test_an_empty_span_is_a_place() -> None:
    place = Span(3, 3)
    assert bool(place)
    assert len(place) == 0
    assert place.of("abc") == ""
    assert Span(0, 3).contains(place)
    assert not Span(0, 2).contains(place)
    assert not Span(0, 5).overlaps(place)


@pytest.mark.parametrize("start, end", [(-1, 2), (3, 2), (-2, -1)])
def test_what_is_no_span_is_refused(start: int, end: int) -> None:
    with pytest.raises(SpanError, match=rf"span \[{start}, {end}\) is not a span"):
        Span(start, end)


def test_of_check_and_shift() -> None:
    assert Span(1, 3).of("a😀e\u0301") == "😀e"
    assert Span(1, 3).shift(2) == Span(3, 5)
    assert Span(3, 5).shift(-3) == Span(0, 2)
    with pytest.raises(SpanError):
        Span(1, 3).shift(-2)
    with pytest.raises(SpanError, match="runs past its text of 2 characters"):
        Span(1, 3).of("ab")
    with pytest.raises(SpanError, match="runs past its response"):
        Span(1, 3).check("ab", "response")
    Span(1, 3).check("abc")


def test_spans_sort_by_start_then_end() -> None:
    assert sorted([Span(2, 3), Span(0, 9), Span(0, 1)]) == [Span(0, 1), Span(0, 9), Span(2, 3)]


def test_spans_with_and_without_a_text_sort_together() -> None:
    spans = [TextSpan(3, 5, "no"), Span(3, 4), TextSpan(0, 2, "so"), Span(0, 1)]
    assert sorted(spans) == [Span(0, 1), Span(0, 2), Span(3, 4), Span(3, 5)]
    assert max(spans) == Span(3, 5) >= Span(3, 5)
    with pytest.raises(TypeError):
        assert Span(0, 1) < 3  # type: ignore[operator]
