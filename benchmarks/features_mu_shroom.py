"""Word features on Mu-SHROOM's English validation answers, cross-fitted by document, as the task scores them.

`python benchmarks/features_mu_shroom.py FOLDER COUNTS [MODEL…]`: the public data sets, word counts (`veridical data
statistics`), and small language models, whose features are added one model at a time. Each document is judged by a
classifier that was trained on three other folds of five and on the answers in all other languages, and chosen on the
fourth; its threshold is that with the highest IoU on the English documents of the four. Rows go to
benchmarks/rows/features-mu_shroom.jsonl.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from veridical.datasets.split import content_hash, document_of
from veridical.detectors import load_detector
from veridical.io.files import write_whole
from veridical.io.serialization import encode
from veridical.metrics.calibrators import fit_platt
from veridical.models.load import load, unload
from veridical.records.detector import digest_of
from veridical.records.judging import judge
from veridical.records.types import Example, Judgement, Level, Verdict
from veridical_lab.bench.evaluation import Evaluation
from veridical_lab.bench.results import ResultRow
from veridical_lab.bench.run import result_rows
from veridical_lab.bench.settings import BenchSettings, Loaded
from veridical_lab.datasets import mu_shroom
from veridical_lab.detectors.features.extraction import FeatureSettings
from veridical_lab.detectors.features.statistics import WordStatistics
from veridical_lab.metrics.registry import METRICS
from veridical_lab.training.features import (
    FeatureOptions,
    FeatureTable,
    Inputs,
    feature_table,
    fit_classifier,
    labelled_units,
    make_extractor,
)

OUT = Path("benchmarks/rows/features-mu_shroom.jsonl")
FOLDS = 5
METRIC_NAMES = ("mushroom_iou", "mushroom_cor", "char_f1", "word_roc_auc")
CrossFitted = Callable[[Sequence[int], Sequence[int], Sequence[int]], list[Judgement]]


def folds_of(examples: Sequence[Example]) -> list[int]:
    """The fold of each example, all of a document in one."""
    documents = sorted({document_of(example) for example in examples})
    order = np.random.default_rng(0).permutation(len(documents))
    fold = {documents[place]: i % FOLDS for i, place in enumerate(order)}
    return [fold[document_of(example)] for example in examples]


def at_half(judgement: Judgement, threshold: float) -> Judgement:
    """The judgement with scores on which `threshold` is 0.5, in the same order, so that folds have one threshold."""

    def moved(score: float) -> float:
        return score / threshold / 2 if score < threshold else 0.5 + (score - threshold) / (1 - threshold + 1e-9) / 2

    verdicts = tuple(replace(v, score=min(1.0, moved(v.score))) for v in judgement.verdicts)
    return replace(judgement, hallucination=None, verdicts=verdicts)


def best_iou(examples: Sequence[Example], judgements: Sequence[Judgement]) -> float:
    """The threshold with the highest mean IoU, of 99."""
    metric = METRICS["mushroom_iou"]

    def value(threshold: float) -> float:
        rows = [metric.rows(e, j, threshold) for e, j in zip(examples, judgements, strict=True)]
        return float(metric.value(np.concatenate([row for row in rows if row is not None])))

    return max(np.arange(0.01, 1.0, 0.01).tolist(), key=value)


def of_features(
    table: FeatureTable, columns: Sequence[int], classifier: str, examples: Sequence[Example], others: Sequence[int]
) -> CrossFitted:
    """A classifier of some columns of `table`; `others` are the examples that every fold is trained on."""
    table = replace(table, names=tuple(table.names[i] for i in columns), values=table.values[:, columns])

    def part(chosen: Sequence[int]) -> FeatureTable:
        inside = np.isin(table.example, list(chosen))
        return replace(table, values=table.values[inside], labels=table.labels[inside], example=table.example[inside])

    def cross_fitted(train: Sequence[int], validation: Sequence[int], test: Sequence[int]) -> list[Judgement]:
        fitted, _ = fit_classifier(part([*train, *others]), part(validation), FeatureOptions(classifier=classifier))
        known = part([*train, *validation])
        platt = fit_platt(known.labels, fitted.decide(known.values))
        judgements = []
        for i in test:
            spans, _ = labelled_units(examples[i], "word")
            scores = np.clip(platt.apply(fitted.decide(part([i]).values)), 0.0, 1.0).tolist()
            verdicts = tuple(Verdict(span, score) for span, score in zip(spans, scores, strict=True))
            judgements.append(Judgement(examples[i].case.id, "features", verdicts=verdicts))
        return judgements

    return cross_fitted


def of_detector(spec: str, examples: Sequence[Example]) -> CrossFitted:
    """A detector that learns nothing."""
    judged = judge(load_detector(spec), [example.case for example in examples])
    return lambda train, validation, test: [judged[i] for i in test]


def main(data: Path, counts: Path, *models: str) -> None:
    """Write the rows of all variants."""
    path = data / "mu_shroom"
    english = list(mu_shroom.read(path, "en"))
    soft = {judgement.case_id: judgement for judgement in mu_shroom.read_soft(path, "en")}
    gold = [replace(e, gold=replace(soft[e.case.id], hallucination=e.gold.hallucination)) for e in english]
    everything = [*english, *(e for e in mu_shroom.read(path) if dict(e.group)["language"] != "en")]
    others = range(len(english), len(everything))
    options = FeatureOptions(features=FeatureSettings(sources=False))
    methods: dict[str, CrossFitted] = {}
    for model in (None, *models):
        used = None if model is None else load(model)
        inputs = Inputs(used, WordStatistics.load(counts), dict(mu_shroom.read_token_scores(path)))
        table = feature_table(make_extractor(everything, options, inputs), everything)
        print(f"{model}: {len(table.labels)} words of {len(everything)} answers", flush=True)
        if used is not None:
            unload(used)
        label = "" if model is None else f", {Path(model).name}"
        for classifier in ("lr", "svm"):
            for own in (False, True):
                columns = [i for i, feature in enumerate(table.names) if own or "token_score" not in feature]
                methods[f"features:{classifier}{label}{', logits' if own else ''}"] = of_features(
                    table, columns, classifier, everything, others
                )
    for spec in [*(f"logprob:{model}" for model in models), "coin"]:
        methods[spec] = of_detector(spec, english)
    folds = folds_of(english)
    rows: list[ResultRow] = []
    for method, cross_fitted in methods.items():
        started = time.perf_counter()
        judged: dict[str, Judgement] = {}
        for fold in range(FOLDS):
            test = [i for i, f in enumerate(folds) if f == fold]
            validation = [i for i, f in enumerate(folds) if f == (fold + 1) % FOLDS]
            train = [i for i in range(len(english)) if i not in {*test, *validation}]
            outside = [*train, *validation]
            threshold = best_iou([gold[i] for i in outside], cross_fitted(train, validation, outside))
            for judgement in cross_fitted(train, validation, test):
                judged[judgement.case_id] = at_half(judgement, threshold)
        judgements = [judged[example.case.id] for example in gold]
        loaded = Loaded("mu_shroom", "en, cross-fitted", gold, [], content_hash(gold), (Level.SPAN,), 0)
        seconds = time.perf_counter() - started
        where = f"IoU on the documents outside of each of {FOLDS} folds"
        levels = {level.value: 0.5 for level in Level}
        evaluation = Evaluation(method, (Level.SPAN,), loaded, judgements, levels, where, seconds)
        settings = BenchSettings(detectors=[method], data=["mu_shroom"], command=shlex.join(["python", *sys.argv]))
        metrics = {metric: METRICS[metric] for metric in METRIC_NAMES}
        run_id = digest_of([method, list(models), loaded.hash, content_hash(everything), FOLDS])
        rows += result_rows(run_id, evaluation, settings, metrics)
        print(method, {k: round(v.value or 0.0, 3) for k, v in rows[-1].metrics.items()}, flush=True)
    write_whole(OUT, "".join(encode(row) + "\n" for row in rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
