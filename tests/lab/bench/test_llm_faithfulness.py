"""The comparison with RAGAS and DeepEval: its figures, and the table in the docs."""

import json
import sys
from pathlib import Path

import pytest

from tests import docs_generated
from tests.docs_generated import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import llm_faithfulness

from veridical.records.types import Case, Example, Judgement


def line(document: str, wrong: bool, score: float | None, seconds: float = 1.0) -> dict[str, object]:
    flagged = None if score is None else score > 0.5
    cost = {"seconds": seconds, "calls": 2, "prompt_tokens": 300, "completion_tokens": 40}
    return {"id": "1", "document": document, "wrong": wrong, "score": score, "flagged": flagged, **cost}


def test_figures_are_of_the_answers_that_a_tool_judged() -> None:
    lines = [line("a", True, 0.9), line("a", False, 0.1), line("b", True, 0.6), line("b", False, 0.8)]
    row = llm_faithfulness.row_of([*lines, line("c", True, None, 9.0), line("c", False, None, 9.0)])
    assert (row["n"], row["not_judged"]) == (6, 2)
    assert row["roc_auc"]["value"] == 0.75
    assert (row["recall"]["value"], row["recall"]["n"]) == (1.0, 2)
    assert row["false_alarms"]["value"] == 0.5
    assert row["false_alarms"]["low"] < 0.5 < row["false_alarms"]["high"]
    assert (row["seconds"], row["prompt_tokens"]) == (1.0, 300)


def test_a_tool_that_judges_nothing_has_no_figures() -> None:
    row = llm_faithfulness.row_of([line("a", True, None), line("a", False, None)])
    assert row["not_judged"] == 2
    assert row["roc_auc"]["value"] is row["recall"]["value"] is row["false_alarms"]["value"] is None


def test_the_table_has_the_last_row_of_each_tool(tmp_path: Path) -> None:
    lines = [line("a", True, 0.9), line("a", False, 0.1), line("b", True, 0.6), line("b", False, 0.8)]
    about = {"data": "short_answer_statements", "split": "test", "model": "small", "date": "2026-01-02"}
    rows = [
        {"tool": tool, **llm_faithfulness.row_of(of_tool), **about}
        for tool, of_tool in (("ragas", lines[:2]), ("ragas", lines), ("default", lines))
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = docs_generated.comparison(tmp_path / "rows.jsonl")
    assert text.count("RAGAS") == 1
    assert "| RAGAS faithfulness | 0.750 [" in text
    assert "| `default` | 0.750 [" in text
    assert "4 answers to 2 questions of short_answer_statements, test; chat model small" in text
    assert docs_generated.comparison(tmp_path / "none.jsonl") == "Nothing is measured yet."


def test_each_question_gets_a_right_and_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(name: str) -> list[Example]:
        versions = [(q, v) for q in range(20) for v in ("right", "wrong")]
        return [
            Example(Case(f"{q}/{v}", "It is so."), Judgement(f"{q}/{v}", "rule", float(v == "wrong")), f"{name}/{q}")
            for q, v in versions
        ]

    monkeypatch.setattr("veridical.datasets.read", read)
    cases = llm_faithfulness.drawn(Path("none"), 3)
    assert cases == llm_faithfulness.drawn(Path("none"), 3)
    assert len({case["document"] for case in cases}) == 3
    for first, second in zip(cases[::2], cases[1::2], strict=True):
        assert first["document"] == second["document"]
        assert first["id"].split("/")[0] == second["id"].split("/")[0]
        assert {first["wrong"], second["wrong"]} == {False, True}
