"""The baselines say what their names promise, and no more."""

import pytest

from veridical.detectors import load_detector
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.detectors.baselines import Coin, Length, Majority, ResponseWords

CASES = [Case(str(i), "one two three four five") for i in range(2000)]


def test_length_orders_by_words() -> None:
    short, long = Length().judge([Case("a", "one"), Case("b", "one two three")])
    assert (short.hallucination, long.hallucination) == (1 / 2, 3 / 4)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_a_coin_flags_its_share(p: float) -> None:
    judged = Coin(p=p).judge(CASES)
    responses = [j.hallucination >= 0.5 for j in judged if j.hallucination is not None]
    tokens = [v.score >= 0.5 for j in judged for v in j.verdicts]
    assert sum(responses) / len(responses) == pytest.approx(p, abs=0.04)
    assert sum(tokens) / len(tokens) == pytest.approx(p, abs=0.02)
    assert len({j.hallucination for j in judged}) == len(CASES)


def test_the_optimised_coin_is_the_one_that_always_flags() -> None:
    q = 0.27
    f1 = [2 * q * p / (q + p) for p in (0.1, 0.5, 0.9, 1.0)]
    assert f1 == sorted(f1)
    assert load_detector("coin") == Coin(p=1.0)


def labelled(score: float, id: str) -> Example:
    return Example(Case(id, "a b"), Judgement(id, "human", score))


def test_majority_is_fitted() -> None:
    mostly = [labelled(1.0, "1"), labelled(1.0, "2"), labelled(0.0, "3")]
    assert Majority().fit(mostly).score == 1.0
    assert Majority().fit(mostly[1:]).score == 0.0  # a tie is no majority
    with pytest.raises(InputError, match="no example"):
        Majority().fit([])


def test_response_words_learn_from_words_and_see_no_source() -> None:
    said = "It may rain.", "It rains because of trade.", "It may snow.", "Snow, because of it."
    taught = [Example(Case(str(i), text), Judgement(str(i), "human", float(i % 2))) for i, text in enumerate(said)]
    cases = [Case("a", "It may hail."), Case("b", "Hail because of wind."), Case("c", " ")]
    unfit = load_detector("response_words")
    assert [(j.judged, bool(j.notes)) for j in unfit.judge(cases)] == [((), True)] * 3
    assert ResponseWords().fit(taught[::2]).judge(cases)[0].judged == ()  # one class
    right, wrong, empty = ResponseWords().fit(taught).judge(cases)
    assert right.hallucination < 0.5 < wrong.hallucination
    assert empty.judged == ()
    sourced = [Case(case.id, case.response, (Source("1", "It may because of hail."),)) for case in cases]
    assert ResponseWords().fit(taught).judge(sourced) == [right, wrong, empty]
    assert ResponseWords().fit([]).judge([]) == []


@pytest.mark.parametrize("spec", ["coin:2", "coin:x", "coin:nan", "length:3", "majority:sometimes"])
def test_wrong_arguments(spec: str) -> None:
    with pytest.raises(InputError):
        load_detector(spec)
