"""Heads on the states of a backbone or on feature rows, applied in NumPy; training uses torch and scikit-learn.

`PairHead` follows Liu et al. 2022, §4.2: the states of a span are pooled (max or mean), and a perceptron with tanh
scores them. A span may be a token, a word, or a marked phrase. A second head scores the response as a whole, a third
tells whether the sources contradict it or lack it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import DataError, InputError, UnknownNameError

__all__ = ["POOLINGS", "HeadSettings", "LinearClassifier", "LogisticLayer", "PairHead", "pool"]

States = NDArray[np.float32]
Floats = NDArray[np.float64]
POOLINGS = ("max", "mean")
_FARTHEST = 5.0  # deviations; a feature that hardly varied in training must not decide alone
_ARRAYS = ("mean", "scale", "weights", "intercept")


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """The form of the heads of a `PairHead`.

    Attributes:
        unit: What is scored: "word" (its tokens pooled) or "token".
        pooling: "max" or "mean" over the tokens of a unit.
        hidden: Hidden units of the perceptron; 0: the head is linear.
        features: The number of features of each unit that are appended to its pooled state.
        contradiction: Whether there is a head that tells contradiction from absence.
    """

    unit: Literal["word", "token"] = "word"
    pooling: Literal["max", "mean"] = "mean"
    hidden: int = 0
    features: int = 0
    contradiction: bool = False

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise UnknownNameError("pooling", self.pooling, POOLINGS)
        if self.unit not in ("word", "token"):
            raise UnknownNameError("unit", self.unit, ("word", "token"))
        if self.hidden < 0 or self.features < 0:
            raise InputError(f"a head of {self.hidden} hidden units and {self.features} features", hint="0 or more")

    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors of a head on states of `width` numbers."""
        size = width + self.features
        shapes: dict[str, tuple[int, ...]] = {"units.weight": (1, self.hidden or size), "units.bias": (1,)}
        shapes |= {"pair.weight": (1, size), "pair.bias": (1,)}
        if self.hidden:
            shapes |= {"hidden.weight": (self.hidden, size), "hidden.bias": (self.hidden,)}
        if self.contradiction:
            shapes |= {"contradiction.weight": (1, size), "contradiction.bias": (1,)}
        return shapes


def pool(states: States, units: Sequence[tuple[int, int]], pooling: str) -> States:
    """Pool the states of each unit.

    Args:
        states: *Shape:* (tokens, width)
        units: First and end token of each unit; none is empty.
        pooling: "max" or "mean".

    Returns:
        *Shape:* (units, width)
    """
    if all(end - first == 1 for first, end in units):
        return states[[first for first, _ in units]]
    reduce = np.max if pooling == "max" else np.mean
    return np.stack([states[first] if end - first == 1 else reduce(states[first:end], axis=0) for first, end in units])


@dataclass(frozen=True, slots=True, eq=False)
class PairHead:
    """The weights of the heads; any engine may compute the states.

    Attributes:
        settings: The form.
        tensors: The weights by name (`HeadSettings.shapes`).
        transform: The layers that a published checkpoint has before its classifier; applied to states before pooling.
    """

    settings: HeadSettings
    tensors: dict[str, States]
    transform: Callable[[States], States] | None = None

    def unit_logits(self, states: States, units: Sequence[tuple[int, int]], features: States | None) -> States:
        """Return the logit that each unit is hallucinated, *(units,)*, from the states *(tokens, width)*."""
        x = pool(states if self.transform is None else self.transform(states), units, self.settings.pooling)
        if self.settings.features:
            x = np.concatenate([x, features], axis=1)
        if self.settings.hidden:
            x = np.tanh(x @ self.tensors["hidden.weight"].T + self.tensors["hidden.bias"])
        logits: States = (x @ self.tensors["units.weight"].T + self.tensors["units.bias"])[:, 0]
        return logits

    def pair_logit(self, state: States, features: States | None) -> float:
        """Return the logit that the response is hallucinated, from its state and its units' mean features."""
        return self._of_whole("pair", state, features)

    def contradiction_logit(self, state: States, features: States | None) -> float:
        """Return the logit that the sources contradict the response, given that it is hallucinated.

        NaN without that head; the arguments are those of `pair_logit`.
        """
        return self._of_whole("contradiction", state, features) if self.settings.contradiction else np.nan

    def _of_whole(self, head: str, state: States, features: States | None) -> float:
        x = state if not self.settings.features else np.concatenate([state, features])
        return float(x @ self.tensors[f"{head}.weight"][0] + self.tensors[f"{head}.bias"][0])


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
        """Make a classifier from `arrays`; raise `DataError` if one is missing, not finite or misshapen."""
        for name in _ARRAYS:
            shape = (1,) if name == "intercept" else (features,)
            array = arrays.get(name)
            if array is None or array.shape != shape or not np.isfinite(array).all():
                problem = "missing" if array is None else f"of shape {array.shape}, or not finite"
                raise DataError(f"{name} of the classifier is {problem}", path=path, hint="train the detector again")
        if not (arrays["scale"] > 0).all():
            raise DataError("scale of the classifier is not above 0", path=path, hint="train the detector again")
        return cls(*(arrays[name].astype(np.float64) for name in _ARRAYS))
