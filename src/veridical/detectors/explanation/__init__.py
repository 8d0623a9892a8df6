"""Explain the judgements of any detector: add source passages, labels, kinds of error, reasons and corrections."""

from veridical.detectors.explanation.explanation import (
    ABSENCE,
    CONTRADICTION,
    explained,
    likely_label,
)
from veridical.detectors.explanation.kinds import KINDS, LABELS, REFERENCE

__all__ = ["ABSENCE", "CONTRADICTION", "KINDS", "LABELS", "REFERENCE", "explained", "likely_label"]
