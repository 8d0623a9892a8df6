"""Explanations for the judgement of any detector: source passages, what the sources have instead, and why."""

from veridical.detectors.explanation.explanation import (
    ABSENCE,
    CONTRADICTION,
    explained,
    likely_label,
)

__all__ = ["ABSENCE", "CONTRADICTION", "explained", "likely_label"]
