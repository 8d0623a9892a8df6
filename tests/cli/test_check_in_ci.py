"""`veridical check` in continuous integration: shares that are allowed, JUnit XML and SARIF."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from veridical.cli.delivery import exit_code
from veridical.cli.options import ExitOptions
from veridical.core.types import Outcome

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
    assert (flagged in errors) == bool(options)
    assert (f"{responses.count(UNJUDGED)} of {len(responses)} not judged" in errors) == bool(options)


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
