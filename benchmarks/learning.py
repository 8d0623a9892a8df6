"""Recalibration by 200 decisions, on data that the training of the detector "default" has not seen.

    python benchmarks/learning.py --data ../shared/data --cache build/learning --out benchmarks/rows/learning.jsonl

The sentences of half of a set's documents, drawn at random, are a run. Its reviewer decides about half of --decisions
among the flagged sentences, and about as many unflagged ones that were drawn at random, as the gold labels do. What
`History` would then learn is applied to all sentences of the other documents, and compared with the detector as it is,
in --draws draws. A draw in which nothing is offered has the gain 0. Results of the detector are kept in --cache. Prints
one JSON row per set and appends it to --out.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from running import command

from veridical.datasets import read
from veridical.datasets.split import document_of
from veridical.detectors import load_detector
from veridical.detectors.calibrated import Scale
from veridical.history.learning import learn
from veridical.history.records import DecidedSentence, Decisions
from veridical.history.sentences import overlap, sentences_of
from veridical.io.serialization import encode, read_documents
from veridical.metrics.confusion import Confusion
from veridical.metrics.registry import METRICS
from veridical.records.judging import thresholds_in_force
from veridical.records.types import Checked, Example, Level
from veridical.workflows.checking import check_cases

STEP = 16  # cases that are judged before the cache has them
SETS = ("shroom_2024", "bump", "xsum_token")


def results_of(examples: Sequence[Example], cache: Path) -> list[Checked]:
    """The results of the detector, from the cache where it has them; the others are added to it."""
    cache.touch()
    results = [record for _, record in read_documents(cache, "check")]
    with cache.open("a", encoding="utf-8") as file:
        for start in range(len(results), len(examples), STEP):
            for checked in check_cases([example.case for example in examples[start : start + STEP]]):
                file.write(encode(checked) + "\n")
                results.append(checked)
            file.flush()
    assert [checked.case for checked in results[: len(examples)]] == [example.case for example in examples]
    return results[: len(examples)]


def labelled(examples: Sequence[Example], results: Sequence[Checked]) -> Iterator[tuple[DecidedSentence, float]]:
    """The sentences with a label, decided, and the detector's score of each."""
    for example, checked in zip(examples, results, strict=True):
        (judgement,) = checked.judgements
        wrong = [verdict.span for verdict in example.gold.verdicts if verdict.score >= 0.5]
        scores = {each.span: each.score for each in judgement.sentences}
        for span, is_flagged in sentences_of(checked):
            if example.gold.hallucination and not wrong and len(scores) > 1:
                continue  # one of the sentences is wrong, and the label does not say which
            is_wrong = bool(example.gold.hallucination) and (not wrong or any(overlap(span, place) for place in wrong))
            yield (
                DecidedSentence(
                    case=checked.case,
                    judgements=checked.judgements,
                    document=document_of(example),
                    span=span,
                    wrong=is_wrong,
                    drawn="flagged" if is_flagged else "random",
                ),
                scores[span],
            )


def draw(
    sentences: Sequence[tuple[DecidedSentence, float]], detector: Any, threshold: float, count: int, seed: int
) -> dict[str, Any]:
    """What one reviewer's decisions change in the documents that were not reviewed."""
    rng = random.Random(seed)
    documents = sorted({one.document for one, _ in sentences})
    reviewed = set(rng.sample(documents, len(documents) // 2))
    run = [one for one, _ in sentences if one.document in reviewed]
    lists = {how: [one for one in run if one.drawn == how] for how in ("flagged", "random")}
    decided = [one for each in lists.values() for one in rng.sample(each, min(count // 2, len(each)))]
    at_random = sum(one.drawn == "random" for one in decided)
    decisions = Decisions(
        flagged=len(decided) - at_random,
        random=at_random,
        sampled=at_random,
        all_flagged=len(lists["flagged"]),
        all_unflagged=len(lists["random"]),
    )
    judgements = [one.judgements[0] for one in decided]
    learning, fitted = learn(detector, decided, judgements, decisions, spec="default", run=f"draw {seed}")
    others = [(one.wrong, score) for one, score in sentences if one.document not in reviewed]
    labels, scores = (np.array(column) for column in zip(*others, strict=True))
    scale = Scale(threshold) if fitted is None else fitted.scales[Level.RESPONSE]
    after = np.array(scale.apply(scores.tolist()))
    measured = {
        "balanced_accuracy": [
            Confusion.of(labels, scores >= threshold).balanced_accuracy(),
            Confusion.of(labels, after >= scale.threshold).balanced_accuracy(),
        ],
        "brier": [METRICS["brier"].value(np.column_stack([labels, each])) for each in (scores, after)],
    }
    return {"verdict": learning.verdict, "decided": len(decided), **measured}


def summary(draws: Sequence[dict[str, Any]], metric: str, sign: int) -> dict[str, float]:
    """The mean before, the mean and the worst gain, and the share of draws that got worse."""
    before, after = np.array([one[metric] for one in draws]).T
    gains = sign * (after - before)
    return {
        "before": round(float(before.mean()), 4),
        "mean_gain": round(float(gains.mean()), 4) + 0.0,
        "worst_gain": round(float(gains.min()), 4) + 0.0,
        "worse": round(float((gains < 0).mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--cases", type=int, default=1000, help="the most cases of a set, drawn at random")
    parser.add_argument("--decisions", type=int, default=200)
    parser.add_argument("--draws", type=int, default=20)
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    detector = load_detector("default")
    threshold = thresholds_in_force(detector).response
    for name in args.sets:
        examples = list(read(f"{name}:{args.data / name}"))
        random.Random(0).shuffle(examples)
        examples = examples[: args.cases]
        sentences = list(labelled(examples, results_of(examples, args.cache / f"{name}.jsonl")))
        draws = [draw(sentences, detector, threshold, args.decisions, seed) for seed in range(args.draws)]
        row = {
            "set": name,
            "cases": len(examples),
            "sentences": len(sentences),
            "wrong": round(float(np.mean([one.wrong for one, _ in sentences])), 4),
            "flagged": round(float(np.mean([one.drawn == "flagged" for one, _ in sentences])), 4),
            "decisions": round(float(np.mean([one["decided"] for one in draws])), 1),
            "draws": len(draws),
            "offered": round(float(np.mean([one["verdict"] == "gain" for one in draws])), 4),
            "balanced_accuracy": summary(draws, "balanced_accuracy", 1),
            "brier": summary(draws, "brier", -1),
            "command": command(),
            "date": date.today().isoformat(),
        }
        print(json.dumps(row), flush=True)
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
