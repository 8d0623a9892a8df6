"""Measure detectors on answers that give several perspectives, with the test sets and tables of Chang et al. 2024.

The test sets are made from topics (§4.3). In one set, the responses use the arguments' own words, and in another one
they use other words. Each response is followed by copies with synthetic errors. A third set has ambiguous errors.
Organic errors, which models made by themselves, are read from labelled data.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.metrics.coverage import coverage_pair
from veridical.records.detector import digest_of
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.types import GOLD_THRESHOLD, Example
from veridical_lab.bench.compare import DetectorComparison, compare_pair, correct
from veridical_lab.bench.evaluation import Evaluation, detector_identity, evaluate, load_all
from veridical_lab.bench.results import ResultRow
from veridical_lab.bench.run import result_rows
from veridical_lab.bench.settings import BenchSettings, Loaded, load_data
from veridical_lab.corrupt.argument_responses import composed
from veridical_lab.corrupt.arguments import AMBIGUOUS, FULL, each_error
from veridical_lab.datasets.topics import Topic
from veridical_lab.metrics.registry import METRICS

SETS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "unparaphrased": ("same", FULL),
    "paraphrased": ("other", FULL),
    "ambiguous": ("same", AMBIGUOUS),
}
"""The test sets by name, each with the wording of the given arguments and the errors to make."""

_OF_RESPONSES = ("roc_auc", "coverage_roc_auc")
TABLES: Mapping[int, tuple[str, ...]] = {
    1: _OF_RESPONSES,
    2: _OF_RESPONSES,
    3: ("word_roc_auc", "source_word_roc_auc"),
    5: _OF_RESPONSES,
    6: _OF_RESPONSES,
}
"""The tables of the paper, each with its metrics: responses (1), classifiers by training data (2), words (3),
classifiers without annotated responses (5), salience by aggregation (6)."""

TRAINING: Mapping[str, tuple[str, float]] = {
    "synth": ("same", 0.25),
    "para": ("both", 0.25),
    "dev": ("both", 1.0),
    "free": ("same", 1.0),
}
"""The kinds of training data, each with the wording of the given arguments and the fraction of the training topics to
use. The first three belong to table 2 (§5.2), and each has more data than the one before (the paper has 9 training
topics, then 28 more). "free" has the generator's training answers, with errors put into them. It needs no annotation
(table 5)."""

NEGATIVES = ("error-free", "all")
"""The negative examples for a kind of error: examples without any error, as in the paper, or all other examples."""

_OF_SOURCES = ("coverage_roc_auc", "source_word_roc_auc")
LEVELS = ("response", "span", "coverage", "source")


def error_sets(
    topics: Iterable[Topic], *, per_topic: int = 4, seed: int = 0, part: str = "test", sample: int | None = None
) -> dict[str, list[Example]]:
    """Make the examples of each test set. All sets use the same draws of arguments.

    Args:
        topics: The topics, whose arguments have paraphrases.
        per_topic: How many draws of arguments to make for each topic, at most.
        seed: The random seed.
        part: Which part of the topics to use: train, valid or test (70/10/20, split by groups of topics).
        sample: How many draws of arguments to use, chosen by the seed. Default: all draws.

    Raises:
        DataError: No topic falls into the part.
    """
    topics = list(topics)
    drawn = split_by_document(composed(topics, per_topic=per_topic, seed=seed), seed=seed)[part]
    if not drawn:
        raise DataError(f"no topic falls into the part {part!r} of the split", hint="give more topics")
    ids = sorted({example.case.id.rpartition("/")[0] for example in drawn})
    if sample is not None and sample < len(ids):
        ids = random.Random(f"{seed}\0sample").sample(ids, sample)
    sampled = [example for example in drawn if example.case.id.rpartition("/")[0] in set(ids)]
    sets = {}
    for name, (wording, types) in SETS.items():
        error_free = [example for example in sampled if dict(example.group)["wording"] == wording]
        sets[name] = list(each_error(error_free, types, topics=topics, seed=seed))
    return sets


def training_sets(
    topics: Iterable[Topic], which: str = "dev", *, per_topic: int = 4, seed: int = 0
) -> dict[str, list[Example]]:
    """Make examples to train on ("train") and to validate on ("valid").

    There are examples without errors, and copies of them with each full error.

    The topics are split as in `error_sets` with the same seed, so no topic of the test part is used here. The
    validation part is the same for all kinds of `TRAINING`.

    Args:
        topics: The topics, whose arguments have paraphrases.
        which: The kind of training data, one of `TRAINING`.
        per_topic: How many draws of arguments to make for each topic, at most.
        seed: The random seed.

    Raises:
        UnknownNameError: `which` is not in `TRAINING`.
        DataError: No topic falls into a part.
    """
    if which not in TRAINING:
        raise UnknownNameError("training data", which, TRAINING)
    wording, share = TRAINING[which]
    topics = list(topics)
    parts = split_by_document(composed(topics, per_topic=per_topic, seed=seed), seed=seed)
    used = split_by_document(parts["train"], {"used": share, "unused": 1.0 - share}, seed=seed + 1)["used"]
    chosen = [example for example in used if wording in ("both", dict(example.group)["wording"])]
    sets = {"train": chosen, "valid": parts["valid"]}
    for name, examples in sets.items():
        if not examples:
            raise DataError(f"no topic falls into the part {name!r} of the split", hint="give more topics")
    return {name: list(each_error(examples, FULL, topics=topics, seed=seed)) for name, examples in sets.items()}


def variants(detectors: Sequence[str], tables: Sequence[int]) -> list[str]:
    """List the detectors to run for some tables. For table 6, they are salience with each way to aggregate.

    Raises:
        InputError: There is no such table, or table 6 is named together with another table or with a detector other
            than salience.

    >>> variants(["salience:models/reader"], [6])
    ['salience:models/reader,max', 'salience:models/reader,sum', 'salience:models/reader,entropy']
    """
    for table in tables:
        if table not in TABLES:
            raise InputError(f"there is no table {table}", hint=f"choose from {', '.join(map(str, TABLES))}")
    if 6 not in tables:
        return list(detectors)
    if set(tables) != {6}:
        raise InputError("table 6 has detectors of its own", hint="make it by itself")
    other = [name for name in detectors if not name.startswith("salience:")]
    if other:
        raise InputError(f"{other[0]} has no aggregation of salience", hint="table 6 is for salience:FOLDER")
    return [f"{name},{how}" for name in detectors for how in ("max", "sum", "entropy")]


def measured(
    settings: BenchSettings,
    sets: Mapping[str, Sequence[Example]],
    tables: Sequence[int],
    *,
    organic: str | None = None,
    negatives: str = "error-free",
) -> tuple[list[ResultRow], list[DetectorComparison]]:
    """Measure each detector on each test set, and test whether any two of them differ.

    Hallucinations and omissions are measured separately. In both cases, the positives have this error, and the
    negatives have no error (§4.3). Examples with only the other error are left out, unless `negatives` is "all".
    Differences between areas under ROC curves are tested as in the paper (§5.1), by Hanley and McNeil's test.
    Bonferroni's correction covers all pairs of a test set, for hallucinations and omissions together.

    Args:
        settings: The detectors, the bootstrap and the command. The data sets in the settings are not used.
        sets: The test sets, from `error_sets`.
        tables: Some of `TABLES`.
        organic: SET:PATH of labelled responses, which are a further test set.
        negatives: How to choose the negative examples, one of `NEGATIVES`.
    """
    if negatives not in NEGATIVES:
        raise UnknownNameError("negatives", negatives, NEGATIVES)
    settings = replace(settings, detectors=variants(settings.detectors, tables), fit=None)
    detectors = load_all(settings)
    metrics = {name: METRICS[name] for table in tables for name in TABLES[table]}
    loaded = [
        Loaded(f"perspectives, {name}", "test part", list(examples), [], content_hash(examples), LEVELS, 0)
        for name, examples in sets.items()
    ]
    if organic is not None:
        loaded.append(replace(load_data(organic, settings), name="perspectives, organic"))
    rows: list[ResultRow] = []
    comparisons: list[DetectorComparison] = []
    for data in loaded:
        evaluations = [evaluate(detector, data, settings) for detector in detectors]
        # the counted examples for metrics of responses and their words (False), and for those of sources (True)
        picked = {of_sources: _counted(data.examples, of_sources, negatives) for of_sources in (False, True)}
        for detector, evaluation in zip(detectors, evaluations, strict=True):
            fitting = {name: metric for name, metric in metrics.items() if metric.fits(evaluation.levels, data.levels)}
            if not fitting:
                raise InputError(
                    f"{detector.name} has no scores for these tables", hint=f"needed: {', '.join(metrics)}"
                )
            about = (settings.resamples, settings.level, settings.seed, negatives)
            run_id = digest_of((detector_identity(detector), data.hash, sorted(metrics), *about))
            of_kind = []
            for of_sources, indices in picked.items():
                chosen = {name: metric for name, metric in fitting.items() if (name in _OF_SOURCES) == of_sources}
                of_kind += result_rows(run_id, _part(evaluation, indices), settings, chosen)
            values = {name: value for row in of_kind for name, value in row.metrics.items()}
            n, documents = len(data.examples), len({document_of(example) for example in data.examples})
            not_judged = sum(judgement.judged == () for judgement in evaluation.judgements)
            rows.append(replace(of_kind[0], metrics=values, n=n, documents=documents, not_judged=not_judged))
        of_set = [
            compare_pair(_part(a, indices), _part(b, indices), name, settings)
            for name, metric in metrics.items()
            for a, b in combinations(evaluations, 2)
            if all(metric.fits(e.levels, data.levels) for e in (a, b))
            for indices in [picked[name in _OF_SOURCES]]
        ]
        comparisons += correct(of_set)
    return rows, comparisons


def _counted(examples: Sequence[Example], of_sources: bool, negatives: str) -> list[int]:
    """Return the indices of counted examples. If `negatives` is "error-free", they have this error or no error."""
    counted = []
    for i, example in enumerate(examples):
        errors = (
            (example.gold.hallucination or 0.0) >= GOLD_THRESHOLD,
            (coverage_pair(example, example.gold) or (False,))[0],
        )
        if negatives == "all" or errors[of_sources] or not any(errors):
            counted.append(i)
    return counted


def _part(evaluation: Evaluation, indices: Sequence[int]) -> Evaluation:
    """Restrict an evaluation to the examples at `indices`."""
    data = replace(evaluation.data, examples=[evaluation.data.examples[i] for i in indices])
    return replace(evaluation, data=data, judgements=[evaluation.judgements[i] for i in indices])
