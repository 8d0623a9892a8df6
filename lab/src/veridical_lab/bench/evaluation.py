"""Evaluate a detector on one data set: judge all cases, keep a journal, measure the time, and fit thresholds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from veridical.datasets.split import split_by_document
from veridical.detectors import load_detector
from veridical.metrics.measure import Metric
from veridical.records.detector import Detector, Fittable, digest_of, fingerprint_of, info_of, thresholds_of
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.types import Judgement, Level, Thresholds
from veridical_lab.bench.journal import Journal
from veridical_lab.bench.settings import BenchSettings, Loaded
from veridical_lab.metrics.thresholds import fit_metric_thresholds

CASES_AT_ONCE = 64
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A detector's judgements on a data set, and the thresholds that apply to them.

    Attributes:
        name: The detector's name.
        levels: The levels that the detector scores.
        data: The data set.
        judgements: The judgement of each of `data.examples`, in their order.
        thresholds: The threshold of each level of the detector. If thresholds were fitted, also the threshold of each
            level of a metric (`Metric.level`).
        threshold_from: The origin of the thresholds, in words.
        seconds: The time that the judgements took, in seconds.
        decides: Whether a response is flagged by `records.decide`, that is, by the thresholds of all levels. If
            thresholds were fitted for metrics, a response is flagged only by its own score.
    """

    name: str
    levels: tuple[Level, ...]
    data: Loaded
    judgements: Sequence[Judgement]
    thresholds: Mapping[str, float]
    threshold_from: str
    seconds: float = 0.0
    decides: bool = False

    def threshold_for(self, metric: Metric) -> float | Thresholds:
        """Return the threshold for a metric.

        This is the threshold of the metric's level or, if the level has none, the threshold of spans. If `decides` is
        true, metrics of responses get the thresholds of all levels.
        """
        if self.decides and metric.level == "response":
            return Thresholds(**{level.value: self.thresholds[level.value] for level in Level})
        return self.thresholds[metric.level if metric.level in self.thresholds else "span"]


def load_all(settings: BenchSettings) -> list[Detector]:
    """Load all detectors in the settings.

    Raises:
        InputError: A detector is named twice.
    """
    detectors = [load_detector(spec, settings.connection) for spec in settings.detectors]
    if settings.connection is not None:
        settings.connection.check_model_used(settings.detectors)
    names = [detector.name for detector in detectors]
    if len(set(names)) < len(names):
        raise InputError(f"a detector is named twice: {', '.join(names)}")
    return detectors


def detector_identity(detector: Detector) -> str:
    """Return a detector's name and a hash of everything its scores depend on, such as the content of a model folder."""
    return f"{detector.name}\0{digest_of(fingerprint_of(detector))}"


def evaluate(detector: Detector, data: Loaded, settings: BenchSettings) -> Evaluation:
    """Evaluate `detector` on `data`. A detector with `fit` is first trained on the fitting part."""
    if isinstance(detector, Fittable) and info_of(detector).needs_training:
        judgements, seconds = _judge_out_of_fold(detector, data, settings)
    else:
        if data.fitting and isinstance(detector, Fittable):
            detector = detector.fit(data.fitting)
        judgements, seconds = _judge(detector, data, settings)
    count = len(data.fitting)
    in_force = thresholds_in_force(detector, settings.threshold)
    thresholds = {level.value: in_force[level] for level in Level}
    if settings.fits:
        pairs = list(zip(data.fitting, judgements[:count], strict=True))
        fitted, notes = fit_metric_thresholds(pairs, settings.fit or "", info_of(detector).levels)
        thresholds |= fitted
        source = "; ".join([f"{settings.fit} on {count} validation examples", *notes])
    elif settings.threshold is not None:
        source = "command"
    else:
        source = "detector" if thresholds_of(detector) else "default"
    return Evaluation(
        name=detector.name,
        levels=info_of(detector).levels,
        data=data,
        judgements=judgements[count:],
        thresholds=thresholds,
        threshold_from=source,
        seconds=seconds * len(data.examples) / (count + len(data.examples)),
        decides=not settings.fits,
    )


def _judge_out_of_fold(detector: Fittable, data: Loaded, settings: BenchSettings) -> tuple[list[Judgement], float]:
    """Judge each fold of documents with the detector fitted on the other folds and the training examples."""
    examples, training = [*data.fitting, *data.examples], data.training()
    # use a different seed than the split into parts does, or a whole test part would fall into one fold
    shares = {str(fold): 1 / FOLDS for fold in range(FOLDS)}
    folds = split_by_document(examples, shares, seed=-1 - settings.seed)
    judgements: dict[str, Judgement] = {}
    started = time.perf_counter()
    for fold, of_fold in folds.items():
        others = [example for name, part in folds.items() if name != fold for example in part]
        fitted = detector.fit([*training, *others])
        judgements |= {judged.case_id: judged for judged in judge(fitted, [example.case for example in of_fold])}
    return [judgements[example.case.id] for example in examples], time.perf_counter() - started


def _judge(detector: Detector, data: Loaded, settings: BenchSettings) -> tuple[list[Judgement], float]:
    """Judge all cases in batches, the fitting part first. Return the judgements and the time they took, in seconds.

    Judgements of an interrupted run are reused, and their time is included. When the budget of the connection is spent,
    the run stops with a `CannotJudgeError`.
    """
    folder = settings.journal
    journal = Journal.open(folder, detector_identity(detector), data.name, data.hash, data.split) if folder else None
    cases = [example.case for example in (*data.fitting, *data.examples)]
    label = f"{detector.name} on {data.name}"
    judgements = list(journal.judgements) if journal else []
    seconds = journal.seconds if journal else 0.0
    for start in range(len(judgements), len(cases), CASES_AT_ONCE):
        settings.progress(label, start, len(cases))
        batch = cases[start : start + CASES_AT_ONCE]
        started = time.perf_counter()
        judged = judge(detector, batch)
        elapsed = time.perf_counter() - started
        if settings.connection is not None and settings.connection.refused_requests:
            # drop the batch in which the budget ran out, because its replies stay in the cache
            raise CannotJudgeError(
                f"{label}: the budget is spent, {start} of {len(cases)} cases are judged",
                hint="run the same again with a larger budget: with --out (or --cache) nothing is paid twice",
            )
        if journal:
            journal.add(judged, elapsed)
        judgements += judged
        seconds += elapsed
    settings.progress(label, len(cases), len(cases))
    return judgements, seconds
