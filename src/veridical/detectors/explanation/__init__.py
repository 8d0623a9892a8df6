"""Explanations for the judgements of any detector: source passages, labels, kinds of error, reasons and corrections."""

from veridical.detectors.explanation.explanation import (
    ABSENCE,
    CONTRADICTION,
    explained,
    likely_label,
)
from veridical.detectors.explanation.kinds import KINDS, REFERENCE

__all__ = ["ABSENCE", "CONTRADICTION", "KINDS", "REFERENCE", "explained", "likely_label"]
