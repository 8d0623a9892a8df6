"""Run annotation rounds from files: score items for the next round, append annotations, and report a simulated loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from veridical.detectors import load_detector
from veridical.io.jsonl import read_json
from veridical.io.serialization import decode, encode
from veridical.metrics import UndefinedMetricError
from veridical.records.errors import InputError
from veridical.records.judging import judge
from veridical.records.types import Example, Judgement
from veridical_lab.annotate.balance import Annotated
from veridical_lab.annotate.items import item_place, says_hallucinated
from veridical_lab.annotate.scorer import PoolScores, Scorer, item_weights, score_pool
from veridical_lab.annotate.simulate import Loop
from veridical_lab.datasets.appending import append_lines


def round_scores(
    labelled: Sequence[Example], pool: Sequence[Example], detector: str | None = None, *, seed: int = 0
) -> PoolScores:
    """Score a pool of items, and the items that are already annotated.

    Args:
        labelled: The items of the rounds so far, with their consensus labels.
        pool: The items to score.
        detector: The detector that scores. Default: a classifier of word features that is trained on `labelled`
            (`scorer.score_pool`).
        seed: The random seed by which this classifier's folds are drawn.

    Raises:
        InputError: The detector does not judge the place of some item, or no classifier can be trained.
    """
    if detector is None:
        return score_pool(Scorer([*labelled, *pool]), labelled, pool, seed=seed)
    loaded = load_detector(detector)
    scores = []
    items = [*labelled, *pool]
    for item, judgement in zip(items, judge(loaded, [item.case for item in items]), strict=True):
        place = item_place(item).span
        place_scores = [verdict.score for verdict in judgement.verdicts if verdict.span.overlaps(place)]
        if not place_scores and (judgement.judged is not None and not any(s.overlaps(place) for s in judgement.judged)):
            raise InputError(
                f"{detector} does not judge the place of item {item.case.id!r}", hint="take another detector"
            )
        scores.append(max(place_scores, default=0.0))
    labels = [bool(says_hallucinated(item.gold)) for item in labelled]
    annotated = Annotated(labels, scores[: len(labelled)], item_weights(labelled).tolist())
    return PoolScores(np.array(scores[len(labelled) :]), annotated)


def append_annotation(path: Path, example: Example, judgement: Judgement) -> None:
    """Append one person's annotation of an example to a file of examples, without delay."""
    append_lines(path, [encode(replace(example, annotations=(judgement,)))])


def annotated_by(path: Path, by: str) -> set[str]:
    """Find the ids of the cases that a person has annotated in a file of examples. Without a file, there are none."""
    if not path.exists():
        return set()
    examples: list[Example] = [decode(value, "example") for _, value in read_json(path)]  # type: ignore[arg-type]
    return {e.case.id for e in examples if any(judgement.by == by for judgement in e.annotations)}


def loop_rows(loop: Loop, pool: int, method: str, consistent: float) -> list[dict[str, Any]]:
    """Convert a simulated loop to rows of plain values: one per round, one per annotator and one for the whole loop."""
    rows: list[dict[str, Any]] = []
    for r in loop.rounds:
        chosen = r.selection
        measured: dict[str, float | None] = dict.fromkeys(("tpr", "tnr", "precision"))
        if chosen.counts is not None:
            rates = (chosen.counts.recall, chosen.counts.specificity, chosen.counts.precision)
            for name, rate in zip(measured, rates, strict=True):
                with suppress(UndefinedMetricError):
                    measured[name] = rate()
        rows.append(
            {
                "what": "round",
                "round": r.number,
                "candidates": chosen.candidates,
                "left_out": dict(chosen.left_out),
                **measured,
                "threshold": chosen.threshold,
                "exact": None if chosen.subsampling is None else chosen.subsampling.exact,
                "ratio": None if chosen.subsampling is None else chosen.subsampling.hallucinated,
                "annotated": len(chosen.items),
                "agreed": r.agreed,
                "hallucinated": r.hallucinated,
                "cumulative": r.cumulative,
                "alpha": r.agreement.alpha,
                "kappa": r.agreement.kappa,
            }
        )
    inside: list[bool] = []  # whether each true error rate is in its interval
    for person, quality in loop.people:
        known = ((person.misses, quality.misses_interval), (person.false_alarms, quality.false_alarms_interval))
        if person.name not in loop.blocked:
            inside += [i[0] <= rate <= i[1] for rate, i in known if i is not None]
        rows.append(
            {
                "what": "annotator",
                "name": person.name,
                "labels": quality.labels,
                "misses": person.misses,
                "misses_estimate": quality.misses,
                "misses_interval": quality.misses_interval,
                "false_alarms": person.false_alarms,
                "false_alarms_estimate": quality.false_alarms,
                "false_alarms_interval": quality.false_alarms_interval,
                "signs": "; ".join(quality.signs),
            }
        )
    rows.append(
        {
            "what": "loop",
            "pool": pool,
            "method": method,
            "consistent": consistent,
            "total": len(loop.examples),
            "right": loop.right,
            "hallucinated": loop.rounds[-1].cumulative,
            "rates": len(inside),
            "rates_inside": sum(inside),
            "blocked": list(loop.blocked),
        }
    )
    return rows
