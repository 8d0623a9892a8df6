"""Linear classifiers of feature rows, stored as plain arrays.

Training fits them with scikit-learn; scoring needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import DataError

__all__ = ["LinearClassifier", "LogisticLayer"]

Floats = NDArray[np.float64]
_FARTHEST = 5.0  # deviations; a feature that hardly varied in training must not decide alone
_ARRAYS = ("mean", "scale", "weights", "intercept")


@dataclass(frozen=True, slots=True, eq=False)
class LogisticLayer:
    """A logistic classifier with `weight` (features,) and `bias`, on raw features."""

    weight: Floats
    bias: float

    def scores(self, rows: Floats) -> Floats:
        """Return the probability for each row of features. *Shape:* (rows,)"""
        logits = np.clip(rows @ self.weight + self.bias, -500.0, 500.0)
        probability: Floats = 1.0 / (1.0 + np.exp(-logits))
        return probability


@dataclass(frozen=True, slots=True, eq=False)
class LinearClassifier:
    """A linear classifier: weights @ ((row - mean) / scale) + intercept.

    A missing value (NaN) counts as the mean, and a value more than five deviations away as five.

    *Shape:* (features,) each but `intercept`, which is (1,).
    """

    mean: Floats
    scale: Floats
    weights: Floats
    intercept: Floats

    @classmethod
    def standardising(cls, rows: Floats) -> LinearClassifier:
        """Make a classifier with the means and deviations of `rows` *(n, features)*, and weights of 0."""
        present = ~np.isnan(rows)
        count = np.maximum(present.sum(axis=0), 1)
        mean = np.where(present, rows, 0.0).sum(axis=0) / count
        deviation = np.sqrt(np.where(present, (rows - mean) ** 2, 0.0).sum(axis=0) / count)
        zero = np.zeros(rows.shape[1])
        return cls(mean, np.where(deviation > 1e-9, deviation, 1.0), zero, np.zeros(1))

    def standardise(self, rows: Floats) -> Floats:
        """Return each value's distance from the mean in deviations, from -5 to 5; 0 where a value is missing."""
        values: Floats = np.clip(np.nan_to_num((rows - self.mean) / self.scale, nan=0.0), -_FARTHEST, _FARTHEST)
        return values

    def contributions(self, rows: Floats) -> Floats:
        """Return the amount that each feature adds to the distance of each row. *Shape:* that of `rows`"""
        parts: Floats = self.standardise(rows) * self.weights
        return parts

    def decide(self, rows: Floats) -> Floats:
        """Return the signed distance of each row from the boundary, in units of the loss; above 0 = hallucinated."""
        distance: Floats = self.standardise(rows) @ self.weights + self.intercept[0]
        return distance

    def arrays(self) -> dict[str, Floats]:
        """Return the four arrays by name."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], features: int, path: Path) -> LinearClassifier:
        """Make a classifier from `arrays`; raise `DataError` if one is missing, or of a wrong shape or scale."""
        for name in _ARRAYS:
            shape = (1,) if name == "intercept" else (features,)
            array = arrays.get(name)
            if array is None or array.shape != shape or not np.isfinite(array).all():
                problem = "missing" if array is None else f"of shape {array.shape}, or not finite"
                raise DataError(f"{name} of the classifier is {problem}", path=path, hint="train the detector again")
        if not (arrays["scale"] > 0).all():
            raise DataError("scale of the classifier is not above 0", path=path, hint="train the detector again")
        return cls(*(arrays[name].astype(np.float64) for name in _ARRAYS))
