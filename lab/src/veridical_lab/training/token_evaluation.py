"""What a token classifier is worth on validation data, and the thresholds and probabilities fitted there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.calibration.calibrated import Scale
from veridical.calibration.calibrators import Platt
from veridical.calibration.fitting import CalibrationOptions, fit_scale
from veridical.core.types import DEFAULT_THRESHOLD, GOLD_THRESHOLD, Example, judged_spans
from veridical.detectors.tokens.artifact import TokenScale
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.metrics import UndefinedMetricError
from veridical.metrics.ranking import roc_auc
from veridical.metrics.tokens import unit_labels

__all__ = [
    "contradiction_target",
    "fit_or_keep",
    "fit_scales",
    "labelled_logits",
    "response_target",
    "told_contradiction",
    "validation_figures",
]


def response_target(example: Example) -> float:
    """The gold score of the whole response; NaN where nothing is known about it."""
    gold = example.gold
    if gold.hallucination is not None:
        return gold.hallucination
    if gold.verdicts:
        return max(verdict.score for verdict in gold.verdicts)
    if gold.omission is not None or gold.omissions or not judged_spans(example.case, gold):
        return np.nan
    return 0.0


def contradiction_target(example: Example) -> float:
    """1 where what is wrong in a response contradicts its sources, 0 where it is in none of them, NaN where unknown.

    Told by the group "label" (contradiction or neutral) of pairs, and by the "kind" (intrinsic or extrinsic, Maynez et
    al. 2020) of errors that rules made.
    """
    groups = dict(example.group)
    said = {groups.get("label"), groups.get("kind")}
    if said & {"contradiction", "intrinsic"}:
        return 1.0
    return 0.0 if said & {"neutral", "extrinsic"} else np.nan


def told_contradiction(
    example: Example, scored: ScoredResponse, logits: NDArray[np.float64]
) -> tuple[bool, float] | None:
    """Whether a wrong response is contradicted, and the logit of that: of its worst part. None where one is unknown.

    Args:
        example: The example.
        scored: Its logits.
        logits: Of each part, if it is wrong, being contradicted. *Shape:* (parts,)
    """
    if not logits.size or not response_target(example) >= GOLD_THRESHOLD:
        return None
    kind, told = contradiction_target(example), float(logits[np.argmax(scored.parts)])
    return (kind == 1.0, told) if np.isfinite([kind, told]).all() else None


def labelled_logits(judged: Sequence[tuple[Example, ScoredResponse]]) -> dict[str, NDArray[np.float64]]:
    """(label, logit) of every labelled unit ("span"), of every labelled response by its own head ("whole") and by its
    worst unit ("worst"), and of wrong ones whether they are contradicted ("contradiction"), *shape* (n, 2) each."""
    units: list[NDArray[np.float64]] = [np.zeros((0, 2))]
    whole: list[tuple[bool, float]] = []
    worst: list[tuple[bool, float]] = []
    kinds: list[tuple[bool, float]] = []
    for example, scored in judged:
        if scored.problem:
            continue
        labels, known = unit_labels(example, scored.units)
        finite = np.isfinite(scored.logits)
        units.append(np.column_stack([labels >= GOLD_THRESHOLD, scored.logits])[known & finite])
        target = response_target(example)
        if np.isfinite(target) and finite.any():
            whole.append((target >= GOLD_THRESHOLD, scored.whole))
            worst.append((target >= GOLD_THRESHOLD, float(scored.logits[finite].max())))
        told = told_contradiction(example, scored, scored.contradictions)
        if told is not None:
            kinds.append(told)
    tables = {"whole": whole, "worst": worst, "contradiction": kinds}
    return {"span": np.concatenate(units)} | {
        name: np.array(table, dtype=np.float64).reshape(-1, 2) for name, table in tables.items()
    }


def _auc(table: NDArray[np.float64]) -> float | None:
    try:
        return float(roc_auc(table[:, 0] > 0, table[:, 1]))
    except UndefinedMetricError:
        return None


def validation_figures(judged: Sequence[tuple[Example, ScoredResponse]]) -> dict[str, Any]:
    """ROC AUC over all labelled units and over all labelled responses, None where a class is missing; and counts."""
    tables = labelled_logits(judged)
    return {
        "units": len(tables["span"]),
        "responses": len(tables["whole"]),
        "unit_roc_auc": _auc(tables["span"]),
        "roc_auc": _auc(tables["whole"]),
        "worst_unit_roc_auc": _auc(tables["worst"]),
        **({"contradiction_roc_auc": _auc(tables["contradiction"])} if len(tables["contradiction"]) else {}),
    }


def fit_scales(judged: Sequence[tuple[Example, ScoredResponse]], criterion: str) -> tuple[dict[str, Any], list[str]]:
    """What `TokenSettings` needs of validation data, and a note on each level of which nothing could be fitted.

    Such a level, whose labels are of one class or whose logits do not rise with them, keeps its logits as they are,
    with the threshold 0.5.

    Args:
        judged: Validation examples with their logits.
        criterion: What the thresholds optimise, one of `calibration.thresholding.CRITERIA`.

    Returns:
        "span" and "response": their scales, and "contradiction" where one can be fitted; "response_by": which logit
        stands for a response: of its own head ("whole") or of its worst unit ("worst"), by ROC AUC. And the notes.
    """
    tables = labelled_logits(judged)
    by_whole, by_worst = _auc(tables["whole"]), _auc(tables["worst"])
    response_by = "worst" if by_worst is not None and by_whole is not None and by_worst > by_whole else "whole"
    scales, notes = {}, []
    levels = [("span", tables["span"]), ("response", tables[response_by])]
    if len(tables["contradiction"]):
        levels.append(("contradiction", tables["contradiction"]))
    for level, table in levels:
        scale, note = fit_or_keep(table[:, 0] > 0, table[:, 1], criterion)
        if note is not None:
            notes.append(f"{level}: {note}")
            if level == "contradiction":
                continue  # no label rather than one that means nothing
        assert isinstance(scale.calibration, Platt)
        scales[level] = TokenScale(scale.threshold, scale.calibration.slope, scale.calibration.intercept)
    return {**scales, "response_by": response_by}, notes


def fit_or_keep(labels: NDArray[np.bool_], logits: NDArray[np.float64], criterion: str) -> tuple[Scale, str | None]:
    """The threshold and calibration of logits; where none can be fitted, the logits as they are and why."""
    try:
        return fit_scale(labels, logits, CalibrationOptions(criterion, "platt")), None
    except UndefinedMetricError as error:
        kept = Scale(DEFAULT_THRESHOLD, Platt(1.0, 0.0))
        return kept, f"scores are not calibrated, the threshold is {DEFAULT_THRESHOLD}: {error.message}"
