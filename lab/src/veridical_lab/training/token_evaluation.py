"""Evaluate a token classifier on validation data, and fit its thresholds and calibration there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.calibrated import Scale
from veridical.detectors.tokens.artifact import TokenScale
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.metrics import UndefinedMetricError
from veridical.metrics.calibrators import Platt
from veridical.metrics.ranking import roc_auc
from veridical.records.types import DEFAULT_THRESHOLD, GOLD_THRESHOLD, Example, judged_spans
from veridical.workflows.calibration import CalibrationOptions, fit_scale
from veridical_lab.metrics.unit_labels import unit_labels


def response_target(example: Example) -> float:
    """Return the gold score of the whole response, or NaN if it is unknown."""
    gold = example.gold
    if gold.hallucination is not None:
        return gold.hallucination
    if gold.verdicts:
        return max(verdict.score for verdict in gold.verdicts)
    if gold.omission is not None or gold.omissions or not judged_spans(example.case, gold):
        return np.nan
    return 0.0


def contradiction_target(example: Example) -> float:
    """Return 1 if the errors of a response contradict the sources, and 0 if the sources do not mention their content.

    The group "label" of pairs (contradiction or neutral) or the group "kind" of rule-based errors (intrinsic or
    extrinsic, Maynez et al. 2020) gives the answer. Without such a group, the result is NaN.
    """
    groups = dict(example.group)
    kinds = {groups.get("label"), groups.get("kind")}
    if kinds & {"contradiction", "intrinsic"}:
        return 1.0
    return 0.0 if kinds & {"neutral", "extrinsic"} else np.nan


def contradiction_pair(
    example: Example, scored: ScoredResponse, logits: NDArray[np.float64]
) -> tuple[bool, float] | None:
    """Return whether the sources contradict a wrong response, and the contradiction logit of its worst part.

    Return None if one of the two is unknown, or if the response is not wrong.

    Args:
        example: The example.
        scored: The scores of the response.
        logits: For each part, the log-odds that the sources contradict it, given that it is wrong. *Shape:* (parts,)
    """
    if not logits.size or not response_target(example) >= GOLD_THRESHOLD:
        return None
    kind, logit = contradiction_target(example), float(logits[np.argmax(scored.parts)])
    return (kind == 1.0, logit) if np.isfinite([kind, logit]).all() else None


def labelled_logits(judged: Sequence[tuple[Example, ScoredResponse]]) -> dict[str, NDArray[np.float64]]:
    """Collect labels and logits in tables of *shape* (n, 2).

    * "span": every labelled unit (a word, token or phrase).
    * "whole": every labelled response, with the logit of the head for responses.
    * "worst": the same responses, with the logit of their worst unit.
    * "contradiction": the wrong responses, labelled by whether the sources contradict them.
    """
    units: list[NDArray[np.float64]] = [np.zeros((0, 2))]
    whole: list[tuple[bool, float]] = []
    worst: list[tuple[bool, float]] = []
    kinds: list[tuple[bool, float]] = []
    for example, scored in judged:
        if scored.problem:
            continue
        labels, is_labelled = unit_labels(example, scored.units)
        finite = np.isfinite(scored.logits)
        units.append(np.column_stack([labels >= GOLD_THRESHOLD, scored.logits])[is_labelled & finite])
        target = response_target(example)
        if np.isfinite(target) and finite.any():
            whole.append((target >= GOLD_THRESHOLD, scored.whole))
            worst.append((target >= GOLD_THRESHOLD, float(scored.logits[finite].max())))
        contradiction = contradiction_pair(example, scored, scored.contradictions)
        if contradiction is not None:
            kinds.append(contradiction)
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
    """Count the labelled units and the labelled responses, and compute the ROC AUC of each.

    A ROC AUC is None unless both classes occur.
    """
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
    """Fit the scales of `TokenSettings` on validation data.

    If all labels of a level are of one class, or if its logits do not rise with the labels, nothing is fitted, and the
    level keeps uncalibrated scores with the threshold 0.5.

    Args:
        judged: The validation examples with their logits.
        criterion: Choose thresholds that are best by this criterion, one of `metrics.thresholding.CRITERIA`.

    Returns:
        A dictionary, and notes on levels that could not be fitted. The dictionary has scales for "span" and "response",
        and for "contradiction" if it could be fitted. "response_by" names the logit that is used for responses, chosen
        by ROC AUC: the logit of the head for responses ("whole") or of the worst unit ("worst").
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
                continue  # without a fitted scale, the label would be meaningless
        assert isinstance(scale.calibration, Platt)
        scales[level] = TokenScale(scale.threshold, scale.calibration.slope, scale.calibration.intercept)
    return {**scales, "response_by": response_by}, notes


def fit_or_keep(labels: NDArray[np.bool_], logits: NDArray[np.float64], criterion: str) -> tuple[Scale, str | None]:
    """Fit threshold and calibration of logits. If that fails, return an uncalibrated scale and the reason."""
    try:
        return fit_scale(labels, logits, CalibrationOptions(criterion, "platt")), None
    except UndefinedMetricError as error:
        unfitted = Scale(DEFAULT_THRESHOLD, Platt(1.0, 0.0))
        return unfitted, f"scores are not calibrated, the threshold is {DEFAULT_THRESHOLD}: {error.message}"
