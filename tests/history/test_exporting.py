"""Decisions for other tools."""

from __future__ import annotations

import csv
import io
from contextlib import closing
from pathlib import Path

from tests.history.databases import RIGHT, SOURCE, WRONG, checked
from tests.history.test_store import RUN
from veridical.history.exporting import decisions_csv, label_studio_tasks
from veridical.history.records import PlaceDecision
from veridical.history.store import History
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement
from veridical_lab.annotate.label_studio import read_tasks

FIX = PlaceDecision(action="replace", start=13, end=16, text="=330", error="value")
LEFT_OUT = PlaceDecision(action="wrong", start=4, end=9, source="guide")


def test_a_table_has_a_row_for_each_decision(tmp_path: Path) -> None:
    with closing(History(tmp_path / "history.db")) as history:
        run = history.keep(RUN, checked(RIGHT, WRONG))
        history.decide(run, 2, [FIX, LEFT_OUT, PlaceDecision(action="rest")], by="alice")
        text = decisions_csv(history.decision_rows(run))
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    assert [(row["number"], row["id"], row["action"], row["words"]) for row in rows] == [
        ("2", "2", "replace", "300"),
        ("2", "2", "wrong", "tower"),
        ("2", "2", "rest", ""),
    ]
    assert (rows[0]["text"], rows[0]["by"], rows[0]["drawn"], rows[0]["probability"]) == (
        "'=330",
        "alice",
        "flagged",
        "1.0",
    )
    assert (rows[1]["source"], rows[1]["drawn"]) == ("guide", "")


def test_label_studio_gives_the_decisions_back(tmp_path: Path) -> None:
    with closing(History(tmp_path / "history.db")) as history:
        run = history.keep(RUN, checked(RIGHT, WRONG))
        history.decide(run, 1, [PlaceDecision(action="keep", start=0, end=3)])
        history.decide(run, 2, [FIX, PlaceDecision(action="rest")])
        tasks = label_studio_tasks(history.examples(run))
    for task in tasks:
        task["annotations"][0]["completed_by"] = 1
    cases = [Case(str(i), response, (SOURCE,)) for i, response in enumerate((RIGHT, WRONG), 1)]
    read = read_tasks(tasks, [Example(case, Judgement(case.id, "human:x")) for case in cases])
    assert (read.annotations, read.skipped) == (2, {})
    found = [[verdict.span for verdict in example.annotations[0].verdicts] for example in read.examples]
    assert found == [[], [Span(13, 16)]]
