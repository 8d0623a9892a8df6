"""Metrics of predictions against gold, on responses, tokens, characters, spans and coverage: pure functions.

The numeric modules take arrays (labels: True = hallucinated; scores: 1 = hallucinated) and an optional `weight`: how
often each item counts. `alignment` and `coverage` turn examples and judgements into such arrays; `registry.METRICS`
lists the metrics by name. An undefined value raises `UndefinedMetricError` instead of getting a default.
"""

from __future__ import annotations

from veridical.core.errors import InputError

__all__ = ["UndefinedMetricError"]


class UndefinedMetricError(InputError):
    """The metric has no value on these data, such as an area under a curve with one class only."""
