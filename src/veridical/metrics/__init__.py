"""Metrics that compare predictions with gold labels on whole responses, and thresholds for every level.

All metrics are pure functions. The numeric modules take arrays of labels (True = hallucinated) and scores (1 =
hallucinated). An optional `weight` says how often each item counts. `alignment` and `coverage` turn examples and
judgements into such arrays, and `registry.METRICS` lists the metrics by name. An undefined value raises
`UndefinedMetricError` instead of getting a default.
"""

from __future__ import annotations

from veridical.records.errors import InputError

__all__ = ["UndefinedMetricError"]


class UndefinedMetricError(InputError):
    """Raised if a metric has no value on the data, such as an area under a curve if all items have the same label."""
