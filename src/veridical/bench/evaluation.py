"""A detector tried on one data set: its judgements (journalled, timed), and its thresholds (given or fitted)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veridical.bench.journal import Journal
from veridical.bench.settings import Loaded, Settings
from veridical.calibration.thresholding import RULES, rule
from veridical.core.detector import Detector, Fittable, digest_of, fingerprint_of, info_of, thresholds_of
from veridical.core.errors import CannotJudgeError, InputError
from veridical.core.judging import judge, thresholds_in_force
from veridical.core.types import Example, Judgement, Level
from veridical.detectors import load_detector
from veridical.metrics import UndefinedMetricError
from veridical.metrics.registry import METRICS

__all__ = ["RULES", "Trial", "identity", "load_all", "rule", "try_on"]

BATCH = 64

# what is thresholded -> the metric whose rows are (gold, score) pairs of it
_PAIRS = {"response": "roc_auc", "span": "word_roc_auc"}


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it: `judgements[i]` is of `data.examples[i]`; `thresholds` for "response", "span", "coverage"."""

    detector: Detector
    data: Loaded
    judgements: list[Judgement]
    thresholds: dict[str, float]
    threshold_from: str
    seconds: float


def load_all(settings: Settings) -> list[Detector]:
    """The detectors that the settings name; `InputError` if one is named twice."""
    detectors = [load_detector(spec, settings.connection) for spec in settings.detectors]
    if settings.connection is not None:
        settings.connection.check_model_used(settings.detectors)
    names = [detector.name for detector in detectors]
    if len(set(names)) < len(names):
        raise InputError(f"a detector is named twice: {', '.join(names)}")
    return detectors


def identity(detector: Detector) -> str:
    """Its name, and a hash of all that its scores depend on (`fingerprint`), as a folder's contents can change."""
    return f"{detector.name}\0{digest_of(fingerprint_of(detector))}"


def try_on(detector: Detector, data: Loaded, settings: Settings) -> Trial:
    """The trial of `detector` on `data`; what can learn (`fit`) learns from the fitting part first."""
    if data.fitting and isinstance(detector, Fittable):
        detector = detector.fit(data.fitting)
    judgements, seconds = _judge(detector, data, settings)
    at = len(data.fitting)
    seconds *= len(data.examples) / (at + len(data.examples))
    thresholds, source = _thresholds(detector, data.fitting, judgements[:at], settings)
    return Trial(detector, data, judgements[at:], thresholds, source, seconds)


def _judge(detector: Detector, data: Loaded, settings: Settings) -> tuple[list[Judgement], float]:
    """All judgements, of the fitting part first, and the seconds they took, an earlier run's seconds included."""
    label = f"{detector.name} on {data.name}"
    folder = settings.journal
    journal = Journal.open(folder, identity(detector), data.name, data.hash, data.split) if folder else None
    judgements = list(journal.judgements) if journal else []
    seconds = journal.seconds if journal else 0.0
    cases = [example.case for example in (*data.fitting, *data.examples)]
    for at in range(len(judgements), len(cases), BATCH):
        settings.progress(label, at, len(cases))
        batch = cases[at : at + BATCH]
        begun = time.perf_counter()
        made = judge(detector, batch)
        spent = time.perf_counter() - begun
        if settings.connection is not None and settings.connection.refused_requests:
            raise _broke(label, at, len(cases))
        if journal:
            journal.add(made, spent)
        judgements += made
        seconds += spent
    settings.progress(label, len(cases), len(cases))
    return judgements, seconds


def _broke(label: str, judged: int, of: int) -> CannotJudgeError:
    """What to say where the budget is spent; the batch that it was spent in is not kept, the replies in a cache are."""
    return CannotJudgeError(
        f"{label}: the budget is spent, {judged} of {of} cases are judged",
        hint="run the same again with a larger budget: with --out (or --cache) nothing is paid twice",
    )


def _thresholds(
    detector: Detector, fitting: Sequence[Example], judgements: Sequence[Judgement], settings: Settings
) -> tuple[dict[str, float], str]:
    """The threshold of each level and where they come from."""
    in_force = thresholds_in_force(detector, settings.threshold)
    thresholds = {level.value: in_force[level] for level in Level}
    if not settings.fits:
        given = settings.threshold is not None
        return thresholds, "command" if given else "detector" if thresholds_of(detector) else "default"
    fit = rule(settings.fit or "")
    notes = [f"{settings.fit} on {len(fitting)} validation examples"]
    for level, pairs in _PAIRS.items():
        rows = [METRICS[pairs].rows(e, j) for e, j in zip(fitting, judgements, strict=True)]
        kept = [found for found in rows if found is not None and len(found)]
        if kept and level in info_of(detector).levels:
            table = np.concatenate(kept)
            try:
                thresholds[level] = fit(table[:, 0] > 0, table[:, 1])
            except UndefinedMetricError as error:
                notes.append(f"{level}: {thresholds[level]} ({error.message})")
    return thresholds, "; ".join(notes)
