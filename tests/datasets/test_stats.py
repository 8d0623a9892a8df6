"""What is counted in a set of examples."""

from __future__ import annotations

from typing import Any

from veridical.core.spans import Span
from veridical.core.types import Case, Example, Judgement, Omission, Source, Verdict
from veridical.datasets.split import content_hash
from veridical.datasets.stats import statistics


def test_counts() -> None:
    case = Case("1", "born in Rome", (Source("s", "Oslo", must_cover=True),))
    marks = (Verdict(Span(0, 4), 1.0), Verdict(Span(2, 7), 1.0), Verdict(Span(8, 12), 0.0))
    gold = Judgement("1", "human:a", 1.0, 1.0, marks, (Omission("s", Span(0, 4), 1.0),))
    unlabelled = Judgement("2", "human:a", judged=())
    examples = [
        Example(case, gold, "d", (("model", "m"), ("part", "x")), (gold, gold)),
        Example(Case("2", "No."), unlabelled, "d", (("model", "n"),)),
        Example(Case("3", "No."), Judgement("3", "human:a", 0.0)),
    ]
    counts = statistics(examples)
    assert (counts.cases, counts.documents, counts.labelled, counts.hallucinated, counts.unjudged) == (3, 2, 2, 1, 1)
    assert (counts.marked_spans, counts.marked_characters, counts.characters) == (2, 7, 18)
    assert (counts.omissions, counts.annotations, counts.groups) == (1, 2, {"model": 2, "part": 1})
    assert counts.hash == content_hash(examples)


def test_each_example_is_looked_at_a_fixed_number_of_times() -> None:
    """The groups were once counted anew for every example."""
    looks = 0

    class Group(tuple):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            nonlocal looks
            looks += 1
            return super().__iter__()

    def count(n: int) -> int:
        nonlocal looks
        examples = [
            Example(Case(str(i), "No."), Judgement(str(i), "human:a", 0.0), None, Group((("part", str(i)),)))
            for i in range(n)
        ]
        looks = 0
        assert statistics(examples).groups == {"part": n}
        return looks

    assert count(60) <= 2 * count(30)
