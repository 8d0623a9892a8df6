"""Fit thresholds and calibrations of any detector on the validation part of labelled data.

A calibration is a curve from scores to probabilities. The fit is saved to a folder, which the detector `calibrated`
reads. The validation figures in this folder show what you gain by fitting. They are cross-fitted: each document is
scored by a fit on the other documents. To measure the detector itself, use other documents (`veridical bench --fit
none`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.detectors.calibrated import FittedCalibration, Scale
from veridical.inference.saving import check_folder, save_record, versions
from veridical.llm.connection import REMOTE_OPTIONS
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.calibrators import Isotonic, Platt, fit_isotonic, fit_platt
from veridical.metrics.measure import measure_rows
from veridical.metrics.registry import METRICS
from veridical.metrics.thresholding import pairs, threshold_fitter
from veridical.records.detector import Detector, HasFittedOptions, fingerprint_of, info_of
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.spec import parse_spec
from veridical.records.types import Example, Judgement, Level

CALIBRATIONS = ("auto", "isotonic", "platt", "none")
_ISOTONIC_FROM = 1000  # items from which `auto` chooses isotonic regression (Niculescu-Mizil & Caruana 2005)
_FOLDS = 5
_BATCH = 64
_SCORE_METRICS = ("roc_auc", "ece", "brier")
_DECISION_METRICS = ("f1", "precision", "recall", "balanced_accuracy")


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """Options of `fit_thresholds`, which fits the thresholds and the calibration of a detector on labelled data.

    Attributes:
        criterion: How to choose the threshold: by the highest "f1" or "balanced_accuracy", by "means" (halfway between
            the mean scores of both classes), or by a precision to reach ("precision@P").
        calibration: How scores become probabilities: "isotonic", "platt", "none" or "auto". "auto" fits Platt's curve
            to fewer than 1000 items, and uses isotonic regression for 1000 or more.
        levels: What to fit: "response" (the score of the whole response), "span" (the scores of its spans) or
            "coverage" (the score for what it omits). Default: all of them that the data label and the detector scores.
        all_data: If true, all examples are used. By default, the examples are split by document, and only the
            validation part is used.
        seed: The random seed of the split, the folds and the bootstrap.
        resamples: How many bootstrap samples to draw for the intervals.
    """

    criterion: str = "f1"
    calibration: str = "auto"
    levels: tuple[str, ...] | None = None
    all_data: bool = False
    seed: int = 0
    resamples: int = 1000

    def __post_init__(self) -> None:
        threshold_fitter(self.criterion)
        if self.calibration not in CALIBRATIONS:
            raise UnknownNameError("calibration", self.calibration, CALIBRATIONS)
        for level in self.levels or ():
            if level not in set(Level):
                raise UnknownNameError("level", level, [each.value for each in Level])

    def levels_for(self, detector: Detector) -> list[Level]:
        """List the levels to fit for `detector`, in the order of `Level`.

        A level is what a score is about, such as the whole response or one of its spans. If coverage is fitted, the
        level "source" (spans of the sources to cover) is fitted, too.

        Raises:
            InputError: `levels` contains a level that the detector does not score.
        """
        scored = info_of(detector).levels
        for level in self.levels or ():
            if level not in scored and not (level == Level.RESPONSE and Level.SPAN in scored):
                raise InputError(f"{detector.name} does not score {level!r}", hint=f"it scores {', '.join(scored)}")
        wanted = set(self.levels or scored)
        return [level for level in Level if level in wanted or (level is Level.SOURCE and Level.COVERAGE in wanted)]


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """The labelled scores of one level. *Shape:* `labels`, `scores`, `documents` (items,)."""

    level: Level
    labels: np.ndarray
    scores: Floats
    documents: np.ndarray
    responses: int


def fit_thresholds(
    detector: Detector,
    examples: Sequence[Example],
    options: CalibrationOptions | None = None,
    *,
    spec: str | None = None,
    out: str | Path | None = None,
    data: str = "",
    progress: Callable[[str, int, int], None] = lambda label, done, total: None,
) -> FittedCalibration:
    """Fit a threshold and a calibration for each level of a detector's scores, and save them if a folder is given.

    A level is what a score is about, such as the whole response or one of its spans. `CalibrationOptions.levels` says
    which levels are fitted. A calibration is a curve from scores to probabilities.

    Args:
        detector: The detector to fit.
        examples: The labelled data. Without `options.all_data`, only the validation part is used.
        options: How to fit.
        spec: The text that names the detector with its options, to write to the folder. Default: the detector's name.
        out: The folder to save to. Default: nothing is saved.
        data: The name of the data to write to the folder.
        progress: Called with the detector's name, the number of cases judged so far, and the number of all cases.

    Returns:
        The threshold and the calibration of each level, with metrics on the validation data.

    Raises:
        InputError: There are too few documents, all labels of a level are of one class, hallucinated items do not have
            higher scores than the others, or no threshold reaches the wanted precision.
        OutputError: The folder cannot be written. As far as possible, this is checked before anything is judged.
    """
    if out is not None:
        check_folder(out)
    options = options or CalibrationOptions()
    used = list(examples) if options.all_data else split_by_document(examples, seed=options.seed)["valid"]
    if not used:
        raise InputError(
            f"none of {len(examples)} examples lies in the validation part",
            hint="give more documents, another seed, or use all of them (--all-data) and measure on other data",
        )
    chosen = detector.fit_options(used) if isinstance(detector, HasFittedOptions) else detector
    spec = spec if spec and chosen is detector else chosen.name
    detector = chosen
    if info_of(detector).needs_chat_model:  # do not store how the model is reached: the user says that in each run
        spec = str(parse_spec(spec).split(REMOTE_OPTIONS)[1])
    samples = _labelled_scores(detector, used, options, progress)
    if not samples:
        raise InputError(
            f"the data say nothing about what {spec} scores ({', '.join(info_of(detector).levels)})",
            hint="give data that label it; see: veridical data list",
        )
    scales = {sample.level: _fit(sample, options) for sample in samples}
    before = asdict(thresholds_in_force(detector))
    validation = {
        sample.level.value: _figures(sample, scales[sample.level], before[sample.level], options) for sample in samples
    }
    fitted = FittedCalibration(
        spec, fingerprint_of(detector), scales, _training(examples, used, options, data), validation
    )
    if out is not None:
        save_record(fitted, out)
    return fitted


def _training(
    examples: Sequence[Example], used: Sequence[Example], options: CalibrationOptions, data: str
) -> dict[str, Any]:
    return {
        "data": data,
        "hash": content_hash(examples),
        "examples": len(used),
        "documents": len({document_of(example) for example in used}),
        "part": "all" if options.all_data else "validation part",
        **{name: getattr(options, name) for name in ("criterion", "calibration", "seed", "resamples")},
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }


def _labelled_scores(
    detector: Detector,
    examples: Sequence[Example],
    options: CalibrationOptions,
    progress: Callable[[str, int, int], None],
) -> list[_Sample]:
    """Judge the examples, and collect the labelled scores of each level that is to be fitted and has labels."""
    judgements: list[Judgement] = []
    for start in range(0, len(examples), _BATCH):
        progress(detector.name, start, len(examples))
        judgements += judge(detector, [example.case for example in examples[start : start + _BATCH]])
    progress(detector.name, len(examples), len(examples))
    samples = []
    for level in options.levels_for(detector):
        tables, documents = [], []
        for example, judgement in zip(examples, judgements, strict=True):
            rows = pairs(level, example, judgement)
            if rows is not None and len(rows):
                tables.append(rows)
                documents += [document_of(example)] * len(rows)
        if tables:
            table = np.concatenate(tables)
            samples.append(_Sample(level, table[:, 0] > 0, table[:, 1], np.array(documents), len(tables)))
        elif options.levels and level in options.levels:
            raise InputError(
                f"nothing labels the level {level.value!r} among the judged cases", hint="give data that label it"
            )
    if options.levels is not None:
        return samples
    # skip levels whose labels are all of one class: a response label labels spans only if the response is clear
    return [sample for sample in samples if 0 < sample.labels.sum() < len(sample.labels)] or samples


def _fit(sample: _Sample, options: CalibrationOptions) -> Scale:
    """Fit a calibration and a threshold on all items of a level, or raise an `InputError` that names the level."""
    try:
        return fit_scale(sample.labels, sample.scores, options)
    except UndefinedMetricError as error:
        raise InputError(
            f"{sample.level.value}: {error.message} ({len(sample.labels)} items of {sample.responses} responses)",
            hint=error.hint or "give data with both classes, another criterion, or leave the level out (--levels)",
        ) from None


def fit_scale(labels: np.ndarray, scores: Floats, options: CalibrationOptions, *, must_rise: bool = True) -> Scale:
    """Fit the calibration and the threshold of one level on labelled scores.

    Args:
        labels: Whether each item is hallucinated. *Shape:* (items,)
        scores: The scores or logits. Higher is worse. *Shape:* (items,)
        options: How to fit. Only `criterion` and `calibration` matter here.
        must_rise: If true, it is an error if hallucinated items do not have higher scores than the others. Without a
            calibration, this is not checked.

    Returns:
        The calibration, and the threshold for calibrated scores. Without a calibration, it is for the scores as given.

    Raises:
        UndefinedMetricError: All labels are of one class, hallucinated items do not have higher scores than the others,
            or no threshold reaches the wanted precision.
    """
    calibration: Platt | Isotonic | None = None
    rises = True
    if options.calibration == "isotonic" or (options.calibration == "auto" and len(labels) >= _ISOTONIC_FROM):
        calibration = fit_isotonic(labels, scores)
        rises = calibration.probabilities[0] < calibration.probabilities[-1]
    elif options.calibration != "none":
        calibration = fit_platt(labels, scores)
        rises = calibration.slope > 0
    if must_rise and not rises:
        auc = METRICS["roc_auc"].value(np.column_stack([labels, scores]))
        hint = "give other data or another detector, or leave the level out (--levels)"
        if auc < 0.5:
            hint += ", or the label is the other way round: ?hallucinated=0"
        raise UndefinedMetricError(f"higher scores do not go with the labels (ROC AUC {auc:.3f})", hint=hint)
    probabilities = scores if calibration is None else np.clip(calibration.apply(scores), 0.0, 1.0)
    return Scale(float(threshold_fitter(options.criterion)(labels, probabilities)), calibration)


def _figures(sample: _Sample, scale: Scale, before: float, options: CalibrationOptions) -> dict[str, Any]:
    """Measure the raw scores with the threshold `before`, and the cross-fitted scores, with 95 % intervals."""
    raw = np.column_stack([sample.labels, sample.scores, sample.scores >= before])
    cross_fitted = _cross_fitted(sample, options)
    flagged = np.array(scale.apply(sample.scores.tolist())) >= scale.threshold
    return {
        "items": len(sample.labels),
        "responses": sample.responses,
        "documents": len(set(sample.documents.tolist())),
        "share_of_positives": round(float(sample.labels.mean()), 6),
        "calibration": "none" if scale.calibration is None else scale.calibration.kind,
        "threshold": scale.threshold,
        "share_flagged": round(float(np.mean(flagged)), 6),
        "before": {"threshold": before, **_measured(raw, sample, options)},
        "cross_fitted": None if cross_fitted is None else {"folds": _FOLDS, **_measured(cross_fitted, sample, options)},
    }


def _cross_fitted(sample: _Sample, options: CalibrationOptions) -> Floats | None:
    """Score each item by a fit on the other folds of documents. Return None if this is impossible.

    The columns of the result are label, score and decision. *Shape:* (items, 3)
    """
    try:
        folds = folds_of(sample.documents, options.seed)
    except UndefinedMetricError:
        return None
    table = np.column_stack([sample.labels, sample.scores, sample.scores]).astype(np.float64)
    for fold in range(_FOLDS):
        inside = folds == fold
        try:
            scale = fit_scale(sample.labels[~inside], sample.scores[~inside], options, must_rise=False)
        except UndefinedMetricError:
            return None
        table[inside, 1] = scale.apply(sample.scores[inside].tolist())
        table[inside, 2] = table[inside, 1] >= scale.threshold
    return table


def folds_of(documents: np.ndarray, seed: int) -> np.ndarray:
    """Assign each item at random to one of five folds (0 to 4) for cross-fitting, all items of a document to the same.

    Args:
        documents: The name of each item's document. *Shape:* (items,)
        seed: The random seed.

    Returns:
        The fold of each item. *Shape:* (items,)

    Raises:
        UndefinedMetricError: There are fewer documents than folds.
    """
    names, place = np.unique(documents, return_inverse=True)
    if len(names) < _FOLDS:
        raise UndefinedMetricError(f"{len(names)} documents are too few for {_FOLDS} folds")
    shuffled = np.empty(len(names), dtype=np.int64)
    shuffled[np.random.default_rng(seed).permutation(len(names))] = np.arange(len(names)) % _FOLDS
    folds: np.ndarray = shuffled[place]
    return folds


def _measured(table: Floats, sample: _Sample, options: CalibrationOptions) -> dict[str, dict[str, Any]]:
    """Measure each metric on rows of (label, score, decision). Return the fields of `Measured`, rounded to 6 places."""
    documents = sample.documents.tolist()
    figures = {}
    for name in (*_SCORE_METRICS, *_DECISION_METRICS):
        rows = table[:, [0, 2]] if name in _DECISION_METRICS else table[:, :2]
        measured = measure_rows(
            METRICS[name], list(rows[:, None, :]), documents, resamples=options.resamples, seed=options.seed
        )
        fields = asdict(measured).items()
        figures[name] = {key: round(value, 6) if isinstance(value, float) else value for key, value in fields}
    return figures
