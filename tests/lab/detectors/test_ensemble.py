"""Members' scores become one by the stored arithmetic; what is missing of them degrades, and never looks clear."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.detectors.ensemble_members import REFUSED, TWO, Scripted, fitted
from veridical import check
from veridical.calibration.calibrated import FittedCalibration, Scale
from veridical.core.detector import fingerprint_of
from veridical.core.errors import DataError, InputError
from veridical.core.segment import words
from veridical.core.serialization import decode, encode
from veridical.core.spans import Span
from veridical.core.types import (
    Case,
    Evidence,
    Judgement,
    Level,
    Omission,
    Outcome,
    Source,
    SourceSpan,
    Verdict,
    check_judgement,
)
from veridical.detectors import DETECTORS, load_detector
from veridical.models.artifact import save_record
from veridical_lab.detectors.ensemble.artifact import FittedEnsemble, Member, Stage, load_ensemble
from veridical_lab.detectors.ensemble.combination import Combination, LevelCombinations, Mean
from veridical_lab.detectors.ensemble.detector import Ensemble, Missing
from veridical_lab.detectors.ensemble.scores import word_scores

CASE = Case("1", "Cats bark.", (Source("a", "Cats doze.", must_cover=True),))


def logistic(x: float) -> float:
    return 1 / (1 + exp(-x))


def both(first: float, second: float) -> float:
    """What `TWO` says, by hand."""
    return logistic(1.5 * (first - 0.3) / 0.2 + 0.5 * (second - 0.6) / 0.25 - 0.25)


def ensemble(first: Any, second: Any, **options: Any) -> Ensemble:
    members = [m if isinstance(m, Missing) else Scripted(n, m) for n, m in (("first", first), ("second", second))]
    return Ensemble(members, options.pop("fit", None) or fitted(), **options)


def test_the_score_and_each_share_are_those_of_the_stored_numbers() -> None:
    (found,) = ensemble({"1": 0.5}, {"1": 0.1}).judge([CASE])
    assert found.hallucination == pytest.approx(both(0.5, 0.1), abs=1e-9)
    assert [(v.span, v.score) for v in found.verdicts] == [(Span(0, 4), pytest.approx(both(0.5, 0.1), abs=1e-9))]
    assert found.verdicts[0].reason == "raised by first"
    assert dict(found.provenance) == {
        "response: first": "score 0.500, adds +1.500, 60% of the decision, 0.001 s",
        "response: second": "score 0.100, adds -1.000, 40% of the decision, 0.1 s",
    }
    assert found.reason == "first raises the score (60%); second lowers the score (40%)"
    assert (found.by, found.judged, found.notes) == ("ensemble", None, ())


def test_the_fitted_thresholds_decide() -> None:
    detector = ensemble({"1": 0.3}, {"1": 0.55})
    result = check("Cats bark.", ["Cats doze."], detectors=[detector])
    assert 0.4 < both(0.3, 0.55) < 0.5
    assert result.outcome is Outcome.FLAGGED
    assert result.decisions[0].thresholds.response == 0.4


@pytest.mark.parametrize("gone", [None, REFUSED, Missing("second", "no such folder")])
def test_without_a_member_the_weights_are_those_of_the_others(gone: Any) -> None:
    detector = ensemble({"1": 0.5}, gone if isinstance(gone, Missing) else {"1": gone})
    (found,) = detector.judge([CASE])
    assert found.hallucination == pytest.approx(logistic(1.75 * (0.5 - 0.3) / 0.2 - 0.5), abs=1e-9)
    assert found.judged is None
    assert found.notes == {
        None: ("second: cannot read it",),
        REFUSED: ("second could not judge this: too long for this model",),
    }.get(gone, ("second cannot be used: no such folder",))


def test_a_set_of_members_without_a_fit_counts_the_others_as_average() -> None:
    only_both = fitted({Level.RESPONSE: LevelCombinations(0.4, TWO.combinations[:1])})
    (found,) = ensemble({"1": 0.5}, {"1": None}, fit=only_both).judge([CASE])
    assert found.hallucination == pytest.approx(both(0.5, 0.6), abs=1e-9)


def test_with_no_member_left_nothing_is_judged() -> None:
    for first, second in (({"1": None}, {"1": REFUSED}), (Missing("first", "gone"), Missing("second", "gone"))):
        detector = ensemble(first, second)
        (found,) = detector.judge([CASE])
        assert (found.hallucination, found.judged, len(found.notes)) == (None, (), 2)
        result = check("Cats bark.", ["Cats doze."], detectors=[ensemble({"1": None}, {"1": None})])
        assert result.outcome is Outcome.UNJUDGED


def test_a_refused_case_leaves_the_others_of_its_batch_alone() -> None:
    cases = [replace(CASE, id=id) for id in "123"]
    second = {"1": 0.1, "2": REFUSED, "3": 0.9}
    found = ensemble(dict.fromkeys("123", 0.5), second).judge(cases)
    assert [j.hallucination for j in found[::2]] == pytest.approx([both(0.5, 0.1), both(0.5, 0.9)], abs=1e-9)
    assert [len(j.notes) for j in found] == [0, 1, 0]
    assert [ensemble(dict.fromkeys("123", 0.5), second).judge([case])[0] for case in cases] == found


def test_another_member_than_was_fitted_is_refused() -> None:
    changed = Scripted("second", {"1": 0.1}, about={"name": "second", "weights": "xyz"})
    stored = fitted()
    stored = replace(stored, members=(stored.members[0], Member("second", {"name": "second", "weights": "abc"})))
    with pytest.raises(
        InputError, match=r"does not fit 'second': the weights differs \(abc, here xyz\) .*member2=SPEC"
    ):
        Ensemble([Scripted("first", {"1": 0.1}), changed], stored).judge([CASE])
    assert Ensemble([Scripted("first", {}), changed], stored).judge([]) == []


def test_a_member_whose_model_cannot_be_loaded_is_missing() -> None:
    class Broken(Scripted):
        def fingerprint(self) -> dict[str, Any]:
            raise DataError("no such file", path="model")

    detector = Ensemble([Scripted("first", {"1": 0.5}), Broken("second", {"1": 0.5})], fitted())
    assert fingerprint_of(detector)["members"] == [{"name": "first"}, None]
    (found,) = detector.judge([CASE])
    assert found.notes == ("second cannot be used: model: no such file",)


STAGES = (Stage(0.1, 0.9),)


def test_a_cascade_asks_the_next_member_only_where_none_has_decided() -> None:
    cases = [replace(CASE, id=id) for id in ("low", "high", "between", "refused")]
    first = {"low": 0.0, "high": 0.9, "between": 0.4, "refused": None}
    detector = ensemble(first, dict.fromkeys(first, 0.2), fit=fitted(stages=STAGES), cascade=True)
    found = detector.judge(cases)
    assert detector.members[1].asked == ["between", "refused"]  # type: ignore[union-attr]
    alone = [logistic(1.75 * (x - 0.3) / 0.2 - 0.5) for x in (0.0, 0.9)]
    last = logistic(0.75 * (0.2 - 0.6) / 0.25 + 0.125)
    assert [j.hallucination for j in found] == pytest.approx([*alone, both(0.4, 0.2), last], abs=1e-9)
    assert [dict(j.provenance)["decided by"] for j in found] == [
        *["first, 1 of 2 members asked"] * 2,
        *["second, 2 of 2 members asked"] * 2,
    ]
    assert [j.notes for j in found] == [(), (), (), ("first: cannot read it",)]
    everybody = ensemble(first, dict.fromkeys(first, 0.2), fit=fitted(stages=STAGES))
    everybody.judge(cases)
    assert len(everybody.members[1].asked) == 4  # type: ignore[union-attr]
    assert fingerprint_of(everybody) != fingerprint_of(detector)


def test_a_cascade_that_was_not_fitted_is_refused() -> None:
    with pytest.raises(InputError, match="no cascade was fitted"):
        ensemble({}, {}, cascade=True)


def test_without_a_fit_it_is_the_mean_of_those_that_give_a_score() -> None:
    members = [Scripted("first", {"1": 0.5, "2": 0.5}), Scripted("second", {"1": 0.25, "2": None})]
    found = Ensemble(members).judge([CASE, replace(CASE, id="2")])
    assert [j.hallucination for j in found] == [0.375, 0.5]
    assert [v.score for v in found[0].verdicts] == [0.375]
    assert load_detector("ensemble:overlap,length").judge([CASE])[0].hallucination == (0.5 + 2 / 3) / 2


def test_words_are_the_common_unit() -> None:
    case = Case("1", "Old cats bark at night.")
    first = Judgement("1", "x", 0.5, verdicts=(Verdict(Span(4, 13), 0.8), Verdict(Span(6, 7), 0.9)))
    second = Judgement("1", "y", 0.5, judged=(Span(0, 8),), verdicts=(Verdict(Span(0, 3), 0.4),))
    table = word_scores(case, [first, second, None, Judgement("1", "z", judged=())])
    assert [span.of(case.response) for span in table.spans()] == ["Old", "cats", "bark", "at", "night"]
    nan = float("nan")
    expected = [[0, 0.4, nan, nan], [0.9, 0, nan, nan], [0.8, nan, nan, nan], [0, nan, nan, nan], [0, nan, nan, nan]]
    np.testing.assert_array_equal(table.scores, expected)
    assert table.named.tolist() == [True, True, True, False, False]


def test_what_no_member_judged_stays_so() -> None:
    part = Judgement("1", "x", 0.5, judged=(Span(0, 4),), notes=("half of it",))
    detector = ensemble(lambda case: part, lambda case: replace(part, judged=(Span(2, 6),)))
    (found,) = detector.judge([CASE])
    assert found.judged == (Span(0, 6),)
    assert found.notes == ("first: half of it", "second: half of it")


def test_evidence_of_the_members_is_kept_once() -> None:
    here, there = Evidence("a", Span(0, 4)), Evidence("a", Span(5, 9))
    first = Judgement("1", "x", 0.5, verdicts=(Verdict(Span(0, 4), 0.1, evidence=(here,)),))
    second = Judgement("1", "y", 0.5, verdicts=(Verdict(Span(0, 9), 0.1, evidence=(here, there)),))
    detector = ensemble(lambda case: first, lambda case: second, fit=fitted({Level.SPAN: TWO}))
    (found,) = detector.judge([CASE])
    assert [v.evidence for v in found.verdicts] == [(here, there)] * 2
    assert (found.hallucination, found.judged) == (None, (Span(0, 10),))
    assert found.notes == ("the score of the whole response: left out, for nothing was fitted for it",)


def test_coverage_is_combined_like_the_rest() -> None:
    all_levels = {Level.COVERAGE: TWO, Level.SOURCE: TWO}
    first = Judgement("1", "x", omission=0.5, omissions=(Omission("a", Span(0, 9), 1.0),))
    second = Judgement("1", "y", omission=0.2, judged_sources=(SourceSpan("a", Span(0, 4)),))
    members = [Scripted(n, lambda case, j=j: j, tuple(Level)) for n, j in (("first", first), ("second", second))]
    (found,) = Ensemble(members, fitted(all_levels)).judge([CASE])
    assert found.omission == pytest.approx(both(0.5, 0.2), abs=1e-9)
    assert [(o.source_id, o.span) for o in found.omissions] == [("a", Span(0, 4)), ("a", Span(5, 9))]
    alone = logistic(1.75 * (1.0 - 0.3) / 0.2 - 0.5)
    assert [o.score for o in found.omissions] == pytest.approx([both(1.0, 0.0), alone], abs=1e-9)
    assert (found.hallucination, found.judged, found.judged_sources) == (None, None, None)
    assert "coverage: first" in dict(found.provenance)


def test_neighbouring_source_words_with_the_same_score_are_one_omission() -> None:
    case = Case("1", "x", (Source("a", "Two cats doze. Dogs bark.", must_cover=True),))
    first = Judgement("1", "x", omission=1.0, omissions=(Omission("a", Span(0, 25), 1.0),))
    members = [Scripted(n, lambda case: first, tuple(Level)) for n in ("first", "second")]
    (found,) = Ensemble(members, fitted({Level.COVERAGE: TWO, Level.SOURCE: TWO})).judge([case])
    assert [o.span.of("Two cats doze. Dogs bark.") for o in found.omissions] == ["Two cats doze", "Dogs bark"]


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.floats(0, 1)), max_size=5)


@given(st.text(max_size=30), SPANS, SPANS, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=2))
def test_any_verdicts_end_on_words_of_the_response(text: str, first: Any, second: Any, judged: Any) -> None:
    def inside(a: int, b: int) -> Span:
        return Span(*sorted((min(a, len(text)), min(b, len(text)))))

    def said(items: Any, judged: Any) -> Judgement:
        verdicts = tuple(Verdict(inside(a, b), score) for a, b, score in items)
        return Judgement("1", "x", 0.5, verdicts=verdicts, judged=judged)

    case = Case("1", text)
    parts = tuple(inside(a, b) for a, b in judged)
    by_member = [said(first, None), said(second, parts)]
    detector = ensemble(*((lambda case, j=j: j) for j in by_member))
    (found,) = detector.judge([case])
    check_judgement(case, found)
    known = words(text)
    assert [v.span for v in found.verdicts] == [span for span in known if span in {v.span for v in found.verdicts}]

    def score_of(word: Span, judgement: Judgement) -> float | None:
        if judgement.judged is not None and not any(word.overlaps(span) for span in judgement.judged):
            return None
        return max((v.score for v in judgement.verdicts if word.overlaps(v.span)), default=0.0)

    for verdict in found.verdicts:
        one, two = (score_of(verdict.span, judgement) for judgement in by_member)
        assert one is not None
        expected = both(one, two) if two is not None else logistic(1.75 * (one - 0.3) / 0.2 - 0.5)
        # more than five deviations away counts as five: none is, but for the first member's
        if one <= 1.0 and abs(one - 0.3) / 0.2 <= 5:
            assert verdict.score == pytest.approx(expected, abs=1e-9)


# --- the folder ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An ensemble of `overlap` and `length`, as `veridical train ensemble` writes it."""
    members = tuple(Member(s, fingerprint_of(load_detector(s)), 0.01) for s in ("overlap", "length"))
    document = FittedEnsemble(members, {Level.RESPONSE: TWO}, STAGES)
    return save_record(document, tmp_path / "a" / "ensemble")


def test_it_comes_back_as_it_was_saved(folder: Path) -> None:
    again = load_ensemble(folder)
    assert (again.levels, again.cascade, again.members[1].detector) == ({Level.RESPONSE: TWO}, STAGES, "length")
    assert encode(decode(encode(again), "ensemble")) == encode(again)
    detector = load_detector(f"ensemble:{folder}")
    assert (detector.name, detector.info.levels) == (f"ensemble:{folder}", (Level.RESPONSE,))  # type: ignore[attr-defined]
    (found,) = detector.judge([CASE])
    assert found.hallucination == pytest.approx(both(0.5, 2 / 3), abs=1e-9)
    (found,) = load_detector(f"ensemble:{folder},cascade=yes").judge([CASE])
    assert dict(found.provenance)["decided by"].endswith("of 2 members asked")


def write(folder: Path, change: dict[str, Any]) -> None:
    path = folder / "detector.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


LEFT_OUT = ("the scores of words, coverage, the scores of source words: left out, for nothing was fitted for it",)
MEMBER = {"detector": "overlap", "fingerprint": {"name": "overlap"}}


def test_members_that_cannot_be_loaded_are_left_out_with_the_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DETECTORS.table, "absent", "veridical_no_such_module:Absent")
    for other, reason in (
        ("calibrated:/gone", "no detector.json in it"),
        ("absent", "No module named 'veridical_no_such_module'"),
        ("plugin", "unknown detector 'plugin'"),
        ("judge:yes_no,base_url=http://example.org", "may not say how a chat model is reached"),
    ):
        write(folder, {"members": [MEMBER, {"detector": other, "fingerprint": {}}]})
        (found,) = load_detector(f"ensemble:{folder}").judge([CASE])
        assert found.hallucination == pytest.approx(logistic(1.75 * (0.5 - 0.3) / 0.2 - 0.5), abs=1e-9)
        assert reason in found.notes[0]
        assert found.notes[1:] == LEFT_OUT


def test_folders_that_name_each_other_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted = folder.parent / "fitted"
    save_record(FittedCalibration(f"ensemble:{folder}", {}, {Level.RESPONSE: Scale(0.5)}), fitted)
    write(folder, {"members": [MEMBER, {"detector": f"calibrated:{fitted}", "fingerprint": {}}]})
    for spec in (f"ensemble:{folder}", f"calibrated:{fitted}"):
        with pytest.raises(InputError, match=r"these folders name each other: .*(fitted|ensemble) → .* → "):
            load_detector(spec)
    save_record(FittedCalibration("overlap", {}, {Level.RESPONSE: Scale(0.5)}), fitted)
    members = [{"detector": f"calibrated:{fitted}", "fingerprint": {}}] * 2
    write(folder, {"members": members})
    assert len(load_detector(f"ensemble:{folder}").members) == 2  # type: ignore[attr-defined]  # one folder, twice


def test_a_member_that_moved_is_named(folder: Path) -> None:
    write(folder, {"members": [MEMBER, {"detector": "calibrated:/gone", "fingerprint": {"name": "length"}}]})
    (found,) = load_detector(f"ensemble:{folder},member2=length").judge([CASE])
    assert (found.hallucination, found.notes) == (pytest.approx(both(0.5, 2 / 3), abs=1e-9), LEFT_OUT)
    with pytest.raises(InputError, match="member3"):
        load_detector(f"ensemble:{folder},member3=length")


LEVEL = {
    "threshold": 0.5,
    "combinations": [{"members": [0], "mean": [0], "deviation": [1], "weights": [1], "intercept": 0}],
}


def level(**change: Any) -> dict[str, Any]:
    return {"levels": {"response": {**LEVEL, "combinations": [{**LEVEL["combinations"][0], **change}]}}}  # type: ignore[index]


@pytest.mark.parametrize(
    "change, error",
    [
        ({"veridical": "calibrated/1"}, "of the kind 'calibrated', not 'ensemble'"),
        ({"veridical": "ensemble/9"}, "of format 9"),
        ({"members": [MEMBER]}, "an ensemble of 1"),
        ({"members": [MEMBER, {**MEMBER, "detector": "ensemble:x"}]}, "an ensemble cannot be a member of an ensemble"),
        ({"members": [MEMBER, {**MEMBER, "seconds": -1.0}]}, "the seconds of 'overlap' are -1.0"),
        ({"levels": {}}, "has no fitted level"),
        (level(members=[5]), "names a member that does not exist"),
        (level(deviation=[0.0]), "deviations above 0"),
        (level(weights=[1.0, 2.0]), "as many means"),
        (level(members=[1, 0], mean=[0, 0], deviation=[1, 1], weights=[1, 1]), "ascending"),
        ({"levels": {"response": {**LEVEL, "threshold": 2.0}}}, "the threshold is 2.0"),
        ({"cascade": [{}, {}]}, "one stage per member but the last"),
        ({"cascade": [{"clear_below": 0.5, "flag_from": 0.4}]}, "clears below 0.5 and flags from 0.4"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_damaged_folder_is_refused(folder: Path, change: dict[str, Any], error: str) -> None:
    write(folder, change)
    with pytest.raises(DataError, match=error):
        load_detector(f"ensemble:{folder}")


def test_a_spec_without_members_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a folder, or two detectors"):
        load_detector("ensemble")
    with pytest.raises(DataError, match=r"no detector\.json"):
        load_detector(f"ensemble:{tmp_path}")
    with pytest.raises(InputError, match="an ensemble of 1"):
        Ensemble([Scripted("first", {})])
    three = replace(fitted(), members=(*fitted().members, Member("third", {})))
    with pytest.raises(InputError, match="2 members for an ensemble of 3"):
        Ensemble([Scripted("first", {}), Scripted("second", {})], three)


def test_rows_with_different_gaps_do_not_disturb_each_other() -> None:
    nan = float("nan")
    rows = np.array([[0.5, 0.1], [nan, 0.1], [nan, nan], [0.5, nan], [0.5, 0.1]])
    probabilities, parts = TWO.combine(rows)
    alone = [TWO.combine(row[None])[0][0] for row in rows]
    np.testing.assert_allclose(probabilities, alone, atol=1e-12)
    assert np.isnan(parts).tolist() == np.isnan(rows).tolist()
    mean, _ = Mean((0, 1)).combine(rows)
    np.testing.assert_allclose(mean, [0.3, 0.1, nan, 0.5, 0.3])


def test_the_smallest_fitting_combination_is_used() -> None:
    one = Combination((0,), (0.0,), (1.0,), (1.0,), 0.0)
    three = Combination((0, 1, 2), (0.0,) * 3, (1.0,) * 3, (1.0,) * 3, 0.0)
    two = Combination((0, 2), (0.0,) * 2, (1.0,) * 2, (1.0,) * 2, 0.0)
    fit = LevelCombinations(0.5, (three, two, one))
    assert [fit.combination_for(present) for present in ([0], [2], [1], [0, 2])] == [one, two, three, two]
