"""Responses flagged as `check` does, groups of one class, foreign passages, words alone, and means over data sets."""

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

import veridical
from tests.lab.files import saved
from veridical.cli import main
from veridical.datasets import load_reader
from veridical.metrics.measure import Measured
from veridical.records.types import Case, Example, Judgement, Outcome, Source
from veridical_lab.bench.evaluation import evaluate
from veridical_lab.bench.run import run_bench
from veridical_lab.bench.settings import BenchSettings, load_data
from veridical_lab.detectors.baselines import ResponseWords
from veridical_lab.report.result_tables import mean_tables, result_tables


def example(document: int, wrong: bool, response: str, **groups: str) -> Example:
    case = Case(
        f"{document}/{'wrong' if wrong else 'right'}",
        response,
        (Source("1", f"Text {document}: the old heavy oak door is red."),),
    )
    return Example(case, Judgement(case.id, "human:a", float(wrong)), str(document), tuple(sorted(groups.items())))


@pytest.fixture
def doors(tmp_path: Path) -> str:
    """Pairs in which every wrong response has one new word, and is a word longer every other time."""
    examples = []
    for i in range(30):
        examples.append(example(i, False, "The old heavy oak door is red.", tag="copied"))
        wrong = "Perhaps the old heavy oak door is red." if i % 2 else "The old heavy oak door is green."
        examples.append(example(i, True, wrong, tag="guess" if i % 2 else "other"))
    return saved(tmp_path / "doors.jsonl", examples)


def test_a_response_is_flagged_where_check_flags_it(doors: str) -> None:
    settings = BenchSettings(["overlap"], [doors], ["recall", "false_alarms", "balanced_accuracy"], resamples=20)
    ((row,),) = run_bench(settings)
    examples = load_data(doors, settings).examples
    outcomes = [veridical.check(e.case.response, e.case.sources, detector="overlap").outcome for e in examples]
    flagged = [outcome is Outcome.FLAGGED for outcome in outcomes]
    wrong = [bool(e.gold.hallucination) for e in examples]
    assert row.metrics["recall"].value == sum(f for f, w in zip(flagged, wrong, strict=True) if w) / 30
    assert row.metrics["recall"].value == 1.0  # one word is new, the response's own score is below the threshold
    assert row.metrics["false_alarms"].value == 0.0
    ((fitted,),) = run_bench(replace(settings, fit="balanced_accuracy"))
    assert fitted.metrics["balanced_accuracy"].value == 1.0


def test_a_group_of_one_class_is_ranked_against_the_other_class_of_the_set(doors: str) -> None:
    settings = BenchSettings(["length"], [doors], ["roc_auc", "recall"], group_by=["tag"], resamples=20)
    ((whole, copied, guess, other),) = run_bench(settings)
    assert [r.group for r in (copied, guess, other)] == ["tag=copied", "tag=guess", "tag=other"]
    assert guess.metrics["roc_auc"].value == 1.0  # eight words against seven
    assert (guess.n, guess.metrics["roc_auc"].n, guess.metrics["recall"].n) == (15, 45, 15)
    assert copied.metrics["roc_auc"].value == whole.metrics["roc_auc"].value
    assert copied.metrics["recall"].value is None
    (table,) = result_tables([guess])
    assert table.lines[0][2] == "15"


def test_among_foreign_passages(doors: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = BenchSettings(["overlap"], [doors], ["roc_auc"], sample=10, resamples=20)
    among = replace(settings, foreign=2)
    alone, loaded = load_data(doors, settings), load_data(doors, among)
    assert loaded.split == "10 documents, among 2 foreign"
    assert loaded.hash != alone.hash
    assert {len(e.case.sources) for e in loaded.examples} == {3}
    whole = {e.case.id: e for e in load_data(doors, replace(among, sample=None)).examples}
    assert all(whole[e.case.id] == e for e in loaded.examples), "a case has the same passages in every sample"
    ((row,),) = run_bench(among)
    assert row.foreign == 2
    assert main(["bench", "overlap", "--data", doors, "--foreign", "30"]) == 2
    assert "30 documents have sources" in capsys.readouterr().err


def test_words_alone_are_judged_by_what_other_documents_teach(tmp_path: Path) -> None:
    telling = [example(i, w, "Perhaps red." if w else "It is red.") for i in range(40) for w in (False, True)]
    # in each document both responses have a word of their own, of which no other document knows the label
    silent = [example(i, w, f"It is wordx{i}{int(w)}.") for i in range(40) for w in (False, True)]
    for examples, expected in ((telling, 1.0), (silent, 0.5)):
        data = saved(tmp_path / "data.jsonl", examples)
        for fit in (None, "f1"):
            ((row,),) = run_bench(BenchSettings(["response_words"], [data], ["roc_auc"], fit=fit, resamples=20))
            assert row.metrics["roc_auc"].value == pytest.approx(expected, abs=0.12)
            assert row.not_judged == 0


def test_words_alone_learn_from_documents_outside_of_the_sample_and_from_the_training_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = [example(i, w, f"It is {w}.") for i in range(40) for w in (False, True)]
    saved(tmp_path / "train.jsonl", examples[:60])
    saved(tmp_path / "dev.jsonl", examples[50:])
    monkeypatch.setattr(
        "veridical.datasets.rows.JSONL.INFO", replace(load_reader("jsonl").INFO, splits=("train", "dev"))
    )
    loaded = load_data(f"jsonl:{tmp_path}", BenchSettings([], [], split="dev", sample=3))
    measured = {e.document for e in loaded.examples}
    training = {e.document for e in loaded.training()}
    assert len(measured) == 3
    assert training == {str(i) for i in range(40)} - measured


def test_words_alone_without_both_classes_judge_nothing(tmp_path: Path) -> None:
    data = saved(tmp_path / "data.jsonl", [example(0, False, "It is red."), example(1, False, "It is red.")])
    settings = BenchSettings(["response_words"], [data])
    evaluation = evaluate(ResponseWords(), load_data(data, settings), settings)
    assert {j.judged for j in evaluation.judgements} == {()}
    assert all(j.notes for j in evaluation.judgements)


def test_means_over_data_sets(doors: str) -> None:
    ((row,),) = run_bench(BenchSettings(["overlap"], [doors], ["roc_auc", "recall", "ece"], resamples=20))

    def at(data: str, detector: str, value: float, *, ece: float | None = 0.1, foreign: int = 0):
        metrics = {"roc_auc": Measured(value, value - 0.03, value + 0.04, 9), "ece": Measured(ece, n=9)}
        return replace(row, data=data, data_hash=data, detector=detector, metrics=metrics, foreign=foreign)

    rows = [at("a", "x", 0.6), at("b", "x", 0.8, ece=None), at("a", "y", 0.7), at("b", "y", 0.9)]
    (table,) = mean_tables([*rows, replace(rows[0], group="tag=1"), at("c", "x", 0.1, foreign=2)])
    assert table.title == "mean of 2 data sets"
    assert table.head == ["detector", "n", "not judged", "roc_auc", "ece (1 of 2)"]
    assert table.lines[0][3] == "0.700 [0.679, 0.728]"  # ± sqrt(2 · 0.03²) / 2, sqrt(2 · 0.04²) / 2
    assert [line[0] for line in table.lines] == ["x", "y"]
    assert mean_tables(rows[:1]) == []


def test_the_table_shows_five_metrics_unless_all_are_asked_for(
    doors: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    out = ["--out", str(tmp_path / "rows.jsonl"), "--resamples", "20"]
    assert main(["bench", "overlap", "--data", doors, *out]) == 0
    shown = capsys.readouterr().out
    assert "more metrics: --all" in shown
    assert all(name in shown for name in ("roc_auc", "false_alarms", "recall", "balanced_accuracy", "ece"))
    assert "brier" not in shown
    assert main(["bench", "table", str(tmp_path / "rows.jsonl"), "--all"]) == 0
    assert "brier" in capsys.readouterr().out
    assert main(["bench", "table", str(tmp_path / "rows.jsonl"), "--format", "csv"]) == 0
    figures = {row["metric"]: row for row in csv.DictReader(StringIO(capsys.readouterr().out))}
    assert 0 <= float(figures["roc_auc"]["low"]) <= float(figures["roc_auc"]["value"]) <= 1
    assert figures["brier"]["detector"] == "overlap"
