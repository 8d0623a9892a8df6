"""Compute probes on hidden states from arrays of weights: linear, attention pooling, a small MLP, or an ensemble.

A probe is a small classifier that reads a language model's hidden states. This follows CH-Wang et al. 2024, §4.1. All
kinds of probes project a hidden state to a few numbers and then use only these. Scoring all prefixes of a response
therefore takes O(tokens) time, and `StreamingProbes` keeps only O(1) numbers for each probe during generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.metrics.arrays import Floats
from veridical.metrics.calibrators import calibrator
from veridical.records.errors import InputError, UnknownNameError

PROBE_KINDS = ("linear", "pooling", "mlp")
OBJECTIVES = ("token", "response")
RealArray = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """One probe for each of `sublayers`, and how their probabilities are combined into one.

    A hidden state h (width,) becomes z = `projection` @ h + `offset`, where `projection` has the *shape* (probes, k,
    width) and `offset` (probes, k). For linear probes, k is 1 and z is the logit. For pooling, k is 2, and z has the
    value w·h + b and the attention q·h. For mlp, k is the number of hidden units, and the logit is `output` @ relu(z) +
    `bias`, where `output` has the *shape* (probes, k) and `bias` (probes,).

    Pooling averages the values over the response so far, weighted by attention. The other kinds judge each state by
    itself if the `objective` is "token", and the plain mean over the response so far if it is "response".

    `mix` (probes,) and `mix_bias` are a logistic regression on the probes' probabilities. Without `mix`, the
    probabilities are averaged.
    """

    kind: str
    objective: str
    sublayers: tuple[int, ...]
    projection: RealArray
    offset: RealArray
    output: RealArray | None = None
    bias: RealArray | None = None
    mix: RealArray | None = None
    mix_bias: float = 0.0

    def __post_init__(self) -> None:
        for what, value, allowed in (("kind", self.kind, PROBE_KINDS), ("objective", self.objective, OBJECTIVES)):
            if value not in allowed:
                raise UnknownNameError(f"{what} of probe", value, allowed)
        count, k = len(self.sublayers), self.projection.shape[1]
        shapes = {"offset": (count, k), "output": (count, k), "bias": (count,), "mix": (count,)}
        wrong = [n for n, s in shapes.items() if (a := getattr(self, n)) is not None and a.shape != s]
        right_k = k == {"linear": 1, "pooling": 2}.get(self.kind, k)
        if self.projection.shape[0] != count or wrong or not right_k or (self.kind == "mlp") != (self.bias is not None):
            raise InputError(
                f"the arrays of {count} {self.kind} probes do not fit together: projection "
                f"{self.projection.shape}{', ' + ', '.join(wrong) if wrong else ''}"
            )

    @property
    def width(self) -> int:
        """The width of the hidden states."""
        return int(self.projection.shape[2])

    def only(self, sublayer: int) -> Probes:
        """Return only the probe of one sublayer."""
        i = self.sublayers.index(sublayer)
        one = {n: a[i : i + 1] for n, a in self.tensors().items() if n != "mix"}
        return from_tensors(self.kind, self.objective, (sublayer,), one)

    def tensors(self) -> dict[str, RealArray]:
        """Return the arrays by name. `from_tensors` makes probes from them."""
        arrays = {n: getattr(self, n) for n in ("projection", "offset", "output", "bias", "mix")}
        return {name: array for name, array in arrays.items() if array is not None}

    # --- from states to scores ------------------------------------------------------------------------------------

    def project(self, states: RealArray) -> RealArray:
        """Compute z of each state, in double precision: (probes, …, width) -> (probes, …, k)."""
        flat = np.asarray(states, dtype=np.float64).reshape(len(self.sublayers), -1, self.width)
        z = flat @ self.projection.astype(np.float64).transpose(0, 2, 1) + self.offset[:, None, :].astype(np.float64)
        return z.reshape(*np.shape(states)[:-1], z.shape[-1])

    def attention(self, z: RealArray) -> RealArray | None:
        """Return the attention of each state before its softmax, (probes, …), or None if states are not averaged."""
        if self.kind == "pooling":
            return z[..., 1]
        return None if self.objective == "token" else np.zeros(z.shape[:-1])

    def values(self, z: RealArray) -> RealArray:
        """Return the values that are averaged over the response, (probes, …, m)."""
        return z[..., :1] if self.kind == "pooling" else z

    def finish(self, values: RealArray) -> RealArray:
        """Turn values, which may be averages, into probabilities: (probes, …, m) -> (probes, …)."""
        if self.output is None or self.bias is None:
            return sigmoid(values[..., 0])
        bias = self.bias.reshape(-1, *[1] * (values.ndim - 2))
        return sigmoid(np.einsum("p...m,pm->p...", np.maximum(values, 0.0), self.output) + bias)

    def scores_each(self, states: RealArray) -> RealArray:
        """Score every prefix of one response with each probe: (probes, tokens, width) -> (probes, tokens)."""
        z = self.project(states)
        attention, values = self.attention(z), self.values(z)
        return self.finish(values if attention is None else running_mean(attention, values))

    def combine(self, each: RealArray) -> RealArray:
        """Combine the scores of all probes into one: (probes, …) -> (…)."""
        if self.mix is None:
            return each.mean(0)
        return sigmoid(np.tensordot(self.mix.astype(np.float64), each, 1) + self.mix_bias)


def score_prefixes(probes: Probes, states: Mapping[int, RealArray]) -> RealArray:
    """Score every prefix of one response, (tokens,), from its states (tokens, width) by sublayer."""
    return probes.combine(probes.scores_each(np.stack([states[i] for i in probes.sublayers])))


def from_tensors(
    kind: str, objective: str, sublayers: tuple[int, ...], tensors: Mapping[str, RealArray], mix_bias: float = 0.0
) -> Probes:
    """Make probes from arrays, as `tensors()` returns them.

    Raises:
        InputError: The arrays do not fit together.
    """
    if not {"projection", "offset"} <= set(tensors):
        raise InputError("the weights of a probe lack its projection or offset")
    return Probes(kind, objective, sublayers, mix_bias=mix_bias, **dict(tensors))


class Head:
    """The probes of one objective ("token" or "response") with their threshold and, if fitted, their calibration."""

    def __init__(self, probes: Probes, threshold: float, calibration: Mapping[str, Any] | None = None) -> None:
        self.probes = probes
        self.threshold = threshold
        self._calibrator = calibrator(calibration) if calibration else None

    def calibrated(self, scores: RealArray) -> Floats:
        """Turn `scores` into probabilities, or return them unchanged if no calibration was fitted."""
        plain = np.asarray(scores, dtype=np.float64)
        return self._calibrator.apply(plain) if self._calibrator else plain

    def score(self, states: Mapping[int, RealArray]) -> Floats:
        """Score every prefix of one response, *(tokens,)*, from its states *(tokens, width)* by sublayer."""
        return self.calibrated(score_prefixes(self.probes, states))


class StreamingProbes:
    """Keeps running scores of `probes` over `batch` responses during generation.

    Call `step` for each new token. The scores are the same as those of `score_prefixes` (within 1e-5), but only O(1)
    numbers are kept for each probe and response.
    """

    def __init__(self, probes: Probes, batch: int = 1) -> None:
        self.probes = probes
        self._total = np.full((len(probes.sublayers), batch), -np.inf)  # log of the sum of exp(attention)
        self._mean: RealArray | None = None

    def step(self, z: RealArray) -> RealArray:
        """Add a token by its `probes.project(states)`, (probes, batch, k), and return the scores (batch,) after it."""
        attention, values = self.probes.attention(z), self.probes.values(z)
        if attention is not None:
            # the new token's share of the softmax; in [0, 1] for any attention
            self._total = np.logaddexp(self._total, attention)
            attention_weight = np.exp(attention - self._total)[..., None]
            self._mean = values if self._mean is None else self._mean + attention_weight * (values - self._mean)
            values = self._mean
        return self.probes.combine(self.probes.finish(values))


def running_mean(attention: RealArray, values: RealArray) -> RealArray:
    """Average `values` over every prefix, weighted by softmax: (…, tokens), (…, tokens, m) -> (…, tokens, m).

    Logarithms are used, so that attention may have any size. For this, the values are shifted to make them positive,
    and the mean is shifted back.
    """
    attention, values = np.asarray(attention, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if values.shape[-2] == 0:
        return values
    low, high = values.min(-2, keepdims=True), values.max(-2, keepdims=True)
    shift = np.where(high > low, high - low, 1.0) - low  # shifted values lie within a factor of two
    total = np.logaddexp.accumulate(attention, -1)[..., None]
    weighted = np.logaddexp.accumulate(attention[..., None] + np.log(values + shift), -2)
    return np.exp(weighted - total) - shift


def sigmoid(x: Any) -> RealArray:
    """Return 1 / (1 + exp(-x)) without overflow.

    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    x = np.asarray(x, dtype=np.float64)
    small = np.exp(-np.abs(x))
    result: RealArray = np.where(x >= 0, 1.0, small) / (1.0 + small)
    return result
