"""How well `veridical rate` estimates the share of wrong answers from 100 labels: coverage and width of its intervals.

    python benchmarks/true_rate.py FOLDER [--detector default] [--cases 1000]

Each labelled set in FOLDER is a run whose truth is known: as it is, and with so many wrong answers left out that 10 %
are wrong. 100 rows are drawn, their gold labels are read, and the interval is compared with the truth and with Wilson's
interval of 100 random labels (with the same correction for a finite run), 500 times. The groups are two halves of the
run by document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any
from zlib import crc32

import numpy as np
from running import benchmark

from veridical.datasets import read
from veridical.detectors import load_detector
from veridical.metrics.significance import wilson_interval
from veridical.records.detector import digest_of, fingerprint_of
from veridical.records.types import Checked, Example
from veridical.workflows.checking import check_cases
from veridical.workflows.rate.estimate import estimate
from veridical.workflows.rate.rows import Run, RunRow
from veridical.workflows.rate.strata import draw

SETS = {name: name for name in ("begin", "conv_fever", "wice", "bump", "summedits")} | {"written_answers": "written"}
LABELS, DRAWS, RARE = 100, 500, 0.1


@benchmark("true-rate.jsonl")
def main(data: Path, *, detector: str = "default", cases: int = 1000) -> Iterator[dict[str, Any]]:
    loaded = load_detector(detector)
    for name, folder in SETS.items():
        split = "dev" if folder == "written" else None
        examples = [e for e in read(f"{name}:{data / folder}", split) if e.gold.hallucination is not None]
        Random(0).shuffle(examples)
        examples = examples[:cases]
        results = [one for i in range(0, len(examples), 64) for one in _checked(examples[i : i + 64], loaded)]
        for rare in (False, True):
            run, truth = _run(examples, results, rare)
            if len(run.rows) < 1.5 * LABELS:
                continue
            row = {
                "data": name,
                "rare": rare,
                "detector": detector,
                "fingerprint": digest_of(fingerprint_of(loaded)),
            }
            yield row | simulate(run, truth, LABELS, DRAWS)


def _checked(examples: list[Example], detector: Any) -> list[Checked]:
    return list(check_cases([example.case for example in examples], [detector]))


def _run(examples: list[Example], results: list[Checked], rare: bool) -> tuple[Run, dict[int, bool]]:
    """A run and its truth; `rare`: with only so many wrong answers that a tenth is wrong."""
    wrong = [i for i, example in enumerate(examples) if (example.gold.hallucination or 0) >= 0.5]
    right = [i for i in range(len(examples)) if i not in set(wrong)]
    if rare:
        wrong = Random(1).sample(wrong, min(len(wrong), round(len(right) * RARE / (1 - RARE))))
    chosen = sorted(wrong + right)
    rows = []
    for number, i in enumerate(chosen, 1):
        half = "ab"[crc32(str(examples[i].document or examples[i].case.id).encode()) % 2]
        score = results[i].judgements[0].hallucination
        rows.append(RunRow(number, examples[i].case.id, results[i].outcome, score, {"half": half}))
    truth = {number: i in set(wrong) for number, i in enumerate(chosen, 1)}
    return Run("simulated", tuple(rows)), truth


def simulate(run: Run, truth: dict[int, bool], labels: int, draws: int) -> dict[str, Any]:
    """The coverage and the mean width of the intervals, next to those of random labels."""
    n = len(run.rows)
    rows = [replace(row, columns={}) for row in run.rows]  # the draw does not know the halves
    share = mean(truth.values())
    halves = {half: mean(truth[r.row] for r in run.rows if r.columns["half"] == half) for half in "ab"}
    none = np.zeros(n, dtype=np.int64)
    covered, widths, random_covered, random_widths, half_covered, alarms = ([] for _ in range(6))
    for seed in range(draws):
        chosen = draw(rows, labels, none, seed)
        report = estimate(run, {run.rows[i].row: truth[run.rows[i].row] for i in chosen}, ["half"])
        low, high = report.wrong.low, report.wrong.high
        covered.append(low <= share <= high)
        widths.append(high - low)
        for group in report.groups:
            half_covered.append(group.wrong.low <= halves[group.group] <= group.wrong.high)
        alarms.append(report.groups[0].change is not None)
        sample = Random(seed).sample(list(truth.values()), labels)
        effective = labels / (1 - labels / n)
        low, high = wilson_interval(mean(sample) * effective, effective)
        random_covered.append(low <= share <= high)
        random_widths.append(high - low)
    return {
        "rows": n,
        "wrong": share,
        "flagged": mean(row.outcome.value == "flagged" for row in run.rows),
        "labels": labels,
        "draws": draws,
        "coverage": mean(covered),
        "width": mean(widths),
        "random_coverage": mean(random_covered),
        "random_width": mean(random_widths),
        "half_coverage": mean(half_covered),
        "halves": halves,
        "halves_called_different": mean(alarms),
    }


if __name__ == "__main__":
    main()
