"""One's own table with a label works wherever labelled data does."""

import csv
import json
from pathlib import Path

import pytest

from veridical.cli import main
from veridical.datasets import name_and_path, read
from veridical.records.errors import DataError, UnknownNameError


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


def labelled(folder: Path, *labels: object) -> Path:
    path = folder / "labelled.jsonl"
    rows = [{"response": f"In {i}.", "sources": ["In Paris."], "label": label} for i, label in enumerate(labels)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_label_of_your_own_is_read_in_any_case_and_says_what_else_it_met(tmp_path: Path) -> None:
    remarks: list[str] = []
    path = labelled(tmp_path, "Wrong ", "wrong", "right", "unsure", "right", None)
    examples = list(read(f"{path}?hallucinated=WRONG", remark=remarks.append))
    assert [example.gold.hallucination for example in examples] == [1.0, 1.0, 0.0, 0.0, 0.0, None]
    (line,) = remarks
    assert "labels other than 'WRONG', read as supported: 'right' (2), 'unsure' (1)" in line
    with pytest.raises(DataError, match=r"no row has the label 'worng' \(the labels: 'right' \(2\), 'Wrong' \(1\)"):
        list(read(f"{path}?hallucinated=worng", on_bad=lambda error: None))
    remarks.clear()
    assert [e.gold.hallucination for e in read(f"{labelled(tmp_path, 1.0, 0, 1)}?hallucinated=1")] == [1.0, 0.0, 1.0]
    list(read(f"{labelled(tmp_path, 'no', 'yes')}?hallucinated=yes", remark=remarks.append))
    list(read(f"{labelled(tmp_path, *range(40))}?hallucinated=0", remark=remarks.append))
    assert len(remarks) == 1
    assert "and 27 more" in remarks[0]


@pytest.mark.parametrize(
    ("spans", "label"),
    [
        ([{"start": 3, "end": 7, "label": "intrinsic", "text": "Rome"}], "intrinsic"),
        ([{"start": 3, "end": 7, "label_type": "Evident Conflict"}], "Evident Conflict"),
        ([[3, 7]], None),
        ("[{'start': 3, 'end': 7, 'label': 1}]", None),
        ("[(3, 7)]", None),
        ('[{"start": 3, "end": 7}]', None),
    ],
)
def test_spans_of_your_own(tmp_path: Path, spans: object, label: str | None) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"response": "In Rome.", "sources": ["In Paris."], "spans": spans}))
    (example,) = read(str(path))
    (verdict,) = example.gold.verdicts
    assert (verdict.span.of(example.case.response), verdict.score, verdict.label) == ("Rome", 1.0, label)


@pytest.mark.parametrize("name", ["claims.csv", "claims.jsonl"])
def test_a_label_of_claims_that_means_supported_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    row = {"doc": "In Rome.", "claim": "In Rome.", "label": 1}
    path.write_text(json.dumps(row) if name.endswith(".jsonl") else "doc,claim,label\nIn Rome.,In Rome.,1\n")
    with pytest.raises(DataError, match=r"1 means supported .*\?hallucinated=0"):
        list(read(str(path)))
    assert [example.gold.hallucination for example in read(f"{path}?hallucinated=1")] == [1.0]
    path.write_text(path.read_text().replace("1", "0").replace("label", "hallucinated"))
    assert [example.gold.hallucination for example in read(str(path))] == [0.0]


def test_groups_of_your_own(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *_ = read(f"{table}?group=source_name,label")
    assert first.group == (("label", "supported"), ("source_name", "d0"))
    with pytest.raises(DataError, match="no field 'gone'"):
        list(read(f"{table}?group=gone"))
    run = ["bench", "overlap", "--group-by", "label", "--json", "--data"]
    assert main([*run, f"{table}?group=label"]) == 0
    groups = [json.loads(line)["group"] for line in capsys.readouterr().out.splitlines()]
    assert groups == [None, "label=hallucinated", "label=supported"]
    assert main([*run, str(table)]) == 2
    assert "no group 'label' (name the columns of groups of your own data: rows:FILE?group=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"), [("own.csv", "reply,found\na,b\n"), ("own.jsonl", '{"response": "a", "source_list": ["b"]}')]
)
def test_a_row_of_unknown_columns_says_how_to_name_them(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=r"with rows:FILE\?response=COLUMN&sources=COLUMN") as caught:
        list(read(str(tmp_path / name)))
    assert "--response" not in str(caught.value)
    errors: list[DataError] = []
    if name == "own.jsonl":
        list(read(str(tmp_path / name), on_bad=errors.append))
        assert "rows:FILE?response=" in str(errors[0])


def test_bench_says_which_labels_it_read_as_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = labelled(tmp_path, *["wrong", "right", "unsure"] * 9)
    assert main(["bench", "overlap", "--data", f"{path}?hallucinated=wrong"]) == 0
    assert capsys.readouterr().err.count("read as supported: 'right' (9), 'unsure' (9)") == 1
    assert main(["bench", "overlap", "--data", f"{path}?hallucinated=false"]) == 2


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
        (
            {"response": "In Rome", "sources": ["b"], "spans": [{"start": 3, "end": 7, "text": "Bonn"}]},
            "",
            "spans 1: the text 'Bonn', but the response has 'Rome' from 3 to 7",
        ),
        ({"response": "a", "sources": ["b"], "spans": "[{'start': 0"}, "", "not a list of spans"),
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
