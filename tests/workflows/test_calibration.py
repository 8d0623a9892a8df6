"""Thresholds and calibrations come from the validation part alone, and what cannot be fitted is refused."""

from __future__ import annotations

import json
import operator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from tests.workflows.conftest import Command
from veridical.datasets.split import split_by_document
from veridical.detectors import load_detector
from veridical.detectors.overlap.detector import Overlap
from veridical.io.serialization import encode
from veridical.records.errors import InputError, OutputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Omission, Source, Verdict
from veridical.workflows import calibration as threshold
from veridical.workflows.calibration import CalibrationOptions as Options
from veridical.workflows.calibration import fit_thresholds

pytest.importorskip("sklearn")

WORDS = ["red", "green", "blue", "black", "white", "grey", "pink", "brown"]


def example(i: int) -> Example:
    """Words outside the source are mostly, words in it seldom, hallucinated; every third response is clean."""
    random = np.random.default_rng(i)
    clean = i % 3 == 0
    parts, spans, at = [], [], 0
    for word in WORDS:
        foreign = random.random() < (0.15 if clean else 0.5)
        shown = f"{word}ish" if foreign else word
        if not clean and random.random() < (0.8 if foreign else 0.1):
            spans.append(Span(at, at + len(shown)))
        parts.append(shown)
        at += len(shown) + 1
    omitted = bool(i % 2)
    sides = (Source("1", " ".join(WORDS)), Source("2", "Trams. Wires." if omitted else "red blue", must_cover=True))
    omissions = (Omission("2", Span(0, 5), 1.0),) if omitted else ()
    verdicts = tuple(Verdict(span, 1.0) for span in spans)
    gold = Judgement(str(i), "human:a", float(bool(spans)), float(omitted), verdicts, omissions)
    return Example(Case(str(i), " ".join(parts), sides), gold, document=str(i // 2))


OVERLAP = load_detector("overlap")
EXAMPLES = [example(i) for i in range(600)]
VALID = split_by_document(EXAMPLES)["valid"]


def test_it_is_fitted_on_the_validation_part_alone() -> None:
    whole = fit_thresholds(OVERLAP, EXAMPLES)
    alone = fit_thresholds(OVERLAP, VALID, Options(all_data=True))
    assert whole.scales == alone.scales
    assert whole.training["examples"] == len(VALID)
    assert (whole.training["part"], alone.training["part"]) == ("validation part", "all")
    assert fit_thresholds(OVERLAP, EXAMPLES, Options(seed=1)).scales != whole.scales


def test_every_scale_that_is_labelled_is_fitted_and_means_what_it_says() -> None:
    fitted = fit_thresholds(OVERLAP, EXAMPLES, Options(all_data=True))
    assert set(fitted.scales) == {"response", "span", "coverage", "source"}
    about = fitted.validation["span"]
    assert about["calibration"] == "isotonic"  # 600 x 8 words
    assert fitted.validation["response"]["calibration"] == "platt"
    scale = fitted.scales["span"]
    outside, inside = scale.apply([1.0, 0.0])
    assert outside == pytest.approx(0.8 * 0.5 * 400 / (0.5 * 400 + 0.15 * 200), abs=0.1)  # of words outside the source
    assert inside < 0.2
    assert about["cross_fitted"]["ece"]["value"] < about["before"]["ece"]["value"]
    brier = about["cross_fitted"]["brier"]
    assert brier["low"] <= brier["value"] <= brier["high"]


def test_before_is_what_the_thresholds_of_the_detector_give() -> None:
    class Strict(Overlap):
        thresholds: ClassVar = {Level.RESPONSE: 0.9}

    before = fit_thresholds(Strict(), EXAMPLES, Options(all_data=True)).validation["response"]["before"]
    flagged = [judgement.hallucination >= 0.9 for judgement in Strict().judge([each.case for each in EXAMPLES])]
    wrong = [each.gold.hallucination == 1.0 for each in EXAMPLES]
    assert before["threshold"] == 0.9
    assert before["recall"]["value"] == pytest.approx(sum(map(operator.and_, flagged, wrong)) / sum(wrong), abs=1e-6)


def test_the_artifact_gives_the_figures_on_validation(tmp_path: Path) -> None:
    """What `calibrated` says of the validation part is flagged as the artifact says it is."""
    options = Options(criterion="balanced_accuracy", calibration="platt")
    fitted = fit_thresholds(OVERLAP, EXAMPLES, options, out=tmp_path)
    detector = load_detector(f"calibrated:{tmp_path}")
    judged = detector.judge([e.case for e in VALID])
    cut = fitted.scales["response"].threshold
    share = np.mean([j.hallucination is not None and j.hallucination >= cut for j in judged])
    assert share == pytest.approx(fitted.validation["response"]["share_flagged"], abs=1e-6)
    assert 0.1 < share < 0.9


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone" / "away")
    monkeypatch.setattr(threshold, "judge", lambda *args: pytest.fail("judged"))
    for folder in ("file", "file/in/it", "dangling"):
        with pytest.raises(OutputError, match=rf"cannot write .*{folder}: .* \(choose another place\)"):
            fit_thresholds(OVERLAP, EXAMPLES, out=tmp_path / folder)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "dangling"}


def test_rules_do_what_they_are_called() -> None:
    def share_flagged(criterion: str) -> float:
        fitted = fit_thresholds(OVERLAP, EXAMPLES, Options(criterion=criterion, all_data=True, levels=("span",)))
        return float(fitted.validation["span"]["share_flagged"])

    assert share_flagged("precision@0.65") < share_flagged("precision@0.1")
    with pytest.raises(InputError, match=r"span: no threshold has a precision of 0\.99; the best is"):
        share_flagged("precision@0.99")


def test_without_a_calibration_scores_stay_as_they_are(tmp_path: Path) -> None:
    fitted = fit_thresholds(OVERLAP, EXAMPLES, Options(calibration="none"), out=tmp_path)
    case = VALID[0].case
    (raw,), (kept,) = (d.judge([case]) for d in (load_detector("overlap"), load_detector(f"calibrated:{tmp_path}")))
    assert kept.hallucination == raw.hallucination
    assert kept.verdicts == raw.verdicts
    assert fitted.scales["span"].calibration is None


def test_a_level_can_be_chosen_and_must_be_there() -> None:
    assert set(fit_thresholds(OVERLAP, EXAMPLES, Options(levels=("coverage",))).scales) == {"coverage", "source"}
    unlabelled = [replace(e, gold=replace(e.gold, omission=None, omissions=())) for e in EXAMPLES]
    assert set(fit_thresholds(OVERLAP, unlabelled).scales) == {"response", "span"}
    with pytest.raises(InputError, match="nothing labels the level 'coverage'"):
        fit_thresholds(OVERLAP, unlabelled, Options(levels=("coverage",)))
    with pytest.raises(InputError, match="length does not score 'span'"):
        fit_thresholds(load_detector("length"), EXAMPLES, Options(levels=("span",)))
    mute = [replace(e, gold=Judgement(e.case.id, "human:a", judged=())) for e in EXAMPLES]
    with pytest.raises(InputError, match="the data say nothing about what overlap scores"):
        fit_thresholds(OVERLAP, mute)


def test_one_class_is_refused() -> None:
    for flagged in (False, True):
        one = [e for e in EXAMPLES if bool(e.gold.verdicts) == flagged]
        with pytest.raises(InputError, match=f"response: fitting needs both classes; all .* are {flagged}"):
            fit_thresholds(OVERLAP, one, Options(levels=("response",)))


def test_scores_that_say_nothing_are_refused() -> None:
    with pytest.raises(InputError, match=r"higher scores do not go with the labels \(ROC AUC 0\.500\)"):
        fit_thresholds(load_detector("majority"), EXAMPLES, Options(all_data=True, levels=("response",)))
    turned = [replace(e, gold=replace(e.gold, hallucination=1 - e.gold.hallucination, verdicts=())) for e in EXAMPLES]  # type: ignore[operator]
    for calibration in ("platt", "isotonic"):
        options = Options(all_data=True, levels=("response",), calibration=calibration)
        with pytest.raises(InputError, match=r"higher scores do not go with the labels .*\?hallucinated=0"):
            fit_thresholds(OVERLAP, turned, options)


def test_a_gold_of_one_phrase_says_nothing_of_the_whole_response() -> None:
    phrases = [replace(e, gold=replace(e.gold, judged=(Span(0, 3),), verdicts=())) for e in EXAMPLES]
    with pytest.raises(InputError, match="nothing labels the level 'response'"):
        fit_thresholds(OVERLAP, phrases, Options(levels=("response",)))


def test_too_few_documents_and_wrong_names_are_refused() -> None:
    with pytest.raises(InputError, match="none of 1 examples lies in the validation part"):
        fit_thresholds(OVERLAP, [next(e for e in EXAMPLES if e not in VALID)])
    for wrong in ({"criterion": "f2"}, {"calibration": "magic"}, {"levels": ("word",)}):
        with pytest.raises(UnknownNameError):
            Options(**wrong)  # type: ignore[arg-type]


def test_cross_fitted_figures_come_from_other_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = threshold.fit_scale
    monkeypatch.setattr(
        threshold, "fit_scale", lambda labels, *a, **k: (sizes.append(len(labels)), real(labels, *a, **k))[1]
    )
    fit_thresholds(OVERLAP, EXAMPLES, Options(all_data=True, levels=("response",)))
    assert sizes[0] == 600
    assert len(sizes) == 6
    assert sum(sizes[1:]) == 4 * 600


def test_few_documents_have_no_cross_fitted_figures() -> None:
    few = [replace(e, document=str(i % 4)) for i, e in enumerate(EXAMPLES)]
    fitted = fit_thresholds(OVERLAP, few, Options(all_data=True, levels=("span",)))
    assert fitted.validation["span"]["cross_fitted"] is None


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(encode(e) + "\n" for e in EXAMPLES))
    return f"jsonl:{path}"


def test_the_command_and_what_reads_its_folder(data: str, tmp_path: Path, command: Command) -> None:
    out = str(tmp_path / "fitted")
    code, shown, said = command("calibrate", "overlap", data, "--out", out)
    assert code == 0
    assert "cross-fitted" in shown
    assert "calibration: platt" in " ".join(shown.split())
    assert f"use it as calibrated:{out}" in said
    code, shown, _ = command("calibrate", "overlap", data, "--out", out, "--json", "--criterion", "balanced_accuracy")
    document = json.loads(shown)
    assert (code, document["detector"], document["training"]["seed"]) == (0, "overlap", 0)
    assert document == json.loads((tmp_path / "fitted" / "detector.json").read_text("utf-8"))
    (tmp_path / "answer.txt").write_text("red greenish blue")
    (tmp_path / "source.txt").write_text("red green blue")
    answer, source = str(tmp_path / "answer.txt"), str(tmp_path / "source.txt")
    code, shown, _ = command("check", answer, source, "-d", f"calibrated:{out}", "--json")
    checked = json.loads(shown)
    (decision,) = checked["decisions"]
    assert decision["thresholds"] == {name: about["threshold"] for name, about in document["scales"].items()}
    flagged = [checked["judgements"][0]["verdicts"][i]["span"]["start"] for i in decision["verdicts"]]
    assert (code, flagged) == (1, [4])


def test_the_command_takes_a_language_model_and_skips_bad_rows(data: str, tmp_path: Path, command: Command) -> None:
    path, out = Path(data.removeprefix("jsonl:")), tmp_path / "fitted"
    path.write_text(path.read_text() + "broken\n")
    calibrate = ["calibrate", "judge:cot", data, "--out", str(out), "--model", "none"]
    assert command(*calibrate, "--dry-run")[0] == 2
    code, shown, said = command(*calibrate, "--dry-run", "--skip-bad")
    assert code == 0
    assert f"none: {len(split_by_document(EXAMPLES)['valid'])} calls" in shown
    assert "1 rows were skipped" in said
    assert f"none: {len(EXAMPLES)} calls" in command(*calibrate, "--dry-run", "--skip-bad", "--all-data")[1]
    assert not out.exists()
    code, _, said = command("calibrate", "overlap", data, "--out", str(out), "--model", "none", "--skip-bad")
    assert (code, "asks no language model" in said) == (2, True)


def test_the_command_refuses_in_one_line(data: str, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "fitted"
    for arguments in (
        ["majority", data],
        ["overlap", data, "--criterion", "f2"],
        ["overlap", data, "--levels", "word"],
        ["overlap", "missing.csv"],
    ):
        code, shown, said = command("calibrate", *arguments, "--out", str(out))
        assert (code, shown, said.count("\n")) == (2, "", 1)
        assert said.startswith("veridical: ")
    assert said == "veridical: missing.csv: no such file or folder\n"
    assert not out.exists()


def test_bench_measures_with_the_fitted_thresholds(data: str, tmp_path: Path) -> None:
    from veridical_lab.bench.run import run_bench
    from veridical_lab.bench.settings import BenchSettings, load_data

    fitted = fit_thresholds(OVERLAP, EXAMPLES, Options(criterion="balanced_accuracy"), out=tmp_path / "fitted")
    names = ["ece", "brier", "f1", "token_f1"]
    settings = BenchSettings(["overlap", f"calibrated:{tmp_path}/fitted"], [data], names, fit="none", resamples=20)
    loaded = load_data(data, settings)
    assert not loaded.fitting
    assert {e.document for e in loaded.examples} == {e.document for e in split_by_document(EXAMPLES)["test"]}
    before, after = (rows[0] for rows in run_bench(settings))
    assert (before.split, after.split) == ("test part", "test part")
    assert before.thresholds == dict.fromkeys(Level, 0.5)
    assert after.thresholds == {level: fitted.scales[level].threshold for level in Level}
    assert after.threshold_from == "detector"
    for name in ("ece", "brier"):
        assert after.metrics[name].value < before.metrics[name].value  # type: ignore[operator]
    given = BenchSettings([f"calibrated:{tmp_path}/fitted"], [data], names, fit="none", threshold=0.9, resamples=20)
    assert next(run_bench(given))[0].thresholds == dict.fromkeys(Level, 0.9)
