"""Compute logits, losses and gradients of many probes at once, on a batch of responses.

A probe projects a state to a few numbers and reads only these (`models.probe_heads`). A training step therefore
multiplies the states by the stacked projections of all probes, computes the loss from the few resulting numbers, and
multiplies once more for the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from veridical_lab.probes.activations import Indices
from veridical_lab.probes.labelled_sequences import ProbeLabels
from veridical_lab.probes.options import ProbeOptions

if TYPE_CHECKING:
    import torch

_MIN_EXPONENT = -700.0  # its exponential, about 1e-304, is still a normal double


@dataclass(frozen=True, slots=True, eq=False)
class LabelledItems:
    """The labels of some sequences as flat arrays, in order. An item is a token or a whole sequence.

    Attributes:
        lengths: How many tokens each sequence has. *Shape:* (sequences,)
        starts: Where each sequence starts among all tokens. *Shape:* (sequences,)
        labels: The label of each item. *Shape:* (items,)
        weights: The weight of each item. *Shape:* (items,)
    """

    lengths: Indices
    starts: Indices
    labels: torch.Tensor
    weights: torch.Tensor

    def batch(self, first: int, last: int) -> LabelledItems:
        """Return the items of sequences `first` to `last` (exclusive)."""
        starts = self.starts[first:last]
        a, b = int(starts[0]), int(starts[-1] + self.lengths[last - 1])
        one_per_sequence = len(self.labels) == len(self.lengths)
        part = slice(first, last) if one_per_sequence else slice(a, b)
        return LabelledItems(self.lengths[first:last], starts - a, self.labels[part], self.weights[part])

    def is_token(self, device: torch.device) -> torch.Tensor:
        """Mark the positions of (sequences, longest) that hold a token, not padding."""
        import torch

        return torch.from_numpy(np.arange(int(self.lengths.max()))[None] < self.lengths[:, None]).to(device)

    def pad(self, values: torch.Tensor) -> torch.Tensor:
        """Lay out values of tokens in one row for each sequence.

        The shape (…, tokens, m) or (…, tokens) becomes (…, sequences, longest[, m]). After the end of a sequence, the
        value of its last token is repeated.
        """
        import torch

        steps = np.minimum(np.arange(int(self.lengths.max()))[None], self.lengths[:, None] - 1)
        return values[:, torch.from_numpy(self.starts[:, None] + steps).to(values.device)]


def labelled_items(
    labels: ProbeLabels, lengths: Indices, sequences: Indices, options: ProbeOptions, positive_weight: float
) -> LabelledItems:
    """Look up labels and weights of `sequences`, in the given order.

    The weights of positive items are multiplied by `positive_weight`.
    """
    import torch

    label, weight = labels.items(sequences, options.objective)
    weight = weight * np.where(label > 0, np.float32(positive_weight), np.float32(1.0))
    lengths = lengths[sequences]
    starts = np.cumsum(lengths) - lengths
    return LabelledItems(lengths, starts, torch.from_numpy(label), torch.from_numpy(weight.astype(np.float32)))


class ProbeWeights:
    """Holds the weights of probes: projections (sublayers, rates * k, width), and other weights (sublayers, rates, …).

    `rates` is the number of learning rates. The weights apply to states that were standardised by `mean` and `scale`
    (sublayers, width). Before training, the bias is `prior`.
    """

    def __init__(
        self, sublayers: Sequence[int], options: ProbeOptions, mean: torch.Tensor, scale: torch.Tensor, prior: float
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
            for i, sublayer in enumerate(sublayers):  # each sublayer has its own seed
                generator = torch.Generator().manual_seed(options.seed * 1_000_003 + sublayer)
                first[i].normal_(0, width**-0.5, generator=generator)
                second[i].normal_(0, k**-0.5, generator=generator)
            self.parts["projection"] = first.repeat(1, rates, 1)
            self.parts["output"] = second[:, None].repeat(1, rates, 1)
            self.parts["bias"] = torch.full((count, rates), prior)
        else:
            self.parts["offset"][:, ::k] = prior
        self.parts = {name: part.to(mean.device) for name, part in self.parts.items()}

    def of_rate(self, name: str, rate: int) -> slice | int:
        """Return the index of one learning rate in the second dimension of a part."""
        return slice(rate * self.k, rate * self.k + self.k) if name in ("projection", "offset") else rate

    def keep(self, rows: torch.Tensor) -> None:
        """Keep only the sublayers with these indices."""
        self.mean, self.scale = self.mean[rows], self.scale[rows]
        self.parts = {name: part[rows] for name, part in self.parts.items()}

    def project(self, states: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
        """Project states (sublayers, tokens, width), a tensor or a list, to z (sublayers, tokens, rates * k)."""
        import torch
        from torch.nn.functional import linear

        projection = self.parts["projection"] / self.scale[:, None]
        offset = self.parts["offset"] - (projection @ self.mean[..., None])[..., 0]
        if isinstance(states, torch.Tensor):
            return torch.baddbmm(offset[:, None], states, projection.transpose(1, 2))
        # on a CPU a batched product with few columns is several times slower
        return torch.stack([linear(x, p, o) for x, p, o in zip(states, projection, offset, strict=True)])

    def gradients(self, states: torch.Tensor | list[torch.Tensor], dz: torch.Tensor) -> dict[str, torch.Tensor]:
        """Compute the gradients of projection and offset from the gradient of z."""
        import torch

        transposed = dz.transpose(1, 2).contiguous()
        if isinstance(states, torch.Tensor):
            product = torch.bmm(transposed, states)
        else:
            product = torch.stack([g @ x for g, x in zip(transposed, states, strict=True)])
        total = transposed.sum(2)
        return {"projection": (product - total[..., None] * self.mean[:, None]) / self.scale[:, None], "offset": total}


def logits_of(
    z: torch.Tensor, weights: dict[str, torch.Tensor], items: LabelledItems, options: ProbeOptions
) -> torch.Tensor:
    """Compute a logit for each token or each response, with shape (sublayers * rates, items).

    `z` has the shape (sublayers, tokens, rates * k).
    """
    import torch

    k = options.outputs
    count, tokens = z.shape[:2]
    z = z.reshape(count, tokens, -1, k).permute(0, 2, 1, 3).flatten(0, 1)  # (sublayers * rates, tokens, k)
    pooling, by_response = options.kind == "pooling", options.objective == "response"
    values = z[..., :1] if pooling else z
    if pooling or by_response:
        attention = items.pad(z[..., 1] if pooling else torch.zeros_like(z[..., 0]))
        values = _pooled(attention, items.pad(values), items, by_response=by_response)
        if not by_response:
            values = values[:, items.is_token(z.device)]
    if options.kind != "mlp":
        return values[..., 0]
    output, bias = weights["output"].flatten(0, 1), weights["bias"].flatten()
    return (values.relu() @ output[..., None])[..., 0] + bias[:, None]


def _pooled(attention: torch.Tensor, values: torch.Tensor, items: LabelledItems, *, by_response: bool) -> torch.Tensor:
    """Average with softmax weights over prefixes, (…, sequences, longest, m), or sequences, (…, sequences, m).

    For prefixes, the computation is in double precision, and attention is relative to its highest value in the
    sequence.
    """
    if by_response:
        share = attention.masked_fill(~items.is_token(attention.device), -math.inf).softmax(-1)
        return (share[..., None] * values).sum(-2)
    attention = attention.double()
    weight = (attention - attention.amax(-1, keepdim=True)).clamp(min=_MIN_EXPONENT).exp()[..., None]
    mean: torch.Tensor = (weight * values).cumsum(-2) / weight.cumsum(-2)
    return mean.to(values.dtype)


def losses_of(logits: torch.Tensor, items: LabelledItems) -> torch.Tensor:
    """Sum the weighted log losses of each probe, (sublayers * rates,)."""
    from torch.nn.functional import softplus

    label, weight = items.labels.to(logits.device), items.weights.to(logits.device)
    return ((softplus(logits) - label * logits) * weight).sum(-1)
