"""`check`, `bench` and `papers` with detectors that ask a chat model, against a server on 127.0.0.1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.llm.loopback import Answer, Loopback, completion, serving
from veridical.io.serialization import decode, encode
from veridical.records.types import Case, Example, Judgement, Outcome, Source

pytest.importorskip("openai")

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answer.txt").write_text("It is 330 m tall. It is purple.")
    Path("source.txt").write_text("The tower is 330 m tall and grey.")
    examples = []
    for i in range(80):
        colour = "red" if i % 2 else "blue"
        case = Case(str(i), f"Door {i} is {colour}.", (Source("1", f"Door {i} is red."),), question=f"Door {i}?")
        examples.append(Example(case, Judgement(str(i), "human:me", float(colour == "blue")), document=str(i)))
    Path("colours.jsonl").write_text("".join(encode(example) + "\n" for example in examples))


def truth(body: dict[str, Any]) -> Answer:
    """What a model that knows would say to any of our prompts."""
    asked = body["messages"][-1]["content"]
    wrong = "is purple" in asked or "is blue" in asked
    if body.get("temperature"):
        return completion(asked.rpartition("Door")[2] and "The door is red.")
    if "JSON" in asked:
        claims = [{"claim": "It is 330 m tall.", "supported": "Yes"}, {"claim": "It is purple.", "supported": "No"}]
        return completion(json.dumps({"claims": claims}))
    word = "No" if wrong else "Yes"
    if body["max_tokens"] > 100:
        return completion(f"So it is.\nSupported: {word}\n" if "Supported" in asked else f"So.\nConsistent: {word}")
    return completion(word, usage=(100, 1))


def judged(out: str) -> list[Judgement]:
    return list(decode(out).judgements)


def test_check_asks_several_ways_with_one_model(command: Command) -> None:
    detectors = [part for spec in ("judge", "judge:cot", "judge:list", "verify", "verify:cot") for part in ("-d", spec)]
    with serving(truth) as server:
        code, out, err = command(
            "check", "answer.txt", "source.txt", *detectors, "--model", "m", "--base-url", server.url, "--json"
        )
    assert (code, err) == (1, "")
    found = judged(out)
    assert [j.by for j in found] == ["judge:yes_no:m", "judge:cot:m", "judge:list:m", "verify:yes_no:m", "verify:cot:m"]
    assert [j.hallucination for j in found] == [1.0] * 5
    assert [j.usage.calls for j in found if j.usage] == [1, 1, 1, 2, 2]
    assert {body["model"] for body in server.asked} == {"m"}


def test_a_spec_says_all_by_itself(command: Command) -> None:
    with serving(truth) as server:
        spec = f"judge:cot,model=n,base_url={server.url},prices=1/2,cache=replies.db"
        first, again = (command("check", "answer.txt", "source.txt", "-d", spec, "--json") for _ in range(2))
    assert first[0] == again[0] == 1
    one, two = judged(first[1])[0], judged(again[1])[0]
    assert one.usage is not None
    assert two.usage is not None
    assert one.usage.cost == pytest.approx((10 * 1 + 2 * 2) / 1e6)
    assert (one.usage.calls, two.usage.calls) == (1, 0)
    assert len(server.asked) == 1


def test_selfcheck_samples_the_question_again(command: Command) -> None:
    with serving(truth) as server:
        arguments = ("-d", "selfcheck:overlap,samples=3", "-m", "m", "--base-url", server.url, "-q", "Door?", "--json")
        code, out, _ = command("check", "answer.txt", *arguments)
    assert code == 1
    assert judged(out)[0].by == "selfcheck:overlap:m"
    assert sorted(body["seed"] for body in server.asked) == [0, 1, 2]


def test_what_the_budget_does_not_allow_is_not_judged(command: Command) -> None:
    with serving(truth) as server:
        arguments = ("-d", "verify", "-m", "m", "--base-url", server.url, "--max-calls", "1", "--json")
        code, out, _ = command("check", "answer.txt", "source.txt", *arguments)
    assert code == 3
    assert decode(out).outcome is Outcome.UNJUDGED
    assert any("the budget is spent" in note for note in judged(out)[0].notes)


def test_one_budget_for_all_detectors(command: Command) -> None:
    with serving(truth) as server:
        arguments = ("-d", "judge", "-d", "verify", "-m", "m", "--base-url", server.url, "--max-calls", "2", "--json")
        command("check", "answer.txt", "source.txt", *arguments)
    assert len(server.asked) == 2


def bench(command: Command, server: Loopback, *more: str) -> tuple[int, str, str]:
    arguments = ("--model", "m", "--base-url", server.url, "--data", "jsonl:colours.jsonl", "--resamples", "20")
    return command("bench", *more, *arguments)


def test_bench_measures_and_says_what_it_cost(command: Command) -> None:
    with serving(truth) as server:
        code, out, err = bench(command, server, "judge", "verify:yes_no", "--prices", "1,2", "--out", "rows.jsonl")
        assert (code, err) == (0, "")
        rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
        assert [row["detector"] for row in rows] == ["judge:yes_no:m", "verify:yes_no:m"]
        assert [row["metrics"]["roc_auc"]["value"] for row in rows] == [1.0, 1.0]
        assert [(row["usage"]["calls"], row["usage"]["prompt_tokens"]) for row in rows] == [(80, 8000), (80, 8000)]
        assert rows[0]["usage"]["cost"] == pytest.approx(80 * (100 * 1 + 1 * 2) / 1e6)
        assert "80 calls" in " ".join(out.split())
        assert not Path("rows.jsonl.work").exists()
        bench(command, server, "judge", "verify:yes_no", "--out", "rows.jsonl")
    assert len(server.asked) == 160, "rows that are there are not made again"


def test_a_bench_run_that_spent_its_budget_goes_on_and_pays_for_nothing_twice(command: Command) -> None:
    with serving(truth) as server:
        code, out, err = bench(command, server, "judge", "--max-calls", "70", "--out", "rows.jsonl")
        assert (code, out) == (3, "")
        assert "judge:yes_no:m on jsonl:colours.jsonl: the budget is spent, 64 of 80 cases are judged" in err
        assert len(err.splitlines()) == 1
        assert not Path("rows.jsonl").exists()
        assert len(server.asked) == 70
        code, _, err = bench(command, server, "judge", "--out", "rows.jsonl")
        assert (code, err) == (0, "")
    assert len(server.asked) == 80
    (row,) = (json.loads(line) for line in Path("rows.jsonl").read_text().splitlines())
    assert (row["not_judged"], row["usage"]["calls"]) == (0, 74)  # six were answered before the budget was spent


def test_another_server_is_another_measurement(command: Command) -> None:
    with serving(truth) as one, serving(truth) as two:
        for server in (one, two):
            code, _, err = bench(command, server, "judge", "--out", "rows.jsonl")
            assert code == 0, err
    assert len(Path("rows.jsonl").read_text().splitlines()) == 2
    assert (len(one.asked), len(two.asked)) == (80, 80)


def test_worked_examples_come_from_validation_documents(command: Command) -> None:
    with serving(truth) as server:
        code, _, err = bench(command, server, "judge:few_shot=2", "--fit", "f1", "--out", "rows.jsonl")
    assert (code, err) == (0, "")
    (row,) = (json.loads(line) for line in Path("rows.jsonl").read_text().splitlines())
    assert row["detector"] == "judge:yes_no+2:m"
    said = [[m["content"] for m in body["messages"] if m["role"] == "assistant"] for body in server.asked]
    assert said == [["Yes", "No"]] * len(server.asked)


def test_a_rehearsal_of_a_benchmark_sends_nothing(command: Command) -> None:
    code, out, err = command(
        "bench", "overlap", "judge", "verify:cot", "-m", "m", "--data", "jsonl:colours.jsonl", "--dry-run"
    )
    assert (code, err) == (0, "")
    assert out.startswith("m: 160 calls (judge 80, check 80), about ")


def test_a_rehearsal_of_a_check(command: Command) -> None:
    code, out, err = command(
        "check", "answer.txt", "source.txt", "-d", "judge", "-d", "selfcheck", "-q", "How?", "-m", "m", "--dry-run"
    )
    assert (code, err) == (0, "")
    assert out.startswith("m: 6 calls (judge 1, sample 5)")


def test_compare_takes_models_too(command: Command) -> None:
    with serving(truth) as server:
        arguments = ("judge", "overlap", "-m", "m", "--base-url", server.url, "--data", "jsonl:colours.jsonl")
        code, out, err = command("bench", "compare", *arguments, "--metrics", "accuracy")
    assert (code, err) == (0, "")
    assert "1.000" in out  # the judge knows


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-d", "judge"], 2, "no language model is named (--model NAME, or model=NAME"),
        (["-d", "judge", "-m", "gpt-x"], 3, "no key for https://api.openai.com/v1"),
        (["-d", "overlap", "-m", "gpt-x"], 2, "the model gpt-x is named, and overlap asks no language model"),
        (["-d", "judge:cott", "-m", "x"], 2, "'cott' (did you mean cot?"),
        (["-d", "judge:few_shot=none.jsonl", "-m", "x"], 2, "no such file"),
        (["-d", "judge:few_shot=3", "-m", "x", "--base-url", "http://127.0.0.1:1/v1"], 2, "needs 3 few-shot examples"),
        (["-d", "judge:model=a,model=b"], 2, "given twice"),
        (["-d", "judge:model=a,max_cost=much"], 2, "max_cost is 'much'"),
        (["-d", "judge:model=a,max_cost=1"], 2, "max_cost is given without prices"),
        (["-d", "selfcheck:samples=0", "-m", "x"], 2, "samples of selfcheck is '0'"),
        (["-d", "selfcheck:temperature=hot", "-m", "x"], 2, "temperature of selfcheck is 'hot'"),
        (["-d", "verify:yes_no"], 2, "no language model is named"),
        (["-d", "verify:claims_per_call=2"], 2, "no language model is named"),
        (["-d", "verify:overlap,claims_per_call=2"], 2, "unknown option of overlap"),
        (["-d", "verify:overlap,citations=some"], 2, "citations are 'some'"),
        (["-d", "verify:overlap,coverage=maybe"], 2, "unknown coverage of verify 'maybe'"),
        (["-d", "verify:cot,claims_per_call=2", "-m", "x"], 2, "several claims per call take neither reasoning"),
    ],
)
def test_bad_input_is_one_line(command: Command, arguments: list[str], code: int, says: str) -> None:
    got, out, err = command("check", "answer.txt", "source.txt", *arguments)
    assert got == code, err
    assert says in err
    assert out == ""
    assert len(err.splitlines()) == 1


def test_papers_whose_budget_is_spent_go_on_and_pay_for_nothing_twice(command: Command) -> None:
    paper: dict[str, Any] = {"id": "p", "title": "T", "summary": "We found it is grey.", "authors": ["A. Ling"]}
    paper["metadata"] = {"year": 2009}
    questions = [{"query": f"Which colour is {thing}?", "papers": [paper]} for thing in ("it", "the tower", "Paris")]
    Path("paper_dataset.json").write_text(json.dumps(questions))
    with serving(lambda body: completion("Ling (2009) found it is grey.")) as server:
        arguments = ("papers", "paper_dataset.json", "-m", "m", "--base-url", server.url, "--out", "papers.jsonl")
        code, out, err = command(*arguments, "--max-calls", "2")
        assert (code, out, len(server.asked)) == (3, "", 2)
        assert "the budget is spent" in err
        assert not Path("papers.jsonl").exists()
        code, out, _ = command(*arguments)
        assert (code, len(server.asked)) == (0, 3)
    (row,) = (decode(line, "prevalence") for line in Path("papers.jsonl").read_text().splitlines())
    assert (row.questions, row.prevalence.summaries, row.prevalence.claims) == (3, 3, 3)
    assert not Path("papers.jsonl.work").exists()
