"""Consensus, agreement, and the quality of annotators."""

import random

import numpy as np
import pytest

from tests.lab.annotate.test_select import item
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Span, Verdict
from veridical_lab.annotate.consensus import (
    ConsensusRule,
    agree,
    agreement,
    consensus,
    join_annotations,
    needed,
    reconcile_spans,
    without_annotators,
)
from veridical_lab.annotate.items import answer, item_place
from veridical_lab.annotate.quality import annotator_quality, error_rates, score_quiz

H, N = True, False


def voted(id: str, labels: str, seconds: float | None = None) -> Example:
    """An item with an annotator a, b, c … per letter of `labels`: h or n; - for none."""
    base = item(id, "small", "large")
    pairs = [(name, label) for name, label in zip("abcdefgh", labels, strict=False) if label != "-"]
    people = tuple(answer(base, name, label == "h", seconds=seconds) for name, label in pairs)
    return Example(base.case, base.gold, base.document, base.group, people)


@pytest.mark.parametrize(
    ("votes", "label", "more"),
    [
        ("", None, 4),
        ("hhh", None, 1),
        ("hhhh", H, 0),
        ("hhhn", H, 0),
        ("hhnn", None, 2),
        ("hhnnh", None, 1),  # five always have a majority: the sixth is asked all the same
        ("hhnnhh", H, 0),
        ("hhnnnn", N, 0),
        ("hhhnnn", None, 0),  # dropped
    ],
)
def test_four_annotators_then_up_to_six(votes: str, label: bool | None, more: int) -> None:
    labels = [vote == "h" for vote in votes]
    assert (consensus(labels), needed(labels)) == (label, more)


def test_other_rules() -> None:
    rule = ConsensusRule(first=3, most=3)
    assert consensus([H, H, N], rule) is True
    assert consensus([H, H], rule) is None
    with pytest.raises(InputError, match="up to 3"):
        ConsensusRule(first=4, most=3)


def test_agree_decides_waits_and_drops() -> None:
    given = [voted("1", "hhhh"), voted("2", "hhnn"), voted("3", "hhhnnn"), voted("4", "nnnh"), voted("5", "h")]
    agreed = agree(given)
    assert [(e.case.id, e.gold.hallucination, e.gold.by) for e in agreed.examples] == [
        ("1#0", 1.0, "human:4-of-4"),
        ("4#0", 0.0, "human:3-of-4"),
    ]
    assert agreed.waiting == {"2#0": 2, "5#0": 3}
    assert agreed.split == ("3#0",)
    assert item_place(agreed.examples[1]).correction == "large"
    # the same cases from several files, one annotator each
    parts = [without_annotators([voted("1", "hhhh")], {f"human:{n}" for n in "abcd" if n != name}) for name in "abcd"]
    assert agree([e for part in parts for e in part]).examples[0].gold.by == "human:4-of-4"


def test_who_contradicts_themselves_does_not_count() -> None:
    once, again = voted("1", "hhhh"), voted("1", "nh")
    joined, unused = join_annotations([once, again])
    assert [j.by for j in joined[0].annotations] == ["human:b", "human:c", "human:d"]
    assert unused == {"an annotator contradicts themselves": 2, "labelled again in the same way": 1}
    other = Example(Case("1#0", "another text"), Judgement("1#0", "x", 0.0))
    with pytest.raises(InputError, match="two different cases"):
        join_annotations([once, other])


def test_spans_are_merged_by_token_two_of_three() -> None:
    case = Case("1", "It was opened in 1889 by the king.")
    marks = [[Span(7, 13), Span(17, 21)], [Span(17, 19)], [Span(17, 24)]]
    people = tuple(
        Judgement("1", f"human:{i}", 1.0, verdicts=tuple(Verdict(s, 1.0) for s in spans))
        for i, spans in enumerate(marks)
    )
    example = Example(case, Judgement("1", "none"), annotations=people)
    agreed = reconcile_spans([example])
    assert [v.span.of(case.response) for v in agreed.examples[0].gold.verdicts] == ["1889"]
    two = reconcile_spans([Example(case, Judgement("1", "none"), annotations=people[::2])], of=2)
    assert [v.span.of(case.response) for v in two.examples[0].gold.verdicts] == ["1889"]
    waiting = reconcile_spans([Example(case, Judgement("1", "none"), annotations=people[:2])])
    assert waiting.waiting == {"1": 1}
    with pytest.raises(InputError, match="at least 2 of 1"):
        reconcile_spans([example], of=1)


def test_agreement_is_that_of_the_metrics() -> None:
    measured = agreement([voted("1", "hhhh"), voted("2", "nnnn"), voted("3", "hhnn"), voted("4", "hnnnnn")])
    assert (measured.cases, measured.labels, measured.annotators, measured.kappa_labels) == (4, 18, 6, 4)
    assert measured.unanimous == 0.5
    assert measured.four_fifths == 0.75
    assert 0.2 < measured.kappa < measured.alpha < 0.7
    assert agreement([voted("1", "hh")]).alpha is None  # no two labels could have differed
    with pytest.raises(InputError, match="two annotators"):
        agreement([voted("1", "h")])


def simulated(rates: list[tuple[float, float]], items: int, share: float = 0.5) -> list[Example]:
    draw = random.Random(1)
    examples = []
    for i in range(items):
        wrong = draw.random() < share
        labels = "".join("h" if wrong != (draw.random() < rate[0 if wrong else 1]) else "n" for rate in rates)
        examples.append(voted(str(i), labels, 20.0))
    return examples


def test_known_error_rates_are_recovered() -> None:
    rates = [(0.05, 0.1), (0.2, 0.02), (0.1, 0.1), (0.02, 0.3)]
    qualities = annotator_quality(simulated(rates, 400), resamples=60)
    for quality, (misses, alarms) in zip(qualities, rates, strict=True):
        assert quality.misses_interval[0] - 0.01 <= misses <= quality.misses_interval[1] + 0.01
        assert quality.false_alarms_interval[0] - 0.01 <= alarms <= quality.false_alarms_interval[1] + 0.01
        assert quality.misses == pytest.approx(misses, abs=0.06)
        assert not quality.signs


def test_error_rates_need_no_complete_table() -> None:
    ratings = np.array([[1, 1, 0, 0, np.nan, np.nan], [1, 1, 0, 0, 1, 0], [np.nan, np.nan, 0, 1, 1, 0]])
    rates, truth = error_rates(ratings)
    assert (truth > 0.5).tolist() == [True, True, False, False, True, False]
    assert rates[2, 1] == rates[:, 1].max()  # the one false alarm is the third annotator's


def test_signs_of_spam() -> None:
    # 80 % of the items are hallucinated: who always says so agrees with the others most of the time
    spammer = simulated([(0.05, 0.05)] * 3 + [(0.0, 1.0)], 60, share=0.8)
    assert [q.signs for q in annotator_quality(spammer, resamples=2)] == [(), (), (), ("always the same label",)]
    few = annotator_quality(spammer[:8], resamples=2)
    assert not any(q.signs for q in few)
    guesser = annotator_quality(simulated([(0.05, 0.05)] * 4 + [(0.5, 0.5)], 60), resamples=2)
    assert [bool(q.signs) for q in guesser] == [False] * 4 + [True]
    assert "against the majority" in guesser[4].signs[0]
    fast = annotator_quality([voted(str(i), "hn" * 2, 4.0) for i in range(12)], resamples=2)
    assert "4 seconds per label" in fast[0].signs
    with pytest.raises(InputError, match="no annotations"):
        annotator_quality([voted("1", "")])


def test_no_sign_where_everybody_says_the_same() -> None:
    alike = annotator_quality([voted(str(i), "hhhh") for i in range(20)], resamples=2)
    assert not any(q.signs for q in alike)


def test_quiz() -> None:
    quiz = [voted(str(i), "h" + ("h" if i < 8 else "n") + ("h" if i < 7 else "-")) for i in range(10)]
    scores = score_quiz(quiz)  # all are hallucinated by their gold
    assert [(s.right, s.asked, s.passed) for s in scores] == [(10, 10, True), (8, 10, True), (7, 10, False)]
    assert not score_quiz(quiz, needed=9)[1].passed
    with pytest.raises(InputError, match="11 right answers"):
        score_quiz(quiz, needed=11)
