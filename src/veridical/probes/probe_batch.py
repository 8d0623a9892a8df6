"""The numbers of many probes at once: their weights, their logits on a batch of responses, losses and gradients.

A probe sees a state only through its projection (`models.probes`), so a step is one product of the states with the
stacked projections, a loss on the few numbers that come out, and one product back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from veridical.core.errors import InputError, UnknownNameError
from veridical.models.probe_heads import KINDS, OBJECTIVES
from veridical.probes.activations import Ids
from veridical.probes.labelled_sequences import Labels

if TYPE_CHECKING:
    import torch

__all__ = ["Items", "Options", "Weights", "items_of", "logits_of", "losses_of"]

_FAR = -700.0  # exp of it is still a double


@dataclass(frozen=True, slots=True)
class Options:
    """How to fit. All `learning_rates` are tried at once, `batch_sizes` (in responses) one after another (D §5.1).

    `patience` is how many epochs the validation loss may stay above its best. `balanced` gives both classes the same
    weight in total. States are standardised by the training tokens' mean and deviation, which is folded into the
    weights afterwards: it helps Adam and changes no optimum.
    """

    kind: str = "pooling"
    objective: str = "token"
    learning_rates: tuple[float, ...] = (0.1, 0.01, 0.001)
    batch_sizes: tuple[int, ...] = (50,)
    patience: int = 10
    max_epochs: int = 200
    hidden: int = 16
    balanced: bool = False
    standardise: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for what, value, known in (("kind", self.kind, KINDS), ("objective", self.objective, OBJECTIVES)):
            if value not in known:
                raise UnknownNameError(f"{what} of probe", value, known)
        counts = (*self.batch_sizes, self.patience, self.max_epochs, self.hidden)
        if not self.learning_rates or not self.batch_sizes or min(counts) < 1 or min(self.learning_rates) <= 0:
            raise InputError(f"these options cannot be trained with: {self}", hint="numbers above 0, one at least")

    @property
    def outputs(self) -> int:
        """How many numbers a probe projects a state to."""
        return {"linear": 1, "pooling": 2}.get(self.kind, self.hidden)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The labels of some sequences in one order, flat, with what lays them out as (sequences, longest)."""

    lengths: Ids
    starts: Ids
    labels: torch.Tensor
    weights: torch.Tensor

    def batch(self, first: int, last: int) -> Items:
        """The items of the sequences from `first` to `last` (exclusive)."""
        starts = self.starts[first:last]
        a, b = int(starts[0]), int(starts[-1] + self.lengths[last - 1])
        whole = len(self.labels) == len(self.lengths)  # one label a sequence
        part = slice(first, last) if whole else slice(a, b)
        return Items(self.lengths[first:last], starts - a, self.labels[part], self.weights[part])


def items_of(labels: Labels, lengths: Ids, sequences: Ids, options: Options, positive: float) -> Items:
    """The labels of `sequences` in this order; those of positives weigh `positive` times as much."""
    import torch

    lengths = lengths[sequences]
    if options.objective == "response":
        label, weight = labels.responses[sequences], labels.response_weights[sequences]
    else:
        label = np.concatenate([labels.tokens[i] for i in sequences])
        weight = np.concatenate([labels.token_weights[i] for i in sequences])
    weight = weight * np.where(label > 0, np.float32(positive), np.float32(1.0))
    starts = np.cumsum(lengths) - lengths
    return Items(lengths, starts, torch.from_numpy(label), torch.from_numpy(weight.astype(np.float32)))


class Weights:
    """Projections (sublayers, rates * k, width) and the little that comes behind them, each (sublayers, rates, …).

    They work on standardised states; `mean` and `scale` (sublayers, width) say how those are made. Without any evidence
    the logit is `prior`.
    """

    def __init__(
        self, sublayers: Sequence[int], options: Options, mean: torch.Tensor, scale: torch.Tensor, prior: float = 0.0
    ) -> None:
        import torch

        count, rates, k, width = len(sublayers), len(options.learning_rates), options.outputs, mean.shape[1]
        self.mean, self.scale = mean, scale
        self.rates, self.k = rates, k
        self.parts = {
            "projection": torch.zeros(count, rates * k, width),
            "offset": torch.zeros(count, rates * k),
        }
        if options.kind == "mlp":
            first, second = torch.empty(count, k, width), torch.empty(count, k)
            for i, sublayer in enumerate(sublayers):  # each from its own seed, whoever else is trained
                made = torch.Generator().manual_seed(options.seed * 1_000_003 + sublayer)
                first[i].normal_(0, width**-0.5, generator=made)
                second[i].normal_(0, k**-0.5, generator=made)
            self.parts["projection"] = first.repeat(1, rates, 1)
            self.parts["output"] = second[:, None].repeat(1, rates, 1)
            self.parts["bias"] = torch.full((count, rates), prior)
        else:
            self.parts["offset"][:, ::k] = prior
        self.parts = {name: part.to(mean.device) for name, part in self.parts.items()}

    def keep(self, places: torch.Tensor) -> None:
        """Only these sublayers from now on."""
        self.mean, self.scale = self.mean[places], self.scale[places]
        self.parts = {name: part[places] for name, part in self.parts.items()}

    def raw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Projection and offset for states as they are."""
        projection = self.parts["projection"] / self.scale[:, None]
        return projection, self.parts["offset"] - (projection @ self.mean[..., None])[..., 0]

    def project(self, states: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
        """z of states, (sublayers, tokens, width) or a list of (tokens, width): (sublayers, tokens, rates * k)."""
        import torch
        from torch.nn.functional import linear

        projection, offset = self.raw()
        if isinstance(states, torch.Tensor):
            return torch.baddbmm(offset[:, None], states, projection.transpose(1, 2))
        # On a CPU a product with few columns is fast in this form only; a batched one is several times slower.
        return torch.stack([linear(x, p, o) for x, p, o in zip(states, projection, offset, strict=True)])

    def gradients(self, states: torch.Tensor | list[torch.Tensor], dz: torch.Tensor) -> dict[str, torch.Tensor]:
        """Those of projection and offset, from that of z."""
        import torch

        turned = dz.transpose(1, 2).contiguous()
        if isinstance(states, torch.Tensor):
            product = torch.bmm(turned, states)
        else:
            product = torch.stack([g @ x for g, x in zip(turned, states, strict=True)])
        total = turned.sum(2)
        return {"projection": (product - total[..., None] * self.mean[:, None]) / self.scale[:, None], "offset": total}


def logits_of(z: torch.Tensor, weights: dict[str, torch.Tensor], items: Items, options: Options) -> torch.Tensor:
    """(sublayers * rates, items): a logit for each token, or for each response; z is (sublayers, tokens, rates * k)."""
    import torch

    k = options.outputs
    count, tokens = z.shape[:2]
    z = z.reshape(count, tokens, -1, k).permute(0, 2, 1, 3).flatten(0, 1)  # (sublayers * rates, tokens, k)
    values = z[..., :1] if options.kind == "pooling" else z
    if options.kind == "pooling" or options.objective == "response":
        place = _layout(items, z.device)
        attention = z[..., 1] if options.kind == "pooling" else torch.zeros_like(z[..., 0])
        last = options.objective == "response"
        values = _pooled(attention[:, place], values[:, place], items, last=last)
        if not last:
            values = values[:, _mask(items, z.device)]
    if options.kind != "mlp":
        return values[..., 0]
    output, bias = weights["output"].flatten(0, 1), weights["bias"].flatten()
    return (values.relu() @ output[..., None])[..., 0] + bias[:, None]


def _layout(items: Items, device: torch.device) -> torch.Tensor:
    """The row of each place of (sequences, longest); places behind a sequence's end point at its last row."""
    import torch

    longest = int(items.lengths.max())
    steps = np.minimum(np.arange(longest)[None], items.lengths[:, None] - 1)
    return torch.from_numpy(items.starts[:, None] + steps).to(device)


def _mask(items: Items, device: torch.device) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.arange(int(items.lengths.max()))[None] < items.lengths[:, None]).to(device)


def _pooled(attention: torch.Tensor, values: torch.Tensor, items: Items, *, last: bool) -> torch.Tensor:
    """Softmax-weighted means over prefixes, (…, sequences, longest, m), or over whole sequences, (…, sequences, m).

    In double precision, relative to each sequence's highest attention.
    """

    if last:
        hidden = ~_mask(items, attention.device)
        share = attention.masked_fill(hidden, -math.inf).softmax(-1)
        return (share[..., None] * values).sum(-2)
    attention = attention.double()
    weight = (attention - attention.amax(-1, keepdim=True)).clamp(min=_FAR).exp()[..., None]
    mean: torch.Tensor = (weight * values).cumsum(-2) / weight.cumsum(-2)
    return mean.to(values.dtype)


def losses_of(logits: torch.Tensor, items: Items) -> torch.Tensor:
    """The weighted sum of log losses, (sublayers * rates,)."""
    from torch.nn.functional import softplus

    label, weight = items.labels.to(logits.device), items.weights.to(logits.device)
    return ((softplus(logits) - label * logits) * weight).sum(-1)
