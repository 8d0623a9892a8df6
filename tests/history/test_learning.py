"""Random samples of unflagged sentences, and what is learned from decisions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.test_store import RUN
from veridical.detectors.calibrated import Calibrated, FittedCalibration
from veridical.history.learning import learn
from veridical.history.records import (
    CaseQuery,
    DecidedSentence,
    Decisions,
    Learning,
    NewRun,
    NotKeptError,
    PlaceDecision,
)
from veridical.history.sentences import decided, sentences_of
from veridical.history.store import History
from veridical.records.decide import decide, overall
from veridical.records.detector import DetectorInfo
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Checked, Judgement, Level, Thresholds, Verdict
from veridical.text.segment import sentences, words

REST = PlaceDecision(action="rest")


class Scorer:
    """Scores each sentence by the number in it ("It is 45." has 0.45), and flags from 0.5 on."""

    name = "scorer"
    info = DetectorInfo(levels=(Level.RESPONSE, Level.SPAN), needs_sources=False)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        spans = sentences(case.response)
        scores = [int("".join(filter(str.isdigit, span.of(case.response)))) / 100 for span in spans]
        pairs = list(zip(spans, scores, strict=True))
        verdicts = tuple(Verdict(Span(s.start, s.start + 2), score) for s, score in pairs)
        return Judgement(
            case.id, self.name, max(scores), verdicts=verdicts, sentences=tuple(Verdict(*one) for one in pairs)
        )


class Words:
    """Scores only words: "wrong" has 0.9, every other word 0.1."""

    name = "words"
    info = DetectorInfo(levels=(Level.SPAN,), needs_sources=False)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [
            Judgement(
                case.id,
                self.name,
                verdicts=tuple(
                    Verdict(s, 0.9 if s.of(case.response) == "wrong" else 0.1) for s in words(case.response)
                ),
            )
            for case in cases
        ]


def judged(detector: Scorer | Words, *responses: str) -> list[Checked]:
    cases = [Case(str(i), response) for i, response in enumerate(responses, 1)]
    results = []
    for case, judgement in zip(cases, detector.judge(cases), strict=True):
        decision = decide(case, judgement)
        results.append(Checked(case, (judgement,), (decision,), overall(case, [judgement], [decision])))
    return results


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with closing(History(tmp_path / "history.db")) as history:
        yield history


def test_sentences_are_those_of_the_detector_or_of_the_text() -> None:
    (by_sentence,) = judged(Scorer(), "It is 80. It is 10.")
    assert sentences_of(by_sentence) == [(Span(0, 9), True), (Span(10, 19), False)]
    (by_word,) = judged(Words(), "It is right. It is wrong.")
    assert sentences_of(by_word) == [(Span(0, 12), False), (Span(13, 25), True)]
    judgement = Judgement("1", "whole", 0.7)
    decision = decide(by_word.case, judgement)
    whole = replace(by_word, judgements=(judgement,), decisions=(decision,))
    assert sentences_of(whole) == [(Span(0, 25), True)]
    nothing = replace(judgement, hallucination=None, judged=())
    assert sentences_of(replace(whole, judgements=(nothing,), decisions=(decide(by_word.case, nothing),))) == []


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        ([PlaceDecision(action="keep", start=0, end=2)], [(0, False, "flagged")]),
        ([PlaceDecision(action="replace", start=6, end=8, text="1")], [(0, True, "flagged")]),
        ([PlaceDecision(action="keep", start=10, end=19)], [(10, False, "random")]),
        ([PlaceDecision(action="wrong", start=16, end=18)], [(10, True, "random")]),
        ([PlaceDecision(action="wrong", start=20, end=22, missed=True)], []),  # nobody drew it
        ([REST], [(10, False, "random")]),  # of the finding nobody said anything
        ([PlaceDecision(action="wrong", start=0, end=2, source="s")], []),
    ],
)
def test_decisions_say_which_sentences_are_wrong(
    decisions: list[PlaceDecision], expected: list[tuple[int, bool, str]]
) -> None:
    (checked,) = judged(Scorer(), "It is 80. It is 10. It is 20.")
    found = [(span.start, wrong, how) for span, wrong, how in decided(checked, [Span(10, 19)], decisions)]
    assert found == expected


def test_a_flagged_sentence_is_right_once_all_of_its_findings_were_kept() -> None:
    (checked,) = judged(Words(), "wrong and wrong.")
    one, other = (PlaceDecision(action="keep", start=start, end=start + 5) for start in (0, 10))
    assert list(decided(checked, [], [one])) == []
    assert list(decided(checked, [], [one, other])) == [(Span(0, 16), False, "flagged")]


def test_a_sample_has_each_unflagged_sentence_at_most_once(history: History) -> None:
    run = history.keep(RUN, judged(Scorer(), *(f"It is {80 + i}. It is {i}. It is {i + 10}." for i in range(1, 9))))
    assert history.draw_sample(run, 5, by="alice") == 5
    assert history.draw_sample(run, 99) == 11
    assert history.draw_sample(run, 1) == 0
    places = [(number, *place) for number in range(1, 9) for place in history.case(run, number).sampled]
    assert len(set(places)) == len(places) == 16
    assert all(start > 0 for _, start, _ in places)  # the first sentence of each case is flagged
    assert [line.what for line in history.audit(run)] == ["draw 11", "draw 5"]
    decisions, _ = history.decided_sentences(run)
    assert (decisions.sampled, decisions.all_flagged, decisions.all_unflagged) == (16, 8, 16)
    other = history.keep(RUN, judged(Scorer(), "It is 1. It is 2.", "It is 99."))
    history.draw_sample(other, 1)
    assert [case.number for case in history.cases(other, CaseQuery(sampled=True)).cases] == [1]
    assert [case.number for case in history.cases(other, CaseQuery(sampled=False)).cases] == [2]
    reading = history.begin_import(RUN, "a.csv", b"")
    with pytest.raises(InputError, match="still being judged"):
        history.draw_sample(reading, 1)
    history.delete_run(run)


def test_each_sentence_is_drawn_as_often_as_any_other(history: History) -> None:
    run = history.keep(RUN, judged(Scorer(), "It is 1.", "It is 2. It is 3. It is 4."))
    drawn = [0, 0]
    for seed in range(200):
        with history._write() as connection:
            connection.exec_driver_sql("DELETE FROM samples")
        history.draw_sample(run, 1, rng=random.Random(seed))
        drawn[len(history.case(run, 2).sampled)] += 1
    assert 30 <= drawn[0] <= 70  # a quarter of 200


def test_a_decision_keeps_how_its_place_was_drawn(history: History) -> None:
    run = history.keep(RUN, judged(Scorer(), "It is 80. It is 1. It is 2. It is 3. It is 4."))
    history.draw_sample(run, 2)
    sampled = [Span(*place) for place in history.case(run, 1).sampled]
    (checked,) = judged(Scorer(), history.case(run, 1).document["case"]["response"])  # type: ignore[index]
    others = [span for span, is_flagged in sentences_of(checked) if not is_flagged and span not in sampled]
    places = [Span(0, 2), sampled[0], others[0]]
    history.decide(run, 1, [PlaceDecision(action="wrong", start=place.start, end=place.end) for place in places])
    with history._engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT drawn, probability FROM decisions ORDER BY id").all()
    assert [tuple(row) for row in rows] == [("flagged", 1.0), ("random", 0.5), (None, None)]


def decisions_of(sentences: Sequence[DecidedSentence], flagged: int, unflagged: int) -> Decisions:
    at_random = sum(one.drawn == "random" for one in sentences)
    return Decisions(
        flagged=len(sentences) - at_random,
        random=at_random,
        sampled=at_random,
        all_flagged=flagged,
        all_unflagged=unflagged,
    )


def decided_sentences(threshold: int, count: int = 80) -> list[DecidedSentence]:
    """Sentences that are wrong from a score on; half of them are flagged, the others were drawn at random."""
    made = []
    for i in range(count):
        score = 50 + i * 49 // count if i % 2 else 1 + i * 49 // count
        case = Case(str(i), f"It is {score:02}.")
        wrong = score >= threshold
        made.append(
            DecidedSentence(
                case=case,
                judgements=(),
                document=str(i),
                span=Span(0, 9),
                wrong=wrong,
                drawn="flagged" if i % 2 else "random",
            )
        )
    return made


def fitted(sentences: Sequence[DecidedSentence], *, unflagged: int = 40) -> tuple[Learning, FittedCalibration | None]:
    judgements = Scorer().judge([one.case for one in sentences])
    return learn(Scorer(), sentences, judgements, decisions_of(sentences, 40, unflagged), spec="scorer", run="r")


def test_a_threshold_that_is_clearly_better_is_fitted_and_used() -> None:
    learning, fit = fitted(decided_sentences(75))
    assert (learning.verdict, learning.level) == ("gain", "response")
    assert learning.threshold is not None
    assert learning.threshold.is_clear
    assert learning.threshold.after > 0.95 > learning.threshold.before
    assert fit is not None
    detector = Calibrated(fit, Scorer(), name="scorer")
    (low, high) = detector.judge([Case("1", "It is 70."), Case("2", "It is 80.")])
    thresholds = Thresholds(**{level.value: value for level, value in detector.thresholds.items()})
    outcomes = [
        decide(case, one, thresholds).outcome.value
        for case, one in ((Case("1", "It is 70."), low), (Case("2", "It is 80."), high))
    ]
    assert outcomes == ["clear", "flagged"]
    assert low.verdicts  # the scores of words stay as they are


def test_without_a_clear_gain_nothing_is_fitted() -> None:
    learning, fit = fitted([replace(one, wrong=int(one.case.id) % 3 == 0) for one in decided_sentences(50)])
    assert (learning.verdict, fit) == ("no gain", None)
    assert learning.threshold is not None
    assert not learning.threshold.is_clear


@pytest.mark.parametrize(
    ("sentences", "reason"),
    [
        (decided_sentences(75)[:49], "50 decided sentences are needed, not 49"),
        ([one for one in decided_sentences(75, 120) if one.drawn == "flagged"], "20 decided sentences of a random"),
        (decided_sentences(99), "0 wrong"),
        ([replace(one, document="same") for one in decided_sentences(75)], "too few for 5 folds"),
    ],
)
def test_too_few_decisions_are_said(sentences: list[DecidedSentence], reason: str) -> None:
    learning, fit = fitted(sentences)
    assert (learning.verdict, fit) == ("too few decisions", None)
    assert reason in learning.reason


def test_sentences_weigh_what_they_stand_for() -> None:
    # every fourth unflagged sentence is wrong, but there are many more of them than flagged ones
    few, many = (fitted(decided_sentences(40), unflagged=n)[0].threshold for n in (40, 4000))
    assert few is not None
    assert many is not None
    assert many.before < few.before  # misses are most of what is wrong


def test_words_get_a_threshold_but_no_probabilities() -> None:
    sentences = [
        replace(
            one,
            case=Case(one.case.id, "It is wrong." if one.drawn == "flagged" else "It is right."),
            span=Span(0, 12),
            wrong=one.drawn == "flagged",
        )
        for one in decided_sentences(50)
    ]
    judgements = Words().judge([one.case for one in sentences])
    learning, fit = learn(Words(), sentences, judgements, decisions_of(sentences, 40, 40), spec="words", run="r")
    assert (learning.verdict, learning.level, learning.probabilities, fit) == ("no gain", "span", None, None)


def test_versions_are_kept_activated_and_rolled_back(history: History) -> None:
    run = history.keep(NewRun(origin="check"), judged(Scorer(), "It is 1."))
    learning, fit = fitted(decided_sentences(75))
    assert fit is not None
    for name in ("one", "two"):
        history.keep_calibration(name, fit, learning, run, by="alice")
    with pytest.raises(InputError, match="already"):
        history.keep_calibration("one", fit, learning, run, by="alice")
    assert history.active_calibrations() == {}
    history.activate("one", by="root")
    history.activate("two", by="root")
    assert [(one.name, one.active) for one in history.calibrations()] == [("two", True), ("one", False)]
    (name, active) = history.active_calibrations()["scorer"]
    assert (name, active.scales) == ("two", fit.scales)
    assert history.calibrations()[0].threshold == fit.scales[Level.RESPONSE].threshold
    history.activate("two", active=False, by="root")
    history.activate("two", active=False, by="root")  # nothing changes
    assert history.active_calibrations() == {}
    assert [(line.by, line.what) for line in history.audit(run)] == [
        ("root", "deactivate two"),
        ("root", "activate two"),
        ("root", "activate one"),
        ("alice", "fit two"),
        ("alice", "fit one"),
    ]
    with pytest.raises(NotKeptError):
        history.activate("three")
    with pytest.raises(NotKeptError):
        history.calibration("three")
