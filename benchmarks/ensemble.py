"""An ensemble and its cascade beside their members, on documents that neither was fitted on.

    python benchmarks/ensemble.py SET:PATH --members overlap --members align:FOLDER --out build/ensemble/SET

The data are split by document (70/10/20, seed 0). The ensemble is fitted on the validation part and everything is
measured on the test part: every member judges it once, the ensemble combines these judgements, and the cascade is run
by itself with members loaded again. Seconds are processor seconds of all threads, of judging alone. Appends result
rows to benchmarks/rows/ensemble.jsonl, tests against each member to ensemble-compare.jsonl, and what the cascade saves
to ensemble-cascade.jsonl. An interrupted run continues, and one with other members reuses what is judged already.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from veridical.core.detector import Detector, digest_of, info_of
from veridical.core.jsonl import append_lines
from veridical.core.judging import judge, thresholds_in_force
from veridical.core.serialization import encode
from veridical.core.types import Judgement, Level
from veridical.datasets import read
from veridical.metrics.registry import METRICS
from veridical_lab.bench.compare import compare_pair, correct
from veridical_lab.bench.evaluation import Evaluation, identity, judge_all
from veridical_lab.bench.journal import Journal
from veridical_lab.bench.run import result_rows
from veridical_lab.bench.settings import Loaded, Settings, load_data
from veridical_lab.detectors.ensemble.detector import Ensemble
from veridical_lab.training.ensemble import EnsembleOptions, fit_ensemble, load_members

ROWS = Path(__file__).parent / "rows"
SHOWN = ("roc_auc", "word_roc_auc", "balanced_accuracy", "brier", "ece")
TESTED = ("roc_auc", "word_roc_auc")


def timed(detector: Detector, data: Loaded, settings: Settings, folder: Path) -> tuple[list[Judgement], float]:
    """The judgements of the test part and the processor seconds; what loads first is not counted."""
    cases = [example.case for example in data.examples]
    journal = Journal.open(folder, identity(detector), data.hash, "test")
    if len(journal.judgements) < len(cases):
        judge(detector, cases[:1])
    return judge_all(detector, cases, detector.name, settings, journal=journal, clock=time.process_time)


def evaluation(detector: Detector, data: Loaded, judgements: list[Judgement], seconds: float) -> Evaluation:
    """What is needed to measure and compare."""
    in_force = thresholds_in_force(detector)
    thresholds = {level.value: in_force[level] for level in Level}
    return Evaluation(
        detector.name, info_of(detector).levels, data, judgements, thresholds, "detector or default", seconds
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--members", action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--criterion", default="balanced_accuracy")
    parser.add_argument("--keep", type=float, default=0.99)
    arguments = parser.parse_args()
    command = " ".join(["python", "benchmarks/ensemble.py", *sys.argv[1:]])
    folder = arguments.out.with_name(arguments.data.partition(":")[0] + ".work")
    folder.mkdir(parents=True, exist_ok=True)
    members = load_members(arguments.members)
    options = EnsembleOptions(criterion=arguments.criterion, keep=arguments.keep, data=arguments.data, journal=folder)
    fitted = fit_ensemble(members, list(read(arguments.data)), options, out=arguments.out)
    settings = Settings(arguments.members, [arguments.data], fit="none", command=command)
    data = load_data(arguments.data, settings)
    judged = {spec: timed(detector, data, settings, folder) for spec, detector in members.items()}
    order = [member.detector for member in fitted.members]

    together = Ensemble([members[spec] for spec in order], fitted, name=f"ensemble:{arguments.out}")
    combined = [
        together.combine(example.case, said)
        for example, *said in zip(data.examples, *(judged[spec][0] for spec in order), strict=True)
    ]
    seconds_of_all = sum(seconds for _, seconds in judged.values())
    evaluations = [evaluation(members[spec], data, *judged[spec]) for spec in arguments.members]
    everybody = evaluation(together, data, combined, seconds_of_all)
    found = [*evaluations, everybody]
    comparisons = [compare_pair(everybody, other, name, command) for name in TESTED for other in evaluations]
    if fitted.cascade:
        again = load_members(arguments.members)
        for detector in again.values():
            judge(detector, [data.examples[0].case])
        cascade = Ensemble(
            [again[spec] for spec in order], fitted, cascade=True, name=f"ensemble:{arguments.out},cascade=yes"
        )
        judgements, seconds = timed(cascade, data, settings, folder)
        found.append(evaluation(cascade, data, judgements, seconds))
        comparisons.append(compare_pair(everybody, found[-1], "roc_auc", command))
        asked = [int(dict(j.provenance)["decided by"].partition(", ")[2].split()[0]) for j in judgements]
        row = {
            "data": arguments.data.partition(":")[0],
            "split": data.split,
            "data_hash": data.hash,
            "n": len(judgements),
            "members": order,
            "seconds": [round(judged[spec][1], 3) for spec in order],
            "asked": [round(sum(count > i for count in asked) / len(asked), 4) for i in range(len(order))],
            "seconds_of_all": round(seconds_of_all, 3),
            "seconds_of_cascade": round(seconds, 3),
            "share_of_seconds": round(seconds / seconds_of_all, 4),
            "roc_auc_of_all": comparisons[-1].value_a,
            "roc_auc_of_cascade": comparisons[-1].value_b,
            "p": comparisons[-1].p,
            "on_validation": fitted.validation["cascade"],
            "command": command,
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{os.cpu_count()} x {platform.machine()} {sys.platform}",
        }
        append_lines(ROWS / "ensemble-cascade.jsonl", [json.dumps(row)])
    metrics = {name: METRICS[name] for name in SHOWN}
    for one in found:
        fitting = {name: metric for name, metric in metrics.items() if metric.fits(one.levels, data.levels)}
        run_id = digest_of([one.name, digest_of([encode(fitted)]), data.hash])
        append_lines(ROWS / "ensemble.jsonl", [encode(row) for row in result_rows(run_id, one, settings, fitting)])
    append_lines(ROWS / "ensemble-compare.jsonl", [encode(comparison) for comparison in correct(comparisons)])
    print(json.dumps(fitted.validation))


if __name__ == "__main__":
    main()
