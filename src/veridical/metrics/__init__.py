"""Compare predictions with gold labels of whole responses by metrics, and fit thresholds for every level.

All metrics are pure functions. The numeric modules take arrays of labels (True = hallucinated) and scores (1 =
hallucinated). The optional argument `weight` says how often each item counts. You can make such arrays from examples
and judgements with `alignment` and `coverage`. All metrics are listed by name in `registry.METRICS`.

A metric whose value is undefined raises `UndefinedMetricError`. No default value is returned in its place.
"""

from __future__ import annotations

from veridical.records.errors import InputError

__all__ = ["UndefinedMetricError"]


class UndefinedMetricError(InputError):
    """Raised if a metric has no value on the data.

    For example, an area under a curve is undefined if all items have the same label.
    """
