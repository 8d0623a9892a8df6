"""`veridical check -d verify` as a person runs it, offline and with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from veridical.io.serialization import decode
from veridical.records.types import Outcome

Command = Callable[..., tuple[int, str, str]]
OVERLAP = ("-d", "verify:overlap")  # fast, and its scores are known exactly


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answer.txt").write_text("It is 330 m tall. It is purple.")
    Path("source.txt").write_text("The tower is 330 m tall and grey.")
    Path("model.json").write_text(json.dumps({"is purple": "No", "330 m": "Yes"}))


def test_offline_by_word_overlap(command: Command) -> None:
    code, out, err = command("check", "answer.txt", "source.txt", *OVERLAP, "--json")
    assert (code, err) == (1, "")
    checked = decode(out)
    assert checked.outcome is Outcome.FLAGGED
    assert [v.score for v in checked.judgements[0].verdicts] == [0.0, 1.0]
    assert checked.judgements[0].by == "verify:overlap"


def test_one_wrong_number_is_flagged_as_by_check(command: Command) -> None:
    Path("answer.txt").write_text("The tower is 300 m tall.")
    assert command("check", "answer.txt", "source.txt", "-d", "overlap")[0] == 1
    for spec in ("verify:overlap", "verify:overlap:values"):
        assert command("check", "answer.txt", "source.txt", "-d", spec)[0] == 1
    assert command("revise", "answer.txt", "source.txt", "--checker", "overlap")[0] == 1


def test_a_model_is_asked_claim_by_claim(command: Command) -> None:
    code, out, _ = command(
        "check", "answer.txt", "source.txt", "-d", "verify", "--model", "scripted:model.json", "--json"
    )
    assert code == 1
    judgement = decode(out).judgements[0]
    assert [v.score for v in judgement.verdicts] == [0.0, 1.0]
    assert judgement.usage.calls == 2


def test_what_cannot_be_read_is_not_clear(command: Command) -> None:
    Path("model.json").write_text(json.dumps({"is purple": "Maybe", "330 m": "Yes"}))
    code, out, _ = command("check", "answer.txt", "source.txt", "-d", "verify", "-m", "scripted:model.json", "--json")
    assert code == 3
    assert decode(out).outcome is Outcome.UNJUDGED


def test_the_cache_pays_for_nothing_twice(command: Command) -> None:
    arguments = (
        "check",
        "answer.txt",
        "source.txt",
        "-d",
        "verify",
        "-m",
        "scripted:model.json",
        "--cache",
        "replies.db",
        "--json",
    )
    assert decode(command(*arguments)[1]).judgements[0].usage.calls == 2
    assert decode(command(*arguments)[1]).judgements[0].usage.calls == 0


@pytest.mark.parametrize(("splitter", "stages"), [("sentences", "check 2"), ("model", "split 1, check 2")])
def test_a_dry_run_counts_and_sends_nothing(command: Command, splitter: str, stages: str) -> None:
    code, out, err = command(
        *("check", "answer.txt", "source.txt", "-d", f"verify:splitter={splitter}"),
        *("-m", "some-model", "--dry-run", "--prices", "1,2"),
    )  # without a key: nothing can have been sent
    assert (code, err) == (0, "")
    assert f"({stages})" in out
    assert "completion tokens; at most about 0.00" in out
    assert "nothing was sent" in out


def test_a_dry_run_of_several_claims_per_call(command: Command) -> None:
    _, out, _ = command(
        "check", "answer.txt", "source.txt", "-d", "verify:yes_no,claims_per_call=8", "-m", "x", "--dry-run"
    )
    assert out.startswith("x: 1 calls (check 1)")


def test_citations_limit_what_a_claim_is_checked_against(command: Command) -> None:
    sources = [{"id": "1", "text": "It is tall.", "citation": "Ling, 2009"}, {"id": "2", "text": "It is old."}]
    case = {"response": "Ling (2009) says it is old. It is blue.", "sources": sources}
    Path("case.json").write_text(json.dumps(case))
    judged = decode(command("check", "case.json", "-d", "verify:overlap,citations=skip", "--json")[1]).judgements[0]
    assert {v.span.start for v in judged.verdicts} == {0}
    assert judged.hallucination > 0
    everything = decode(command("check", "case.json", "-d", "verify:overlap,citations=all", "--json")[1]).judgements[0]
    assert 28 in {v.span.start for v in everything.verdicts}


def test_findings_about_citations_can_be_asked_for(command: Command) -> None:
    sources = [
        {"id": "1", "text": "It is tall.", "citation": "Ling, 2009"},
        {"id": "2", "text": "It is old.", "citation": "Benton, 2010"},
    ]
    response = "It is tall (Ling, 2009; Benton, 2010). It is blue. Nobody (1999) knows."
    Path("case.json").write_text(json.dumps({"response": response, "sources": sources}))

    def labels(options: str) -> dict[str, float]:
        (judged,) = decode(command("check", "case.json", "-d", f"verify:overlap{options}", "--json")[1]).judgements
        return {f"{v.label}: {v.span.of(response)}": v.score for v in judged.verdicts if v.label}

    assert labels("") == {}
    dangling = {"dangling citation: Nobody (1999)": 1.0}
    assert labels(",citations=skip") == dangling
    assert labels(",citations=skip+missing") == dangling | {"missing citation: It is blue.": 1.0}
    each = {"wrong citation: Ling, 2009": 0.0, "wrong citation: Benton, 2010": 1.0}
    assert labels(",citations=all+each") == dangling | each


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["-d", "verify", "-m", "gpt-x"], 3, "no key for https://api.openai.com/v1"),
        (["-d", "verify", "-m", "gpt-x", "--key-env", "NO_SUCH_KEY"], 3, "$NO_SUCH_KEY is not set"),
        (["-d", "verify", "-m", "gpt-x", "--base-url", "nowhere"], 2, "not an address"),
        (["-d", "verify", "-m", "gpt-x", "--max-cost", "1"], 2, "max_cost is given without prices"),
        (["-d", "verify", "-m", "gpt-x", "--prices", "cheap"], 2, "is not IN,OUT"),
        (["-d", "verify", "-m", "scripted:none.json"], 2, "no such file"),
        (["-d", "verify", "-m", "scripted:source.txt"], 2, "not JSON"),
        (["-d", "verify", "-m", "scripted:model.json", "--max-calls", "1"], 2, "is not a model on a server"),
        (["-d", "verify:cot"], 2, "no language model is named"),
        (["-d", "verify:nothing"], 2, "unknown detector"),
        (["-d", "verify:overlap,window=10"], 2, "unknown option of overlap"),
        ([*OVERLAP, "-m", "scripted:model.json"], 2, "asks no language model"),
        (["-d", "verify:overlap,splitter=model"], 2, "no language model is named"),
        (["-d", "verify:splitter=words"], 2, "unknown splitter of verify"),
        (["-d", "verify:overlap,citations=some"], 2, "off, skip"),
        (["-d", "verify:overlap,citations=off+missing"], 2, "off, skip"),
        (["-d", "verify:overlap,citations=all+every"], 2, "off, skip"),
        (["--key", "sk-secret"], 2, "No such option"),
    ],
)
def test_bad_input_is_one_line(command: Command, options: list[str], code: int, says: str) -> None:
    got, out, err = command("check", "answer.txt", "source.txt", *options)
    assert got == code, err
    assert says in err
    assert out == ""
    assert len(err.splitlines()) == 1


def test_the_page(command: Command) -> None:
    code, _, err = command("check", "answer.txt", "source.txt", *OVERLAP, "--html", "page.html")
    assert code == 1
    assert err == "wrote page.html\n"
    assert "It is purple." in Path("page.html").read_text()
