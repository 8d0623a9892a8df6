"""A character counts where at least k annotators mark it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.errors import InputError, SpanError
from veridical.records.spans import Span, union
from veridical.records.types import Case, Judgement, Omission, Source, Verdict
from veridical_lab.datasets.consensus import at_least, majority

CASE = Case("1", "0123456789", (Source("s", "01234567"), Source("t", "0123")))
SPANS = st.tuples(st.integers(0, 10), st.integers(0, 10)).map(lambda pair: Span(min(pair), max(pair)))


def person(*spans: Span, label: str | None = None) -> Judgement:
    return Judgement("1", "human:x", float(bool(spans)), verdicts=tuple(Verdict(s, 1.0, label) for s in spans))


@given(st.lists(st.lists(SPANS, max_size=3), min_size=1, max_size=5), st.data())
def test_counting_characters_gives_the_same(marks: list[list[Span]], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(marks)))
    counts = Counter(i for spans in marks for i in {i for s in spans for i in range(s.start, s.end)})
    expected = union(Span(i, i + 1) for i, n in counts.items() if n >= k)
    merged = at_least(k, [person(*spans) for spans in marks], CASE)
    assert [v.span for v in merged.verdicts] == expected
    assert all(v.score == 1.0 for v in merged.verdicts)
    assert merged.by == f"human:{k}-of-{len(marks)}"


def test_two_of_three() -> None:
    people = [person(Span(0, 4), label="a"), person(Span(2, 6), label="a"), person(Span(5, 6), label="b")]
    merged = majority(people, CASE)
    assert [(v.span, v.label) for v in merged.verdicts] == [(Span(2, 4), "a"), (Span(5, 6), None)]
    assert (merged.hallucination, merged.omission, merged.judged) == (1.0, None, None)


def test_whole_tokens_are_counted_where_tokens_are_given() -> None:
    """Two annotators who mark different halves of one token agree on it (CH-Wang et al. 2024, section 3.3)."""
    case = Case("1", "born in Rome on 3 May")
    tokens = [Span(0, 4), Span(4, 7), Span(7, 12), Span(12, 15), Span(15, 21)]  # with the blank before them
    people = [person(Span(8, 10), label="a"), person(Span(10, 12), label="a"), person(Span(16, 17), label="b")]
    assert majority(people, case).verdicts == ()
    assert [(v.span.of(case.response), v.label) for v in majority(people, case, tokens=tokens).verdicts] == [
        ("Rome", "a")
    ]
    assert [v.span for v in at_least(1, people, case, tokens=tokens).verdicts] == [Span(8, 12), Span(16, 21)]
    with pytest.raises(SpanError, match="past its response"):
        majority(people, case, tokens=[Span(20, 30)])


def test_who_disagree_on_the_place_agree_on_nothing() -> None:
    assert majority([person(Span(0, 2)), person(Span(4, 6)), person()], CASE).hallucination == 0.0


@pytest.mark.parametrize(
    ("votes", "said"), [((1.0, 1.0, 0.0), 1.0), ((1.0, 0.0, 0.0), 0.0), ((None, None, None), None)]
)
def test_votes_without_a_place_are_counted(votes: tuple[float | None, ...], said: float | None) -> None:
    assert majority([Judgement("1", "human:x", vote) for vote in votes], CASE).hallucination == said


def test_low_scores_are_no_marks() -> None:
    benign = Judgement("1", "human:x", 0.0, verdicts=(Verdict(Span(0, 2), 0.0, "Benign"),))
    assert at_least(1, [benign], CASE).verdicts == ()
    assert at_least(1, [benign], CASE).hallucination == 0.0


def test_omissions_source_by_source() -> None:
    marks = (Span(0, 4), 1.0), (Span(2, 6), 0.0)
    left_out = [(Omission("s", span, 1.0), Omission("t", Span(0, 1), score)) for span, score in marks]
    people = [Judgement("1", "human:a", omission=1.0, omissions=omissions) for omissions in left_out]
    merged = at_least(2, people, CASE)
    assert [(o.source_id, o.span) for o in merged.omissions] == [("s", Span(2, 4))]
    assert merged.omission == 1.0


def test_judged_is_what_enough_judged() -> None:
    people = [Judgement("1", "human:a", 0.0, judged=(Span(0, 6),)), Judgement("1", "human:b", 0.0)]
    assert at_least(2, people, CASE).judged == (Span(0, 6),)
    assert at_least(1, people, CASE).judged == (Span(0, 10),)


@pytest.mark.parametrize("k", [0, 3])
def test_k_lies_from_one_to_the_number(k: int) -> None:
    with pytest.raises(InputError, match=f"at least {k} of 2"):
        at_least(k, [person(), person()], CASE)


def test_another_cases_judgement_is_refused() -> None:
    with pytest.raises(InputError, match="'2'"):
        at_least(1, [Judgement("2", "human:x")], CASE)
