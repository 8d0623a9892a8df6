"""One's own table with a label works wherever labelled data does."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from veridical.cli import main
from veridical.core.errors import DataError, UnknownNameError
from veridical.datasets import name_and_path, read


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "own.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["answer", "context", "label", "source_name"])
        for i in range(30):
            for colour, label in (("blue", "supported"), ("red", "hallucinated")):
                writer.writerow([f"It is {colour} {i}.", f"It is blue {i}.", label, f"d{i}"])
    return path


def test_a_table_as_examples(table: Path) -> None:
    first, second, *_ = read(f"{table}?document=source_name")
    assert (first.case.response, first.gold.hallucination, first.document) == ("It is blue 0.", 0.0, "d0")
    assert (second.case.sources[0].text, second.gold.hallucination, second.document) == ("It is blue 0.", 1.0, "d0")
    assert [example.gold.hallucination for example in read(f"rows:{table}?hallucinated=supported")][:2] == [1.0, 0.0]
    assert name_and_path(str(table)) == ("rows", str(table))
    assert name_and_path("rows:none.csv") == ("rows", "none.csv")


def test_flat_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    rows = [
        {"response": "In Rome.", "sources": ["In Paris."], "label": 1, "spans": [{"start": 3, "end": 7}]},
        {"response": "In Paris.", "sources": ["In Paris."], "label": False},
        {"response": "In Bonn.", "sources": ["In Paris."], "label": None},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    wrong, right, unlabelled = read(str(path))
    assert [verdict.span.of(wrong.case.response) for verdict in wrong.gold.verdicts] == ["Rome"]
    assert (wrong.gold.hallucination, right.gold.hallucination, unlabelled.gold.judged) == (1.0, 0.0, ())


@pytest.mark.parametrize(
    ("row", "query", "says"),
    [
        ({"response": "a", "sources": ["b"], "label": "perhaps"}, "", "the label is 'perhaps'"),
        ({"response": "a", "sources": ["b"]}, "", "neither a label nor spans"),
        ({"response": "a", "sources": ["b"], "label": 1}, "?label=gone", "no field 'gone'"),
        ({"response": "a", "sources": ["b"], "label": 1, "spans": [{"start": 0, "end": 9}]}, "", "runs past"),
    ],
)
def test_a_row_without_a_label_is_named(tmp_path: Path, row: dict, query: str, says: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(DataError, match=says) as caught:
        list(read(f"{path}{query}"))
    assert caught.value.line == 1
    if "neither" in says:
        (example,) = read(f"{path}{query}", unlabelled=True)
        assert (example.gold.hallucination, example.gold.judged, example.gold.notes) == (None, (), ("no label",))
    with pytest.raises(UnknownNameError, match="lable"):
        read(f"{path}?lable=x")


def test_bench_and_calibrate(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "overlap", "--data", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["metrics"]["roc_auc"]["value"] == 1.0
    assert main(["calibrate", "overlap", str(table), "--out", str(tmp_path / "fitted"), "--all-data"]) == 0
    assert main(["check", str(table), "--detector", f"calibrated:{tmp_path / 'fitted'}", "--fail-over", "0.5"]) == 0


def test_train(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["response", "sources", "spans"])
        for i in range(40):
            colour, spans = ("red", [{"start": 6, "end": 9}]) if i % 2 else ("blue", [])
            writer.writerow([f"It is {colour} today.", f"It is blue on day {i}.", json.dumps(spans)])
    assert main(["train", "features", str(path), "--out", str(tmp_path / "words")]) == 0
    (tmp_path / "answer.txt").write_text("It is red today.")
    (tmp_path / "source.txt").write_text("It is blue today.")
    texts = [str(tmp_path / name) for name in ("answer.txt", "source.txt")]
    assert main(["check", *texts, "-d", f"features:{tmp_path / 'words'}"]) == 1
