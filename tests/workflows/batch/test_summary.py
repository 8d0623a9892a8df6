"""A batch as a whole: shares, groups, the worst rows, and a page on which no cell is markup."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.report.conftest import HOSTILE
from tests.report.test_html import Page
from veridical.io.rows import Columns
from veridical.io.serialization import decode
from veridical.report.batch_page import render_batch, write_batch_page
from veridical.report.pages import render
from veridical.workflows.batch import BatchSettings, run_batch, summary
from veridical.workflows.batch.summary import BatchReport, worst_cases

SOURCE = "The tower is 7 m tall."


def report_of(folder: Path, rows: list[dict[str, object]]) -> BatchReport:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run_batch(BatchSettings([path], folder / "out", ["overlap"], Columns(group="system"), shard_rows=4))


def row(response: str, system: str | None = None, **others: object) -> dict[str, object]:
    return {"response": response, "sources": [SOURCE], **({} if system is None else {"system": system}), **others}


def test_shares_by_group(tmp_path: Path) -> None:
    rows = [row(SOURCE, "a")] * 3 + [row("A red door.", "a"), row("A red door.", "b"), row(SOURCE), row("", "b"), {}]
    rows += [row(SOURCE, "b", sources=[{"text": "It is blue.", "must_cover": True}])]
    report = report_of(tmp_path, rows)
    assert (report.rows, report.failed, report.total.rows) == (9, 1, 8)
    total = report.total.hallucinated
    assert total is not None
    assert (total.value, total.n) == (3 / 7, 7)  # nothing of the empty response was judged
    assert total.low is not None
    assert total.high is not None
    assert 0.15 < total.low < 3 / 7 < total.high < 0.76
    assert [(g.group, g.rows) for g in report.groups] == [("a", 4), ("b", 3)]
    assert report.groups[0].hallucinated is not None
    assert report.groups[0].hallucinated.value == 0.25
    assert report.groups[0].omitted is None
    assert report.groups[1].omitted is not None
    assert (report.groups[1].omitted.value, report.groups[1].omitted.n) == (1.0, 1)
    assert sum(report.scores) == 7
    assert [failure.row for failure in report.failures] == [8]
    assert decode((tmp_path / "out" / "report.json").read_text()) == report


def test_the_worst_rows_are_the_highest_scores_with_their_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "WORST", 3)
    words = ["red", "door", "opens", "wide", "blue"]
    rows = [row("tower " * (9 - i) + " ".join(words[: i % 6])) for i in range(9)]
    report = report_of(tmp_path, rows)
    scores = [worst.scores.hallucination or 0.0 for worst in report.worst]
    everything = [
        json.loads(line).get("hallucination", 0.0)
        for file in sorted((tmp_path / "out").glob("scores-*"))
        for line in file.read_text().splitlines()
    ]
    assert scores == sorted(everything, reverse=True)[:3]
    for worst, checked in zip(report.worst, worst_cases(tmp_path / "out", report.worst), strict=True):
        assert checked.case.id == worst.scores.id
        assert checked.judgements[0].hallucination == worst.scores.hallucination


def test_a_detector_without_spans_has_worst_rows_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row("tall " * n)) + "\n" for n in (3, 900, 2)))
    report = run_batch(BatchSettings([path], tmp_path / "out", ["length"], threshold=0.01))
    assert report.worst[0].scores.row == 2
    assert report.worst[0].scores.flagged == 0


def test_kinds_of_errors_are_counted_by_row(tmp_path: Path) -> None:
    rows = [row("The tower is 9 m tall."), row("The tower is 8 m tall."), row("The tower is 7 feet tall."), row(SOURCE)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    report = run_batch(BatchSettings([path], tmp_path / "out", ["overlap"], explain=True))
    assert report.kinds == {"value": 2, "unit": 1}
    assert decode((tmp_path / "out" / "report.json").read_text()) == report
    cells = [text for text in Page(render_batch(report)).said if text.strip()]
    first = cells.index("value")
    assert cells[first : first + 6] == ["value", "2", "66.7 %", "unit", "1", "33.3 %"]


def test_groups_beyond_the_limit_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MAX_GROUPS", 2)
    report = report_of(tmp_path, [row(SOURCE, name) for name in "abcdab"])
    assert [(group.group, group.rows) for group in report.groups] == [("a", 2), ("b", 2)]
    assert report.other_groups == 2


def test_no_cell_is_markup_on_the_page(tmp_path: Path) -> None:
    rows = [row(HOSTILE, HOSTILE, id=HOSTILE), row("$\\frac{", "$\\frac{"), row(SOURCE, "c"), {HOSTILE: 1}]
    report = report_of(tmp_path, rows)
    write_batch_page(tmp_path / "out", report)
    html = (tmp_path / "out" / "report.html").read_text()
    page = Page(html)
    assert not {tag for tag, _ in page.tags} & {"script", "iframe", "form", "object"}
    assert not [held for _, held in page.tags if "style" in held or any(key.startswith("on") for key in held)]
    assert "$\\frac{" in html
    assert "Rows that failed" in html


def test_the_page_draws_scores_and_groups_without_a_plotting_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = Page(render_batch(report_of(tmp_path, [row(SOURCE, "a"), row("A red door.", "b"), row("A red door.", "b")])))
    plots = [held["aria-label"] for tag, held in page.tags if tag == "svg" and "aria-label" in held]
    assert plots == ["Response-level scores of hallucination", "Share hallucinated, by group"]
    marks = [held for tag, held in page.tags if tag == "rect" and held.get("class") == "mark"]
    assert max(float(held["height"]) for held in marks[:-2]) == 110  # the fullest column
    assert [float(held["width"]) for held in marks[-2:]] == [240, 0]  # the groups: b, then a


def test_plots_take_the_colours_of_the_page_in_light_and_dark() -> None:
    assert re.findall(r"#[0-9a-f]{3,8}\b|white|black", render("batch.css")) == []
