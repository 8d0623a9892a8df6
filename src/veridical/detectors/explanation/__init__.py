"""Explanations for the judgements of any detector: source passages, labels, reasons and corrections."""

from veridical.detectors.explanation.explanation import (
    ABSENCE,
    CONTRADICTION,
    explained,
    likely_label,
)

__all__ = ["ABSENCE", "CONTRADICTION", "explained", "likely_label"]
