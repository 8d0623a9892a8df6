"""Self-consistency: what other samples do not say is suspect; what cannot be sampled or compared is not judged."""

from __future__ import annotations

from math import log

import pytest

from veridical.detectors import load_detector
from veridical.detectors.claims.selfcheck import SampleChecker, SelfCheck
from veridical.detectors.overlap.detector import Overlap
from veridical.llm.protocol import ChatModel, Failure, Reply, Request, TokenLogprob
from veridical.llm.scripted import Scripted
from veridical.records.decide import Outcome, outcome
from veridical.records.errors import InputError
from veridical.records.types import Case, Judgement, Source, Span, Turn, Usage, check_judgement

CASE = Case("1", "Anna lived in Paris. She kept bees.", question="Who was Anna?")
SAMPLES = [
    "Anna lived in Paris.",
    "In Paris lived Anna, she kept cats.",
    "Anna kept bees, she lived in Rome.",
    "Anna lived in Paris.",
]


def one(detector: SelfCheck, case: Case = CASE) -> Judgement:
    (judgement,) = detector.judge([case])
    check_judgement(case, judgement)
    return judgement


def test_a_sentence_is_scored_by_the_samples_that_do_not_back_it() -> None:
    judgement = one(SelfCheck(Scripted(SAMPLES), Overlap(), samples=4))
    first, second = (v.score for v in judgement.verdicts)
    assert first == pytest.approx((0 + 0 + 1 / 3 + 0) / 4)
    assert second == pytest.approx((1 + 1 / 2 + 0 + 1) / 4)
    assert judgement.hallucination == pytest.approx((first + second) / 2)
    assert judgement.judged is None
    assert judgement.verdicts[0].evidence == ()
    assert judgement.verdicts[1].reason == "backed by 1.5 of 4 other answers"
    assert judgement.usage is not None
    assert judgement.usage.calls == 4


def test_samples_are_drawn_apart() -> None:
    model = Scripted(SAMPLES)
    one(SelfCheck(model, Overlap(), samples=4, temperature=0.7, seed=10))
    assert [r.seed for r in model.requests] == [10, 11, 12, 13], "the same request would come back from a cache"
    assert {r.temperature for r in model.requests} == {0.7}
    assert {r.messages[0].content for r in model.requests} == {"Who was Anna?"}


def test_an_answer_with_little_probability_counts_only_if_asked_for() -> None:
    token = TokenLogprob("Yes", log(0.03), (("Yes", log(0.03)), ("No", log(0.01))))
    unsure = Reply("Yes", (token,), Usage(1, 1, 1, 0.0))
    replies = [SAMPLES[0], unsure, unsure]
    assert one(SelfCheck(Scripted(replies), "yes_no", samples=1)).judged == ()
    model = Scripted(replies)
    judgement = one(SelfCheck(model, SampleChecker(model, min_probability_mass=0.0), samples=1))
    assert judgement.hallucination == pytest.approx(0.25)
    with pytest.raises(InputError, match="min_probability_mass of selfcheck is '2'"):
        load_detector("selfcheck:yes_no,model=m,min_probability_mass=2")


def test_what_is_asked_again() -> None:
    def asked(case: Case) -> str:
        model = Scripted(["Anna."])
        one(SelfCheck(model, Overlap(), samples=1), case)
        return model.requests[0].messages[0].content

    assert asked(Case("1", "Anna.", prompt="exactly\nthis ")) == "exactly\nthis "
    assert asked(Case("1", "Anna.", question="Who?", history=(Turn("user", "Hi"),))) == "user: Hi\nWho?"
    sourced = asked(Case("1", "Anna.", (Source("a", "Anna it was."),), question="Who?"))
    assert sourced.index("Anna it was.") < sourced.index("Who?")


def test_a_model_may_compare() -> None:
    def answer(request: Request) -> str:
        if request.stage == "sample":
            return "She kept bees."
        return "Yes" if "bees" in request.messages[-1].content.rpartition("<<<claim")[2] else "No"

    judgement = one(SelfCheck(Scripted(answer), "yes_no", samples=2))
    assert [v.score for v in judgement.verdicts] == [1.0, 0.0]
    assert judgement.usage is not None
    assert judgement.usage.calls == 2 + 2 * 2


def test_lost_samples_are_counted() -> None:
    broken = Scripted([SAMPLES[0], Failure("hung up", "timeout", True, Usage(1)), "", "<think>hm"])
    judgement = one(SelfCheck(broken, Overlap(), samples=4))
    assert "3 of 4 samples cannot be used: hung up" in judgement.notes
    assert [v.score for v in judgement.verdicts] == [0.0, 1.0]


def test_unreadable_comparisons_are_left_out_of_the_share() -> None:
    def answer(request: Request) -> str | Reply:
        if request.stage == "sample":
            return f"Answer {request.seed}."
        text = request.messages[-1].content
        if "kept bees" in text:
            return "Maybe"
        return "Maybe" if "Answer 0" in text else "No"

    judgement = one(SelfCheck(Scripted(answer), "yes_no", samples=3))
    (verdict,) = judgement.verdicts
    assert verdict.score == 1.0
    assert verdict.reason == "backed by 0 of 2 other answers, 1 unreadable"
    assert judgement.judged is not None
    assert not any(s.overlaps(Span(21, 35)) for s in judgement.judged)
    assert any(note.startswith("1 of 2 claims not judged") for note in judgement.notes)


@pytest.mark.parametrize(
    ("model", "case"),
    [
        (Scripted([Failure("down", "server", True)] * 5), CASE),
        (Scripted([""] * 5), CASE),
        (Scripted(["Anna."] * 5), Case("1", "Anna lived.")),
        (Scripted(["Anna."] * 5), Case("1", " …", question="Who?")),
    ],
)
def test_nothing_to_compare_is_not_clean(model: ChatModel, case: Case) -> None:
    judgement = one(SelfCheck(model, Overlap()), case)
    assert judgement.hallucination is None
    assert judgement.judged == ()
    assert judgement.notes
    assert outcome(case, judgement) is Outcome.UNJUDGED


def test_bad_arguments() -> None:
    for bad in ({"samples": 0}, {"temperature": 0.0}):
        with pytest.raises(InputError, match="sample"):
            SelfCheck(Scripted([]), Overlap(), **bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no language model is named"):
        load_detector("selfcheck")
