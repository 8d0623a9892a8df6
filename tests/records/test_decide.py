"""What scores come to: the truth table of outcomes, what is flagged, and which spans read as one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.decide import decide, flagged, merge, omitted, outcome, overall, unjudged
from veridical.records.errors import InputError, SpanError
from veridical.records.spans import Span, union
from veridical.records.types import (
    Case,
    Judgement,
    Omission,
    Outcome,
    Source,
    SourceSpan,
    Thresholds,
    Verdict,
    check_threshold,
)

PLAIN = Case("1", "It is so.", (Source("a", "It is."),))
COVER = Case("1", "It is so.", (Source("a", "It is."), Source("b", "Be it.", must_cover=True)))
TWO = Case("1", "It is so.", (Source("a", "It is.", must_cover=True), Source("b", "Be it.", must_cover=True)))
ALL = (Span(0, 9),)
NOTHING = Judgement("1", "x", judged=(), no_claim=True)


def verdict(score: float) -> tuple[Verdict, ...]:
    return (Verdict(Span(0, 2), score),)


def omission(score: float, source: str = "b") -> tuple[Omission, ...]:
    return (Omission(source, Span(0, 2), score),)


CLEAR, FLAGGED, UNJUDGED = Outcome.CLEAR, Outcome.FLAGGED, Outcome.UNJUDGED
TABLE: list[tuple[str, Case, dict[str, Any], Outcome]] = [
    ("nothing said", PLAIN, {}, UNJUDGED),
    ("low response score", PLAIN, {"hallucination": 0.1}, CLEAR),
    ("high response score", PLAIN, {"hallucination": 0.5}, FLAGGED),
    ("low span", PLAIN, {"verdicts": verdict(0.4)}, CLEAR),
    ("high span", PLAIN, {"verdicts": verdict(0.5)}, FLAGGED),
    ("low span, high response score", PLAIN, {"verdicts": verdict(0.4), "hallucination": 0.9}, FLAGGED),
    ("low omitted span, high omission", COVER, {"omissions": omission(0.1), "omission": 0.9}, FLAGGED),
    ("high span, low response score", PLAIN, {"verdicts": verdict(0.9), "hallucination": 0.0}, FLAGGED),
    (
        "high span, low score of its sentence",
        PLAIN,
        {"verdicts": verdict(0.9), "hallucination": 0.1, "sentences": (Verdict(Span(0, 9), 0.1),)},
        CLEAR,
    ),
    ("said to be judged, no verdict", PLAIN, {"judged": ALL}, CLEAR),
    ("nothing judged", PLAIN, {"judged": (), "hallucination": 0.0}, UNJUDGED),
    ("nothing judged, but flagged", PLAIN, {"judged": (), "hallucination": 0.9}, FLAGGED),
    ("a part not judged", PLAIN, {"judged": (Span(0, 5),), "hallucination": 0.0}, UNJUDGED),
    ("white space not judged", PLAIN, {"judged": (Span(0, 2), Span(3, 5), Span(6, 9)), "hallucination": 0.0}, CLEAR),
    ("a part not judged, another flagged", PLAIN, {"judged": (Span(0, 5),), "verdicts": verdict(0.9)}, FLAGGED),
    # coverage
    ("no word on what must be covered", COVER, {"hallucination": 0.1}, UNJUDGED),
    ("no word, but flagged", COVER, {"hallucination": 0.9}, FLAGGED),
    ("covered", COVER, {"hallucination": 0.1, "omission": 0.1}, CLEAR),
    ("omitted", COVER, {"hallucination": 0.1, "omission": 0.5}, FLAGGED),
    ("covered span", COVER, {"hallucination": 0.1, "omissions": omission(0.1)}, CLEAR),
    ("omitted span", COVER, {"hallucination": 0.1, "omissions": omission(0.5)}, FLAGGED),
    ("one of two sources unheard of", TWO, {"hallucination": 0.1, "omissions": omission(0.1)}, UNJUDGED),
    ("both heard of", TWO, {"hallucination": 0.1, "omissions": omission(0.1) + omission(0.1, "a")}, CLEAR),
    ("only coverage said", COVER, {"omission": 0.1}, UNJUDGED),
    ("only covered spans said", COVER, {"omissions": omission(0.1)}, UNJUDGED),
    ("only coverage said, and bad", COVER, {"omission": 0.9}, FLAGGED),
    ("only coverage, response not judged", COVER, {"omission": 0.1, "judged": ()}, UNJUDGED),
    ("coverage said and the response judged", COVER, {"omission": 0.1, "judged": ALL}, CLEAR),
    ("a low omission hides no hallucination", COVER, {"omissions": omission(0.0), "hallucination": 0.9}, FLAGGED),
    ("a low verdict hides no omission", COVER, {"verdicts": verdict(0.0), "omission": 0.9}, FLAGGED),
]


@pytest.mark.parametrize("case, said, wanted", [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_outcome(case: Case, said: dict[str, Any], wanted: Outcome) -> None:
    assert outcome(case, Judgement("1", "x", **said)) is wanted


FLAG_OVER: list[tuple[str, Case, dict[str, Any], Outcome]] = [
    ("above", PLAIN, {"hallucination": 0.31}, FLAGGED),
    ("at", PLAIN, {"hallucination": 0.3}, CLEAR),
    ("spans do not flag", PLAIN, {"hallucination": 0.1, "verdicts": verdict(1.0)}, CLEAR),
    ("spans alone say nothing of the response", PLAIN, {"verdicts": verdict(1.0)}, UNJUDGED),
    ("nor do judged spans", PLAIN, {"judged": ALL}, UNJUDGED),
    ("omission above", COVER, {"hallucination": 0.1, "omission": 0.4}, FLAGGED),
    ("omission at", COVER, {"hallucination": 0.1, "omission": 0.3}, CLEAR),
    ("omitted spans alone", COVER, {"hallucination": 0.1, "omissions": omission(1.0)}, UNJUDGED),
]


def over(case: Case, judgement: Judgement, flag_over: float | None) -> Outcome:
    return overall(case, [judgement], [decide(case, judgement)], flag_over)


@pytest.mark.parametrize("case, said, wanted", [row[1:] for row in FLAG_OVER], ids=[row[0] for row in FLAG_OVER])
def test_outcome_with_flag_over(case: Case, said: dict[str, Any], wanted: Outcome) -> None:
    assert over(case, Judgement("1", "x", **said), 0.3) is wanted


LONG = Case("1", "It is so. It was not. It will be.", (Source("a", "It is."),))
SENTENCES = (Span(0, 9), Span(10, 21), Span(22, 33))


def sentence_judgement(*scores: float, words: dict[int, float]) -> Judgement:
    """Three sentences with scores, and words by where they start."""
    return Judgement(
        "1",
        "x",
        max(scores),
        verdicts=tuple(Verdict(Span(start, start + 2), score) for start, score in words.items()),
        sentences=tuple(map(Verdict, SENTENCES, scores)),
    )


@pytest.mark.parametrize(
    "scores, words, marked",
    [
        ((0.9, 0.1, 0.2), {0: 0.8, 6: 0.2, 10: 0.9, 22: 0.9}, [0]),  # only inside the flagged sentence
        ((0.9, 0.9, 0.2), {0: 0.8, 6: 0.6, 10: 0.9, 22: 0.9}, [0, 1, 2]),
        ((0.1, 0.1, 0.9), {0: 0.8, 22: 0.1, 25: 0.3}, [2]),  # none above the threshold: the highest
        ((0.1, 0.9, 0.2), {0: 0.8}, []),
        ((0.1, 0.1, 0.2), {0: 0.8, 10: 0.9, 22: 0.9}, []),
    ],
)
def test_words_are_marked_inside_flagged_sentences(
    scores: tuple[float, ...], words: dict[int, float], marked: list[int]
) -> None:
    judgement = sentence_judgement(*scores, words=words)
    decision = decide(LONG, judgement)
    assert list(decision.verdicts) == marked
    assert decision.hallucination is (max(scores) >= 0.5)
    assert decision.outcome is (FLAGGED if max(scores) >= 0.5 else CLEAR)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_a_response_is_flagged_exactly_if_a_sentence_is(scores: list[float], words: list[float]) -> None:
    judgement = sentence_judgement(*scores, words=dict(zip((0, 10, 22), words, strict=True)))
    decision = decide(LONG, judgement)
    flagged_sentences = [sentence for sentence, score in zip(SENTENCES, scores, strict=True) if score >= 0.5]
    assert (decision.outcome is FLAGGED) is bool(flagged_sentences)
    assert [judgement.verdicts[i].span.start for i in decision.verdicts] == [each.start for each in flagged_sentences]


def test_the_threshold_is_inclusive() -> None:
    judgement = Judgement("1", "x", verdicts=verdict(0.7))
    assert [outcome(PLAIN, judgement, Thresholds(span=t)) for t in (0.69, 0.7, 0.71, 1.0)] == [
        FLAGGED,
        FLAGGED,
        CLEAR,
        CLEAR,
    ]


@pytest.mark.parametrize("response", ["", " \n\t\u3000"])
@pytest.mark.parametrize("judged", [None, ()])
@pytest.mark.parametrize("score", [None, 0.0])
def test_an_empty_response_is_never_clear(response: str, judged: tuple[Span, ...] | None, score: float | None) -> None:
    case = Case("1", response, (Source("a", "It is.", must_cover=True),))
    judgement = Judgement("1", "x", score, 0.0, judged=judged)
    assert outcome(case, judgement) is UNJUDGED
    assert over(case, judgement, 0.3) is UNJUDGED
    assert unjudged(case, judgement) == []
    assert outcome(case, Judgement("1", "x", score, 1.0, judged=judged)) is FLAGGED


def test_an_empty_source_needs_no_word_on_coverage() -> None:
    case = Case("1", "It is so.", (Source("a", " \n", must_cover=True),))
    assert outcome(case, Judgement("1", "x", 0.0)) is CLEAR


SCORES = (None, 0.0, 0.9)


@pytest.mark.parametrize("flag_over", [None, 0.3])
def test_clear_is_never_said_of_what_was_not_heard_whole(flag_over: float | None) -> None:
    told = product(SCORES, SCORES, SCORES, SCORES, (None, (), (Span(0, 5),), ALL), (PLAIN, COVER))
    for hallucination, missing, span_score, source_score, judged, case in told:
        judgement = Judgement(
            "1",
            "x",
            hallucination,
            missing,
            () if span_score is None else verdict(span_score),
            () if source_score is None else omission(source_score) if case is COVER else (),
            judged,
        )
        if over(case, judgement, flag_over) is CLEAR:
            assert judged in (None, ALL)
            assert hallucination is not None or judgement.verdicts or judged == ALL
            assert case is PLAIN or missing is not None or judgement.omissions
            assert flag_over is None or 0.9 not in (hallucination, missing)
            spans = (span_score, *(o.score for o in judgement.omissions))
            assert flag_over is not None or 0.9 not in (hallucination, missing, *spans)


def test_unjudged_parts_hold_more_than_white_space() -> None:
    assert unjudged(PLAIN, Judgement("1", "x")) == []
    assert unjudged(PLAIN, Judgement("1", "x", judged=())) == [Span(0, 9)]
    assert unjudged(PLAIN, Judgement("1", "x", judged=(Span(0, 2), Span(3, 5)))) == [Span(5, 9)]


def test_flagged_and_omitted_come_in_order() -> None:
    verdicts = tuple(Verdict(Span(a, a + 1), s) for a, s in ((4, 0.9), (0, 0.5), (2, 0.49)))
    judgement = Judgement("1", "x", verdicts=verdicts)
    assert [v.span.start for v in flagged(judgement, decide(PLAIN, judgement))] == [0, 4]
    assert [v.span.start for v in flagged(judgement, decide(PLAIN, judgement, Thresholds(span=0.4)))] == [0, 2, 4]
    omissions = (*omission(0.9), Omission("b", Span(0, 1), 0.8), *omission(0.6, "a"), *omission(0.1, "a"))
    judgement = Judgement("1", "x", omissions=omissions)
    found = omitted(judgement, decide(TWO, judgement))
    assert [(o.source_id, o.score) for o in found] == [("a", 0.6), ("b", 0.8), ("b", 0.9)]
    assert omitted(judgement, decide(TWO, judgement, Thresholds(source=0.95))) == []


@pytest.mark.parametrize("threshold", [-1.0, 1.01, float("nan"), float("inf")])
def test_a_threshold_out_of_range_is_refused(threshold: float) -> None:
    with pytest.raises(InputError, match=f"the threshold is {threshold}"):
        check_threshold(threshold)
    with pytest.raises(InputError):
        Thresholds(source=threshold)


def test_a_threshold_in_range_is_returned() -> None:
    assert [check_threshold(t) for t in (0.0, 1e-9, 0.5, 1.0)] == [0.0, 1e-9, 0.5, 1.0]


def test_each_score_is_compared_with_the_threshold_of_its_own_level() -> None:
    judgement = Judgement("1", "x", 0.6, 0.6, verdict(0.6), omission(0.6))
    limits = Thresholds(response=0.7, span=0.7, coverage=0.7, source=0.7)
    assert decide(COVER, judgement, limits).outcome is CLEAR
    for level, flags in {
        "response": (True, False, (), ()),
        "span": (False, False, (0,), ()),
        "coverage": (False, True, (), ()),
        "source": (False, False, (), (0,)),
    }.items():
        found = decide(COVER, judgement, replace(limits, **{level: 0.6}))
        assert found.outcome is FLAGGED
        assert (found.hallucination, found.omission, found.verdicts, found.omissions) == flags


MERGED = [
    ("New York City", [(0, 3), (4, 8), (9, 13)], [(0, 13)]),
    ("built-in, (so) said", [(0, 5), (6, 8), (11, 13), (15, 19)], [(0, 19)]),
    ("one. Two", [(0, 3), (5, 8)], [(0, 3), (5, 8)]),
    ("one\ntwo", [(0, 3), (4, 7)], [(0, 3), (4, 7)]),
    ("one\u2028two", [(0, 3), (4, 7)], [(0, 3), (4, 7)]),
    ("我。你", [(0, 1), (2, 3)], [(0, 1), (2, 3)]),
    ("one a two", [(0, 3), (6, 9)], [(0, 3), (6, 9)]),
    ("one    two", [(0, 3), (7, 10)], [(0, 3), (7, 10)]),
    ("one   two", [(0, 3), (6, 9)], [(0, 9)]),
    ("abcdef", [(3, 5), (0, 2), (1, 4)], [(0, 5)]),
    ("abc", [], []),
]


@pytest.mark.parametrize("text, spans, wanted", MERGED)
def test_merge(text: str, spans: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    assert merge(text, [Span(*s) for s in spans]) == [Span(*w) for w in wanted]


def test_merge_refuses_a_span_past_the_text() -> None:
    with pytest.raises(SpanError):
        merge("abc", [Span(2, 4)])


@given(st.text("ab ,.\n", max_size=20), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=5))
def test_merge_loses_nothing_and_adds_no_letter(text: str, pairs: list[tuple[int, int]]) -> None:
    spans = [Span(min(a, b, len(text)), min(max(a, b), len(text))) for a, b in pairs]
    before = {i for s in union(spans) for i in range(s.start, s.end)}
    after = {i for s in merge(text, spans) for i in range(s.start, s.end)}
    assert before <= after
    assert not any(text[i].isalnum() or text[i] in ".\n" for i in after - before)


@pytest.mark.parametrize(
    ("judgements", "expected"),
    [
        ([Judgement("1", "x", 0.1, 0.1)], Outcome.CLEAR),
        ([Judgement("1", "x", 0.1), Judgement("1", "y", None, 0.1)], Outcome.CLEAR),
        ([Judgement("1", "x", 0.1), Judgement("1", "y", 0.1)], Outcome.UNJUDGED),  # nobody speaks of coverage
        ([Judgement("1", "x", None, 0.1), Judgement("1", "y", None, 0.1)], Outcome.UNJUDGED),
        ([Judgement("1", "x", 0.1, 0.1), Judgement("1", "y", judged=())], Outcome.UNJUDGED),  # one could not judge
        ([Judgement("1", "x", 0.1, 0.1), Judgement("1", "y", 0.1, judged=(Span(0, 2),))], Outcome.UNJUDGED),
        ([Judgement("1", "x", 0.1, 0.1), Judgement("1", "y")], Outcome.UNJUDGED),
        ([Judgement("1", "x", 0.1, 0.1), Judgement("1", "y", 0.9, judged=(Span(0, 2),))], Outcome.FLAGGED),
        ([replace(NOTHING, omission=0.1)], Outcome.NO_CLAIM),
        ([NOTHING], Outcome.UNJUDGED),  # nobody speaks of coverage
        ([NOTHING, Judgement("1", "y", 0.1, 0.1)], Outcome.CLEAR),
        ([NOTHING, Judgement("1", "y", 0.9)], Outcome.FLAGGED),
        ([replace(NOTHING, omission=0.1), Judgement("1", "y", judged=())], Outcome.UNJUDGED),
    ],
)
def test_several_judgements_together(judgements: list[Judgement], expected: Outcome) -> None:
    case = Case("1", "Tall.", (Source("a", "The tower is tall.", must_cover=True),))
    assert overall(case, judgements, [decide(case, j) for j in judgements]) is expected


def test_a_source_that_was_not_read_whole_is_not_clear() -> None:
    case = Case("1", "Tall.", (Source("a", "The tower is tall. It is red.", must_cover=True),))
    whole = Judgement("1", "x", hallucination=0.1, omission=0.1)
    assert outcome(case, whole) is Outcome.CLEAR
    read = (SourceSpan("a", Span(0, 18)),)
    assert outcome(case, replace(whole, judged_sources=read)) is Outcome.UNJUDGED
    assert outcome(case, replace(whole, judged_sources=(*read, SourceSpan("a", Span(19, 29))))) is Outcome.CLEAR
