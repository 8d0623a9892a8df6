"""`veridical.check` from Python: one noun in, one noun out, and strangers' detectors kept to the contract."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import veridical
from veridical import Case, Judgement, Outcome, Source, Span, Verdict, VeridicalError
from veridical.cli import main
from veridical.detectors import load_detector
from veridical.detectors.calibrated import Calibrated, FittedCalibration, Scale
from veridical.detectors.explanation.explanation import _Explainer
from veridical.inference.saving import save_record
from veridical.metrics.calibrators import Platt
from veridical.records import types
from veridical.records.detector import Detector, fingerprint_of
from veridical.records.errors import InputError
from veridical.records.types import Level
from veridical.report.html import render_html
from veridical.testing import assert_grounded
from veridical.text import segment
from veridical.workflows.batch.frames import check_rows
from veridical.workflows.checking import BATCH, make_case


class Fixed:
    """A detector that gives what it is told to."""

    def __init__(self, *judgements: Judgement, name: str = "fixed") -> None:
        self.name = name
        self.judgements = list(judgements)
        self.batches: list[int] = []

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.batches.append(len(cases))
        return self.judgements or [Judgement(case.id, self.name, 0.0) for case in cases]


def test_sources_are_named_in_order() -> None:
    case = make_case("a", ["b", Source("mine", "c")], must_cover=["d"], perspectives={"pro": "e"})
    assert [(s.id, s.must_cover, s.perspective) for s in case.sources] == [
        ("1", False, None),
        ("mine", False, None),
        ("3", True, None),
        ("pro", True, "pro"),
    ]


def test_one_text_is_one_source() -> None:
    case = make_case("a", "one text", must_cover=Source("mine", "another"))
    assert case.sources == (Source("1", "one text"), Source("mine", "another", must_cover=True))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"detector": "overlpa"}, "did you mean overlap"),
        ({"detector": []}, "no detector is named"),
        ({"detector": None}, "a detector is of the type NoneType"),
        ({"detector": ["overlap", 5]}, "a detector is of the type int"),
        ({"threshold": -0.1}, "threshold is -0.1"),
        ({"threshold": {"word": 0.5}}, "unknown level 'word'"),
        ({"threshold": "0.5"}, "the threshold is '0.5'"),
        ({"threshold": {"span": None}}, "the threshold is None"),
        ({"flag_over": 1.0}, "flag_over is 1.0"),
        ({"question": ["q"]}, "the question is of the type list"),
        ({"sources": [Source("1", "b"), Source("1", "c")]}, "share the id '1'"),
        ({"perspectives": ["It is grey."]}, "the perspectives are of the type list"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        veridical.check(**{"response": "a", "sources": ["b"], "detector": "overlap", **arguments})


def test_a_bad_argument_raises_before_the_first_case() -> None:
    with pytest.raises(VeridicalError):
        veridical.check_cases([], "overlpa")


def test_cases_are_taken_a_batch_at_a_time() -> None:
    taken = []

    def cases() -> Iterator[Case]:
        for i in range(3 * BATCH):
            taken.append(i)
            yield Case(str(i), "a", (Source("1", "a"),))

    detector = Fixed()
    results = veridical.check_cases(cases(), detector)
    assert next(results).case.id == "0"
    assert len(taken) == BATCH
    assert [r.case.id for r in results] == [str(i) for i in range(1, 3 * BATCH)]
    assert detector.batches == [BATCH] * 3


@pytest.mark.parametrize(
    ("judgements", "says", "code"),
    [
        ([Judgement("other", "fixed", 0.1)], "by 'fixed' is about case 'other', not '1'", 2),
        ([Judgement("1", "fixed", verdicts=(Verdict(Span(0, 99), 1.0),))], "by 'fixed': span", 2),
        ([Judgement("1", "x")] * 2, "gave 2 judgements for 1 cases", 3),
    ],
    ids=["another case", "past the end", "too many"],
)
def test_a_stranger_that_breaks_the_contract_is_refused(judgements: list[Judgement], says: str, code: int) -> None:
    with pytest.raises(VeridicalError, match=says) as error:
        veridical.check("a", ["a"], detector=Fixed(*judgements))
    assert error.value.exit_code == code


def test_each_detector_has_its_own_threshold() -> None:
    trained = Fixed(Judgement("1", "trained", 0.3), name="trained")
    trained.thresholds = {Level.RESPONSE: 0.2}  # type: ignore[attr-defined]
    result = veridical.check("a", ["a"], detector=["overlap", trained])
    assert [decision.thresholds.response for decision in result.decisions] == [0.5, 0.2]
    assert result.outcome is Outcome.FLAGGED
    assert veridical.check("a", ["a"], detector=trained, threshold=0.4).outcome is Outcome.CLEAR
    assert veridical.check("a", ["a"], detector=trained, threshold={"span": 0.4}).outcome is Outcome.FLAGGED


@pytest.mark.parametrize(
    ("score", "words", "options"),
    [(0.97, (0.45,) * 5, {"threshold": {"response": 0.98}}), (0.5, (1.0,), {"flag_over": 0.6})],
)
def test_response_level_scores_have_a_threshold_of_their_own(
    score: float, words: tuple[float, ...], options: dict[str, Any]
) -> None:
    verdicts = tuple(Verdict(Span(i, i + 1), word) for i, word in enumerate(words))
    fixed = Fixed(Judgement("1", "fixed", score, verdicts=verdicts))
    assert veridical.check("abcde", ["x"], detector=fixed).outcome is Outcome.FLAGGED
    assert veridical.check("abcde", ["x"], detector=fixed, **options).outcome is Outcome.CLEAR


@pytest.mark.parametrize("detector", ["overlap", "default"])
@pytest.mark.parametrize(
    "reasoning", ["<think>🗼 Pigs fly.\nIs it 553 m?</think>\n", "Pigs fly. Is it 9 m?\n</think>\n\n"]
)
def test_reasoning_before_the_answer_is_not_judged(reasoning: str, detector: str) -> None:
    sources = ["The tower is 330 m tall. It is red."]
    right, wrong = "The tower is 330 m tall.", "The tower is 300 m tall."
    result = veridical.check(reasoning + right, sources, detector=detector)
    assert result.outcome is Outcome.CLEAR
    assert result.case.response == reasoning + right
    assert result.judgements[0].notes[-1] == "the reasoning before the answer was not judged"
    plain = veridical.check(wrong, sources, detector=detector).flagged
    shifted = veridical.check(reasoning + wrong, sources, detector=detector).flagged
    assert [(span.start - len(reasoning), span.text) for span in shifted] == [(s.start, s.text) for s in plain]
    assert plain
    assert veridical.check("<think>Pigs fly.", sources, detector=detector).outcome is Outcome.UNJUDGED


def test_what_is_flagged_is_explained_on_request_at_the_thresholds_in_force() -> None:
    texts = ("The tower is 300 m tall.", ["The tower is 330 m tall."])
    (plain,) = veridical.check(*texts, detector="overlap").judgements
    (judgement,) = veridical.check(*texts, detector="overlap", explain=True).judgements
    assert [v.correction for v in plain.verdicts if v.score == 1.0] == [None]
    assert [v.correction for v in judgement.verdicts if v.score == 1.0] == ["330"]
    assert [v.score for v in judgement.verdicts] == [v.score for v in plain.verdicts]
    low = veridical.check("The mill is 300 m tall.", texts[1], detector="verify:overlap", threshold=1.0, explain=True)
    assert all(v.correction is None for v in low.judgements[0].verdicts if v.score < 1.0)


@pytest.mark.parametrize(("calibrated", "threshold"), [(False, None), (False, 0.01), (True, None), (True, 0.01)])
def test_a_detector_that_explains_is_explained_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calibrated: bool, threshold: float | None
) -> None:
    explained_spans: list[Span] = []
    inner = _Explainer.explanations

    def counting(self: Any, response: Any, spans: Any) -> Any:
        explained_spans.extend(spans)
        return inner(self, response, spans)

    monkeypatch.setattr(_Explainer, "explanations", counting)
    texts = ("The mill is 300 m tall and purple. Pigs fly.", ["The tower is 330 m tall."])
    detector: Detector = load_detector("default")
    if calibrated:
        scales = {level: Scale(0.5, Platt(1.0, 0.0)) for level in (Level.RESPONSE, Level.SPAN)}
        save_record(FittedCalibration("default", fingerprint_of(detector), scales), tmp_path)
        detector = Calibrated(tmp_path, detector)
    result = veridical.check(*texts, detector=detector, explain=True, threshold=threshold)
    assert len(explained_spans) == len(set(explained_spans)) > 0
    assert {verdict.span for verdict in result.judgements[0].verdicts if verdict.reason} <= set(explained_spans)


WRONG = ("The tower is <300> m tall.", ["The tower is 330 m tall."])


def test_a_result_shows_its_texts_as_the_command_line_does() -> None:
    result = veridical.check(*WRONG, detector="overlap")
    assert repr(result) == "<Checked '1': flagged '300'>"
    assert "The tower is <[-300-]> m tall." in str(result)
    page = result._repr_html_()
    assert page.startswith("<pre")
    assert "&lt;" in page
    assert "underline" in page
    assert "\x1b" not in page


def test_flagged_spans_have_their_text_and_equal_spans_without_it() -> None:
    result = veridical.check(*WRONG, must_cover="It is old.", detector="overlap")
    assert [span.text for span in result.flagged] == ["300"]
    assert [span.text for spans in result.omitted.values() for span in spans] == ["old"]
    (flagged,) = result.flagged
    plain = Span(flagged.start, flagged.end)
    assert flagged == plain
    assert plain == flagged
    assert {flagged} == {plain}
    assert flagged != (flagged.start, flagged.end)
    assert pickle.loads(pickle.dumps(flagged)).text == "300"


def test_a_result_becomes_json_and_comes_back() -> None:
    document = {"text": "The tower is 330 m tall.", "metadata": {"page": 3}}
    result = veridical.check(WRONG[0], document, detector="overlap")
    assert veridical.decode(result.to_json(indent=2)) == result
    assert veridical.decode(result.to_dict()).case.source("1").metadata == {"page": 3}


def test_an_outcome_equals_its_name() -> None:
    outcome = veridical.check("It is red.", ["It is blue."], detector="overlap").outcome
    assert outcome is veridical.Outcome.FLAGGED
    assert outcome == "flagged"
    assert f"{outcome}" == "flagged"


def test_a_result_is_neither_true_nor_false() -> None:
    with pytest.raises(veridical.InputError, match="compare its outcome"):
        assert veridical.check(*WRONG, detector="overlap")


def test_a_check_leaves_the_event_loop_free() -> None:
    async def checked_beside_another_task() -> veridical.Checked:
        release = threading.Event()

        class Waiting(Fixed):
            def judge(self, cases: Sequence[Case]) -> list[Judgement]:
                assert release.wait(60), "the event loop was blocked"
                return super().judge(cases)

        check = asyncio.ensure_future(veridical.acheck("a", ["a"], detector=Waiting()))
        await asyncio.sleep(0)
        release.set()
        return await check

    assert asyncio.run(checked_beside_another_task()).outcome is Outcome.CLEAR


def test_names_at_the_root_are_loaded_on_use() -> None:
    assert not [name for name in veridical.__all__ if not hasattr(veridical, name)]
    with pytest.raises(AttributeError, match="no attribute 'chek'"):
        veridical.chek  # noqa: B018


def test_a_response_is_split_once_and_its_judgement_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    response, source = (
        "The mill of this test is 300 m tall. It is red.",
        "The mill of this test is 330 m tall. It is big.",
    )
    split, checked = Counter[str](), Counter[Span]()
    split_text, check_source_span = segment._sentences, types._check_source_span
    monkeypatch.setattr(segment, "_sentences", lambda text: (split.update([text]), split_text(text))[1])
    monkeypatch.setattr(
        types, "_check_source_span", lambda *place: (checked.update([place[-1]]), check_source_span(*place))[1]
    )
    result = veridical.check(response, [source])
    render_html([result])
    assert (split[response], split[source]) == (1, 1)
    evidence = [each.span for verdict in result.judgements[0].verdicts for each in verdict.evidence]
    assert evidence
    assert checked == Counter(evidence)


def test_no_connection_to_chat_models_is_made_for_a_detector_that_asks_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr("veridical.llm.connection.Connection.__post_init__", refuse)
    for name in ("a.txt", "source.txt"):
        (tmp_path / name).write_text("The tower is tall.")
    assert main(["check", str(tmp_path / "a.txt"), str(tmp_path / "source.txt"), "-d", "overlap"]) == 0


@pytest.mark.parametrize("function", [veridical.check, veridical.check_cases, assert_grounded, check_rows])
def test_the_plural_is_refused_with_a_hint(function: Callable[..., object]) -> None:
    with pytest.raises(VeridicalError, match=f"{function.__name__} has no argument 'detectors' .it is called detector"):
        function("a", detectors="overlap")


@pytest.mark.parametrize("cases", [None, 5, "case", [None], [{"response": "It is red.", "sources": ["It is grey."]}]])
def test_what_is_no_case(cases: Any) -> None:
    with pytest.raises(InputError, match=r"the cases are of the type|a case is of the type"):
        list(veridical.check_cases(cases, "overlap"))


def test_a_data_frame_is_neither_cases_nor_a_source() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"response": ["It is red."]})
    with pytest.raises(InputError, match=r"of the type DataFrame \(use .*\.check_dataframe\)"):
        veridical.check_cases(frame, "overlap")
    with pytest.raises(InputError, match=r"the sources are of the type DataFrame \(give one of its columns\)"):
        veridical.check("It is red.", frame, detector="overlap")
