"""Tokens, quotes and differences become the right characters."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.errors import InputError
from veridical.records.spans import Span, complement, union
from veridical_lab.datasets.marks import align, diff_spans, flagged_runs, locate, tokens

WORDS = st.text(alphabet="ab\u00e9\U0001f600'.-", min_size=1, max_size=4)
GAPS = st.text(alphabet=" \t\u00a0\u3000", min_size=1, max_size=2)


@given(st.text())
def test_tokens_are_those_of_split(text: str) -> None:
    assert [span.of(text) for span in tokens(text)] == text.split()


@given(st.lists(st.tuples(WORDS, GAPS, st.booleans())))
def test_every_flagged_token_and_no_other_is_in_a_run(parts: list[tuple[str, str, bool]]) -> None:
    text = "".join(word + gap for word, gap, _ in parts)
    spans = flagged_runs(tokens(text), [flag for _, _, flag in parts])
    assert spans == sorted(spans)
    assert [any(r.contains(place) for r in spans) for place in tokens(text)] == [flag for _, _, flag in parts]
    # maximal: what lies between two runs holds a token
    assert all(text[a.end : b.start].strip() for a, b in pairwise(spans))
    assert not any(place.overlaps(r) for r in spans for place in tokens(text) if not r.contains(place))


def test_as_many_flags_as_tokens() -> None:
    with pytest.raises(InputError, match="1 labels for 2 tokens"):
        flagged_runs(tokens("a b"), [True])


@given(st.lists(st.tuples(WORDS, st.sampled_from(["", " ", "\n "])), min_size=1))
def test_pieces_are_aligned(parts: list[tuple[str, str]]) -> None:
    text = "".join(gap + word for word, gap in parts)
    places = align(text, [word for word, _ in parts])
    assert places is not None
    assert [place.of(text) for place in places] == [word for word, _ in parts]


@pytest.mark.parametrize("pieces", [["a", "c"], ["a", "b", "c"], ["b"], ["a"]])
def test_pieces_that_do_not_join_to_the_text(pieces: list[str]) -> None:
    assert align("a b", pieces) is None


def test_a_white_space_piece_is_found() -> None:
    assert align("17\u00a0m", ["17", "\u00a0", "m"]) == [Span(0, 2), Span(2, 3), Span(3, 4)]


def test_quotes_take_unused_places_and_go_line_by_line() -> None:
    assert locate("a cat, a cat", ["a cat", "a cat"]) == [Span(0, 5), Span(7, 12)]
    assert locate("1. a\n2. b\n3. c", ["1. a\n3. c"]) == [Span(0, 4), Span(10, 14)]
    assert locate("a cat", [" cat "]) == [Span(2, 5)]
    assert locate("a cat", ["dog"]) is None
    assert locate("a cat", [" "]) is None
    assert locate("a cat", []) == []


SENTENCE = st.lists(st.sampled_from(["the", "a", "cat", "dog", "1,200", "ran", "."]), max_size=8)


@given(SENTENCE, SENTENCE)
def test_what_is_not_marked_is_in_both_texts_in_order(before: list[str], after: list[str]) -> None:
    old, new = " ".join(before), " ".join(after)
    spans = diff_spans(old, new)
    assert spans == union(spans)
    kept = [word for gap in complement(spans, len(new)) for word in gap.of(new).split()]
    rest = iter(before)
    assert all(word in rest for word in kept)  # a subsequence
    if before == after:
        assert spans == []


@given(SENTENCE, st.integers(0, 8), st.sampled_from(["ZED", "9/11", "ex-wife", "né"]))
def test_a_put_in_word_is_marked_alone(words: list[str], at: int, word: str) -> None:
    at = min(at, len(words))
    text = " ".join([*words[:at], word, *words[at:]])
    spans = diff_spans(" ".join(words), text)
    start = len(" ".join([*words[:at], ""])) if at else 0
    assert spans == [Span(start, start + len(word))]


@pytest.mark.parametrize(
    ("before", "after", "marked"),
    [
        ("on May 29, 1943 .", "on June 14, 1946 .", ["June 14, 1946"]),
        ("He is not expected to stay .", "He is expected to stay .", ["expected"]),
        ("He did not", "He did", ["did"]),
        ("a  b", "a b", []),
        ("is red. It was", "was red. It is", ["was", "is"]),
        ("", "new", ["new"]),
        ("old", "", []),
    ],
)
def test_differences(before: str, after: str, marked: list[str]) -> None:
    assert [span.of(after) for span in diff_spans(before, after)] == marked
