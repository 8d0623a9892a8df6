"""Thresholds and calibrations of any detector, fitted on the validation part of labelled data.

What comes out is a folder that the detector `calibrated` reads. Its figures on validation are cross-fitted: every
document is scored by what was fitted on the others. They say what fitting gains; what the detector is worth is
measured on other documents (`veridical bench --fit none`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from veridical.calibration.calibrated import Fitted, Scale, save_fitted
from veridical.calibration.thresholding import pairs, rule
from veridical.core.detector import Detector, fingerprint_of, info_of
from veridical.core.errors import InputError, UnknownNameError
from veridical.core.judging import judge
from veridical.core.spec import parse_spec
from veridical.core.types import DEFAULT_THRESHOLD, Example, Judgement, Level
from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.llm.connection import REMOTE_OPTIONS
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.calibration import Isotonic, Platt, fit_isotonic, fit_platt
from veridical.metrics.measure import measure_rows
from veridical.metrics.registry import METRICS
from veridical.models.artifact import versions

__all__ = ["CALIBRATIONS", "Plan", "fit_thresholds"]

CALIBRATIONS = ("auto", "isotonic", "platt", "none")
_WITH = {Level.SOURCE: Level.COVERAGE}  # the scores of source words are fitted along with coverage
_ENOUGH = 1000  # items from which `auto` takes the isotonic one (Niculescu-Mizil & Caruana 2005)
_FOLDS = 5
_BATCH = 64
_BEFORE = ("roc_auc", "ece", "brier")
_DECIDED = ("f1", "precision", "recall", "balanced_accuracy")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to fit: a threshold by `rule` ("f1", "balanced_accuracy", "means", "precision@P") and a `calibration`.

    "auto" is isotonic for a thousand items or more, and Platt's curve below. `levels` are "response", "span",
    "coverage" (None: all that both the data label and the detector scores). With `whole` all examples are used, not
    only the validation part of a division by document (`seed`).
    """

    rule: str = "f1"
    calibration: str = "auto"
    levels: tuple[str, ...] | None = None
    whole: bool = False
    seed: int = 0
    resamples: int = 1000

    def __post_init__(self) -> None:
        rule(self.rule)
        if self.calibration not in CALIBRATIONS:
            raise UnknownNameError("calibration", self.calibration, CALIBRATIONS)
        for level in self.levels or ():
            if level not in set(Level):
                raise UnknownNameError("level", level, [known.value for known in Level])


@dataclass(frozen=True, slots=True, eq=False)
class _Items:
    """The labelled items of one scale. *Shape:* `labels`, `scores`, `documents` (items,)."""

    scale: Level
    labels: np.ndarray
    scores: Floats
    documents: np.ndarray
    examples: int


def fit_thresholds(
    detector: Detector,
    examples: Sequence[Example],
    plan: Plan | None = None,
    *,
    spec: str | None = None,
    out: str | Path | None = None,
    data: str = "",
    progress: Callable[[str, int, int], None] = lambda label, done, total: None,
) -> Fitted:
    """What is fitted for the detector on `examples`, saved in `out` where it is given.

    Args:
        detector: The detector whose scores are fitted.
        examples: Labelled data; without `plan.whole` only its validation part is used.
        plan: What to fit, and how.
        spec: How the detector is named in the artifact. Default: its name.
        out: The folder to write.
        data: What the examples are called in the artifact.
        progress: Called with the detector's name, how many cases are judged, and of how many.

    Raises:
        InputError: Too few documents, a level whose labels are of one class, scores that do not rise with the labels,
            or a precision that no threshold has.
    """
    plan = plan or Plan()
    spec = spec or detector.name
    if info_of(detector).needs_chat_model:  # how the model is reached is the user's to say, each time
        spec = str(parse_spec(spec).split(REMOTE_OPTIONS)[1])
    used = list(examples) if plan.whole else split_by_document(examples, seed=plan.seed)["valid"]
    if not used:
        raise InputError(
            f"none of {len(examples)} examples lies in the validation part",
            hint="give more documents, another seed, or use all of them (--whole) and measure on other data",
        )
    judged = list(_judged(detector, used, progress))
    scales: dict[Level, Scale] = {}
    validation: dict[str, Any] = {}
    for name in _wanted(plan, detector):
        items = _items(name, used, judged)
        if items is None:
            _insist(plan, name)
            continue
        scales[name] = _fit(items, plan)
        validation[name.value] = _figures(items, scales[name], plan)
    if not scales:
        raise InputError(
            f"the data say nothing about what {spec} scores ({', '.join(info_of(detector).levels)})",
            hint="give data that label it; see: veridical data list",
        )
    fitted = Fitted(spec, fingerprint_of(detector), scales, _training(examples, used, plan, data), validation)
    if out is not None:
        save_fitted(fitted, out)
    return fitted


def _judged(
    detector: Detector, examples: Sequence[Example], progress: Callable[[str, int, int], None]
) -> Iterator[Judgement]:
    for at in range(0, len(examples), _BATCH):
        progress(detector.name, at, len(examples))
        cases = [example.case for example in examples[at : at + _BATCH]]
        yield from judge(detector, cases)
    progress(detector.name, len(examples), len(examples))


def _wanted(plan: Plan, detector: Detector) -> list[Level]:
    """The levels to fit, in the order of `Level`."""
    scored = info_of(detector).levels
    for level in plan.levels or ():
        if level not in scored and not (level == Level.RESPONSE and Level.SPAN in scored):
            raise InputError(f"{detector.name} does not score {level!r}", hint=f"it scores {', '.join(scored)}")
    wanted = set(plan.levels or scored)
    return [level for level in Level if level in wanted or _WITH.get(level) in wanted]


def _insist(plan: Plan, scale: Level) -> None:
    """Raise if a level was asked for by name that the data do not label."""
    if plan.levels and scale in plan.levels:
        raise InputError(
            f"nothing labels the level {scale.value!r} among the judged cases", hint="give data that label it"
        )


def _items(scale: Level, examples: Sequence[Example], judgements: Sequence[Judgement]) -> _Items | None:
    tables, documents = [], []
    for example, judgement in zip(examples, judgements, strict=True):
        rows = pairs(scale, example, judgement)
        if rows is not None and len(rows):
            tables.append(rows)
            documents += [document_of(example)] * len(rows)
    if not tables:
        return None
    table = np.concatenate(tables)
    return _Items(scale, table[:, 0] > 0, table[:, 1], np.array(documents), len(tables))


# --- fitting --------------------------------------------------------------------------------------------------------


def _fit(items: _Items, plan: Plan) -> Scale:
    """The scale fitted on all items; `InputError`, naming it, where that cannot be done."""
    try:
        return _fit_on(items.labels, items.scores, plan)
    except UndefinedMetricError as error:
        raise InputError(
            f"{items.scale.value}: {error.message} ({len(items.labels)} items of {items.examples} responses)",
            hint="give data with both classes, another rule, or leave the level out (--levels)",
        ) from None


def _fit_on(labels: np.ndarray, scores: Floats, plan: Plan, *, must_rise: bool = True) -> Scale:
    calibration = _calibration(labels, scores, plan.calibration)
    if must_rise and not _rises(calibration):
        auc = METRICS["roc_auc"].value(np.column_stack([labels, scores]))
        raise UndefinedMetricError(f"higher scores do not go with the labels (ROC AUC {auc:.3f})")
    outcome = scores if calibration is None else np.clip(calibration.apply(scores), 0.0, 1.0)
    return Scale(float(rule(plan.rule)(labels, outcome)), calibration)


def _calibration(labels: np.ndarray, scores: Floats, kind: str) -> Platt | Isotonic | None:
    if kind == "none":
        return None
    isotonic = kind == "isotonic" or (kind == "auto" and len(labels) >= _ENOUGH)
    return fit_isotonic(labels, scores) if isotonic else fit_platt(labels, scores)


def _rises(calibration: Platt | Isotonic | None) -> bool:
    if isinstance(calibration, Isotonic):
        return calibration.probabilities[0] < calibration.probabilities[-1]
    return calibration is None or calibration.slope > 0


# --- figures on validation --------------------------------------------------------------------------------------------


def _figures(items: _Items, scale: Scale, plan: Plan) -> dict[str, Any]:
    """How the scale fares: scores as they were, and cross-fitted; each figure with its 95 % interval."""
    raw = np.column_stack([items.labels, items.scores, items.scores >= DEFAULT_THRESHOLD])
    crossed = _crossed(items, plan)
    return {
        "items": len(items.labels),
        "responses": items.examples,
        "documents": len(set(items.documents.tolist())),
        "share_of_positives": round(float(items.labels.mean()), 6),
        "calibration": "none" if scale.calibration is None else scale.calibration.parameters()["kind"],
        "threshold": scale.threshold,
        "share_flagged": round(float(np.mean(np.array(scale.apply(items.scores.tolist())) >= scale.threshold)), 6),
        "before": {"threshold": DEFAULT_THRESHOLD, **_measured(raw, items, plan)},
        "cross_fitted": crossed if crossed is None else {"folds": _FOLDS, **_measured(crossed, items, plan)},
    }


def _crossed(items: _Items, plan: Plan) -> Floats | None:
    """(label, score, decision) of each item by what the other folds of documents gave; None where that cannot be."""
    names = np.unique(items.documents)
    if len(names) < _FOLDS:
        return None
    fold_of = dict(
        zip(np.random.default_rng(plan.seed).permutation(names), np.arange(len(names)) % _FOLDS, strict=True)
    )
    folds = np.array([fold_of[name] for name in items.documents])
    table = np.column_stack([items.labels, items.scores, items.scores]).astype(np.float64)
    for fold in range(_FOLDS):
        inside = folds == fold
        try:
            scale = _fit_on(items.labels[~inside], items.scores[~inside], plan, must_rise=False)
        except UndefinedMetricError:
            return None
        table[inside, 1] = scale.apply(items.scores[inside].tolist())
        table[inside, 2] = table[inside, 1] >= scale.threshold
    return table


def _measured(table: Floats, items: _Items, plan: Plan) -> dict[str, dict[str, Any]]:
    """Each metric over (label, score, decision) rows as the fields of `Measured`, rounded to 6 places."""
    documents = items.documents.tolist()
    figures = {}
    for name in (*_BEFORE, *_DECIDED):
        rows = table[:, [0, 2]] if name in _DECIDED else table[:, :2]
        measured = measure_rows(
            METRICS[name], list(rows[:, None, :]), documents, resamples=plan.resamples, seed=plan.seed
        )
        fields = asdict(measured).items()
        figures[name] = {key: round(value, 6) if isinstance(value, float) else value for key, value in fields}
    return figures


def _training(examples: Sequence[Example], used: Sequence[Example], plan: Plan, data: str) -> dict[str, Any]:
    return {
        "data": data,
        "hash": content_hash(examples),
        "examples": len(used),
        "documents": len({document_of(example) for example in used}),
        "part": "all" if plan.whole else "validation part",
        "rule": plan.rule,
        "calibration": plan.calibration,
        "seed": plan.seed,
        "resamples": plan.resamples,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }
