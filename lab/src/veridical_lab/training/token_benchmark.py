"""Train methods and measure them on data with one labelled phrase in each response, such as HaDes.

This follows Liu et al. 2022, §5 and §6. Methods are trained on the training part, select models and thresholds on the
validation part, and are measured on the test part. In the setting "offline", a method sees the context on both sides of
the phrase. In the setting "online", the response ends with the phrase.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from veridical.datasets import load_reader, name_and_path, read
from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.metrics import UndefinedMetricError
from veridical.metrics.thresholding import threshold_fitter
from veridical.records.detector import Detector, JudgesSpans, digest_of, info_of
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.judging import judge
from veridical.records.types import DEFAULT_THRESHOLD, Example, Judgement, Level, check_judgement
from veridical.text.segment import words
from veridical_lab.bench.evaluation import Evaluation, detector_identity
from veridical_lab.bench.results import ResultRow
from veridical_lab.bench.run import result_rows
from veridical_lab.bench.settings import BenchSettings, Loaded
from veridical_lab.metrics.registry import METRICS
from veridical_lab.training.token_methods import TokenMethod

SETTINGS = ("offline", "online")
# the columns of Tables 2 and 3 of Liu et al. 2022, whose "BSS" is the Brier score
TABLE_METRICS = {
    "accuracy": "Acc",
    "g_mean": "G-Mean",
    "brier": "BSS",
    "roc_auc": "AUC",
    "negative_precision": "P (not)",
    "negative_recall": "R (not)",
    "negative_f1": "F1 (not)",
    "precision": "P (hall.)",
    "recall": "R (hall.)",
    "f1": "F1 (hall.)",
}
_BATCH = 256


@dataclass(frozen=True, slots=True)
class BenchmarkData:
    """Examples with one labelled phrase each, in three parts that share no documents.

    `about` names the part that is measured. `notes` tell readers of the results how the parts were made.
    """

    name: str
    train: list[Example]
    validation: list[Example]
    test: list[Example]
    about: str = "test"
    notes: tuple[str, ...] = ()


def with_one_phrase(examples: Sequence[Example]) -> list[Example]:
    """Choose the examples with exactly one labelled phrase."""
    return [
        e
        for e in examples
        if e.gold.judged is not None and len(e.gold.judged) == 1 and e.gold.hallucination is not None
    ]


def read_benchmark(
    data: str, *, validation: str | None = None, test: str | None = None, seed: int = 0
) -> BenchmarkData:
    """Read the three parts of SET:PATH.

    If the set has splits of its own, they are used. Otherwise it is split 70/10/20 by document.

    The published HaDes has no labels for its test part. In such a case, the validation part is measured, and a tenth of
    the training documents is used for validation. If all validation phrases are of one class, the training part is used
    for validation, too.

    Args:
        data: SET:PATH to train on.
        validation: SET:PATH to validate on, instead of a split of `data`.
        test: SET:PATH to measure on, instead of a split of `data`.
        seed: The random seed for a split by document.

    Raises:
        DataError: A part has no labelled phrases.
    """
    name, path = name_and_path(data)
    splits = set(load_reader(name).INFO.splits)
    parts: dict[str, list[Example]] = {"train": [], "valid": [], "test": []}
    if validation is None and test is None and splits >= parts.keys():
        parts = {part: list(read(data, part)) for part in parts}
    elif validation is None or test is None:
        parts = split_by_document(read(data), seed=seed)
    else:
        parts["train"] = list(read(data))
    for part, spec in (("valid", validation), ("test", test)):
        parts[part] = parts[part] if spec is None else list(read(spec))
    usable = {part: with_one_phrase(examples) for part, examples in parts.items()}
    about = "test"
    notes: list[str] = []
    if usable["train"] and usable["valid"] and not usable["test"]:
        divided = split_by_document(usable["train"], {"train": 0.9, "valid": 0.1}, seed=seed)
        usable = {"train": divided["train"], "valid": divided["valid"], "test": usable["valid"]}
        about = "validation"
        notes.append(
            "no test phrase has a label: the validation part is measured, and a tenth of the training documents takes "
            "its place"
        )
    if len({example.gold.hallucination for example in usable["valid"]}) < 2 and usable["train"]:
        usable["valid"] = usable["train"]
        notes.append("the phrases to choose on are not of both classes: the training part is chosen on, too")
    for part, examples in usable.items():
        if not examples:
            raise DataError(
                f"the {part} part has no response with one labelled phrase",
                path=path,
                hint="data such as HaDes are needed; for labels of all words: veridical train … and veridical bench",
            )
    return BenchmarkData(name, usable["train"], usable["valid"], usable["test"], about, tuple(notes))


def cut_behind_phrase(example: Example) -> Example:
    """Cut the response after the labelled phrase, as it would be during generation.

    >>> from veridical.records.types import Case, Span
    >>> gold = Judgement("1", "human:a", 1.0, judged=(Span(3, 7),))
    >>> cut_behind_phrase(Example(Case("1", "In Rome, so he said"), gold)).case.response
    'In Rome'
    """
    end = (example.gold.judged or ())[-1].end
    return Example(
        replace(example.case, response=example.case.response[:end]), example.gold, example.document, example.group
    )


def cut_context(example: Example, setting: str) -> Example:
    """Cut the response for a setting. "online" ends it with the phrase, and "@N" keeps N words on each side.

    This is how Liu et al. 2022, §6, vary the length of the context (Figure 6).

    Args:
        example: An example with one labelled phrase.
        setting: "offline" or "online", optionally with the number of words to keep, such as "offline@20".

    >>> from veridical.records.types import Case, Span
    >>> gold = Judgement("1", "human:a", 1.0, judged=(Span(17, 21),))
    >>> shown = cut_context(Example(Case("1", "He said that, in Rome, it was so."), gold), "offline@2")
    >>> shown.case.response, shown.gold.judged
    ('that, in Rome, it was', (Span(start=9, end=13),))
    """
    side, _, count = setting.partition("@")
    if side == "online":
        example = cut_behind_phrase(example)
    if not count:
        return example
    (phrase,) = example.gold.judged or ()
    spans = words(example.case.response)
    before = [span.start for span in spans if span.end <= phrase.start][-int(count) :]
    after = [span.end for span in spans if span.start >= phrase.end][: int(count)]
    start, end = min([*before, phrase.start]), max([*after, phrase.end])
    gold = replace(
        example.gold,
        judged=(phrase.shift(-start),),
        verdicts=tuple(replace(verdict, span=verdict.span.shift(-start)) for verdict in example.gold.verdicts),
    )
    case = replace(example.case, response=example.case.response[start:end])
    return Example(case, gold, example.document, example.group)


def judge_phrases(detector: Detector, examples: Sequence[Example]) -> list[Judgement]:
    """Judge the labelled phrases with a detector. If it cannot judge given spans, it judges the whole responses."""
    judgements: list[Judgement] = []
    for start in range(0, len(examples), _BATCH):
        batch = examples[start : start + _BATCH]
        cases = [example.case for example in batch]
        if isinstance(detector, JudgesSpans):
            judged = detector.judge_spans(cases, [example.gold.judged or () for example in batch])
            for case, judgement in zip(cases, judged, strict=True):
                check_judgement(case, judgement)
        else:
            judged = judge(detector, cases)
        judgements += judged
    return judgements


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options for measuring methods.

    Attributes:
        settings: The settings to measure in, from `SETTINGS`. The suffix "@N" keeps N words on each side of the phrase.
        criterion: The criterion by which each method's threshold is chosen on the validation part.
        resamples: The number of bootstrap samples for the intervals.
        seed: The random seed of the bootstrap.
        command: The command line to record in the rows.
        progress: Called with lines of text that report progress.
    """

    settings: Sequence[str] = SETTINGS
    criterion: str = "balanced_accuracy"
    resamples: int = 1000
    seed: int = 0
    command: str = ""
    progress: Callable[[str], None] = field(default=lambda line: None)

    def __post_init__(self) -> None:
        threshold_fitter(self.criterion)
        for setting in self.settings:
            side, _, count = setting.partition("@")
            if "@" in setting and not (count.isdecimal() and int(count) > 0):
                raise InputError(f"the setting {setting!r} names no number of words", hint="such as offline@20")
            if side not in SETTINGS:
                raise UnknownNameError("setting", setting, SETTINGS)


def benchmark_rows(
    data: BenchmarkData, methods: Sequence[TokenMethod], options: RunOptions | None = None
) -> Iterator[ResultRow]:
    """Train and measure each method in each setting, and yield result rows, with the setting as the group.

    Raises:
        InputError: Two methods have the same name. Other errors come from the methods.
    """
    options = options or RunOptions()
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        raise InputError(f"a method is named twice: {', '.join(names)}")
    for setting in options.settings:
        parts = [data.train, data.validation, data.test]
        train, validation, test = ([cut_context(example, setting) for example in part] for part in parts)
        for method in methods:
            options.progress(f"{method.name}, {setting}: training on {len(train)} phrases")
            detector = method.fit(train, validation)
            threshold, where = fitted_threshold(detector, validation, options.criterion)
            started = time.perf_counter()
            judgements = judge_phrases(detector, test)
            seconds = time.perf_counter() - started
            loaded = Loaded(data.name, data.about, test, validation, content_hash(data.test), (Level.RESPONSE,), 0)
            levels = {level.value: threshold for level in Level}
            evaluation = Evaluation(method.name, info_of(detector).levels, loaded, judgements, levels, where, seconds)
            run = BenchSettings(
                detectors=names,
                data=[data.name],
                resamples=options.resamples,
                seed=options.seed,
                command=options.command,
            )
            about = (detector_identity(detector), setting, loaded.hash, content_hash(data.train), options.criterion)
            run_id = digest_of((*about, options.resamples, options.seed))
            metrics = {name: METRICS[name] for name in TABLE_METRICS}
            for row in result_rows(run_id, evaluation, run, metrics, [(f"setting={setting}", range(len(test)))]):
                yield replace(row, not_judged=sum(judgement.judged == () for judgement in judgements))


def fitted_threshold(detector: Detector, validation: Sequence[Example], criterion: str) -> tuple[float, str]:
    """Fit the lowest score at which a phrase counts as hallucinated. Also describe in words how it was fitted."""
    project = METRICS["roc_auc"].rows
    judged = zip(validation, judge_phrases(detector, validation), strict=True)
    rows = [row for example, judgement in judged if (row := project(example, judgement)) is not None]
    documents = len({document_of(example) for example in validation})
    try:
        table = np.concatenate(rows) if rows else np.zeros((0, 2))
        threshold = float(threshold_fitter(criterion)(table[:, 0] > 0, table[:, 1]))
    except UndefinedMetricError as error:
        return DEFAULT_THRESHOLD, f"default ({error.message})"
    return threshold, f"{criterion} on {len(rows)} validation phrases of {documents} texts"
