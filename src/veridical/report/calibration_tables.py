"""Show the result of `veridical calibrate` as tables, with validation figures before and after calibration."""

from __future__ import annotations

from typing import Any

from veridical.detectors.calibrated import FittedCalibration
from veridical.metrics.measure import Measured
from veridical.report.tables import Table, cell

_METRICS = ("roc_auc", "ece", "brier", "f1", "precision", "recall")
NEARLY_ALL = 0.9


def calibration_tables(fitted: FittedCalibration) -> list[Table]:
    """Make one table for each fitted level (such as "response" or "span"), with metrics before and after calibration.

    The metrics are measured on validation data. Those after calibration are cross-fitted: each document is scored by a
    fit on other documents.
    """
    tables = []
    for level, fit in fitted.validation.items():
        lines = [[metric, _cell(fit["before"], metric), _cell(fit["cross_fitted"], metric)] for metric in _METRICS]
        foot = (
            f"{fit['items']} items, {fit['share_of_positives']:.0%} positive, of {fit['responses']} responses and "
            f"{fit['documents']} documents; calibration: {fit['calibration']}; the threshold {fit['threshold']:.4g} "
            f"(before: {fit['before']['threshold']:.4g}) flags {fit['share_flagged']:.0%}"
        )
        tables.append(Table(level, ["on validation", "before", "cross-fitted"], lines, foot))
    return tables


def _cell(figures: dict[str, Any] | None, metric: str) -> str:
    return "undefined" if figures is None else cell(Measured(**figures[metric]))


def calibration_notes(fitted: FittedCalibration) -> list[str]:
    """Return a warning for each fitted level (such as "span") whose threshold flags nearly all items (`NEARLY_ALL`)."""
    return [
        f"{level}: the threshold flags {fit['share_flagged']:.0%} of all; --criterion balanced_accuracy flags fewer"
        for level, fit in fitted.validation.items()
        if fit["share_flagged"] > NEARLY_ALL
    ]
