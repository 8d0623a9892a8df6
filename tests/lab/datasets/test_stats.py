"""What is counted in a data set, and that counting it takes one pass over its groups."""

from collections.abc import Iterator

from veridical.records.types import Case, Example, Judgement, Span, Verdict
from veridical_lab.datasets.stats import count_examples
from veridical_lab.report.data_statistics import statistics_text


def example(i: int, group: tuple[tuple[str, str], ...]) -> Example:
    verdicts = (Verdict(Span(0, 2), 1.0), Verdict(Span(3, 5), 0.0)) if i % 2 else ()
    return Example(Case(str(i), "It rains."), Judgement(str(i), "human:a", i % 2, verdicts=verdicts), group=group)


def test_counts() -> None:
    examples = [example(i, (("kind", str(i % 3)), ("system", "a"))) for i in range(9)]
    counts = count_examples(examples)
    assert (counts.cases, counts.labelled_responses, counts.hallucinated_responses) == (9, 9, 4)
    assert (counts.marked_spans, counts.marked_characters, counts.characters) == (4, 8, 81)
    assert counts.groups == {"kind": 3, "system": 1}
    lines = dict(line.split("  ", 1) for line in statistics_text(counts).splitlines() if "  " in line)
    assert lines["of them hallucinated"].strip() == "4 (44.4%)"
    assert lines["marked characters"].strip() == "8 of 81 (9.9%)"
    assert lines["groups"].strip() == "kind (3 values), system (1 values)"
    assert "groups                  none" in statistics_text(count_examples([]))


def test_counting_is_linear() -> None:
    class Group(tuple[tuple[str, str], ...]):
        reads = 0

        def __iter__(self) -> Iterator[tuple[str, str]]:
            Group.reads += 1
            return super().__iter__()

    counts = []
    for n in (10, 20, 40):
        examples = [example(i, Group([("kind", str(i % 3))])) for i in range(n)]
        Group.reads = 0
        count_examples(examples)
        counts.append(Group.reads)
    assert counts[2] == 2 * counts[1] == 4 * counts[0]
