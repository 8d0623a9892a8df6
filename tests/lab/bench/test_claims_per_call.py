"""The benchmark of several claims in one call: on answers that are known it gives the figures that they have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import python
from veridical.io.serialization import encode
from veridical.records.types import Case, Example, Judgement, Source, Span, Verdict

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "claims_per_call.py"


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Six responses: the first sentence is right, the second wrong; and one that makes a single claim."""
    examples = []
    for i in range(6):
        case = Case(str(i), "It is tall. It is blue.", (Source("1", f"Tower {i} is tall and red."),))
        wrong = (Verdict(Span(18, 22), 1.0),)
        examples.append(Example(case, Judgement(str(i), "human:me", 1.0, verdicts=wrong), document=str(i)))
    alone = Case("7", "It is tall.", (Source("1", "It is tall."),))
    examples.append(Example(alone, Judgement("7", "human:me", 0.0), document="7"))
    (tmp_path / "towers.jsonl").write_text("".join(encode(example) + "\n" for example in examples))
    return f"jsonl:{tmp_path / 'towers.jsonl'}"


def run(*arguments: str) -> tuple[int, str, str]:
    done = python(str(BENCHMARK), *arguments, text=True)
    return done.returncode, done.stdout, done.stderr


def test_the_figures_are_those_of_the_answers(data: str, tmp_path: Path) -> None:
    script = {"1. It is tall.": "1. Yes\n2. Yes", "is blue": "No", "is tall": "Yes"}
    (tmp_path / "script.json").write_text(json.dumps(script))
    code, out, err = run("--model", f"scripted:{tmp_path / 'script.json'}", "--data", data, "--per-call", "2,4")
    assert (code, err) == (0, "")
    one, two, four = (json.loads(line) for line in out.splitlines())
    assert (one["claims"], one["cases"], one["wrong_claims"], one["calls"]) == (12, 6, 6, 12)
    assert (one["balanced_accuracy"]["value"], one["agreement"]["value"]) == (1.0, 1.0)
    assert (two["calls"], two["compared"], two["unread"]) == (6, 12, 0)
    assert two["agreement"] == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert (two["balanced_accuracy_one_per_call"]["value"], two["balanced_accuracy"]["value"]) == (1.0, 0.5)
    assert two["difference"]["value"] == -0.5
    assert (four["claims_per_call"], four["calls"]) == (4, 6)


def test_what_cannot_be_read_is_counted_and_not_compared(data: str, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"1. It is tall.": "1. Yes\n2. Perhaps", "": "Yes"}))
    _, out, _ = run("--model", f"scripted:{tmp_path / 'script.json'}", "--data", data, "--per-call", "2")
    two = json.loads(out.splitlines()[1])
    assert (two["unread"], two["unread_one_per_call"], two["compared"]) == (6, 0, 6)


def test_a_rehearsal_and_what_cannot_be_measured(data: str, tmp_path: Path) -> None:
    code, out, _ = run("--model", "any", "--data", data, "--per-call", "2", "--dry-run")
    assert code == 0
    assert out.startswith("any: 18 calls")
    alone = tmp_path / "alone.jsonl"
    case = Case("7", "It is tall.", (Source("1", "It is tall."),))
    alone.write_text(encode(Example(case, Judgement("7", "human:me", 0.0))) + "\n")
    assert run("--model", "any", "--data", f"jsonl:{alone}")[0] == 3
