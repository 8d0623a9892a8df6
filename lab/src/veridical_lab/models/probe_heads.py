"""Probes on a language model's hidden states, as functions of arrays: linear, attention-pooling, small MLP, ensemble.

CH-Wang et al. 2024, §4.1. Every kind first projects a hidden state to a few numbers; all else works on those. So
the scores of all prefixes of a response cost O(tokens), and `StreamingProbes` keeps O(1) numbers per probe while a text
is generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError, UnknownNameError

__all__ = ["OBJECTIVES", "PROBE_KINDS", "Probes", "StreamingProbes", "from_tensors", "running_mean", "score", "sigmoid"]

PROBE_KINDS = ("linear", "pooling", "mlp")
OBJECTIVES = ("token", "response")
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """One probe for each of `sublayers`, and how their probabilities become one.

    A hidden state h (width,) becomes z = `projection` @ h + `offset`; *shapes* (probes, k, width) and (probes, k), with
    k = 1 (linear: the logit), 2 (pooling: the value w·h + b and the attention q·h) or the number of hidden units (mlp).
    The logit of an mlp is `output` @ relu(z) + `bias`, (probes, k) and (probes,).

    Pooling takes the attention-weighted mean of z over the response so far. The other kinds judge each state for itself
    where the `objective` is "token", and the plain mean of all states so far where it is "response".

    `mix` (probes,) and `mix_bias` are the logistic regression over the probes' probabilities; without it there must be
    one probe, or the mean is taken.
    """

    kind: str
    objective: str
    sublayers: tuple[int, ...]
    projection: Floats
    offset: Floats
    output: Floats | None = None
    bias: Floats | None = None
    mix: Floats | None = None
    mix_bias: float = 0.0

    def __post_init__(self) -> None:
        for what, value, known in (("kind", self.kind, PROBE_KINDS), ("objective", self.objective, OBJECTIVES)):
            if value not in known:
                raise UnknownNameError(f"{what} of probe", value, known)
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
        """The single probe of one sublayer."""
        at = self.sublayers.index(sublayer)
        one = {n: a[at : at + 1] for n, a in self.tensors().items() if n != "mix"}
        return from_tensors(self.kind, self.objective, (sublayer,), one)

    def tensors(self) -> dict[str, Floats]:
        """The arrays by name; `from_tensors` makes the probes again."""
        arrays = {n: getattr(self, n) for n in ("projection", "offset", "output", "bias", "mix")}
        return {name: array for name, array in arrays.items() if array is not None}

    # --- from states to scores ------------------------------------------------------------------------------------

    def project(self, states: Floats) -> Floats:
        """z of each state: (probes, …, width) -> (probes, …, k), in double precision."""
        flat = np.asarray(states, dtype=np.float64).reshape(len(self.sublayers), -1, self.width)
        z = flat @ self.projection.astype(np.float64).transpose(0, 2, 1) + self.offset[:, None, :].astype(np.float64)
        return z.reshape(*np.shape(states)[:-1], z.shape[-1])

    def attention(self, z: Floats) -> Floats | None:
        """The attention (before its softmax) of each state, (probes, …); None where states are judged by themselves."""
        if self.kind == "pooling":
            return z[..., 1]
        return None if self.objective == "token" else np.zeros(z.shape[:-1])

    def values(self, z: Floats) -> Floats:
        """What is averaged over the response, (probes, …, m)."""
        return z[..., :1] if self.kind == "pooling" else z

    def finish(self, values: Floats) -> Floats:
        """The probabilities of (averaged) values: (probes, …, m) -> (probes, …)."""
        if self.output is None or self.bias is None:
            return sigmoid(values[..., 0])
        bias = self.bias.reshape(-1, *[1] * (values.ndim - 2))
        return sigmoid(np.einsum("p...m,pm->p...", np.maximum(values, 0.0), self.output) + bias)

    def scores_each(self, states: Floats) -> Floats:
        """Each probe's score of every prefix of one response: (probes, tokens, width) -> (probes, tokens)."""
        z = self.project(states)
        attention, values = self.attention(z), self.values(z)
        return self.finish(values if attention is None else running_mean(attention, values))

    def combine(self, each: Floats) -> Floats:
        """The one score of all probes' scores: (probes, …) -> (…)."""
        if self.mix is None:
            return each.mean(0)
        return sigmoid(np.tensordot(self.mix.astype(np.float64), each, 1) + self.mix_bias)


def score(probes: Probes, states: Mapping[int, Floats]) -> Floats:
    """The score of every prefix of one response, (tokens,), given its states (tokens, width) by sublayer."""
    return probes.combine(probes.scores_each(np.stack([states[i] for i in probes.sublayers])))


def from_tensors(
    kind: str, objective: str, sublayers: tuple[int, ...], tensors: Mapping[str, Floats], mix_bias: float = 0.0
) -> Probes:
    """The probes whose `tensors()` these are; `InputError` where they do not fit together."""
    if not {"projection", "offset"} <= set(tensors):
        raise InputError("the weights of a probe lack its projection or offset")
    return Probes(kind, objective, sublayers, mix_bias=mix_bias, **dict(tensors))


class StreamingProbes:
    """Running scores of `probes` over `batch` responses being generated: O(1) numbers per probe and response.

    `step` takes the states of the next token and gives the scores that `score` gives offline (to 1e-5).
    """

    def __init__(self, probes: Probes, batch: int = 1) -> None:
        self.probes = probes
        self.tokens = 0
        self._total = np.full((len(probes.sublayers), batch), -np.inf)  # log of the sum of exp(attention)
        self._mean: Floats | None = None

    def step(self, states: Floats) -> Floats:
        """The scores (batch,) after one more token with states (probes, batch, width)."""
        return self.step_projected(self.probes.project(states))

    def step_projected(self, z: Floats) -> Floats:
        """The same from `probes.project(states)`, (probes, batch, k)."""
        attention, values = self.probes.attention(z), self.probes.values(z)
        self.tokens += 1
        if attention is not None:
            # The newcomer's share of the softmax; shares never leave [0, 1], however large the attention is.
            self._total = np.logaddexp(self._total, attention)
            share = np.exp(attention - self._total)[..., None]
            self._mean = values if self._mean is None else self._mean + share * (values - self._mean)
            values = self._mean
        return self.probes.combine(self.probes.finish(values))


def running_mean(attention: Floats, values: Floats) -> Floats:
    """The softmax-weighted mean of `values` over every prefix: (…, tokens), (…, tokens, m) -> (…, tokens, m).

    In logarithms, so that no attention is too large or too small; values are made positive by a shift that a mean
    carries through.
    """
    attention, values = np.asarray(attention, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if values.shape[-2] == 0:
        return values
    low, high = values.min(-2, keepdims=True), values.max(-2, keepdims=True)
    shift = np.where(high > low, high - low, 1.0) - low  # shifted values lie within a factor of two
    total = np.logaddexp.accumulate(attention, -1)[..., None]
    weighted = np.logaddexp.accumulate(attention[..., None] + np.log(values + shift), -2)
    return np.exp(weighted - total) - shift


def sigmoid(x: Any) -> Floats:
    """1 / (1 + exp(-x)), which never overflows.

    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    x = np.asarray(x, dtype=np.float64)
    small = np.exp(-np.abs(x))
    result: Floats = np.where(x >= 0, 1.0, small) / (1.0 + small)
    return result
