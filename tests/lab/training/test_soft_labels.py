"""Soft labels: what a detector says, mixed with the labels of the data."""

import pytest

from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical_lab.training.soft_labels import mixed

CASE = Case("1", "It is green.", (Source("s", "It is blue."),))
SAID = Judgement(
    "1", "teacher/a", 0.8, verdicts=(Verdict(Span(0, 2), 0.1), Verdict(Span(3, 5), 0.2), Verdict(Span(6, 11), 0.9))
)


def scores(example: Example) -> list[float]:
    return [verdict.score for verdict in example.gold.verdicts]


def test_labels_of_words_and_of_the_response_are_mixed() -> None:
    gold = Judgement("1", "human:a", 1.0, verdicts=(Verdict(Span(6, 11), 1.0),))
    soft = mixed(Example(CASE, gold), SAID, 0.7)
    assert scores(soft) == pytest.approx([0.07, 0.14, 0.93])
    assert soft.gold.hallucination == pytest.approx(0.86)
    right = mixed(Example(CASE, Judgement("1", "human:a", 0.0)), SAID, 0.7)
    assert scores(right) == pytest.approx([0.07, 0.14, 0.63])
    assert right.gold.hallucination == pytest.approx(0.56)


def test_where_the_data_say_nothing_the_teacher_counts_alone() -> None:
    whole = mixed(Example(CASE, Judgement("1", "human:a", 1.0)), SAID, 0.7)  # which words are wrong is not known
    assert scores(whole) == [0.1, 0.2, 0.9]
    assert whole.gold.hallucination == pytest.approx(0.86)
    nothing = mixed(Example(CASE, Judgement("1", "nobody", judged=())), SAID, 0.7)
    assert scores(nothing) == [0.1, 0.2, 0.9]
    assert nothing.gold.hallucination == 0.8
    silent = mixed(Example(CASE, Judgement("1", "human:a", omission=0.5)), SAID, 0.7)
    assert silent.gold.hallucination == 0.8
    example = Example(CASE, Judgement("1", "human:a", 1.0))
    assert mixed(example, Judgement("1", "teacher/a", judged=()), 0.7) is example
