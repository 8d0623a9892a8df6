"""Every promise that a record makes about itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridical.io.serialization import decode
from veridical.records.decide import decide
from veridical.records.detector import Detector
from veridical.records.errors import InputError, SpanError
from veridical.records.spans import Span
from veridical.records.types import (
    Case,
    Checked,
    Claim,
    Decision,
    Evidence,
    Example,
    Judgement,
    Omission,
    Outcome,
    Source,
    SourceSpan,
    Thresholds,
    Verdict,
    check_judgement,
    judged_spans,
)

CASE = Case("1", "Five chars", (Source("a", "abc"), Source("b", "defg")))

SCORED: dict[str, Callable[[Any], object]] = {
    "evidence": lambda score: Evidence("a", Span(0, 1), score),
    "verdict": lambda score: Verdict(Span(0, 1), score),
    "omission": lambda score: Omission("a", Span(0, 1), score),
    "hallucination": lambda score: Judgement("1", "x", hallucination=score),
    "omission score": lambda score: Judgement("1", "x", omission=score),
}


@pytest.mark.parametrize("make", SCORED.values(), ids=SCORED)
@pytest.mark.parametrize("score", [-0.01, 1.01, float("nan"), float("inf"), -float("inf")])
def test_a_score_outside_0_to_1_is_refused(make: Callable[[float], object], score: float) -> None:
    with pytest.raises(InputError, match=rf"is {score}.*\[0, 1\]"):
        make(score)


@pytest.mark.parametrize("make", SCORED.values(), ids=SCORED)
@pytest.mark.parametrize("score", [0, 0.0, 0.5, 1, 1.0])
def test_the_ends_of_the_range_are_scores(make: Callable[[float], object], score: float) -> None:
    make(score)


class OfTorch:
    """A number as PyTorch has them: it is no `numbers.Real`."""

    def __float__(self) -> float:
        return 0.75


@pytest.mark.parametrize("score", [np.float32(0.75), np.float64(0.75), np.array(0.75), OfTorch(), Fraction(3, 4)])
def test_scores_and_offsets_of_other_libraries_become_plain_numbers(score: Any) -> None:
    case = Case("1", "Five chars", [Source("a", "abc", must_cover=True)])  # type: ignore[arg-type]
    span = Span(np.int64(0), np.int64(3))  # type: ignore[arg-type]
    claim = Claim("Five", [span])  # type: ignore[arg-type]
    verdict = Verdict(span, score, claim=claim, evidence=[Evidence("a", span, score)])  # type: ignore[arg-type]
    omissions = [Omission("a", span, score)]
    lists: dict[str, Any] = {"verdicts": [verdict], "omissions": omissions, "judged": [span], "sentences": [verdict]}
    judged = Judgement("1", "x", score, score, notes=["a"], judged_sources=[SourceSpan("a", span)], **lists)  # type: ignore[arg-type]
    decision = decide(case, judged, Thresholds(span=np.float32(0.5)))  # type: ignore[arg-type]
    checked = Checked(case, (judged,), (decision,), decision.outcome)
    assert decode(checked.to_json()) == checked
    assert checked.to_dict()["judgements"][0]["verdicts"][0]["score"] == 0.75
    assert hash(judged) == hash(replace(judged))


@pytest.mark.parametrize("make", SCORED.values(), ids=SCORED)
@pytest.mark.parametrize("score", ["0.9", [0.9], np.array([0.1, 0.2])], ids=str)
def test_what_is_no_score_is_refused(make: Callable[[Any], object], score: object) -> None:
    with pytest.raises(InputError, match=r"(score|weight) .*is .*0\.\d.* \(a number in \[0, 1\]"):
        make(score)


def test_what_is_no_list_is_refused_by_name() -> None:
    values: list[Any] = ["text", Verdict(Span(0, 1), 0.5), {}, None]
    for value in values:
        with pytest.raises(InputError, match=r"verdicts of Judgement is a .* tuple or a list"):
            Judgement("1", "x", verdicts=value)
    with pytest.raises(SpanError, match=r"the end of a span is 1\.0 "):
        Span(0, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("sources", [["It is blue."], ("It is blue.",), [{"text": "It is blue."}]])
def test_a_source_is_made_as_one(sources: Any) -> None:
    with pytest.raises(InputError, match=r"case '1': a source is of the type .* \(make it as Source\(id, text\)\)"):
        Case("1", "It is red.", sources)


def test_two_sources_may_not_share_an_id() -> None:
    with pytest.raises(InputError, match="case '1': two sources share the id 'a'"):
        Case("1", "text", (Source("a", "x"), Source("b", "y"), Source("a", "z")))


def test_a_source_is_had_by_its_id() -> None:
    assert CASE.source("b").text == "defg"
    with pytest.raises(InputError, match="case '1' has no source 'c'"):
        CASE.source("c")


def test_a_source_among_many_is_looked_up() -> None:
    class Counting(tuple[Source, ...]):
        read = 0

        def __iter__(self) -> Iterator[Source]:
            Counting.read += len(self)
            return super().__iter__()

    case = Case("1", "", Counting(Source(str(i), "a") for i in range(1000)))
    assert [case.source(str(i)).id for i in range(1000)] == [str(i) for i in range(1000)]
    assert Counting.read < 5 * 1000
    assert pickle.loads(pickle.dumps(CASE)).source("b") == CASE.source("b")
    assert replace(CASE, sources=CASE.sources[:1]).source("a") == CASE.sources[0]


def test_records_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        CASE.response = "other"  # type: ignore[misc]


def with_verdict(**values: Any) -> Judgement:
    return Judgement("1", "x", verdicts=(Verdict(Span(0, 1), 0.5, **values),))


OUTSIDE = {
    "verdict": Judgement("1", "x", verdicts=(Verdict(Span(0, 11), 0.5),)),
    "judged": Judgement("1", "x", judged=(Span(0, 1), Span(5, 11))),
    "claim": with_verdict(claim=Claim("c", (Span(0, 1), Span(11, 11)))),
    "evidence": with_verdict(evidence=(Evidence("a", Span(0, 4)),)),
    "omission": Judgement("1", "x", omissions=(Omission("b", Span(0, 5), 1.0),)),
    "judged source": Judgement("1", "x", judged_sources=(SourceSpan("b", Span(0, 5)),)),
}
INSIDE = {
    "verdict": Judgement("1", "x", verdicts=(Verdict(Span(0, 10), 0.5),)),
    "judged": Judgement("1", "x", judged=(Span(0, 1), Span(5, 10))),
    "claim": with_verdict(claim=Claim("c", (Span(0, 1), Span(10, 10)))),
    "evidence": with_verdict(evidence=(Evidence("a", Span(0, 3)),)),
    "omission": Judgement("1", "x", omissions=(Omission("b", Span(0, 4), 1.0),)),
    "judged source": Judgement("1", "x", judged_sources=(SourceSpan("b", Span(0, 4)),)),
}


@pytest.mark.parametrize("judgement", OUTSIDE.values(), ids=OUTSIDE)
def test_a_span_outside_its_text_is_refused(judgement: Judgement) -> None:
    with pytest.raises(SpanError, match=r"case '1', judged by 'x': span \[.*runs past (the response|source '[ab]') of"):
        check_judgement(CASE, judgement)
    with pytest.raises(SpanError):
        Example(CASE, judgement)
    with pytest.raises(SpanError):
        Example(CASE, Judgement("1", "x"), annotations=(judgement,))
    with pytest.raises(SpanError):
        Checked(CASE, (judgement,), (Decision(Thresholds(), Outcome.CLEAR),), Outcome.CLEAR)


@pytest.mark.parametrize("judgement", INSIDE.values(), ids=INSIDE)
def test_a_span_up_to_the_end_of_its_text_is_good(judgement: Judgement) -> None:
    check_judgement(CASE, judgement)
    assert Example(CASE, judgement).gold is judgement


@pytest.mark.parametrize(
    "judgement",
    [
        with_verdict(evidence=(Evidence("z", Span(0, 0)),)),
        Judgement("1", "x", omissions=(Omission("z", Span(0, 0), 1),)),
    ],
)
def test_a_source_that_is_not_there_is_refused(judgement: Judgement) -> None:
    with pytest.raises(InputError, match="case '1', judged by 'x': there is no source 'z'"):
        check_judgement(CASE, judgement)


def test_a_judgement_of_another_case_is_refused() -> None:
    with pytest.raises(InputError, match="the judgement by 'x' is about case '2', not '1'"):
        check_judgement(CASE, Judgement("2", "x"))


def test_a_check_has_one_decision_per_judgement() -> None:
    decision = Decision(Thresholds(), Outcome.CLEAR)
    with pytest.raises(InputError, match="case '1': 1 judgements but 2 decisions"):
        Checked(CASE, (Judgement("1", "x"),), (decision, decision), Outcome.CLEAR)
    with pytest.raises(InputError, match="a decision flags a verdict or omission that 'x' did not find"):
        Checked(CASE, (Judgement("1", "x"),), (replace(decision, verdicts=(0,)),), Outcome.CLEAR)


def test_flagged_and_omitted_spans_are_joined_over_detectors() -> None:
    case = Case("1", "one two", (Source("a", "three four", must_cover=True),))
    first = Judgement("1", "x", verdicts=(Verdict(Span(0, 3), 0.9), Verdict(Span(4, 7), 0.1)))
    second = Judgement("1", "y", verdicts=(Verdict(Span(2, 5), 0.9),), omissions=(Omission("a", Span(0, 5), 0.7),))
    decisions = tuple(decide(case, judgement) for judgement in (first, second))
    checked = Checked(case, (first, second), decisions, Outcome.FLAGGED)
    assert checked.flagged == (Span(0, 5),)
    assert checked.omitted == {"a": (Span(0, 5),)}


def test_judged_spans_are_all_unless_said_otherwise() -> None:
    assert judged_spans(CASE, Judgement("1", "x")) == [Span(0, 10)]
    assert judged_spans(CASE, Judgement("1", "x", judged=())) == []
    assert judged_spans(CASE, Judgement("1", "x", judged=(Span(4, 6), Span(0, 4)))) == [Span(0, 6)]
    assert judged_spans(Case("1", ""), Judgement("1", "x")) == []


def test_a_detector_is_known_by_its_shape() -> None:
    class Silent:
        name = "silent"

        def judge(self, cases: Any) -> list[Judgement]:
            return [Judgement(case.id, self.name) for case in cases]

    assert isinstance(Silent(), Detector)
    assert not isinstance(object(), Detector)
