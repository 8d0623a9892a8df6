from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.errors import SpanError
from veridical.records.spans import Span
from veridical.records.strings import shorten, visible
from veridical.report.segments import passages, segment, within

TEXT = st.text(alphabet=st.one_of(st.characters(), st.sampled_from(" \r\n.ab\x1b\u202e")), max_size=80)


@st.composite
def marked(draw: st.DrawFn) -> tuple[str, list[Span]]:
    text = draw(TEXT)
    place = st.integers(0, len(text))
    pairs = draw(st.lists(st.tuples(place, place), max_size=8))
    return text, [Span(min(pair), max(pair)) for pair in pairs]


@given(marked())
def test_segments_join_to_the_text_and_carry_exactly_the_marks_over_them(drawn: tuple[str, list[Span]]) -> None:
    text, spans = drawn
    found = segment(len(text), [(span, i) for i, span in enumerate(spans)])
    assert "".join(text[s.start : s.end] for s in found) == text
    for piece in found:
        if piece.start == piece.end:
            expected = [i for i, span in enumerate(spans) if span == Span(piece.start, piece.end)]
        else:
            expected = [i for i, span in enumerate(spans) if span.start <= piece.start and piece.end <= span.end]
            expected = [i for i in expected if len(spans[i])]
            assert not any(piece.start < edge < piece.end for span in spans for edge in (span.start, span.end))
        assert list(piece.marks) == expected
    assert {i for piece in found for i in piece.marks} == set(range(len(spans)))


def test_a_mark_past_the_end_is_refused() -> None:
    with pytest.raises(SpanError, match=r"\[2, 9\)"):
        segment(5, [(Span(2, 9), "x")])


@given(marked())
def test_passages_hold_every_mark_whole_in_order(drawn: tuple[str, list[Span]]) -> None:
    text, spans = drawn
    for around in (0, 3, 200):
        shown = passages(text, spans, around=around)
        assert shown == sorted(shown)
        assert all(a.end < b.start for a, b in pairwise(shown))
        assert all(any(window.contains(span) for window in shown) for span in spans if len(span))


@given(marked())
def test_within_gives_the_words_of_the_windows_and_a_gap_for_words_left_out(drawn: tuple[str, list[Span]]) -> None:
    text, spans = drawn
    windows = passages(text, spans, around=2)
    cuts = [edge for window in windows for edge in (window.start, window.end)]
    found = list(within(text, segment(len(text), [(s, s) for s in spans], cuts=cuts), windows))
    assert "".join(text[s.start : s.end] for s in found if s) == "".join(w.of(text) for w in windows)
    left_out = "".join(text[a:b] for a, b in zip([0, *cuts[1::2]], [*cuts[::2], len(text)], strict=True))
    assert (None in found) == bool(left_out.strip())


def test_an_empty_mark_at_the_edge_of_a_window_is_kept() -> None:
    text = "One. Two. Three."
    segments = segment(len(text), [(Span(4, 4), "here")], cuts=[0, 4])
    assert [s.marks if s else None for s in within(text, segments, [Span(0, 4)])] == [(), ("here",), None]


@given(TEXT, st.lists(st.integers(0, 80), max_size=5))
def test_visible_pieces_join_to_the_visible_text_and_nothing_in_it_acts(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(c for c in cuts if c <= len(text))})
    whole = visible(text)
    assert "".join(visible(text, a, b) for a, b in pairwise(edges)) == whole
    assert all(c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") for c in whole)
    assert not set(whole) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def test_a_line_break_cut_in_two_is_still_one() -> None:
    assert [visible("a\r\nb", 0, 2), visible("a\r\nb", 2, 4)] == ["a", "\nb"]
    assert visible("a\rb") == "a␍b"


def test_visible_leaves_honest_text_alone() -> None:
    text = "Überraschung – 日本語 👩‍👩‍👧 שלום\u200f\n\tend"
    assert visible(text) == text


@given(st.text(alphabet="ab \n", max_size=300), st.integers(12, 60))
def test_shortened_text_is_short_and_on_one_line(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert "\n" not in short
    assert len(short) <= limit + 3
