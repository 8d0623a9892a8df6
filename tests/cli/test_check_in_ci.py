"""`veridical check` in continuous integration: shares that are allowed, JUnit XML and SARIF."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from veridical.cli.delivery import exit_code
from veridical.cli.options import ExitOptions
from veridical.records.types import Outcome

Command = Callable[..., tuple[int, str, str]]
CLEAR, FLAGGED, UNJUDGED = "red", "blue", ""


def write_cases(path: Path, *responses: str) -> str:
    cases = [{"response": r or "red", "sources": ["red"] if r else []} for r in responses]
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return str(path)


@pytest.mark.parametrize(
    ("responses", "options", "code"),
    [
        ((CLEAR, FLAGGED), (), 1),
        ((CLEAR, FLAGGED), ("--fail-over", "0.5"), 0),
        ((CLEAR, FLAGGED), ("--fail-over", "0.49"), 1),
        ((CLEAR, FLAGGED, UNJUDGED), ("--fail-over", "0.5"), 3),
        ((CLEAR, FLAGGED, UNJUDGED), ("--fail-over", "0.4", "--allow-unjudged", "0.9"), 1),  # of the judged ones
        ((CLEAR, FLAGGED, UNJUDGED), ("--fail-over", "0.5", "--allow-unjudged", "0.34"), 0),
        ((CLEAR, FLAGGED, UNJUDGED), ("--fail-over", "0.5", "--allow-unjudged", "0.33"), 3),
        ((UNJUDGED,), ("--fail-over", "0.99", "--allow-unjudged", "0.99"), 3),  # nothing judged never passes
    ],
)
def test_shares_that_are_allowed(
    command: Command, tmp_path: Path, responses: tuple[str, ...], options: tuple[str, ...], code: int
) -> None:
    cases = write_cases(tmp_path / "cases.jsonl", *responses)
    ended, _, errors = command("check", "--cases", cases, "-d", "overlap", *options)
    assert ended == code
    judged = [r for r in responses if r]
    flagged = f"{responses.count(FLAGGED)} of {len(judged)} judged cases flagged"
    assert flagged in errors
    assert f"{responses.count(UNJUDGED)} of {len(responses)} not judged" in errors


def test_one_case_has_no_counts(command: Command, tmp_path: Path) -> None:
    cases = write_cases(tmp_path / "cases.jsonl", CLEAR)
    assert command("check", "--cases", cases, "-d", "overlap")[2] == ""


def test_an_answer_without_a_claim_fails_no_run(command: Command, tmp_path: Path) -> None:
    cases = write_cases(tmp_path / "cases.jsonl", "I don't know.", "Let me know if you need more.")
    report = tmp_path / "junit.xml"
    code, _, errors = command(
        "check", "--cases", cases, "-d", "verify:overlap", "--fail-over", "0", "--junit", str(report)
    )
    assert code == 0
    assert "0 of 0 judged cases flagged" in errors
    assert "0 of 2 not judged (allowed: 0 of them), 2 without a claim" in errors
    assert ElementTree.parse(report).getroot().attrib["errors"] == "0"


def test_shares_are_exact() -> None:
    for tens in range(1, 200):
        outcomes = Counter({Outcome.FLAGGED: 3 * tens, Outcome.CLEAR: 7 * tens})
        assert exit_code(outcomes, ExitOptions(fail_over=0.3)) == 0
        assert exit_code(outcomes + Counter([Outcome.FLAGGED]), ExitOptions(fail_over=0.3)) == 1


def test_both_files_are_written_and_told_of(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_cases(tmp_path / "nightly.jsonl", CLEAR, FLAGGED, UNJUDGED)
    files = ("--junit", "junit.xml", "--sarif", "veridical.sarif")
    code, out, errors = command("check", "nightly.jsonl", "-d", "overlap", "--json", *files)
    assert code == 1
    assert len(out.splitlines()) == 3
    assert errors.splitlines()[:2] == ["wrote junit.xml", "wrote veridical.sarif"]
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert suite.get("name") == "nightly"
    assert [[problem.tag for problem in test] for test in suite] == [[], ["failure"], ["error"]]
    run = json.loads((tmp_path / "veridical.sarif").read_text("utf-8"))["runs"][0]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "nightly.jsonl"
    assert (place["region"]["startLine"], place["region"]["snippet"]["text"]) == (2, "blue")
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["region"]["startLine"] == 3


def test_one_response_in_files_of_its_own(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("answer.txt", "one\nblue\n"), ("source.txt", "one"), ("points.txt", "two\nthree")):
        Path(name).write_text(text)
    files = ("answer.txt", "source.txt", "--perspective", "pro=points.txt", "--sarif", "out.sarif")
    assert command("check", *files, "-d", "overlap")[0] == 1
    results = json.loads(Path("out.sarif").read_text("utf-8"))["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    found = [(p["artifactLocation"]["uri"], p["region"]["startLine"], p["region"]["snippet"]["text"]) for p in places]
    assert found == [("answer.txt", 2, "blue"), ("points.txt", 1, "two"), ("points.txt", 2, "three")]


def test_nothing_is_written_where_the_input_breaks_off(command: Command, tmp_path: Path) -> None:
    cases = write_cases(tmp_path / "cases.jsonl", CLEAR)
    with Path(cases).open("a") as file:
        file.write("{broken\n")
    junit, sarif = tmp_path / "junit.xml", tmp_path / "out.sarif"
    junit.write_text("of the last run")
    assert command("check", cases, "-d", "overlap", "--junit", str(junit), "--sarif", str(sarif))[0] == 2
    assert junit.read_text() == "of the last run"
    assert not sarif.exists()


def test_cells_of_any_length_are_located(command: Command, tmp_path: Path) -> None:
    cases, sarif = tmp_path / "big.csv", tmp_path / "out.sarif"
    long = "red " * 50_000
    cases.write_text("response,sources\n" + f"blue,{long}\nred,{long}\nblue,{long}\n")
    assert command("check", str(cases), "-d", "overlap", "--sarif", str(sarif))[0] == 1
    results = json.loads(sarif.read_text("utf-8"))["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [place["region"]["startLine"] for place in places] == [2, 4]


@pytest.mark.parametrize(
    "bad",
    [
        {"response": "red \ud83d", "sources": ["red"]},
        {"response": "red", "sources": [{"text": "red", "metadata": {"title": "\udc00"}}]},
        {"messages": [{"role": "tool", "content": "\ud83d"}, {"role": "assistant", "content": "red"}]},
    ],
)
def test_half_of_a_character_fails_its_row_only(command: Command, tmp_path: Path, bad: dict[str, Any]) -> None:
    rows = [{"response": "red \U0001f600", "sources": ["red"]}, bad, {"response": "blue", "sources": ["red"]}]
    cases = tmp_path / "cases.jsonl"
    cases.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, output, errors = command("check", "--cases", str(cases), "-d", "overlap", "--json")
    assert [json.loads(line)["outcome"] for line in output.splitlines()] == ["clear", "unjudged", "flagged"]
    assert f"{cases}:2: half of a surrogate pair stands alone in a text, so this row is not judged" in errors
    assert code == 1
    assert command("batch", str(cases), str(tmp_path / "out"), "-d", "overlap")[0] == 1
    failed = json.loads((tmp_path / "out" / "failed.jsonl").read_text())
    assert (failed["row"], failed["reason"]) == (2, "half of a surrogate pair stands alone in a text")
