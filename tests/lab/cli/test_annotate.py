"""`veridical annotate` from changed texts to a released data set."""

import io
import json
from pathlib import Path

import pytest

from tests.lab.annotate.test_consensus import voted
from tests.lab.annotate.test_select import item
from tests.lab.files import saved
from veridical.cli import main
from veridical.datasets import read
from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.annotate.items import with_label
from veridical_lab.models.testing import tiny


def test_from_a_pool_to_label_studio_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = saved(tmp_path / "pool.jsonl", [item(str(i), f"thing{i} rarely", "often") for i in range(30)])
    chosen, tasks, back = tmp_path / "round.jsonl", tmp_path / "tasks.json", tmp_path / "labels.jsonl"
    assert main(["annotate", "select", pool, "-n", "5", "--out", str(chosen)]) == 0
    assert "wrote 5 of 30 items" in capsys.readouterr().err
    assert {dict(e.group)["round"] for e in read(f"jsonl:{chosen}")} == {"1"}
    data = f"jsonl:{chosen}"
    assert main(["annotate", "export", data, "--kind", "consistency", "--out", str(tasks)]) == 0
    result = {"from_name": "answer", "type": "choices", "value": {"choices": ["inconsistent"]}}
    answered = [
        {**task, "annotations": [{"completed_by": n, "result": [result]} for n in range(4)]}
        for task in json.loads(tasks.read_text())
    ]
    tasks.write_text(json.dumps(answered))
    assert main(["annotate", "import", str(tasks), "--data", data, "--out", str(back)]) == 0
    assert "wrote 20 annotations" in capsys.readouterr().err
    agreed = tmp_path / "agreed.jsonl"
    assert main(["annotate", "agree", f"jsonl:{back}", "--out", str(agreed)]) == 0
    printed = capsys.readouterr().out
    assert "5 cases are agreed on, 0 need 0 more labels" in printed
    assert [e.gold.hallucination for e in read(f"jsonl:{agreed}")] == [1.0] * 5
    foreign = tmp_path / "foreign.json"
    foreign.write_text('[{"data": {"text": "a"}, "annotations": []}]')
    assert main(["annotate", "import", str(foreign), "--data", data, "--out", str(tmp_path / "none")]) == 2
    assert "was not made by Veridical" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert main(["annotate", "config", "claims"]) == 0
    assert capsys.readouterr().out.startswith("<View>")


def test_what_needs_more_annotators_and_the_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [voted(str(i), "hhhh" if i % 2 else "nnnn") for i in range(20)] + [voted("x", "hhnn")]
    data = saved(tmp_path / "labels.jsonl", given)
    agreed, more, folder = tmp_path / "agreed.jsonl", tmp_path / "more.jsonl", tmp_path / "set"
    assert main(["annotate", "agree", data, "--out", str(agreed), "--more", str(more)]) == 0
    assert "1 need 2 more labels" in capsys.readouterr().out
    assert [e.case.id for e in read(f"jsonl:{more}")] == ["x#0"]
    release = ["annotate", "release", f"jsonl:{agreed}", str(folder), "--name", "Set", "--licence", "MIT"]
    assert main(release) == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "release.json", "test.jsonl", "train.jsonl", "valid.jsonl")
    ]
    assert main(release) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["annotate", "quiz", data, "--needed", "11"]) == 1
    assert "failed" in capsys.readouterr().out


def test_three_people_mark_in_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case("1", "The tower is purple and tall.", (Source("s", "It is grey."),))
    data = saved(tmp_path / "cases.jsonl", [Example(case, Judgement("1", "none", judged=()))])
    files = []
    for name, typed in (("ann", "<purple>\n"), ("bo", "The tower is <purple and tall>.\n"), ("cy", "\n")):
        files.append(tmp_path / f"{name}.jsonl")
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert main(["annotate", "mark", data, "--by", name, "--out", str(files[-1])]) == 0
    capsys.readouterr()
    assert main(["annotate", "mark", data, "--by", "cy", "--out", str(files[-1])]) == 0  # nothing is left to ask
    assert "wrote 0 annotations" in capsys.readouterr().err
    agreed = tmp_path / "agreed.jsonl"
    assert main(["annotate", "agree", *(f"jsonl:{f}" for f in files), "--spans", "--out", str(agreed)]) == 0
    (merged,) = read(f"jsonl:{agreed}")
    assert [v.span.of(case.response) for v in merged.gold.verdicts] == ["purple"]


def test_answers_without_any_label_can_be_labelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, tasks, out = tmp_path / "answers.csv", tmp_path / "tasks.json", tmp_path / "labels.jsonl"
    data.write_text("id,question,response,sources\n1,Which colour?,It is purple.,It is grey.\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("<purple>\n"))
    assert main(["annotate", "mark", str(data), "--by", "ann", "--out", str(out)]) == 0
    assert main(["annotate", "export", str(data), "--kind", "spans", "--detector", "overlap", "--out", str(tasks)]) == 0
    (task,) = json.loads(tasks.read_text())
    task["annotations"] = [{"completed_by": 1, "result": task["predictions"][0]["result"]}]
    tasks.write_text(json.dumps([task]))
    back = tmp_path / "back.jsonl"
    assert main(["annotate", "import", str(tasks), "--data", str(data), "--out", str(back)]) == 0
    for file in (out, back):
        (example,) = read(str(file))
        assert example.gold.judged == ()
        assert [v.span.of("It is purple.") for v in example.annotations[0].verdicts] == ["purple"]
    soft = tmp_path / "soft.jsonl"
    assert main(["data", "label", str(data), "--detector", "overlap", "--out", str(soft)]) == 0
    assert main(["data", "convert", str(data), str(tmp_path / "cases.jsonl"), "--cases"]) == 0
    assert main(["data", "convert", str(data), str(tmp_path / "examples.jsonl")]) == 2
    assert "neither a label nor spans" in capsys.readouterr().err


def test_pre_annotations_are_what_check_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases, tasks = tmp_path / "cases.jsonl", tmp_path / "tasks.json"
    rows = [(f"The tower in Rome is {n} m tall.", f"The tower in Rome is {n + 7} m tall.") for n in (141, 250)]
    cases.write_text("".join(json.dumps({"response": r, "sources": [s]}) + "\n" for r, s in rows))
    assert main(["check", str(cases), "--json"]) == 1
    flagged = []
    for line in capsys.readouterr().out.splitlines():
        checked = json.loads(line)
        (judgement,), (decision,) = checked["judgements"], checked["decisions"]
        flagged.append([judgement["verdicts"][i]["span"] for i in decision["verdicts"]])
    assert all(flagged)
    command = ["annotate", "export", str(cases), "--kind", "spans", "--detector", "default", "--labels", "wrong,added"]
    assert main([*command, "--out", str(tasks)]) == 0
    values = [[r["value"] for r in task["predictions"][0]["result"]] for task in json.loads(tasks.read_text())]
    assert [[{"start": v["start"], "end": v["end"]} for v in of_task] for of_task in values] == flagged
    assert {label for of_task in values for v in of_task for label in v["labels"]} == {"wrong"}


def test_push_without_a_server_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = saved(tmp_path / "round.jsonl", [item("1", "small", "large")])
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "none")
    push = ["annotate", "push", data, "--kind", "consistency"]
    assert main(push) == 2
    assert "--title" in capsys.readouterr().err
    assert main([*push, "--title", "Round 1", "--url", "http://127.0.0.1:9"]) == 2
    assert "cannot be reached" in capsys.readouterr().err


def test_a_second_round_with_a_detector_or_an_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = saved(tmp_path / "pool.jsonl", [item(str(i), f"thing{i} rarely", "often") for i in range(40)])
    # half of these say what the source says, which word overlap finds
    done = [
        with_label(item(f"l{i}", "small" if i % 2 else "large", "large"), bool(i % 2), "human:4-of-4")
        for i in range(20)
    ]
    agreed = saved(tmp_path / "agreed.jsonl", done)
    chosen = tmp_path / "round-2.jsonl"
    command = ["annotate", "select", pool, "--labelled", agreed, "-n", "6", "--out", str(chosen)]
    assert main([*command, "--detector", "overlap", "--sure", "1"]) == 0
    printed = capsys.readouterr().err
    assert "(round 2)" in printed
    assert "equation (9)" in printed
    groups = [dict(e.group) for e in read(f"jsonl:{chosen}")]
    assert {g["round"] for g in groups} == {"2"}
    assert {g["predicted"] for g in groups} <= {"hallucinated", "consistent"}


def test_selection_by_an_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = str(tiny("bert", tmp_path / "encoder"))
    pool = saved(
        tmp_path / "pool.jsonl",
        [item("same", "often", "often")] + [item(str(i), f"thing{i}", "often") for i in range(6)],
    )
    chosen = tmp_path / "round.jsonl"
    assert (
        main(["annotate", "select", pool, "--encoder", encoder, "--similar", "0.9999", "-n", "9", "--out", str(chosen)])
        == 0
    )
    assert "near-paraphrase" in capsys.readouterr().err
    assert "same#0" not in {e.case.id for e in read(f"jsonl:{chosen}")}
