"""Span metrics by hand, by brute force over sets of characters, and the unit arithmetic beneath them."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from veridical.metrics import UndefinedMetricError, tokens
from veridical.records.errors import InputError, SpanError
from veridical.records.spans import Span
from veridical.text.segment import words
from veridical_lab.metrics import spans

SIZE = 30
SPAN = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda ends: Span(*sorted(ends)))
SPANS = st.lists(SPAN, max_size=5)
TEXT = st.text(alphabet="ab \n\u00a0é,漢", min_size=SIZE, max_size=SIZE)


def characters_of(given_spans: list[Span]) -> set[int]:
    return {i for span in given_spans for i in range(span.start, span.end)}


def f1_sp_by_sets(gold: list[list[Span]], predicted: list[list[Span]], units: list[np.ndarray]) -> float | None:
    """D §4.3 word for word, with sets of (text, token); None where there is no span."""

    def as_sets(side: list[list[Span]]) -> list[set[tuple[int, int]]]:
        sets = [
            {(i, k) for k, (start, end) in enumerate(units[i]) if start < span.end and span.start < end}
            for i, text in enumerate(side)
            for span in text
            if len(span)
        ]
        return [s for s in sets if s]

    a, p = as_sets(gold), as_sets(predicted)
    if not a and not p:
        return None
    if not a or not p:
        return 0.0
    recall = sum(len(s & set().union(*p)) / len(s) for s in a) / len(a)
    precision = sum(len(s & set().union(*a)) / len(s) for s in p) / len(p)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@given(st.lists(st.tuples(TEXT, SPANS, SPANS), min_size=1, max_size=3), st.booleans())
def test_f1_sp_is_the_papers_formula(texts, by_token):
    contents, gold, predicted = map(list, zip(*texts, strict=True))
    every = [np.array([(i, i + 1) for i in range(SIZE)])] * len(texts)
    units = [tokens.white_space_tokens(text) for text in contents] if by_token else every
    expected = f1_sp_by_sets(gold, predicted, units)
    given_units = units if by_token else None
    if expected is None:
        with pytest.raises(UndefinedMetricError, match="no spans"):
            spans.f1_sp(gold, predicted, given_units)
    else:
        assert spans.f1_sp(gold, predicted, given_units) == pytest.approx(expected, abs=1e-12)


def test_f1_sp_by_hand():
    # text 1, tokens a|b|c|d: gold {a b c}, predicted {b c d}: each covered 2/3
    # text 2: gold {a}, nothing predicted: covered 0. text 3: predicted {a}, no gold: covered 0
    # r = (2/3 + 0) / 2 = 1/3, p = (2/3 + 0) / 2 = 1/3, F1 = 1/3
    units = [tokens.white_space_tokens("a b c d")] * 3
    gold = [[Span(0, 5)], [Span(0, 1)], []]
    predicted = [[Span(2, 7)], [], [Span(0, 1)]]
    assert spans.f1_sp(gold, predicted, units) == pytest.approx(1 / 3)


def test_texts_have_to_pair():
    with pytest.raises(InputError, match="1 texts with gold spans, 2"):
        spans.f1_sp([[]], [[], []])


@given(SPANS, SPANS)
def test_character_counts_are_set_sizes(gold, predicted):
    a, p = characters_of(gold), characters_of(predicted)
    counts = spans.character_counts(*(tokens.mask(SIZE, s) for s in (gold, predicted)))
    assert (counts.tp, counts.fp, counts.fn) == (len(a & p), len(p - a), len(a - p))
    assert counts.tn == SIZE - len(a | p)


@given(SPANS, SPANS)
def test_mushroom_iou_is_the_tasks(gold, predicted):
    a, p = characters_of(gold), characters_of(predicted)
    expected = len(a & p) / len(a | p) if a | p else 1.0
    assert spans.mushroom_iou(gold, predicted) == pytest.approx(expected)


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1e-10, 0.3, 1.0])] * 2), min_size=1, max_size=12))
def test_mushroom_cor_is_the_tasks(pairs):
    gold, predicted = zip(*pairs, strict=True)
    distinct = [len({round(value, 8) for value in side}) for side in (gold, predicted)]
    if 1 in distinct:
        assert spans.mushroom_cor(gold, predicted) == float(distinct == [1, 1])
    else:
        expected = scipy.stats.spearmanr(gold, predicted).statistic
        assert spans.mushroom_cor(gold, predicted) == pytest.approx(expected, abs=1e-9)


def test_exact_spans_by_hand():
    # one the same, one off by a character, one extra; a repeat and an empty span do not count
    counts = spans.exact_counts(
        [Span(0, 4), Span(6, 8)], [Span(0, 4), Span(0, 4), Span(6, 9), Span(12, 13), Span(5, 5)]
    )
    assert (counts.tp, counts.fp, counts.fn) == (1, 2, 1)


@given(SPANS, SPANS)
def test_overlap_is_full_credit_for_any_shared_character(gold, predicted):
    for which, one, other in ((0, gold, predicted), (1, predicted, gold)):
        rows = spans.overlap_rows(gold, predicted)
        expected = [any(a.overlaps(b) for b in other if len(b)) for a in one if len(a)]
        assert rows[rows[:, 0] == which, 1].tolist() == expected


@given(TEXT, SPANS)
def test_marked_units_are_those_that_share_a_character(text, marked):
    marks = [span for span in marked if len(span)]
    for units in (tokens.white_space_tokens(text), tokens.word_units(text)):
        expected = [any(Span(*unit).overlaps(span) for span in marks) for unit in units.tolist()]
        assert tokens.any_in(tokens.mask(SIZE, marked), units).tolist() == expected


@given(TEXT, st.lists(st.tuples(SPAN, st.sampled_from([0.1, 0.5, 0.9])), max_size=5))
def test_a_unit_has_the_highest_score_of_its_characters(text, scored):
    values = tokens.scores_of_characters(SIZE, scored)
    for i in range(SIZE):
        assert values[i] == max((score for span, score in scored if span.start <= i < span.end), default=0.0)
    units = tokens.white_space_tokens(text)
    assert tokens.highest_in(values, units).tolist() == [values[a:b].max() for a, b in units.tolist()]


@given(SPANS)
def test_runs_undo_a_mask(marked):
    found = tokens.runs(tokens.mask(SIZE, marked))
    assert characters_of(found) == characters_of(marked)
    assert all(a.end < b.start for a, b in pairwise(found))


@given(TEXT)
def test_white_space_tokens_are_what_split_gives(text):
    assert [text[a:b] for a, b in tokens.white_space_tokens(text).tolist()] == text.split()


def test_stop_words_are_left_out_in_lower_case():
    text = "The end of THE road"
    units = tokens.word_units(text, is_stop_word={"the", "of"}.__contains__)
    assert [text[a:b] for a, b in units.tolist()] == ["end", "road"]
    assert len(tokens.word_units(text)) == len(words(text))


@pytest.mark.parametrize("make", [lambda s: tokens.mask(4, [s]), lambda s: tokens.scores_of_characters(4, [(s, 1.0)])])
def test_spans_outside_the_text_are_refused(make):
    with pytest.raises(SpanError, match=r"\[3, 5\) runs past its text of 4"):
        make(Span(3, 5))
