"""Edits: applied exactly, refused where they do not fit, made by words, composed, and spans carried through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.edits import apply, carry, check_edits, compose
from veridical.records.errors import SpanError
from veridical.records.spans import Span
from veridical.records.types import Edit
from veridical.text.diff import diff

PIECES = [
    "The tower",
    " ",
    "is",
    "\n",
    " 300 m",
    ".",
    " tall.",
    "é",
    "e\u0301",
    "你好",
    "👩‍👩‍👧",
    "Dr. No",
    "\r\n",
    "of the",
    "!",
]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@st.composite
def edits_of(draw: st.DrawFn, text: str) -> list[Edit]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pairs = list(zip(places[::2], places[1::2], strict=False))
    made = [
        Edit(Span(a, b), draw(st.sampled_from(["", "x", "yes no", "ü"])), f"r{i}") for i, (a, b) in enumerate(pairs)
    ]
    return [e for i, e in enumerate(made) if i == 0 or e.span != made[i - 1].span]


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    text = draw(texts)
    return text, draw(edits_of(text))


def test_applied_from_left_to_right_on_the_text_as_it_was() -> None:
    edits = [Edit(Span(0, 1), "", "a"), Edit(Span(2, 2), "++", "b"), Edit(Span(3, 5), "z", "c")]
    assert apply("abcdef", edits) == "b++czf"


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(Span(2, 4), "", ""), Edit(Span(3, 5), "", "")],
        [Edit(Span(4, 5), "", ""), Edit(Span(0, 1), "", "")],
        [Edit(Span(2, 2), "a", ""), Edit(Span(2, 2), "b", "")],
        [Edit(Span(5, 7), "", "")],
    ],
    ids=["overlapping", "out of order", "twice at one place", "past the end"],
)
def test_what_does_not_fit_is_refused(edits: list[Edit]) -> None:
    with pytest.raises(SpanError):
        apply("abcdef", edits)


def test_edits_that_touch_are_good() -> None:
    check_edits("abcdef", [Edit(Span(0, 2), "", ""), Edit(Span(2, 4), "", ""), Edit(Span(4, 4), "x", "")])


@given(texts, texts)
def test_a_difference_applied_gives_the_other_text(before: str, after: str) -> None:
    edits = diff(before, after)
    assert apply(before, edits) == after
    assert all(edit.span.of(before) != edit.replacement for edit in edits)


@given(texts)
def test_no_difference_no_edit(text: str) -> None:
    assert diff(text, text) == ()


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ("It is very tall.", "It is tall.", [("very ", "")]),
        ("It is tall.", "It is very tall.", [("", "very ")]),
        ("Cats sleep. Dogs bark. Cows moo.", "Cats sleep. Cows moo.", [("Dogs bark. ", "")]),
        ("Cats sleep. Dogs bark.", "Cats sleep.", [(" Dogs bark.", "")]),
        ("The cats sleep.", "The cat sleeps.", [("cats sleep", "cat sleeps")]),
        ("born on 9 May 1946", "born on 3 June 1946", [("9 May", "3 June")]),
        ("In Rome it rained. In Rome it rained.", "In Rome it rained. In Bonn it rained.", [("Rome", "Bonn")]),
        ("A  b", "A b", [(" ", "")]),
        ("“yes”", '"yes"', [("“", '"'), ("”", '"')]),
        ("", "New.", [("", "New.")]),
        ("Old.", "", [("Old.", "")]),
        ("气温很高。", "气温很低。", [("高", "低")]),
        ("We met Ann. He saw Bob.", "We met Eve. We saw Bob.", [("Ann", "Eve"), ("He", "We")]),
        ("One was red. Two is blue.", "One was pink. Two is green.", [("red", "pink"), ("blue", "green")]),
    ],
)
def test_edits_are_of_words(before: str, after: str, changes: list[tuple[str, str]]) -> None:
    edits = diff(before, after, because="so")
    assert [(e.span.of(before), e.replacement) for e in edits] == changes
    assert {e.because for e in edits} == {"so"}


@given(edited(), st.data())
def test_one_after_another(pair: tuple[str, list[Edit]], data: st.DataObject) -> None:
    text, first = pair
    between = apply(text, first)
    second = data.draw(edits_of(between))
    both = compose(text, first, second)
    assert apply(text, both) == apply(between, second)


def test_edits_that_meet_become_one_with_both_reasons() -> None:
    both = compose("a 300 b", [Edit(Span(2, 5), "310", "first")], [Edit(Span(3, 5), "30", "second")])
    assert both == (Edit(Span(2, 5), "330", "first; second"),)


def test_what_was_undone_is_no_edit() -> None:
    assert compose("a b", [Edit(Span(2, 3), "c", "x")], [Edit(Span(2, 3), "b", "y")]) == ()


@given(edited(), st.data())
def test_a_span_that_no_edit_meets_keeps_its_words(pair: tuple[str, list[Edit]], data: st.DataObject) -> None:
    text, edits = pair
    start = data.draw(st.integers(0, len(text)))
    span = Span(start, data.draw(st.integers(start, len(text))))
    carried = carry(span, edits)
    after = apply(text, edits)
    assert carried.end <= len(after)
    if not any(e.span.start < span.end and e.span.end > span.start for e in edits):
        assert carried.of(after) == span.of(text)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 6), "abXXf"),
        ((2, 5), "XX"),
        ((3, 4), "XX"),
        ((0, 3), "abXX"),
        ((4, 6), "XXf"),
        ((5, 6), "f"),
        ((0, 2), "ab"),
    ],
)
def test_a_replacement_belongs_to_every_span_that_lost_a_character_to_it(span: tuple[int, int], expected: str) -> None:
    edits = [Edit(Span(2, 5), "XX", "")]
    assert carry(Span(*span), edits).of(apply("abcdef", edits)) == expected


def test_insertions_belong_inside_and_not_at_the_edges() -> None:
    edits = [Edit(Span(1, 1), "<", ""), Edit(Span(2, 2), "|", ""), Edit(Span(3, 3), ">", "")]
    assert carry(Span(1, 3), edits).of(apply("abcd", edits)) == "b|c"


def test_texts_of_a_few_words_over_and_over_are_still_told_apart() -> None:
    before, after = "a b " * 2000, "b a c " * 1500
    assert apply(before, diff(before, after)) == after


@given(st.lists(st.sampled_from("abcdefg"), max_size=20), st.lists(st.sampled_from("abcdefg"), max_size=20))
def test_where_too_much_would_be_compared_the_difference_is_as_exact(before: list[str], after: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("veridical.text.diff.MAX_CELLS", 0)
        one, other = " ".join(before), " ".join(after)
        assert apply(one, diff(one, other)) == other


def test_a_long_text_with_a_small_change_is_fast_enough_to_be_tested() -> None:
    long = " ".join(f"Sentence number {i} says that the river rose again." for i in range(5000))
    changed = long.replace("number 2500 says", "number 2500 denies")
    assert [(e.span.of(long), e.replacement) for e in diff(long, changed)] == [("says", "denies")]
