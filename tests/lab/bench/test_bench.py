"""`veridical bench`: rows that can be believed, made again the same, and picked up where a crash left them."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.lab.files import saved
from tests.processes import python
from veridical.cli import main
from veridical.io.serialization import decode
from veridical.metrics.measure import Metric
from veridical.metrics.thresholding import threshold_fitter
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.types import Case, Example, Judgement, Source, Span, Verdict
from veridical.report.tables import cell, narrow
from veridical_lab.bench.compare import compare_detectors, read_comparisons
from veridical_lab.bench.results import ResultRow, read_result_rows
from veridical_lab.bench.run import run_bench
from veridical_lab.bench.settings import BenchSettings, load_data
from veridical_lab.detectors.baselines import Coin
from veridical_lab.metrics.registry import METRICS
from veridical_lab.report.result_tables import result_tables
from veridical_lab.report.table_formats import latex, markdown

WORDS = ["red", "green", "blue", "black", "white", "grey", "pink", "brown"]


def example(i: int) -> Example:
    """A response of eight words, of which those that are not in its source are marked; every third is clean."""
    wrong = [] if i % 3 == 0 else [i % 8, (i * 5 + 1) % 8]
    response = " ".join(f"{w}x" if k in wrong else w for k, w in enumerate(WORDS))
    spans, at = [], 0
    for word in response.split():
        start = response.index(word, at)
        at = start + len(word)
        if word.endswith("x"):
            spans.append(Span(start, at))
    case = Case(str(i), response, (Source("1", " ".join(WORDS)),))
    gold = Judgement(str(i), "human:a", float(bool(spans)), verdicts=tuple(Verdict(s, 1.0) for s in spans))
    return Example(case, gold, document=str(i // 2), group=(("kind", "even" if i % 2 == 0 else "odd"),))


@pytest.fixture
def data(tmp_path: Path) -> str:
    return saved(tmp_path / "data.jsonl", map(example, range(300)))


def same(rows: list[ResultRow]) -> list[ResultRow]:
    """Rows without what differs between two honest runs."""
    return [replace(row, seconds=0, peak_mb=0, date="", command="") for row in rows]


def test_a_row_holds_what_it_takes_to_believe_it(data: str) -> None:
    (rows,) = run_bench(BenchSettings(["overlap"], [data], resamples=50))
    (row,) = rows
    assert (row.n, row.documents, row.not_judged, row.skipped) == (300, 150, 0, 0)
    assert row.metrics["roc_auc"].value == 1.0
    assert row.metrics["token_f1"].value == 1.0
    assert len(row.data_hash) == 64
    assert row.thresholds["span"] == 0.5
    assert row.threshold_from == "default"
    assert row.versions["veridical"]
    assert row.curves["roc"][-1] == [1.0, 1.0]


def test_groups(data: str) -> None:
    (rows,) = run_bench(BenchSettings(["overlap"], [data], ["token_f1"], group_by=["kind"], resamples=20))
    assert [(row.group, row.n) for row in rows] == [(None, 300), ("kind=even", 150), ("kind=odd", 150)]
    with pytest.raises(UnknownNameError, match="unknown group 'kond'"):
        list(run_bench(BenchSettings(["overlap"], [data], group_by=["kond"])))


def test_a_level_that_a_detector_has_no_say_in_has_no_figure(data: str) -> None:
    (rows,) = run_bench(BenchSettings(["length"], [data], resamples=20))
    assert "roc_auc" in rows[0].metrics
    assert "token_f1" not in rows[0].metrics
    with pytest.raises(InputError, match="none of the metrics token_f1 fits length"):
        list(run_bench(BenchSettings(["length"], [data], ["token_f1"])))


def test_fitting_uses_other_documents_than_measuring(data: str) -> None:
    settings = BenchSettings(["overlap", "majority"], [data], ["balanced_accuracy", "accuracy"], fit="f1", resamples=20)
    loaded = load_data(data, settings)
    assert not {e.document for e in loaded.examples} & {e.document for e in loaded.fitting}
    overlap, majority = (rows[0] for rows in run_bench(settings))
    assert overlap.split == "test part"
    assert overlap.n == len(loaded.examples)
    # plain 0.5 finds none of them: two wrong words of eight score 0.25
    assert overlap.metrics["balanced_accuracy"].value == 1.0
    assert 0.0 < overlap.thresholds["response"] <= 0.25
    assert majority.metrics["accuracy"].value == pytest.approx(2 / 3, abs=0.1)


def test_a_threshold_that_could_not_be_fitted_is_said_below_the_table(tmp_path: Path) -> None:
    clean = saved(tmp_path / "clean.jsonl", map(example, range(0, 300, 3)))  # none is hallucinated
    (rows,) = run_bench(BenchSettings(["length"], [clean], fit="f1", resamples=20))
    (table,) = result_tables(rows, ["false_alarms"])
    assert "; length: threshold of response: not fitted (fitting needs both classes; all " in table.foot
    rows[0].metrics["omission_f1"] = rows[0].metrics["false_alarms"]
    (table,) = result_tables(rows, ["omission_f1"])
    assert "not fitted" not in table.foot


def test_each_kind_of_metric_has_its_own_fitted_threshold(data: str) -> None:
    settings = BenchSettings(
        ["coin", "overlap"], [data], ["f1", "token_f1", "f1_sp", "char_f1"], fit="f1", resamples=20
    )
    coin, overlap = (rows[0] for rows in run_bench(settings))
    assert {"response", "token", "character", "span"} <= coin.thresholds.keys()
    assert coin.threshold_from.startswith("f1 on")
    # flagging everything is the best coin for tokens; for spans, precision counts by predicted span
    assert coin.thresholds["token"] < 0.55
    assert overlap.metrics["f1_sp"].value == 1.0
    loaded = load_data(data, settings)
    judged = list(zip(loaded.fitting, Coin().judge([e.case for e in loaded.fitting]), strict=True))
    for level, name in (("token", "token_f1"), ("character", "char_f1"), ("span", "f1_sp")):
        metric = METRICS[name]

        def value(threshold: float, metric: Metric = metric) -> float:
            return metric.value(np.concatenate([metric.rows(e, j, threshold) for e, j in judged]))

        best = value(coin.thresholds[level])
        assert all(best >= value(other) - 1e-9 for other in np.linspace(0.5, 0.99, 25)), level


def test_a_set_of_your_own_is_called_by_its_file(data: str) -> None:
    assert load_data(data, BenchSettings([], [data])).name == "jsonl:data.jsonl"
    alone = data.removeprefix("jsonl:")
    assert load_data(alone, BenchSettings([], [alone])).name == "rows:data.jsonl"


def test_a_threshold_of_zero_is_zero(data: str) -> None:
    (rows,) = run_bench(BenchSettings(["overlap"], [data], ["recall"], threshold=0.0, resamples=20))
    assert rows[0].thresholds["response"] == 0.0
    assert rows[0].threshold_from == "command"
    assert rows[0].metrics["recall"].value == 1.0


def test_bench_imports_where_there_is_no_module_resource(data: str) -> None:
    code = (
        "import sys; sys.modules['resource'] = None; from veridical_lab.bench.run import run_bench;"
        "from veridical_lab.bench.settings import BenchSettings;"
        f"((row,),) = run_bench(BenchSettings(['length'], [{data!r}], ['f1'], resamples=20));"
        "assert row.peak_mb is None"
    )
    done = python("-c", code, text=True)
    assert done.returncode == 0, done.stderr


def test_another_model_under_the_same_name_is_another_run(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = BenchSettings(["coin"], [data], ["f1"], resamples=20)
    ids = []
    for contents in ("a", "b", "a"):
        monkeypatch.setattr(Coin, "fingerprint", lambda self, contents=contents: {"weights": contents}, raising=False)
        ids += [rows[0].run_id for rows in run_bench(settings)]
    assert ids[0] == ids[2] != ids[1]


def test_a_sample_is_of_documents_and_grows(data: str) -> None:
    few, more, other = (
        {e.document for e in load_data(data, BenchSettings([], [data], sample=n, seed=seed)).examples}
        for n, seed in ((10, 0), (30, 0), (10, 1))
    )
    assert len(few) == 10
    assert few < more
    assert few != other
    (rows,) = run_bench(BenchSettings(["overlap"], [data], ["token_f1"], sample=10, resamples=20))
    assert (rows[0].split, rows[0].documents, rows[0].n) == ("10 documents", 10, 20)


def test_a_sample_falls_into_all_parts(data: str) -> None:
    loaded = load_data(data, BenchSettings(["overlap"], [data], sample=30, fit="f1"))
    assert loaded.fitting
    assert 1 <= len({example.document for example in loaded.examples}) <= 15


def test_rules() -> None:
    for name in ("f1", "balanced_accuracy", "means", "precision@0.9"):
        assert callable(threshold_fitter(name))
    for name in ("f2", "precision", "precision@x", "precision@2"):
        with pytest.raises(UnknownNameError):
            threshold_fitter(name)


def test_too_few_documents_to_fit(tmp_path: Path) -> None:
    few = saved(tmp_path / "few.jsonl", [example(1)])
    with pytest.raises(DataError, match="too few documents"):
        list(run_bench(BenchSettings(["overlap"], [few], fit="f1")))


def test_one_class_is_said_and_not_half(tmp_path: Path) -> None:
    clean = saved(tmp_path / "clean.jsonl", map(example, (0, 3, 6)))
    (rows,) = run_bench(BenchSettings(["overlap"], [clean], resamples=20))
    figure = rows[0].metrics["roc_auc"]
    assert figure.value is None
    assert figure.note
    assert cell(figure) == "–"


def test_a_value_without_an_interval_is_kept(tmp_path: Path) -> None:
    two = saved(tmp_path / "two.jsonl", map(example, (0, 4)))  # one clean, one not: most samples lack one
    (rows,) = run_bench(BenchSettings(["overlap"], [two], ["roc_auc"], resamples=50))
    figure = rows[0].metrics["roc_auc"]
    assert (figure.value, figure.low, figure.high) == (1.0, None, None)
    assert figure.note.startswith("no interval")
    assert cell(figure) == "1.000"


def test_unlabelled_cases_are_not_counted(tmp_path: Path) -> None:
    bare = Example(Case("x", "red"), Judgement("x", "human:a", judged=(), notes=("no label",)))
    data = saved(tmp_path / "d.jsonl", [*map(example, range(9)), bare])
    (rows,) = run_bench(BenchSettings(["coin"], [data], ["accuracy"], resamples=20))
    assert result_tables(rows)[0].lines[0][1] == "9 of 10"


def test_cases_without_a_score_are_counted_as_not_judged(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Coin.judge
    monkeypatch.setattr(
        Coin,
        "judge",
        lambda self, cases: [Judgement(j.case_id, j.by) if int(j.case_id) % 3 == 0 else j for j in judge(self, cases)],
    )
    settings = BenchSettings(["coin"], [data], ["accuracy"], resamples=20)
    (rows,) = run_bench(settings)
    assert rows[0].not_judged == 100
    all_cases = rows[0].metrics["accuracy"]
    partly = replace(rows[0], metrics={"accuracy": all_cases, "f1": replace(all_cases, n=80)})
    (table,) = result_tables([partly])
    assert table.head == ["detector", "n", "not judged", "accuracy", "f1 (n=80)"]
    assert table.lines[0][1:3] == ["200 of 300", "100"]
    (table,) = result_tables([partly, replace(partly, detector="other", metrics={"f1": replace(all_cases, n=60)})])
    assert table.head[-1] == "f1"
    assert [line[-1].partition(" (")[2] for line in table.lines] == ["n=80)", ""]


def test_rows_read_back_as_they_were(data: str, tmp_path: Path) -> None:
    (rows,) = run_bench(BenchSettings(["overlap"], [data], group_by=["kind"], resamples=20))
    saved(tmp_path / "rows.jsonl", rows)
    assert read_result_rows([tmp_path / "rows.jsonl"]) == rows


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[]", "found a JSON array"),
        ('{"veridical": "row/2"}', "row/2"),
        ('{"veridical": "row/1"}', "run_id"),
    ],
)
def test_what_is_no_row_is_refused(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(DataError, match=says) as error:
        read_result_rows([path])
    assert error.value.line == 2


def test_tables(data: str) -> None:
    settings = BenchSettings(["overlap", "coin", "length"], [data], ["roc_auc", "token_f1"], resamples=20)
    made = [rows[0] for rows in run_bench(settings)]
    (table,) = result_tables(made, ["token_f1", "roc_auc"])
    assert table.head == ["detector", "n", "not judged", "token_f1", "roc_auc"]
    assert table.lines[0] == ["overlap", "300", "0", "1.000 [1.000, 1.000]", "1.000 [1.000, 1.000]"]
    assert table.lines[2][3] == "–"
    assert narrow(table).lines[0] == ["overlap", "token_f1", "1.000 [1.000, 1.000]"]
    assert "| overlap | 300 | 0 | 1.000 [1.000, 1.000] |" in markdown([table])
    assert r"token\_f1" in latex([table])
    assert r"\resizebox" in latex([table])


def test_comparisons(data: str) -> None:
    (found,) = compare_detectors(
        BenchSettings(["overlap", "coin", "length"], [data], ["accuracy", "token_f1", "roc_auc"], fit="f1")
    )
    by_metric = {c.metric: [x for x in found if x.metric == c.metric] for c in found}
    assert [(c.a, c.b) for c in by_metric["token_f1"]] == [("overlap", "coin")]
    assert len(by_metric["roc_auc"]) == 3
    first = by_metric["accuracy"][0]
    assert first.p < 0.001
    assert first.p_bonferroni == pytest.approx(3 * first.p)
    with pytest.raises(InputError, match="two or more"):
        list(compare_detectors(BenchSettings(["overlap"], [data])))


def test_comparisons_read_back_as_they_were(data: str, tmp_path: Path) -> None:
    (found,) = compare_detectors(BenchSettings(["overlap", "coin"], [data]))
    path = tmp_path / "c.jsonl"
    saved(path, found)
    assert read_comparisons(path) == found
    path.write_text('{"veridical": "row/1"}\n')
    with pytest.raises(DataError, match=r"c\.jsonl:1: .*row/1.*, not comparison/1"):
        read_comparisons(path)


FRAGILE = '''
import os, signal, pathlib
from veridical_lab.detectors.baselines import Coin

class Fragile(Coin):
    """Baseline that dies once, on its third batch."""
    @classmethod
    def from_spec(cls, spec, context):
        return cls("fragile")
    def judge(self, cases):
        log = pathlib.Path("judged.log")
        seen = log.read_text().split() if log.exists() else []
        if len(seen) == 2 and not pathlib.Path("died").exists():
            pathlib.Path("died").touch()
            os.kill(os.getpid(), getattr(signal, os.environ["BY"]))
        with log.open("a") as file:
            file.write(f"{cases[0].id}\\n")
        return super().judge(cases)
'''
START = """
import signal, sys
from veridical.detectors import DETECTORS
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job inherits as ignored
DETECTORS.table["fragile"] = "fragile:Fragile"
from veridical.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("by", "code"), [("SIGKILL", -signal.SIGKILL), ("SIGINT", 130)])
def test_a_stopped_run_goes_on_and_ends_with_the_same_rows(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, code: int
) -> None:
    (tmp_path / "fragile.py").write_text(FRAGILE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("BY", by)

    def bench(out: str) -> int:
        command = ("bench", "overlap", "fragile", "length", "--data", data, "--out", out, "--resamples", "20")
        return python("-c", START, *command, cwd=tmp_path).returncode

    assert bench("rows.jsonl") == code
    assert [row.detector for row in read_result_rows([tmp_path / "rows.jsonl"])] == ["overlap"], "what was done is kept"
    with next((tmp_path / "rows.jsonl.work").glob("*.jsonl")).open("a") as journal:
        journal.write('{"seconds": 1, "judgem')  # a line torn by the crash
    assert bench("rows.jsonl") == 0
    assert (tmp_path / "judged.log").read_text().split() == ["0", "64", "128", "192", "256"], "nothing judged twice"
    assert not (tmp_path / "rows.jsonl.work").exists()
    assert bench("undisturbed.jsonl") == 0
    assert same(read_result_rows([tmp_path / "rows.jsonl"])) == same(read_result_rows([tmp_path / "undisturbed.jsonl"]))
    (tmp_path / "judged.log").unlink()
    assert bench("rows.jsonl") == 0
    assert not (tmp_path / "judged.log").exists(), "a third run has nothing to do"


def test_replace_puts_new_rows_in_the_place_of_old_ones(data: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    bench = ["bench", "overlap", "length", "--data", data, "--out", str(out), "--resamples"]
    assert main([*bench, "20"]) == 0
    assert main([*bench, "30"]) == 0
    assert [(row.detector, row.resamples) for row in read_result_rows([out])] == [
        ("overlap", 20), ("length", 20), ("overlap", 30), ("length", 30)
    ]  # fmt: skip
    assert main([*bench, "40", "--replace", "--group-by", "kind"]) == 0
    replaced = [(row.detector, row.group is None, row.resamples) for row in read_result_rows([out])]
    assert replaced == sorted(replaced, key=lambda row: row[0] == "length"), "overlap stays before length"
    assert {resamples for _, _, resamples in replaced} == {40}
    assert any(not whole for _, whole, _ in replaced), "rows of groups stay with the whole"


def test_the_command_and_its_tables(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.jsonl"
    arguments = ["bench", "overlap", "length", "--data", data, "--group-by", "kind", "--resamples", "20"]
    arguments += ["--out", str(out)]
    assert main(arguments) == 0
    assert "1.000 [1.000, 1.000]" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    printed = [decode(line, "row") for line in capsys.readouterr().out.splitlines()]
    assert printed == read_result_rows([out])
    page = tmp_path / "page.html"
    assert main(["bench", "table", str(out), "--format", "html", "--out", str(page)]) == 0
    html = page.read_text("utf-8")
    assert html.count("data:image/svg+xml") >= 3
    assert "<script" not in html
    assert main(["bench", "table", str(out), "-f", "markdown", "--metrics", "token_f1"]) == 0
    assert "| overlap | all | 300 | 0 | 1.000" in capsys.readouterr().out
    plot = tmp_path / "plot.svg"
    assert main(["bench", "table", str(out), "-f", "svg", "--metrics", "token_f1", "--out", str(plot)]) == 0
    assert plot.read_text("utf-8").startswith("<svg")
    assert main(["bench", "table", str(out), "-f", "svg", "--metrics", "f1,roc_auc"]) == 2
    assert "one metric" in capsys.readouterr().err
    for form in ("terminal", "csv", "html", "svg", "markdown"):
        assert main(["bench", "table", str(out), "-f", form, "--metrics", "roc_acu"]) == 2
        assert "unknown metric 'roc_acu' (did you mean roc_auc" in capsys.readouterr().err


def test_comparisons_are_appended_each_once(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "c.jsonl"
    compare = ["bench", "compare", "overlap", "--data", data, "--metrics", "roc_auc", "--out", str(out)]
    for other, in_file in (("coin", ["coin"]), ("length", ["coin", "length"]), ("coin", ["length", "coin"])):
        assert main([*compare, other]) == 0
        documents = [json.loads(line) for line in out.read_text().splitlines()]
        assert sorted(document["b"] for document in documents) == sorted(in_file)
    assert documents[0]["veridical"] == "comparison/1"
    capsys.readouterr()
    out.write_text('{"veridical": "row/1"}\n')
    assert main([*compare, "coin"]) == 2
    assert "c.jsonl:1" in capsys.readouterr().err
    assert out.read_text() == '{"veridical": "row/1"}\n'


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["overlap", "--data", "nope:x"], "unknown data set 'nope'"),
        (["overlap", "--data", "jsonl"], "names no path"),
        (["overlap", "--data", "jsonl:none.jsonl"], "none.jsonl: no such file"),
        (["overlpa", "--data", "jsonl:x"], "did you mean overlap"),
        (["overlap", "overlap", "--data", "jsonl:x"], "named twice"),
        (["overlap", "--data", "DATA", "--metrics", "f2"], "unknown metric 'f2'"),
        (["overlap", "--data", "DATA", "--fit", "f2"], "unknown criterion"),
        (["overlap", "--data", "DATA", "--out", "none/rows.jsonl"], "cannot"),
        (["overlap", "--data", "DATA", "--replace"], "--out FILE"),
        (["table", "none.jsonl"], "no such file"),
        (["overlap"], "--data"),
    ],
)
def test_bad_input_is_one_line(
    data: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *(data if a == "DATA" else a for a in arguments)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
