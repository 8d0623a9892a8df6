"""Are the turns of conversations judged rightly? 40 invented ones of eight kinds, in the forms of four frameworks.

    python benchmarks/conversations.py [--detector SPEC …] [--model NAME --base-url URL]

Each turn of the assistant in `data/conversations.jsonl` has its right verdict and, where it has one, the cause. Half of
the conversations, `dev`, is for development; `test` only for testing. Rows go to `rows/conversations.jsonl` in place of
those of the same detector: the share of turns with the right outcome (a turn that could not be judged has none), with a
95 % interval by bootstrap over conversations, and the turns by verdict and by kind; for `default` also how many of the
labelled causes are named rightly. --model adds `verify` with a chat model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from commands import command

from veridical.checking import check_cases
from veridical.core.detector import Detector, digest_of, fingerprint_of
from veridical.core.messages import read_conversation
from veridical.core.types import Outcome
from veridical.detectors import load_detector
from veridical.llm.connection import Connection
from veridical.metrics.significance import bootstrap

HERE = Path(__file__).parent
DATA = HERE / "data" / "conversations.jsonl"
ROWS = HERE / "rows" / "conversations.jsonl"
RIGHT_OUTCOMES = {"right": Outcome.CLEAR, "wrong": Outcome.FLAGGED}


def conversations() -> list[dict[str, Any]]:
    """The conversations: `messages`, and `turns` with the number of a message, its verdict and its cause."""
    return [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]


def measured(detector: Detector) -> Iterator[dict[str, Any]]:
    """A row for each part of the conversations."""
    causes = detector.name == "default"
    judged = [
        (conversation, turn, result)
        for conversation in conversations()
        for turn, result in zip(
            conversation["turns"],
            check_cases(read_conversation(conversation["messages"], id=conversation["id"]), [detector], causes=causes),
            strict=True,
        )
    ]
    for part in ("dev", "test"):
        turns = [(c, turn, result.outcome) for c, turn, result in judged if c["part"] == part]
        labelled = [(turn["cause"], r.cause) for c, turn, r in judged if c["part"] == part and turn.get("cause")]
        named = [found is not None and found.kind == cause for cause, found in labelled]
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
            "data": DATA.name,
            "split": part,
            "data_hash": hashlib.sha256(DATA.read_bytes()).hexdigest(),
            "detector": detector.name,
            "fingerprint": digest_of(fingerprint_of(detector)),
            "n": len(turns),
            "conversations": len({c["id"] for c, _, _ in turns}),
            "unjudged": sum(outcome is Outcome.UNJUDGED for _, _, outcome in turns),
            "rightly": {"value": round(float(hit.mean()), 4), "low": round(low, 4), "high": round(high, 4)},
            **({"causes": [sum(named), len(named)]} if causes else {}),
            "by": {name: [right[name], of[name]] for name in of},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--detector", action="append", metavar="SPEC")
    parser.add_argument("--model", help="a chat model: measure `verify` with it, too")
    parser.add_argument("--base-url", help="where the chat model is served")
    given = parser.parse_args()
    specs = [*(given.detector or ("overlap", "overlap:values", "default")), *(["verify"] if given.model else [])]
    connection = Connection(model=given.model, base_url=given.base_url) if given.model else None
    for spec in specs:
        detector = load_detector(spec, connection)
        new = [row | {"command": command(), "date": date.today().isoformat()} for row in measured(detector)]
        before = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()] if ROWS.exists() else []
        rows = [*(row for row in before if row["detector"] != detector.name), *new]
        ROWS.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        print(*map(json.dumps, new), sep="\n", flush=True)


if __name__ == "__main__":
    main()
