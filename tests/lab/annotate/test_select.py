"""Which items are chosen, and in which shares."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from veridical.metrics.confusion import Confusion
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Source, Span, Verdict
from veridical_lab.annotate.balance import Annotated, best_threshold, evening_target, expected_counts, subsampling
from veridical_lab.annotate.items import answer, grouped, item_place, items_of, with_label
from veridical_lab.annotate.scorer import item_weights
from veridical_lab.annotate.select import SelectOptions, embedding_similarity, obvious, select, similarity

COUNTS = st.integers(1, 500)


def equation_9(a: float, b: float, c: float) -> float:
    """Liu et al. 2022, eq. 9, of true positive rate, true negative rate and precision."""
    return (-2 * a * b * c + a * b + b * c + a * c - c) / ((2 * c - 1) * a * (1 - b))


def item(id: str, new: str, old: str, before: str = "It is ") -> Example:
    text = f"{before}{new} in the end."
    span = Span(len(before), len(before) + len(new))
    verdict = Verdict(span, 1.0, "rule", correction=old)
    gold = Judgement(id, "corrupt:rules", 1.0, verdicts=(verdict,))
    return next(items_of([Example(Case(id, text, (Source("s", f"{before}{old} in the end."),)), gold, f"d{id}")]))


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_ratio_in_counts_is_equation_9(tp: int, fp: int, fn: int, tn: int) -> None:
    counts = Confusion(tp, fp, fn, tn)
    assume(tp > fp)
    wanted = equation_9(counts.recall(), counts.specificity(), counts.precision())
    exact = subsampling(counts).exact
    assert exact is not None
    assert math.isclose(exact, wanted, rel_tol=1e-6, abs_tol=1e-6)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(COUNTS, st.integers(1, 50), st.integers(1, 20), COUNTS, st.floats(0.3, 0.7))
def test_taking_these_shares_gives_the_target(tp: int, fp: int, fn: int, tn: int, target: float) -> None:
    chosen = subsampling(Confusion(tp, fp, fn, tn), target)
    assume(chosen.note is None)
    wrong, right = chosen.hallucinated * tp + fn, chosen.hallucinated * fp + tn
    assert wrong / (wrong + right) == pytest.approx(target)


def test_where_the_equation_has_no_use() -> None:
    half = subsampling(Confusion(tp=10, fp=10, fn=5, tn=30))  # γ = ½
    assert (half.exact, half.hallucinated, half.consistent) == (None, 1.0, 1.0)
    assert subsampling(Confusion(tp=10, fp=20, fn=5, tn=30)).hallucinated == 1.0  # γ < ½
    perfect = subsampling(Confusion(tp=90, fp=0, fn=1, tn=10))  # β = 1: no false positives, equation (9) is 0/0
    assert perfect.exact == pytest.approx(0.1) == perfect.hallucinated
    below = subsampling(Confusion(tp=80, fp=2, fn=18, tn=8))  # R < 0
    assert (below.exact < 0, below.consistent) == (True, 1.0)
    assert below.hallucinated * 82 == pytest.approx(0.05 * (below.hallucinated * 82 + 26))  # one in twenty
    above = subsampling(Confusion(tp=30, fp=10, fn=10, tn=50))  # R = 2: hallucinations are the rarer class
    assert (above.exact, above.hallucinated, above.consistent) == (2.0, 1.0, 0.5)
    for nothing in (Confusion(tp=0, fp=0, fn=9, tn=9), Confusion(tp=9, fp=1, fn=0, tn=0)):
        assert (subsampling(nothing).hallucinated, subsampling(nothing).consistent) == (1.0, 1.0)
        assert "nothing is predicted" in str(subsampling(nothing).note)


def test_weights_undo_subsampling() -> None:
    kept = [grouped(item(str(i), "a", "b"), share="0.25" if i < 2 else "1", round="2") for i in range(4)]
    first = [grouped(item("x", "a", "b"), share="1", round="1")]
    weights = item_weights([*kept, *first])
    assert weights.tolist() == pytest.approx([1.6, 1.6, 0.4, 0.4, 1.0])


def test_candidates_are_counted_and_their_labels_expected() -> None:
    annotated = Annotated([True] * 3 + [False] * 7, [0.9] * 4 + [0.2] * 6)
    candidates = [0.9] * 80 + [0.2] * 20
    counts = expected_counts(annotated, candidates, 0.5)
    assert (counts.tp + counts.fp, counts.fn + (counts.tn or 0)) == (80, 20)
    assert counts.precision() == pytest.approx((3 + 2 * 0.3) / (4 + 2))  # with two more items of the average label
    assert counts.fn == pytest.approx(20 * 2 * 0.3 / 8)
    weighted = Annotated([True, False, True, False], [0.9, 0.8, 0.2, 0.1], [4, 4, 1, 1])
    assert expected_counts(weighted, candidates, 0.5).precision() == pytest.approx(0.5)
    surer = Annotated([True, True, False], [0.99, 0.6, 0.6])  # the first is surer than any candidate
    assert expected_counts(surer, [0.7, 0.3], 0.5).precision() == pytest.approx((1 + 2 * 0.5) / (2 + 2))
    with pytest.raises(InputError, match="1 labels, 2 scores"):
        Annotated([True], [0.1, 0.2])


def test_the_threshold_has_the_largest_surplus_or_else_the_most_even_lowest_items() -> None:
    candidates = [i / 100 for i in range(100)]
    good = Annotated([True] * 6 + [False] * 4, [0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.4, 0.3, 0.2, 0.1])
    assert best_threshold(good, candidates, 10) == 0.7
    # one consistent item among two is no surplus to rely on; most even are the lowest ten, or thirty
    poor = Annotated([False] + [True] * 4 + [False] + [True] * 20, [0.04] + [0.2] * 5 + [0.8] * 20)
    assert best_threshold(poor, candidates, 10) == 0.1
    assert best_threshold(poor, candidates, 30) == 0.3
    alike = expected_counts(poor, [0.5] * 9, best_threshold(poor, [0.5] * 9, 4))  # no threshold tells them apart
    assert subsampling(alike).hallucinated == 1.0


def test_later_rounds_make_up_for_earlier_ones() -> None:
    assert evening_target([True] * 84 + [False] * 16, 60) == 0.3  # no farther
    assert evening_target([True] * 55 + [False] * 45, 100) == 0.45
    assert evening_target([False] * 90, 10) == 0.7


@pytest.mark.parametrize(
    ("new", "old", "kind"),
    [
        ("Tuesday", "Monday", "date"),
        ("Tuesday", "today", None),  # ambiguous: Liu et al. 2022 keep it
        ("3 May 2020", "3 May 1999", "date"),
        ("May 3, 2020", "3 May 2020", None),  # the same day
        ("Oslo", "Rome", "name"),
        ("Ann Berg", "Bo Dahl", "name"),
        ("Oslo", "the capital", None),
        ("small", "large", None),
    ],
)
def test_replaced_dates_and_names(new: str, old: str, kind: str | None) -> None:
    assert obvious(item("1", new, old)) == kind


def test_trivial_items_are_left_out_and_counted() -> None:
    pool = [item("0", "5 kilometres", "5 km"), item("1", "Oslo", "Rome"), item("2", "small", "large")]
    pool += [item(str(i), f"thing{i} rarely", f"matter{i} often") for i in range(3, 30)]
    chosen = select(pool, SelectOptions(count=50))
    assert [e.case.id for e in chosen.items] == [f"{i}#0" for i in range(2, 30)]
    assert sum(chosen.left_out.values()) == 2
    scores = [0.999] * 20 + [0.5] * 10
    annotated = Annotated([True] * 10 + [False] * 10, [0.9] * 15 + [0.4] * 5)
    sure = select(pool, SelectOptions(count=2), scores=scores, annotated=annotated)
    assert sure.candidates == 10
    assert sure.left_out["the detector is sure"] == 18
    relaxed = select(pool, SelectOptions(count=8), scores=scores, annotated=annotated)  # three candidates for each
    assert relaxed.candidates == 24
    kept = select(pool, SelectOptions(count=50, obvious=1.0, similar=1.0))
    assert len(kept.items) == 30


def test_predicted_hallucinations_are_subsampled() -> None:
    pool = [item(str(i), f"thing{i} rarely", f"matter{i} often") for i in range(1000)]
    scores = [0.9 if i % 10 else 0.1 for i in range(1000)]  # 900 predicted hallucinations
    annotated = Annotated([True] * 900 + [False] * 100, [0.9] * 900 + [0.1] * 100)
    options = SelectOptions(count=1000, target=0.5)
    chosen = select(pool, options, scores=scores, annotated=annotated)
    assert chosen.threshold == 0.9
    groups = [dict(e.group) for e in chosen.items]
    flagged = [g for g in groups if g["predicted"] == "hallucinated"]
    assert 70 <= len(flagged) <= 130
    assert len(groups) - len(flagged) == 100
    (share,) = {float(g["share"]) for g in flagged}
    assert share == pytest.approx(100 / 900, rel=0.05)
    assert select(pool, options, scores=scores, annotated=annotated).items == chosen.items
    assert len(select(pool, SelectOptions(count=7), scores=scores, annotated=annotated).items) == 7
    lower = select(pool, SelectOptions(count=1000), scores=scores, annotated=annotated)  # to even out what is annotated
    assert len(lower.items) < len(chosen.items)


def test_similarity_by_vectors() -> None:
    vectors = {"red cars": [1.0, 0.0], "red car": [0.0, 1.0], "blue boats": [1.0, 0.1]}

    def embed(texts: list[str]) -> np.ndarray:
        return np.array([vectors[text] for text in texts])

    assert embedding_similarity(["red cars"], ["red car"], embed) == [0.0]
    pool = [item("1", "red cars", "blue boats"), item("2", "red cars", "red car")]
    chosen = select(pool, SelectOptions(count=2), embed=embed)
    assert [e.case.id for e in chosen.items] == ["2#0"]
    assert chosen.left_out == {"near-paraphrase of the original": 1}


def test_bad_selections_are_refused() -> None:
    pool = [item("1", "Oslo", "Rome")]
    with pytest.raises(InputError, match=r"nothing in the pool .*another name"):
        select(pool)
    with pytest.raises(InputError, match="unknown strategy 'best'"):
        SelectOptions(strategy="best")
    with pytest.raises(InputError, match="share of hallucinated items"):
        SelectOptions(target=1.0)
    with pytest.raises(InputError, match="annotated items are needed"):
        select(pool, scores=[0.4])
    with pytest.raises(InputError, match="2 scores for 1 items"):
        select(pool, scores=[0.4, 0.1])
    with pytest.raises(InputError, match="not an item"):
        item_place(Example(Case("1", "a"), Judgement("1", "x", 0.0)))


def test_items_are_changed_places() -> None:
    verdicts = (Verdict(Span(0, 2), 1.0, correction="He"), Verdict(Span(3, 5), 1.0, correction=""))
    example = Example(Case("1", "It is"), Judgement("1", "corrupt:rules", 1.0, verdicts=verdicts))
    (only,) = items_of([example])  # what was added is no question
    assert (only.case.id, only.document, item_place(only)) == ("1#0", "1", verdicts[0])
    assert list(items_of([only])) == [only]
    said = answer(only, "ann", False, seconds=3.0)
    assert (said.by, said.hallucination, said.provenance) == ("human:ann", 0.0, (("seconds", "3.0"),))
    consistent = with_label(only, False, "human:4-of-4")
    assert item_place(consistent).correction == "He"
    assert consistent.gold.hallucination == 0.0


def test_similarity_by_words_and_values() -> None:
    assert similarity("the 5 km", "5 kilometres") == 1.0
    assert similarity("houses", "boats") == 0.0
    assert similarity("of the", "of the") == 1.0
