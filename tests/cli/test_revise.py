"""`veridical revise` as a person runs it, offline and with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from veridical.io.serialization import decode

Command = Callable[..., tuple[int, str, str]]
OVERLAP = ("--checker", "overlap")  # fast, and its scores are known exactly


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answer.txt").write_text("It is 330 m tall. It is purple.")
    Path("source.txt").write_text("The tower is 330 m tall and grey.")
    script = {
        "Supported: Yes or No; No": "Critique: the document says grey.\nSupported: No\nRevised: It is grey.",
        "What was found wrong": "Corrected text:\nIt is 330 m tall. It is grey.",
        "It is purple.\nclaim": "No",
        "claim to check": "Yes",
    }
    Path("model.json").write_text(json.dumps(script))


def test_offline(command: Command) -> None:
    code, out, err = command("revise", *OVERLAP, "answer.txt", "source.txt")
    assert (code, err) == (0, "")
    assert "It is 330 m tall.[- It is purple.-]" in out
    assert "not in any source: “purple”" in out


def test_a_sentence_with_one_wrong_number_is_left_out(command: Command) -> None:
    Path("answer.txt").write_text("The tower is grey. The grey tower is 300 m tall.")
    code, out, _ = command("revise", *OVERLAP, "answer.txt", "source.txt", "--text")
    assert (code, out) == (0, "The tower is grey.")


def test_with_a_model(command: Command) -> None:
    code, out, _ = command("revise", "answer.txt", "source.txt", "-m", "scripted:model.json", "--json")
    assert code == 0
    result = decode(out, "revised")
    assert result.revision.text == "It is 330 m tall. It is grey."
    assert result.revision.edits[0].because == "the document says grey."
    assert [r.kept for r in result.rounds] == [True]
    assert result.after.hallucination == 0.0
    assert result.usage.calls == 6  # two claims twice, a critique, a revision


def test_only_the_text(command: Command) -> None:
    assert command("revise", *OVERLAP, "answer.txt", "source.txt", "--text")[1] == "It is 330 m tall."


def test_a_mark_is_no_cure(command: Command) -> None:
    code, out, _ = command("revise", *OVERLAP, "answer.txt", "source.txt", "--reviser", "flag", "--text")
    assert code == 1
    assert out == "It is 330 m tall. It is purple. [not backed by the sources]"


def test_what_stays_wrong_is_flagged(command: Command) -> None:
    Path("answer.txt").write_text("It is purple.")
    code, out, _ = command("revise", *OVERLAP, "answer.txt", "source.txt")
    assert code == 1
    assert "nothing would be left of the response" in out


def test_what_could_not_be_judged_is_not_clear(command: Command) -> None:
    Path("model.json").write_text("[]")
    code, out, _ = command("revise", "answer.txt", "source.txt", "-m", "scripted:model.json")
    assert code == 3
    assert "it could not be judged" in out


def test_many_cases_and_a_page(command: Command) -> None:
    lines = [json.dumps({"response": f"It is grey. Pig {i} flies.", "sources": ["It is grey."]}) for i in range(70)]
    Path("cases.jsonl").write_text("\n".join(lines))
    code, out, err = command("revise", *OVERLAP, "cases.jsonl", "--json", "--html", "page.html")
    assert (code, err) == (0, "wrote page.html\n")
    assert [decode(line, "revised").revision.text for line in out.splitlines()] == ["It is grey."] * 70
    assert Path("page.html").read_text().count("<article") == 70


def test_a_dry_run_counts_what_may_follow(command: Command) -> None:
    arguments = ("revise", "answer.txt", "source.txt", "-m", "writer", "--critic", "critic", "--dry-run")
    code, out, err = command(*arguments)
    assert (code, err) == (0, "")
    assert "writer: 6 calls (check 5, revise 1)" in out  # two claims, then three: the rehearsed revision adds one
    assert "critic: 2 calls (critique 2)" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--reviser", "factored"], "asks a language model"),
        (["--reviser", "burn"], "unknown reviser"),
        (["--critic", "scripted:model.json"], "takes no critic"),
        (["--rounds", "0"], "0 rounds of revision"),
        (["--threshold", "2"], "the threshold is"),
    ],
)
def test_bad_input_is_one_line(command: Command, options: list[str], says: str) -> None:
    code, out, err = command("revise", *OVERLAP, "answer.txt", "source.txt", *options)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1


def test_papers(command: Command) -> None:
    paper: dict[str, object] = {"id": "p", "title": "T", "summary": "We found it is grey.", "authors": ["A. Ling"]}
    paper["metadata"] = {"year": 2009}
    Path("paper_dataset.json").write_text(json.dumps([{"query": "Which colour?", "papers": [paper]}]))
    script = {
        "You summarise": "Ling (2009) found it is purple.",
        "checked it against what you were given": "Corrected text:\nLing (2009) found it is grey.",
    }
    Path("model.json").write_text(json.dumps(script))
    arguments = ("papers", "paper_dataset.json", "-m", "scripted:model.json", "--critic", "verify:overlap")
    code, out, err = command(*arguments, "--audit", "66/100", "--json")
    assert (code, err) == (0, "")
    before, after = (decode(line, "prevalence") for line in out.splitlines())
    assert (before.critic, after.critic) == (None, "verify:overlap,citations=skip")
    assert before.prevalence.per_summary.value == 1.0
    assert before.prevalence.per_summary_adjusted.value == 0.66
    assert after.prevalence.per_summary.value == 0.0
    assert "66.0 %" in command(*arguments, "--audit", "verify:overlap=66/100")[1]
    out = command(*arguments, "--judge", "verify:overlap:values", "--judge", "verify:overlap", "--json")[1]
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["critic"] is None, row["judge"] == "mean") for row in rows[-2:]] == [(True, True), (False, True)]
    for wrong in ("much", "x=1/2", "3/2"):
        assert command(*arguments, "--audit", wrong)[0] == 2
    assert command(*arguments, "--out", "rows.jsonl")[0] == 0
    row = decode(Path("rows.jsonl").read_text().splitlines()[0], "prevalence")
    assert (row.questions, len(row.data_hash), row.command.split()[0]) == (1, 64, "veridical")
    code, out, _ = command("papers", "paper_dataset.json", "-m", "w", "--critic", "c", "--judge", "j", "--dry-run")
    assert code == 0
    assert [line.partition(", about")[0] for line in out.splitlines()[:3]] == [
        "w: 2 calls (summary 1, revise 1)",
        "c: 1 calls (critique 1)",
        "j: 2 calls (check 2)",
    ]
