"""Metrics of whole responses, on plain arrays."""

from __future__ import annotations

import numpy as np

from veridical.metrics.registry import METRICS


def value(name, labels, values, weight=None):
    """The metric `name` of labels and decisions, or of labels and scores."""
    return METRICS[name].value(np.column_stack([labels, values]), weight)
