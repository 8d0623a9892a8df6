"""What was fitted is applied to the right scale, to the right detector, and to nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from veridical import check
from veridical.detectors import load_detector
from veridical.detectors.calibrated import Calibrated, FittedCalibration, Scale, load_calibration
from veridical.inference.saving import save_record
from veridical.metrics.calibrators import Isotonic, Platt
from veridical.records.detector import DetectorInfo, fingerprint_of
from veridical.records.errors import CannotJudgeError, DataError, InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Evidence, Judgement, Level, Omission, Source, Thresholds, Verdict

CASE = Case("1", "Cats bark.", (Source("a", "Cats doze."), Source("b", "Dogs bark.", must_cover=True)))
RAW = Judgement(
    "1",
    "raw",
    0.5,
    0.4,
    (Verdict(Span(0, 4), 0.2, evidence=(Evidence("a", Span(0, 4)),)), Verdict(Span(5, 9), 0.9, reason="no")),
    (Omission("b", Span(0, 4), 0.8),),
    notes=("read in part",),
)
HALF = Isotonic((0.0, 1.0), (0.0, 0.5))
TENTH = Isotonic((0.0, 1.0), (0.0, 0.1))
SCALES = {
    Level.RESPONSE: Scale(0.3, HALF),
    Level.SPAN: Scale(0.07, TENTH),
    Level.COVERAGE: Scale(0.2, HALF),
    Level.SOURCE: Scale(0.05, TENTH),
}


class Fixed:
    """Says what it is told to."""

    info = DetectorInfo()

    def __init__(self, said: Judgement | None = RAW, about: dict[str, Any] | None = None) -> None:
        self.name = "fixed"
        self.said = said
        self.about = about

    def fingerprint(self) -> dict[str, Any]:
        return self.about or {}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [replace(self.said, case_id=case.id) for case in cases] if self.said else []


def calibrated(folder: Path, scales: dict[Level, Scale], detector: Fixed | None = None) -> Calibrated:
    used = detector or Fixed()
    save_record(FittedCalibration("fixed", fingerprint_of(used), scales), folder)
    return Calibrated(folder, detector=used)


def test_each_scale_has_its_own_probabilities_and_all_else_stays(tmp_path: Path) -> None:
    (found,) = calibrated(tmp_path, SCALES).judge([CASE])
    assert found.by == f"calibrated:{tmp_path}"
    assert (found.hallucination, found.omission) == pytest.approx((0.25, 0.2))
    assert [v.score for v in found.verdicts] == pytest.approx([0.02, 0.09])
    assert [o.score for o in found.omissions] == pytest.approx([0.08])
    assert found.verdicts[0].evidence == RAW.verdicts[0].evidence
    assert found.verdicts[1].reason == "no"
    assert (found.judged, found.notes) == (None, RAW.notes)


def test_thresholds_go_where_they_belong(tmp_path: Path) -> None:
    detector = calibrated(tmp_path, SCALES)
    assert detector.thresholds == {"response": 0.3, "span": 0.07, "coverage": 0.2, "source": 0.05}
    assert detector.info.levels == tuple(Level)
    assert calibrated(tmp_path, {Level.RESPONSE: Scale(0.3)}).thresholds == {"response": 0.3}


def test_check_flags_by_the_fitted_threshold(tmp_path: Path) -> None:
    detector = calibrated(tmp_path, {Level.RESPONSE: Scale(0.3, HALF), Level.SPAN: Scale(0.07, TENTH)})
    result = check("Cats bark.", CASE.sources, detector=[detector])
    assert result.decisions[0].thresholds == Thresholds(response=0.3, span=0.07)
    assert result.flagged == (Span(5, 9),)


def test_what_was_not_fitted_is_left_out_and_said(tmp_path: Path) -> None:
    (found,) = calibrated(tmp_path, {Level.RESPONSE: SCALES[Level.RESPONSE]}).judge([CASE])
    assert (found.hallucination, found.omission) == (0.25, None)
    assert (found.verdicts, found.omissions) == ((), ())
    left_out = "left out, because no labels were fitted:"
    assert found.notes[1:] == (f"{left_out} the scores of words", f"{left_out} coverage")


def test_words_that_only_say_where_a_sentence_is_wrong_keep_their_scores(tmp_path: Path) -> None:
    class OfSentences(Fixed):
        thresholds: Mapping[Level, float] = {Level.RESPONSE: 0.6, Level.SPAN: 0.15}

    of_sentences = OfSentences(replace(RAW, sentences=(Verdict(Span(0, 10), 0.5),)))
    detector = calibrated(tmp_path, {Level.RESPONSE: Scale(0.2, HALF)}, of_sentences)
    assert detector.thresholds == {"response": 0.2, "span": 0.15}
    (found,) = detector.judge([CASE])
    assert found.verdicts == RAW.verdicts
    assert [each.score for each in found.sentences] == [0.25]
    assert not any("words" in note for note in found.notes)
    assert check(CASE.response, CASE.sources, detector=[detector]).flagged
    strict = calibrated(tmp_path / "strict", {Level.RESPONSE: Scale(0.4, HALF)}, of_sentences)
    assert not check(CASE.response, CASE.sources, detector=[strict]).flagged, "the sentence decides"


def test_without_a_score_for_the_response_words_without_a_verdict_are_still_judged(tmp_path: Path) -> None:
    quiet = replace(RAW, verdicts=(), hallucination=0.0, omission=None, omissions=())
    (found,) = calibrated(tmp_path, {Level.SPAN: SCALES[Level.SPAN]}, Fixed(quiet)).judge([CASE])
    assert (found.hallucination, found.verdicts) == (None, ())
    assert found.judged == (Span(0, 10),)


def test_could_not_judge_stays_so(tmp_path: Path) -> None:
    nothing = Judgement("1", "raw", judged=(), notes=("too long",))
    for scales in (SCALES, {Level.SPAN: SCALES[Level.SPAN]}, {Level.COVERAGE: SCALES[Level.COVERAGE]}):
        (found,) = calibrated(tmp_path, scales, Fixed(nothing)).judge([CASE])
        assert (found.hallucination, found.judged, found.notes) == (None, (), ("too long",))


def test_coverage_alone_says_nothing_of_the_response(tmp_path: Path) -> None:
    (found,) = calibrated(tmp_path, {k: SCALES[k] for k in (Level.COVERAGE, Level.SOURCE)}).judge([CASE])
    assert (found.hallucination, found.verdicts, found.judged) == (None, (), None)
    assert found.omission == pytest.approx(0.2)


def test_the_highest_word_stands_for_a_response_without_a_score(tmp_path: Path) -> None:
    (found,) = calibrated(tmp_path, SCALES, Fixed(replace(RAW, hallucination=None))).judge([CASE])
    assert found.hallucination == pytest.approx(0.45)


def test_another_detector_is_refused_with_the_difference_named(tmp_path: Path) -> None:
    calibrated(tmp_path, SCALES, Fixed(about={"template": "tldr", "weights": "abc", "layers": 2}))
    for about, difference in (
        ({"template": "general", "weights": "abc", "layers": 2}, r"the template differs \(tldr, here general\)"),
        ({"template": "tldr", "weights": "xyz", "layers": 2}, r"the weights differs \(abc, here xyz\)"),
        ({"template": "tldr", "weights": "abc", "layers": 6}, r"the number of layers differs \(2, here 6\)"),
        ({"template": "tldr", "weights": "abc"}, "the number of layers differs"),
    ):
        with pytest.raises(InputError, match=difference):
            Calibrated(tmp_path, detector=Fixed(about=about)).judge([CASE])
    unknown = Fixed(about={"template": "tldr", "weights": None, "layers": 2})  # fp16: cannot be said
    assert Calibrated(tmp_path, detector=unknown).judge([CASE])


def test_another_spec_is_refused(tmp_path: Path) -> None:
    detector = load_detector("overlap")
    save_record(FittedCalibration("overlap", fingerprint_of(detector), SCALES), tmp_path)
    assert load_detector(f"calibrated:{tmp_path}").judge([CASE])
    for other in ("overlap:values", "length"):
        with pytest.raises(InputError, match=f"does not fit '{other}': the detector differs"):
            load_detector(f"calibrated:{tmp_path},detector={other}").judge([CASE])


def test_nothing_to_judge_loads_nothing(tmp_path: Path) -> None:
    calibrated(tmp_path, SCALES, Fixed(about={"x": 1}))
    assert Calibrated(tmp_path, detector=Fixed(about={"x": 2})).judge([]) == []


def test_it_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    fitted = FittedCalibration("fixed", {}, {Level.RESPONSE: Scale(0.5, Platt(2.0, -1.0)), Level.SPAN: Scale(0.25)})
    save_record(fitted, tmp_path / "a" / "b")
    again = load_calibration(tmp_path / "a" / "b")
    assert (again.scales, again.detector, again.fingerprint) == (fitted.scales, "fixed", {})


@pytest.mark.parametrize(
    "change, error",
    [
        ({"veridical": "detector/1", "kind": "probe"}, "of the kind 'probe', not 'calibrated'"),
        ({"veridical": "detector/9"}, "of format 9"),
        ({"veridical": "calibrated/9"}, "of format 9"),
        ({"veridical": "case/1"}, "not the description of a trained detector"),
        ({"scales": {}}, "nothing is fitted"),
        ({"scales": {"words": {"threshold": 0.5}}}, "scales.words.* should be 'response'"),
        ({"scales": {"span": {"threshold": -1.0, "calibration": None}}}, "the threshold is -1.0"),
        ({"scales": {"span": {"threshold": "x"}}}, "scales.span.threshold: should be a valid number"),
        ({"scales": {"span": {"threshold": 0.5, "calibration": {"kind": "x"}}}}, "calibration.Platt.slope: field req"),
        ({"scales": {"span": {}}}, "scales.span.threshold: field required"),
        ({"detector": None}, "calibrated.detector: should be a valid string"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    save_record(FittedCalibration("overlap", {}, SCALES), tmp_path)
    path = tmp_path / "detector.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=error):
        load_detector(f"calibrated:{tmp_path}")


def test_a_folder_of_the_first_version_is_read(tmp_path: Path) -> None:
    document = {
        "veridical": "detector/1",
        "kind": "calibrated",
        "detector": "fixed",
        "fingerprint": {"x": 1, "method": "fixed"},
        "scales": {
            "response": {"threshold": 0.5, "calibration": {"kind": "platt", "slope": 2.0, "intercept": -1.0}},
            "span": {
                "threshold": 0.07,
                "calibration": {"kind": "isotonic", "scores": [0.0, 1.0], "probabilities": [0.0, 0.1]},
            },
            "coverage": {"threshold": 0.25, "calibration": None},
        },
        "training": {"rule": "f1"},
        "validation": {},
    }
    (tmp_path / "detector.json").write_text(json.dumps(document))
    fitted = load_calibration(tmp_path)
    assert (fitted.detector, fitted.fingerprint, fitted.training) == ("fixed", {"x": 1}, {"rule": "f1"})
    assert fitted.scales == {
        Level.RESPONSE: Scale(0.5, Platt(2.0, -1.0)),
        Level.SPAN: Scale(0.07, TENTH),
        Level.COVERAGE: Scale(0.25),
    }


def test_a_folder_without_it_and_wrong_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no detector\.json in it"):
        load_detector(f"calibrated:{tmp_path}")
    with pytest.raises(InputError, match="needs a folder"):
        load_detector("calibrated")
    for option in ("unit=word", "detector=", "x"):
        with pytest.raises(InputError):
            load_detector(f"calibrated:{tmp_path},{option}")


def test_a_detector_that_drops_a_case_is_caught(tmp_path: Path) -> None:
    detector = calibrated(tmp_path, SCALES)
    detector.detector = Fixed(None)
    with pytest.raises(CannotJudgeError, match="0 judgements for 1 cases"):
        detector.judge([CASE])


def test_another_fit_under_the_same_name_is_another_detector(tmp_path: Path) -> None:
    first = calibrated(tmp_path, SCALES).fingerprint()
    assert calibrated(tmp_path, SCALES).fingerprint() == first
    assert calibrated(tmp_path, {**SCALES, Level.SPAN: Scale(0.08, TENTH)}).fingerprint() != first


def test_models_are_told_apart_and_may_move(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import shutil

    from veridical_lab.models.testing import tiny

    here, there, other = (tmp_path / name for name in ("here", "there", "other"))
    tiny("llama", here)
    tiny("llama", other, seed=1)
    shutil.copytree(here, there)
    fitted = tmp_path / "fitted"
    for method in ("logprob", "salience", "verify:salience"):
        spec = f"{method}:{here},template=tldr,dtype=fp32"
        save_record(FittedCalibration(spec, fingerprint_of(load_detector(spec)), SCALES), fitted)
        (found,) = load_detector(f"calibrated:{fitted}").judge([CASE])
        moved = load_detector(f"calibrated:{fitted},detector={method}:{there},template=tldr,dtype=fp32")
        assert moved.judge([CASE])[0].hallucination == found.hallucination
        for wrong, difference in ((f"{other},template=tldr", "weights"), (f"{here},template=short", "template")):
            with pytest.raises(InputError, match=f"the {difference} differs"):
                load_detector(f"calibrated:{fitted},detector={method}:{wrong},dtype=fp32").judge([CASE])


def test_maps_come_along(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from veridical_lab.models.testing import tiny

    spec = f"salience:{tiny('llama', tmp_path / 'model')},dtype=fp32"
    save_record(FittedCalibration(spec, fingerprint_of(load_detector(spec)), SCALES), tmp_path / "fitted")
    detector = load_detector(f"calibrated:{tmp_path / 'fitted'}")
    (judgement, found), (nothing, none) = detector.judge_with_maps([CASE, Case("2", "Cats.")])
    assert judgement == detector.judge([CASE])[0]
    assert found is not None
    assert [w.text for w in found.response_words] == ["Cats", "bark"]
    assert (none, nothing.judged) == (None, ())
    assert calibrated(tmp_path / "x", SCALES).judge_with_maps([CASE])[0][1] is None


@pytest.mark.parametrize(
    "spec",
    [
        "judge:cot,model=x,base_url=http://evil.invalid/v1,key_env=OPENAI_API_KEY",
        "judge:cot,model=x",
        "judge:cot,cache=written.db",
        "selfcheck:overlap,model=x",
        "verify:yes_no,shots=/etc/passwd",
        'verify:"calibrated:other,detector=judge:cot",base_url=http://evil.invalid/v1',
    ],
)
def test_an_artifact_may_not_say_how_a_chat_model_is_reached(tmp_path: Path, spec: str) -> None:
    save_record(FittedCalibration(spec, {}, SCALES), tmp_path)
    with pytest.raises(InputError, match="an artifact may not say how a chat model is reached, nor name files"):
        load_detector(f"calibrated:{tmp_path}")
    with pytest.raises(InputError, match="an artifact may not"):
        load_detector(f"verify:calibrated:{tmp_path}")


def test_the_user_says_how_the_model_of_an_artifact_is_reached(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    from veridical.llm.connection import Connection

    script = tmp_path / "script.json"
    script.write_text('{"": "Yes"}', "utf-8")
    connection = Connection(model=f"scripted:{script}")
    spec = "judge:yes_no"
    save_record(FittedCalibration(spec, fingerprint_of(load_detector(spec, connection)), SCALES), tmp_path)
    (found,) = load_detector(f"calibrated:{tmp_path}", connection).judge([CASE])
    assert found.hallucination == pytest.approx(0.0)
    with pytest.raises(InputError, match="no language model is named"):
        load_detector(f"calibrated:{tmp_path}")
