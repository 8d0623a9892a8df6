"""The true rate: which rows are drawn, how labels are read, and what is estimated from them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical import check
from veridical.io.serialization import decode, encode
from veridical.records.decide import decide
from veridical.records.errors import CannotJudgeError, DataError, InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Checked, Example, Judgement, Outcome
from veridical.workflows.rate.estimate import estimate
from veridical.workflows.rate.labels import read_labels
from veridical.workflows.rate.rows import Run, RunRow, read_run
from veridical.workflows.rate.sheet import write_sheet
from veridical.workflows.rate.strata import allocate, draw, strata

CLEAR, FLAGGED, UNJUDGED = Outcome.CLEAR, Outcome.FLAGGED, Outcome.UNJUDGED


def run_of(*outcomes: Outcome, columns: list[dict[str, str]] | None = None) -> Run:
    groups = columns or [{}] * len(outcomes)
    return Run("run", tuple(RunRow(i, f"r{i}", o, None, groups[i - 1]) for i, o in enumerate(outcomes, 1)))


def scored(n: int, rng: Random, false_alarms: float = 0.2, misses: float = 0.1) -> tuple[Run, dict[int, bool]]:
    """A run of `n` answers, a fifth of them wrong, with a detector that errs."""
    rows, truth = [], {}
    for i in range(1, n + 1):
        wrong = rng.random() < 0.2
        flagged = rng.random() < (1 - misses if wrong else false_alarms)
        score = min(1.0, max(0.0, rng.gauss(0.7 if flagged else 0.3, 0.1)))
        rows.append(RunRow(i, f"r{i}", FLAGGED if flagged else CLEAR, score, {"model": "ab"[i % 2]}))
        truth[i] = wrong
    return Run("run", tuple(rows)), truth


def sample(run: Run, truth: dict[int, bool], count: int, seed: int = 0) -> dict[int, bool]:
    chosen = draw(run.rows, count, np.zeros(len(run.rows), dtype=np.int64), seed)
    return {run.rows[i].row: truth[run.rows[i].row] for i in chosen}


# ------------------------------------------------------------------------------------------------ estimates


def test_false_alarms_and_misses_are_corrected() -> None:
    """60 rows flagged, half of them rightly, and 40 clear, a quarter of them wrong: 40 % are wrong, not 60 %."""
    run = run_of(*[FLAGGED] * 60, *[CLEAR] * 40)
    labels = {1: True, 2: False, 3: True, 4: False, 61: True, 62: False, 63: False, 64: False}
    report = estimate(run, labels)
    assert (report.rows, report.flagged, report.labels) == (100, 60, 8)
    assert report.wrong.value == pytest.approx(0.6 * 0.5 + 0.4 * 0.25)
    assert report.flagged_wrong is not None
    assert report.clear_wrong is not None
    assert (report.flagged_wrong.value, report.clear_wrong.value) == (0.5, 0.25)
    assert report.wrong.low is not None
    assert report.wrong.high is not None
    assert report.wrong.low < 0.25 < 0.55 < report.wrong.high  # eight labels say little


def test_a_run_that_is_labelled_completely_has_no_uncertainty() -> None:
    run = run_of(FLAGGED, CLEAR, UNJUDGED, CLEAR)
    report = estimate(run, {1: True, 2: False, 3: True, 4: False})
    assert (report.wrong.low, report.wrong.value, report.wrong.high) == (0.5, 0.5, 0.5)
    assert report.unjudged == 1


def test_nothing_is_said_without_labels_of_an_outcome() -> None:
    run = run_of(*[FLAGGED] * 5, *[CLEAR] * 5)
    with pytest.raises(CannotJudgeError, match="only 1 of the 5 clear answers has a label"):
        estimate(run, {1: True, 2: False, 6: False})
    with pytest.raises(CannotJudgeError, match=r"^none of the 5 clear answers has a label"):
        estimate(run, {1: True, 2: False})


def test_intervals_cover_the_truth_and_are_narrower_than_those_of_random_labels() -> None:
    run, truth = scored(1000, Random(1))
    share = sum(truth.values()) / len(truth)
    reports = [estimate(run, sample(run, truth, 100, seed)) for seed in range(200)]
    bounds = [(report.wrong.low or 0, report.wrong.high or 0) for report in reports]
    covered = sum(low <= share <= high for low, high in bounds)
    assert 184 <= covered <= 199
    assert np.mean([high - low for low, high in bounds]) < 0.85 * 2 * 1.96 * (share * (1 - share) / 100 * 0.9) ** 0.5


def test_what_all_labels_agree_on_is_not_certain() -> None:
    report = estimate(run_of(*[CLEAR] * 500), dict.fromkeys(range(1, 500, 25), False))
    assert (report.wrong.value, report.wrong.low) == (0.0, 0.0)
    assert report.wrong.high is not None
    assert 0.08 < report.wrong.high < 0.25  # the rule of three says 0.15 for 20 labels


def test_groups_are_told_from_noise() -> None:
    rng = Random(3)
    columns = [{"week": f"2026-W{44 + i % 4}"} for i in range(800)]
    run = run_of(*(rng.choice([FLAGGED, CLEAR]) for _ in range(800)), columns=columns)
    truth = {row.row: rng.random() < (0.8 if row.columns["week"] == "2026-W47" else 0.1) for row in run.rows}
    report = estimate(run, sample(run, truth, 120), ["week"])
    assert [g.group for g in report.groups] == [f"2026-W{week}" for week in (44, 45, 46, 47)]
    assert report.groups[-1].change == "higher"
    assert [g.rows for g in report.groups] == [200] * 4
    assert all(25 <= g.labels <= 35 for g in report.groups)  # the draw gives each group its share
    worst = report.groups[-1].wrong
    assert worst is not None
    assert (worst.low or 0) < sum(truth[i] for i in range(4, 801, 4)) / 200 < (worst.high or 0)


def test_groups_without_a_difference_are_noise() -> None:
    run, truth = scored(1000, Random(5))
    reports = [estimate(run, sample(run, truth, 100, seed), ["model"]) for seed in range(60)]
    assert sum(report.groups[0].change is not None for report in reports) <= 6


def test_a_group_without_labels_is_unknown() -> None:
    run = run_of(*[CLEAR] * 4, columns=[{"model": "a"}, {"model": "a"}, {"model": "b"}, {}])
    a, b = estimate(run, {1: False, 2: True}, ["model"]).groups
    assert (b.rows, b.labels, b.wrong, b.p) == (1, 0, None, None)
    assert (a.labels, a.p) == (2, None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(Outcome), st.none() | st.floats(0, 1), st.booleans(), st.booleans()), min_size=1)
)
def test_estimates_are_shares(rows: list[tuple[Outcome, float | None, bool, bool]]) -> None:
    run = Run("r", tuple(RunRow(i, str(i), o, s, {"g": str(w)}) for i, (o, s, w, _) in enumerate(rows, 1)))
    labels = {i: wrong for i, (_, _, wrong, labelled) in enumerate(rows, 1) if labelled}
    try:
        report = estimate(run, labels, ["g"])
    except CannotJudgeError:
        return
    for measured in (report.wrong, report.flagged_wrong, report.clear_wrong, *(g.wrong for g in report.groups)):
        if measured is not None:
            assert measured.value is not None
            assert 0 <= (measured.low or 0) <= measured.value <= (measured.high or 0) <= 1
    assert decode(encode(report), "rate") == report


# ------------------------------------------------------------------------------------------------ the draw


def test_the_draw_spreads_labels_over_outcomes_and_can_be_repeated() -> None:
    run = run_of(*[FLAGGED] * 100, *[CLEAR] * 890, *[UNJUDGED] * 10)
    none = np.zeros(1000, dtype=np.int64)
    chosen = draw(run.rows, 100, none, seed=4)
    counts = Counter(run.rows[i].outcome for i in chosen)
    assert counts.total() == len(set(chosen)) == 100
    assert counts[UNJUDGED] == 4
    assert 10 <= counts[FLAGGED] <= 20
    assert chosen == draw(run.rows, 100, none, seed=4)
    assert chosen != draw(run.rows, 100, none, seed=5)
    assert chosen != sorted(chosen)  # an order by outcome would give the decision away


def test_every_row_of_an_outcome_has_the_same_chance() -> None:
    run = run_of(*[FLAGGED] * 10, *[CLEAR] * 30)
    none = np.zeros(40, dtype=np.int64)
    times = np.bincount([i for seed in range(600) for i in draw(run.rows, 12, none, seed)], minlength=40)
    assert times[:10].std() < 4 * times[:10].mean() ** 0.5 / 2
    assert times.min() > 0


def test_further_labels_complete_those_that_are_there() -> None:
    run, truth = scored(400, Random(2))
    first = sample(run, truth, 60)
    labelled = np.array([row.row in first for row in run.rows], dtype=np.int64)
    more = draw(run.rows, 100, labelled)
    assert len(more) == pytest.approx(40, abs=6)
    assert not {run.rows[i].row for i in more} & first.keys()
    with pytest.raises(InputError, match="60 rows have a label, and 40 were asked for"):
        draw(run.rows, 40, labelled)


def test_a_run_smaller_than_the_count_is_drawn_whole() -> None:
    run = run_of(FLAGGED, CLEAR, CLEAR)
    assert sorted(draw(run.rows, 100, np.zeros(3, dtype=np.int64))) == [0, 1, 2]
    assert allocate([2, 1], [0.5, 0.5], 100) == [2, 1]


def test_strata_follow_outcome_and_score() -> None:
    rows = [RunRow(i, str(i), CLEAR if i < 40 else FLAGGED, (i * 7 % 40) / 40) for i in range(80)]
    stratum = strata(rows, np.ones(80, dtype=np.int64))
    assert sorted(np.bincount(stratum)) == [10] * 8
    for one in range(8):
        members = [row for row, number in zip(rows, stratum, strict=True) if number == one]
        assert len({row.outcome for row in members}) == 1
        scores = [row.score or 0 for row in members]
        assert max(scores) - min(scores) < 0.26
    few = np.zeros(80, dtype=np.int64)
    few[[0, 1, 50, 51]] = 1
    assert sorted(np.bincount(strata(rows, few))) == [40, 40]


# ------------------------------------------------------------------------------------------------ rows


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return path


def test_rows_of_other_tools(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "score": 0.9, "when": "2026-11-27T23:00:00+01:00", "model": "x"},
        {"id": "b", "flagged": False, "score": 0.7, "when": 0},
        {"flagged": None, "model": "y"},
    ]
    run = read_run(lines(tmp_path / "run.jsonl", *rows), ["when:week", "model"])
    assert [(r.row, r.id, r.outcome, r.score) for r in run.rows] == [
        (1, "a", FLAGGED, 0.9),
        (2, "b", CLEAR, 0.7),
        (3, "3", UNJUDGED, None),
    ]
    assert [dict(r.columns) for r in run.rows] == [
        {"when:week": "2026-W48", "model": "x"},
        {"when:week": "1970-W01"},
        {"model": "y"},
    ]


def test_results_and_judgements_as_rows(tmp_path: Path) -> None:
    result = check("It is red.", ["It is blue."], detector="overlap")
    judged = [encode(result), encode(Judgement("j", "x", 0.8)), encode(Judgement("k", "x", judged=()))]
    judged.append(encode(Judgement("l", "x", 0.1, judged=(Span(0, 4),))))  # the rest of it may be wrong
    run = read_run(lines(tmp_path / "run.jsonl", *judged))
    assert [r.outcome for r in run.rows] == [FLAGGED, FLAGGED, UNJUDGED, UNJUDGED]
    assert run.answers(run.rows[:1])[1]["sources"] == "It is blue."
    assert run.answers(run.rows[1:]) == {2: {}, 3: {}, 4: {}}


def test_texts_of_other_tools(tmp_path: Path) -> None:
    row = {"score": 0.9, "user_input": "What colour?", "response": "Red.", "retrieved_contexts": ["Blue.", "Sky."]}
    run = read_run(lines(tmp_path / "run.jsonl", row, {"score": 0.1}))
    assert run.answers(run.rows) == {
        1: {"question": "What colour?", "response": "Red.", "sources": "Blue.\n\nSky."},
        2: {},
    }


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "a"}, "neither score nor flagged"),
        ({"score": 1.5}, "score is 1.5"),
        ({"score": True}, "score is True"),
        ({"flagged": "yes"}, "flagged is 'yes'"),
        ([1], "not a JSON object"),
        ({"veridical": "case/1", "id": "1", "response": "x"}, "is no result of a check"),
        ({"score": 0.1, "when": "soon"}, "'soon' is no time"),
        ({"score": 0.1, "when": []}, "'when' holds a list"),
        ({"score": 0.1}, "no row has a value for 'when:day'"),
    ],
)
def test_rows_that_are_none(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_run(lines(tmp_path / "run.jsonl", row), ["when:day"])


def test_an_empty_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no judged rows"):
        read_run(lines(tmp_path / "run.jsonl"))
    with pytest.raises(DataError, match="a folder without results"):
        read_run(tmp_path)


# ------------------------------------------------------------------------------------------------ labels

RUN = Run("run", tuple(RunRow(i, id, CLEAR) for i, id in enumerate(["a", "b", "c", "c"], 1)))


def labels_in(path: Path, text: str) -> tuple[dict[int, bool], dict[str, int]]:
    path.write_text(text, encoding="utf-8")
    labels = read_labels([path], RUN)
    return dict(labels.wrong), dict(labels.skipped)


@pytest.mark.parametrize(
    "text",
    [
        "row,id,wrong\r\n1,a,Yes\r\n2,b,no\r\n3,c,\r\n",
        "\ufeffid;wrong;note\na;TRUE;x\nb;0;\n\n",
        "row\twrong\n1\t1\n2\twrong\n",
    ],
)
def test_labels_in_tables(tmp_path: Path, text: str) -> None:
    wrong, _ = labels_in(tmp_path / "labels.csv", text)
    assert wrong == {1: True, 2: text.startswith("row\t")}


def test_labels_in_json_lines_and_records(tmp_path: Path) -> None:
    case = Case("b", "It is red.")
    result = check("It is red.", ["It is blue."], detector="overlap")
    by_person = Judgement(result.case.id, "human:ann", 0.0)
    decisions = (*result.decisions, decide(result.case, by_person))
    seen = Checked(result.case, (*result.judgements, by_person), decisions, result.outcome)
    rows = ['{"row": 4, "wrong": true}', encode(Example(case, Judgement("b", "human:x", 1.0)))]
    assert labels_in(tmp_path / "l.jsonl", "\n".join(rows)) == ({2: True, 4: True}, {})
    run = Run("run", (RunRow(1, result.case.id, FLAGGED),))
    assert read_labels([lines(tmp_path / "page.json", encode(seen))], run).wrong == {1: False}
    with pytest.raises(InputError, match="holds no judgement by a person"):
        read_labels([lines(tmp_path / "page.json", encode(result))], run)


def test_exports_of_label_studio(tmp_path: Path) -> None:
    def task(row: int, *choices: str | None) -> dict[str, Any]:
        annotations = [
            {"result": [{"from_name": "wrong", "type": "choices", "value": {"choices": [choice]}}]}
            if choice
            else {"was_cancelled": True, "result": []}
            for choice in choices
        ]
        return {"id": 1, "data": {"row": row, "id": "abcc"[row - 1]}, "annotations": annotations}

    full = [task(1, "yes", "yes", "no"), task(2, "no"), task(3, None), task(4, "yes", "no", "cannot say")]
    wrong, skipped = labels_in(tmp_path / "export.json", json.dumps(full))
    assert wrong == {1: True, 2: False}
    assert skipped == {"no label": 2, "people disagree": 1}
    flat = [{"row": 1, "id": "a", "response": "…", "wrong": "no", "annotator": 3}]
    assert labels_in(tmp_path / "min.json", json.dumps(flat)) == ({1: False}, {})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("l.csv", "row,wrong\n1,maybe\n", "wrong is 'maybe'"),
        ("l.csv", "row,label\n1,yes\n", "no 'wrong'"),
        ("l.csv", "wrong\nyes\n", "no row or id"),
        ("l.csv", "row,wrong\none,yes\n", "the row is 'one'"),
        ("l.csv", "id,wrong\nc,yes\n", "2 rows have the id 'c'"),
        ("l.csv", "row,id,wrong\n1,b,yes\n", "row 1 has the id 'a', not 'b'"),
        ("l.txt", "", "is of no file of labels"),
        ("l.json", "{", "not JSON"),
        ("l.json", "[" * 100_000, "not JSON|nested too deeply"),
        ("l.json", '[{"data": {"row": 1}, "annotations": [{"result": [{"from_name": "wrong"}]}]}]', "no annotation"),
    ],
)
def test_labels_that_are_none(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        labels_in(tmp_path / name, text)


def test_labels_of_rows_that_are_not_there_are_counted(tmp_path: Path) -> None:
    assert labels_in(tmp_path / "l.csv", "id,wrong\nzz,yes\n") == ({}, {"no such row in the run": 1})


@pytest.mark.parametrize("name", ["s.csv", "s.tsv", "s.jsonl"])
def test_a_sheet_comes_back(tmp_path: Path, name: str) -> None:
    rows = [
        {"id": f"é{i}", "score": 0.2, "response": 'He said "no", twice.\nThen\tleft.', "sources": ["A", "B"]}
        for i in range(3)
    ]
    run = read_run(lines(tmp_path / "run.jsonl", *rows))
    write_sheet(tmp_path / name, run, [run.rows[2], run.rows[0]])
    text = (tmp_path / name).read_text(encoding="utf-8-sig")
    assert "score" not in text
    assert "0.2" not in text
    if name == "s.jsonl":
        filled = [{**json.loads(line), "wrong": True} for line in text.splitlines()]
        lines(tmp_path / name, *filled)
    else:
        delimiter = "\t" if name == "s.tsv" else ","
        with (tmp_path / name).open(encoding="utf-8-sig", newline="") as file:
            table = list(csv.DictReader(file, delimiter=delimiter))
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, table[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows({**row, "wrong": "yes"} for row in table)
        filled = table
    assert [(row["response"], row["sources"]) for row in filled] == [(rows[0]["response"], "A\n\nB")] * 2
    assert dict(read_labels([tmp_path / name], run).wrong) == {3: True, 1: True}


@pytest.mark.parametrize("name", ["s.csv", "s.tsv"])
def test_no_cell_of_a_sheet_is_a_formula_and_its_id_comes_back(tmp_path: Path, name: str) -> None:
    formulas = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", " =1", "\r@a", "＝1", "'=1", '=HYPERLINK("http://a/")']
    rows = [
        {"id": text, "score": 0.2, "response": text, "sources": [text], "question": text} for text in (*formulas, "'a")
    ]
    run = read_run(lines(tmp_path / "run.jsonl", *rows))
    write_sheet(tmp_path / name, run, run.rows)
    delimiter = "\t" if name == "s.tsv" else ","
    with (tmp_path / name).open(encoding="utf-8-sig", newline="") as file:
        *table, last = csv.DictReader(file, delimiter=delimiter)
    assert [row["response"] for row in table] == [f"'{text}" for text in formulas]
    assert all(cell[0] == "'" for row in table for cell in (row["id"], row["question"], row["sources"]))
    assert last["response"] == "'a"
    with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, last, delimiter=delimiter)
        writer.writeheader()
        writer.writerows({**row, "wrong": "yes"} for row in (*table, last))
    assert len(read_labels([tmp_path / name], run).wrong) == len(rows)


CHANGED_IDS = [("049", "49"), ("1.50", "1.5"), ("1.5", "1,5"), ("1e3", "1000"), ("-x", "'-x")]


@pytest.mark.parametrize(("id", "shown"), [*CHANGED_IDS, ("123456789012345678", "1.23457E+17")])
def test_ids_that_a_spreadsheet_changed_are_known(tmp_path: Path, id: str, shown: str) -> None:
    run = read_run(lines(tmp_path / "run.jsonl", {"id": id, "score": 0.2}, {"id": "50", "score": 0.2}))
    (tmp_path / "s.csv").write_text(f'row,id,wrong\n1,"{shown}",yes\n')
    assert read_labels([tmp_path / "s.csv"], run).wrong == {1: True}
    (tmp_path / "s.csv").write_text(f'row,id,wrong\n2,"{shown}",yes\n')
    with pytest.raises(InputError, match="labels of another run"):
        read_labels([tmp_path / "s.csv"], run)


def test_long_sources_come_back(tmp_path: Path) -> None:
    run = read_run(lines(tmp_path / "run.jsonl", {"id": "a", "score": 0.2, "response": "x", "sources": "y" * 200_000}))
    write_sheet(tmp_path / "s.csv", run, run.rows)
    assert read_labels([tmp_path / "s.csv"], run).skipped == {"no label": 1}


def test_tasks_for_label_studio_have_their_config(tmp_path: Path) -> None:
    run = read_run(lines(tmp_path / "run.jsonl", {"id": "a", "score": 0.2, "response": "x"}))
    write_sheet(tmp_path / "tasks.json", run, run.rows)
    (task,) = json.loads((tmp_path / "tasks.json").read_text())
    assert task["data"] == {"row": 1, "id": "a", "question": "", "response": "x", "sources": ""}
    config = (tmp_path / "tasks.xml").read_text()
    assert all(f"${name}" in config for name in ("sources", "question", "response"))
    with pytest.raises(InputError, match="is of no sheet"):
        write_sheet(tmp_path / "sheet.doc", run, run.rows)


@pytest.mark.parametrize(
    ("name", "there"), [("s.csv", "s.csv"), ("s.jsonl", "s.jsonl"), ("s.json", "s.json"), ("s.json", "s.xml")]
)
def test_a_sheet_that_people_filled_in_is_not_overwritten(tmp_path: Path, name: str, there: str) -> None:
    run = read_run(lines(tmp_path / "run.jsonl", {"id": "a", "score": 0.2, "response": "x"}))
    (tmp_path / there).write_text("filled in")
    with pytest.raises(InputError, match=rf"{there} exists \(name another file"):
        write_sheet(tmp_path / name, run, run.rows)
    assert {file.name: file.read_text() for file in tmp_path.glob("s.*")} == {there: "filled in"}
