"""Compute logits from the hidden states of a backbone (a pretrained model) or from features, with small NumPy heads.

States are the hidden states of the last layer, one vector of `width` numbers per token. A unit is the piece of the
response that gets a score: a token, a word, or a marked phrase.

The heads are trained with torch and scikit-learn. `PairHead` follows Liu et al. 2022, §4.2: it pools the states of a
unit (max or mean) and scores the result with a perceptron (tanh). A second head scores the response as a whole, and a
third one predicts whether the sources contradict the response or do not mention its content. These two heads may share
a hidden layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from veridical.records.errors import DataError, InputError, UnknownNameError

States = NDArray[np.float32]
Floats = NDArray[np.float64]
POOLINGS = ("max", "mean")
WHOLES = ("state", "both")
_FARTHEST = 5.0  # standard deviations; a feature that hardly varied in training must not decide alone
_ARRAYS = ("mean", "scale", "weights", "intercept")


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """The architecture of a `PairHead`: a head that scores units (words or tokens), and heads for the whole response.

    Attributes:
        unit: What to score: each "word" (its tokens are pooled) or each "token".
        pooling: How to pool the tokens of a unit: "max" or "mean".
        hidden: The size of the hidden layer of the head for units. 0 makes this head linear.
        features: The number of additional features of each unit that are appended to its pooled state.
        contradiction: If true, there is also a head that predicts whether the sources contradict the response, as
            opposed to not mentioning its content.
        whole: The input of the heads for the whole response: "state" (the state that represents the response) or
            "both" (this state and the mean of the response tokens' states).
        whole_hidden: The size of the tanh layer that the heads for the whole response share. 0 makes them linear.
    """

    unit: Literal["word", "token"] = "word"
    pooling: Literal["max", "mean"] = "mean"
    hidden: int = 0
    features: int = 0
    contradiction: bool = False
    whole: Literal["state", "both"] = "state"
    whole_hidden: int = 0

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise UnknownNameError("pooling", self.pooling, POOLINGS)
        if self.unit not in ("word", "token"):
            raise UnknownNameError("unit", self.unit, ("word", "token"))
        if self.whole not in WHOLES:
            raise UnknownNameError("whole", self.whole, WHOLES)
        if min(self.hidden, self.features, self.whole_hidden) < 0:
            raise InputError(
                f"heads of {self.hidden} and {self.whole_hidden} hidden units, and {self.features} features",
                hint="0 or more",
            )

    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight tensor by name, for a backbone with hidden states of size `width`."""
        size = width + self.features
        shapes: dict[str, tuple[int, ...]] = {"units.weight": (1, self.hidden or size), "units.bias": (1,)}
        if self.hidden:
            shapes |= {"hidden.weight": (self.hidden, size), "hidden.bias": (self.hidden,)}
        whole = size + (width if self.whole == "both" else 0)
        if self.whole_hidden:
            shapes |= {"whole.weight": (self.whole_hidden, whole), "whole.bias": (self.whole_hidden,)}
        for head in ("pair", "contradiction") if self.contradiction else ("pair",):
            shapes |= {f"{head}.weight": (1, self.whole_hidden or whole), f"{head}.bias": (1,)}
        return shapes


def pool(states: States, units: Sequence[tuple[int, int]], pooling: str) -> States:
    """Pool the hidden states of the tokens in each unit (such as a word) into one vector.

    Args:
        states: The states of all tokens. *Shape:* (tokens, width)
        units: The token range of each unit: its first token, and the token after its last. No unit may be empty.
        pooling: "max" or "mean".

    Returns:
        The pooled states. *Shape:* (units, width)
    """
    if all(end - first == 1 for first, end in units):
        return states[[first for first, _ in units]]
    reduce = np.max if pooling == "max" else np.mean
    return np.stack([states[first] if end - first == 1 else reduce(states[first:end], axis=0) for first, end in units])


@dataclass(frozen=True, slots=True, eq=False)
class PairHead:
    """Computes hallucination logits from the hidden states of a backbone, for units (words or tokens) and responses.

    Attributes:
        settings: The architecture of the heads.
        tensors: The weights by name (`HeadSettings.shapes`).
        transform: Layers that are applied to the states before pooling, for published checkpoints that have such
            layers before their classifier.
    """

    settings: HeadSettings
    tensors: dict[str, States]
    transform: Callable[[States], States] | None = None

    def unit_logits(self, states: States, units: Sequence[tuple[int, int]], features: States | None) -> States:
        """Compute the log-odds that each unit (word or token) is hallucinated.

        Args:
            states: The hidden states of the response's tokens. *Shape:* (tokens, width)
            units: The token range of each unit: its first token, and the token after its last.
            features: The additional features of each unit. None if the heads take no features. *Shape:* (units,
                features)

        Returns:
            The log-odds. *Shape:* (units,)
        """
        x = pool(states if self.transform is None else self.transform(states), units, self.settings.pooling)
        if self.settings.features:
            x = np.concatenate([x, features], axis=1)
        if self.settings.hidden:
            x = np.tanh(x @ self.tensors["hidden.weight"].T + self.tensors["hidden.bias"])
        logits: States = (x @ self.tensors["units.weight"].T + self.tensors["units.bias"])[:, 0]
        return logits

    def whole_logits(self, whole: States, tokens: States, features: States | None) -> tuple[float, float]:
        """Compute the two logits of a whole response.

        The first one is the log-odds that the response is hallucinated. The second one is the log-odds that the sources
        contradict the response, given that it is hallucinated. The second one is NaN if `HeadSettings.contradiction` is
        false.

        Args:
            whole: The state that represents the response (`pair_runner.States.whole`). *Shape:* (width,)
            tokens: The states of the response's tokens. *Shape:* (tokens, width)
            features: The mean of the features of the response's units. None if the heads take no features. *Shape:*
                (features,)
        """
        parts = [whole, *([tokens.mean(0)] if self.settings.whole == "both" else [])]
        x = np.concatenate([*parts, *([features] if self.settings.features and features is not None else [])])
        if self.settings.whole_hidden:
            x = np.tanh(self.tensors["whole.weight"] @ x + self.tensors["whole.bias"])

        def logit(head: str) -> float:
            return float(x @ self.tensors[f"{head}.weight"][0] + self.tensors[f"{head}.bias"][0])

        return logit("pair"), logit("contradiction") if self.settings.contradiction else np.nan


@dataclass(frozen=True, slots=True, eq=False)
class LogisticLayer:
    """A logistic classifier on raw features, with `weight` of *shape* (features,) and `bias`."""

    weight: Floats
    bias: float

    def scores(self, rows: Floats) -> Floats:
        """Compute the probability of the positive class for each row of features.

        *Shape:* `rows` is (rows, features), and the result is (rows,).
        """
        logits = np.clip(rows @ self.weight + self.bias, -500.0, 500.0)
        probability: Floats = 1.0 / (1.0 + np.exp(-logits))
        return probability


@dataclass(frozen=True, slots=True, eq=False)
class LinearClassifier:
    """A linear classifier of standardised features, which computes weights @ ((row - mean) / scale) + intercept.

    A missing value (NaN) is replaced by the mean, and values are clipped at five standard deviations from the mean. All
    arrays have the *shape* (features,), except `intercept`, which has (1,).
    """

    mean: Floats
    scale: Floats
    weights: Floats
    intercept: Floats

    @classmethod
    def standardising(cls, rows: Floats) -> LinearClassifier:
        """Build an untrained classifier that standardises by the means and standard deviations of `rows`.

        Its weights and its intercept are 0. *Shape:* `rows` is (n, features).
        """
        present = ~np.isnan(rows)
        count = np.maximum(present.sum(axis=0), 1)
        mean = np.where(present, rows, 0.0).sum(axis=0) / count
        deviation = np.sqrt(np.where(present, (rows - mean) ** 2, 0.0).sum(axis=0) / count)
        zero = np.zeros(rows.shape[1])
        return cls(mean, np.where(deviation > 1e-9, deviation, 1.0), zero, np.zeros(1))

    def standardise(self, rows: Floats) -> Floats:
        """Subtract `mean`, divide by `scale`, and clip the results to [-5, 5].

        A missing value (NaN) gives 0. The result has the shape of `rows`.
        """
        values: Floats = np.clip(np.nan_to_num((rows - self.mean) / self.scale, nan=0.0), -_FARTHEST, _FARTHEST)
        return values

    def contributions(self, rows: Floats) -> Floats:
        """Compute how much each feature adds to the decision value of each row (`decide`), to explain the decision.

        The result has the shape of `rows`, (n, features). The intercept is not part of it.
        """
        parts: Floats = self.standardise(rows) * self.weights
        return parts

    def decide(self, rows: Floats) -> Floats:
        """Compute the decision value of each row of features, which is above 0 for hallucinated. *Shape:* (rows,)

        What the value measures depends on the loss in training. With the logistic loss, it is in log-odds.
        """
        distance: Floats = self.standardise(rows) @ self.weights + self.intercept[0]
        return distance

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays "mean", "scale", "weights" and "intercept" by name, for saving."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], features: int, path: Path) -> LinearClassifier:
        """Build a classifier from saved `arrays` for `features` features. Error messages name the file `path`.

        Raises:
            DataError: An array is missing, not finite, or has the wrong shape.
        """
        for name in _ARRAYS:
            shape = (1,) if name == "intercept" else (features,)
            array = arrays.get(name)
            if array is None or array.shape != shape or not np.isfinite(array).all():
                problem = "missing" if array is None else f"of shape {array.shape}, or not finite"
                raise DataError(f"{name} of the classifier is {problem}", path=path, hint="train the detector again")
        if not (arrays["scale"] > 0).all():
            raise DataError("scale of the classifier is not above 0", path=path, hint="train the detector again")
        return cls(*(arrays[name].astype(np.float64) for name in _ARRAYS))
