"""Measure predictions for whole responses against gold labels, and fit thresholds at every level.

All metrics are pure functions. The numeric modules take an array of labels (True = hallucinated), an array of scores
(1 = hallucinated) and an optional `weight` that says how often each item counts. `alignment` and `coverage` build
labels and scores from examples and judgements. `registry.METRICS` contains all of these metrics by name.

A metric that is undefined on the data raises `UndefinedMetricError` and never returns a default value.
"""

from __future__ import annotations

from veridical.records.errors import InputError

__all__ = ["UndefinedMetricError"]


class UndefinedMetricError(InputError):
    """Raised if a metric cannot be computed on the given data, because it is mathematically undefined there.

    For example, ROC AUC is undefined if all items have the same label.
    """
