"""Pure functions from gold and prediction to numbers: response, token, character, span and coverage level.

The numeric modules take arrays (labels: True = hallucinated; scores: 1 = hallucinated) with an optional `weight`, how
often each item counts. `alignment` turns examples and judgements into such arrays; `registry.METRICS` names the
metrics. A value that is not defined raises `UndefinedMetricError`; none is invented.
"""

from __future__ import annotations

from veridical.core.errors import InputError

__all__ = ["UndefinedMetricError"]


class UndefinedMetricError(InputError):
    """The metric has no value on what was given, such as an area under a curve with one class only."""
