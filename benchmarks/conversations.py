"""Are the turns of conversations judged rightly? 40 invented ones of eight kinds, and the log of a real agent.

    python benchmarks/conversations.py [--log FILE] [--detector SPEC …] [--model NAME --base-url URL]

Each turn of the assistant in `data/conversations.jsonl` has its right verdict and, where it has one, the cause. Half of
the conversations, `dev`, is for development; `test` only for testing. A row has the share of turns with the right
outcome (a turn that could not be judged has none), with a 95 % interval by bootstrap over conversations, and the turns
by verdict and by kind; for `default` also how many of the labelled causes are named rightly. --model adds `verify` with
a chat model.

--log measures an agent's log instead: historical_trajectories/gpt-4o-airline.json of sierra-research/tau-bench (MIT),
the first trial of each task. `data/agent_log.jsonl` labels 60 turns of tasks 25 to 49, drawn at random, without five
that the log does not decide; tasks 0 to 24 were used during development.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from running import benchmark

from veridical.detectors import load_detector
from veridical.io.conversations import read_conversation
from veridical.llm.connection import Connection
from veridical.metrics.significance import bootstrap
from veridical.records.detector import Detector, digest_of, fingerprint_of
from veridical.records.types import Case, Outcome
from veridical.workflows.checking import check_cases

HERE = Path(__file__).parent
DATA = HERE / "data" / "conversations.jsonl"
LABELS = HERE / "data" / "agent_log.jsonl"
RIGHT_OUTCOMES = {"right": Outcome.CLEAR, "wrong": Outcome.FLAGGED}


def conversations() -> list[dict[str, Any]]:
    """The invented conversations: `messages`, and `turns` with the number of a message, its verdict and its cause."""
    return [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]


def logged(path: Path) -> list[dict[str, Any]]:
    """The conversations of an agent's log that have labelled turns, in the same form."""
    turns: dict[int, list[dict[str, Any]]] = {}
    for line in LABELS.read_text("utf-8").splitlines():
        label = json.loads(line)
        verdict = "right" if label["right"] else "wrong"
        turns.setdefault(label["task"], []).append({"message": label["message"], "verdict": verdict})
    first = (each for each in json.loads(path.read_text("utf-8")) if each["trial"] == 0 and each["task_id"] in turns)
    return [
        {
            "id": str(each["task_id"]),
            "part": "test",
            "kind": "agent log",
            "system": "all",
            "messages": each["traj"],
            "turns": turns[each["task_id"]],
        }
        for each in first
    ]


def measured(detector: Detector, given: list[dict[str, Any]], path: Path) -> Iterator[dict[str, Any]]:
    """A row for each part of the conversations that `path` holds."""
    causes = detector.name == "default"
    labelled, cases = list[tuple[dict[str, Any], dict[str, Any]]](), list[Case]()
    for conversation in given:
        read = read_conversation(
            conversation["messages"], id=conversation["id"], system=conversation.get("system", "none")
        )
        by_id = {case.id: case for case in read}
        for turn in conversation["turns"]:
            labelled.append((conversation, turn))
            cases.append(by_id[f"{conversation['id']} message {turn['message']}"])
    results = list(check_cases(cases, [detector], causes=causes))
    judged = [(c, turn, result) for (c, turn), result in zip(labelled, results, strict=True)]
    for part in sorted({c["part"] for c in given}):
        turns = [(c, turn, result.outcome) for c, turn, result in judged if c["part"] == part]
        with_cause = [(turn["cause"], r.cause) for c, turn, r in judged if c["part"] == part and turn.get("cause")]
        named = [found is not None and found.kind == cause for cause, found in with_cause]
        hit = np.array([outcome is RIGHT_OUTCOMES[turn["verdict"]] for _, turn, outcome in turns], dtype=float)
        names = [c["id"] for c, _, _ in turns]
        low, high = bootstrap(lambda w, h=hit: float(np.average(h, weights=w)), names)  # type: ignore[misc]
        of: Counter[str] = Counter()
        right: Counter[str] = Counter()
        for (conversation, turn, _), one in zip(turns, hit, strict=True):
            for name in (conversation["kind"], turn["verdict"], turn.get("cause")):
                if name:
                    of[name] += 1
                    right[name] += int(one)
        yield {
            "data": path.name,
            "split": part,
            "data_hash": hashlib.sha256(path.read_bytes()).hexdigest(),
            "detector": detector.name,
            "fingerprint": digest_of(fingerprint_of(detector)),
            "n": len(turns),
            "conversations": len({c["id"] for c, _, _ in turns}),
            "unjudged": sum(outcome is Outcome.UNJUDGED for _, _, outcome in turns),
            "rightly": {"value": round(float(hit.mean()), 4), "low": round(low, 4), "high": round(high, 4)},
            **({"causes": [sum(named), len(named)]} if causes and named else {}),
            "by": {name: [right[name], of[name]] for name in of},
        }


@benchmark("conversations.jsonl")
def main(
    *,
    log: Annotated[Path | None, "gpt-4o-airline.json: measure its labelled turns"] = None,
    detector: Sequence[str] = ("overlap", "overlap:values", "default"),
    model: Annotated[str | None, "a chat model: measure `verify` with it, too"] = None,
    base_url: Annotated[str | None, "where the chat model is served"] = None,
) -> Iterator[dict[str, Any]]:
    specs = [*detector, *(["verify"] if model else [])]
    connection = Connection(model=model, base_url=base_url) if model else None
    data, path = (logged(log), log) if log else (conversations(), DATA)
    for spec in specs:
        yield from measured(load_detector(spec, connection), data, path)


if __name__ == "__main__":
    main()
