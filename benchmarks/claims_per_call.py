"""What is lost by asking a model for several claims in one call: agreement with one claim a call, and accuracy of both.

    python benchmarks/claims_per_call.py --model NAME --data bump:FOLDER --sample 20 --per-call 2,4,8

Takes any labelled data with marked spans: the claims are the sentences of each response that has several, and a claim
is wrong where a gold span lies in it. The same claims are asked for one by one and `--per-call` at once; figures are
over the claims that were answered both ways, with 95 % bootstrap intervals by document. Models are reached as by
`veridical check -d verify`; with --cache nothing is paid twice, --dry-run counts calls and tokens. Prints one JSON
row a line.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from veridical.cli.delivery import print_dry_run
from veridical.datasets.split import document_of
from veridical.detectors.claims.claim_checker import ClaimResult, Question
from veridical.detectors.claims.claims import sentence_claims
from veridical.detectors.claims.llm_checker import LLMChecker
from veridical.llm.connection import Connection, read_prices
from veridical.metrics import UndefinedMetricError
from veridical.metrics.confusion import Confusion
from veridical.metrics.significance import bootstrap
from veridical.records.errors import CannotJudgeError, VeridicalError
from veridical.records.types import GOLD_THRESHOLD, Usage
from veridical_lab.bench.settings import BenchSettings, Loaded, load_data


@dataclass(frozen=True, slots=True)
class Claims:
    """The questions, whether each claim is wrong, and its document."""

    questions: list[Question] = field(default_factory=list)
    wrong: list[bool] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)


def claims_of(data: Loaded) -> Claims:
    """The sentences of all responses that make several, with their labels."""
    found = Claims()
    for example in data.examples:
        case, gold = example.case, [v.span for v in example.gold.verdicts if v.score >= GOLD_THRESHOLD]
        own = sentence_claims(case.response).claims
        unplaced = (example.gold.hallucination or 0.0) >= GOLD_THRESHOLD and not gold
        if len(own) < 2 or not case.sources or unplaced:
            continue
        for claim in own:
            found.questions.append(Question(case.id, claim.text, case.sources))
            found.wrong.append(any(span.overlaps(claim.spans[0]) for span in gold))
            found.documents.append(document_of(example))
    return found


def figure(value: Callable[[Any], float], documents: Sequence[str]) -> dict[str, float] | None:
    """The value on all claims and its interval; None where it is undefined."""
    try:
        low, high = bootstrap(value, documents)
        return {"value": round(value(np.ones(len(documents))), 4), "low": round(low, 4), "high": round(high, 4)}
    except UndefinedMetricError:
        return None


def row(claims: Claims, one: list[ClaimResult], several: list[ClaimResult], per_call: int) -> dict[str, Any]:
    """The figures of `several` against `one`."""
    both = [i for i, (a, b) in enumerate(zip(one, several, strict=True)) if a.score is not None and b.score is not None]
    wrong, documents = np.array([claims.wrong[i] for i in both]), [claims.documents[i] for i in both]
    said = [np.array([(side[i].score or 0.0) >= GOLD_THRESHOLD for i in both]) for side in (one, several)]
    usage = Usage.total(finding.usage for finding in several)
    found: dict[str, Any] = {
        "claims_per_call": per_call,
        "claims": len(claims.wrong),
        "cases": len({question.case_id for question in claims.questions}),
        "wrong_claims": sum(claims.wrong),
        "unread": sum(finding.score is None for finding in several),
        "unread_one_per_call": sum(finding.score is None for finding in one),
        "compared": len(both),
        **(asdict(usage) if usage else {}),
    }
    if both:
        alike = (said[0] == said[1]).astype(float)
        accuracies = [lambda w, s=s: Confusion.of(wrong, s, w).balanced_accuracy() for s in said]
        found["agreement"] = figure(lambda w: float(w @ alike / w.sum()), documents)
        found["balanced_accuracy_one_per_call"] = figure(accuracies[0], documents)
        found["balanced_accuracy"] = figure(accuracies[1], documents)
        found["difference"] = figure(lambda w: accuracies[1](w) - accuracies[0](w), documents)
    return found


def measure(connection: Connection, spec: str, sample: int | None, counts: Sequence[int], seed: int) -> None:
    data = load_data(spec, BenchSettings([], [spec], sample=sample, seed=seed))
    claims = claims_of(data)
    if not claims.questions:
        raise CannotJudgeError(f"{spec}: no response with several sentences and marked spans")
    one: list[ClaimResult] = []
    for per_call in (1, *counts):
        checker = LLMChecker(connection.chat(), claims_per_call=per_call)
        findings = checker.check(claims.questions)
        if connection.refused_requests:
            raise CannotJudgeError("the budget is spent", hint="run again with more; with --cache it goes on")
        one = one or findings
        if not connection.dry_run:
            about = {"benchmark": "claims per call", "model": checker.model.name, "data": data.name}
            about |= {"split": data.split, "data_hash": data.hash, "prompts": [p.hash for p in checker.prompts]}
            made = {"command": shlex.join(["python", *sys.argv]), "python": platform.python_version()}
            made["date"] = datetime.now(UTC).date().isoformat()
            print(json.dumps({**about, **row(claims, one, findings, per_call), **made}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a name on the server, a local folder, scripted:FILE")
    parser.add_argument("--data", required=True, metavar="SET:PATH")
    parser.add_argument("--per-call", default="2,4,8", help="claims at once, with commas")
    parser.add_argument("--sample", type=int, help="only so many documents")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--base-url")
    parser.add_argument("--key-env")
    parser.add_argument("--prices", type=read_prices, metavar="IN,OUT")
    parser.add_argument("--max-cost", type=float)
    parser.add_argument("--max-calls", type=int)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--dry-run", action="store_true")
    given = vars(parser.parse_args())
    data, counts = given.pop("data"), [int(count) for count in given.pop("per_call").split(",")]
    sample, seed, dry_run = given.pop("sample"), given.pop("seed"), given.pop("dry_run")
    connection = Connection(**given, dry_run=dry_run)
    try:
        measure(connection, data, sample, counts, seed)
    except VeridicalError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return print_dry_run(connection) if dry_run else 0


if __name__ == "__main__":
    raise SystemExit(main())
