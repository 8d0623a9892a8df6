"""Fit the probes of all sublayers and learning rates in the same passes over the activations, and their ensemble.

The losses of all probes are added up, and Adam updates each weight separately. Each probe therefore gets the same
weights as in a training run of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veridical.records.errors import InputError
from veridical_lab.models.probe_heads import Probes, from_tensors
from veridical_lab.probes.activations import ActivationStates, Indices, in_memory, mean_states
from veridical_lab.probes.batch import LabelledItems, ProbeWeights, labelled_items, logits_of, losses_of
from veridical_lab.probes.labelled_sequences import ProbeLabels
from veridical_lab.probes.options import ProbeOptions

if TYPE_CHECKING:
    import torch

ScoresBySequence = Mapping[int, NDArray[np.float64]]  # arrays (probes, tokens), or (probes, 1) for whole responses

BETAS, EPSILON = (0.9, 0.999), 1e-8
_ROWS = 1024  # rows of states that fit into a processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class FittedProbes:
    """The best probe of each sublayer among all learning rates and batch sizes (the grid).

    Attributes:
        probes: The probes.
        loss: The loss on the validation part. *Shape:* (sublayers,)
        learning_rate: The learning rate of the best run. *Shape:* (sublayers,)
        batch_size: The batch size of the best run. *Shape:* (sublayers,)
        epochs: The epoch with the lowest validation loss. *Shape:* (sublayers,)
    """

    probes: Probes
    loss: NDArray[np.float64]
    learning_rate: NDArray[np.float64]
    batch_size: NDArray[np.int64]
    epochs: NDArray[np.int64]


def fit(
    states: ActivationStates,
    labels: ProbeLabels,
    train: Indices,
    valid: Indices,
    options: ProbeOptions | None = None,
    *,
    sublayers: Sequence[int] | None = None,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda line: None,
) -> FittedProbes:
    """Fit a probe on each sublayer.

    Args:
        states: The states that the probes read.
        labels: The labels that the probes learn.
        train: The sequences to fit on.
        valid: The sequences for early stopping and for choosing the best probe of the grid.
        options: The kind, objective and hyper-parameters.
        sublayers: The sublayers to fit. Default: all sublayers of `states`.
        device: The device to fit on.
        progress: Called with a line of text after each epoch.

    Returns:
        For each sublayer, the probe with the lowest validation loss.

    Raises:
        InputError: All labels in a part are of one class, states are not finite, or the training diverged.
    """
    import torch

    options = options or ProbeOptions()
    chosen = tuple(states.sublayers if sublayers is None else sublayers)
    train, valid = np.sort(np.asarray(train)), np.sort(np.asarray(valid))
    clean, hallucinated = _class_weights(labels, train, options, "training")
    _class_weights(labels, valid, options, "validation")
    positive_weight = clean / hallucinated if options.balanced else 1.0
    prior = math.log(positive_weight * hallucinated / clean)  # initial probes predict the base rate instead of 0.5
    reader = _Reader(states, chosen, torch.device(device), options.seed)
    mean, scale = _mean_and_scale(reader, train)
    if options.kind == "linear" and options.objective == "response":  # mean logit = logit of mean state
        reader = _Reader(mean_states(states, np.r_[train, valid], chosen), chosen, torch.device(device), options.seed)
    runs = []
    for size in options.batch_sizes:
        weights = ProbeWeights(chosen, options, mean, scale, prior)
        runs.append(_Run(reader, labels, replace(options, batch_sizes=(size,)), positive_weight, weights))
        runs[-1].train(train, valid, progress)
    return _best_of_grid(runs, chosen, options, mean, scale)


def _class_weights(labels: ProbeLabels, sequences: Indices, options: ProbeOptions, part: str) -> tuple[float, float]:
    """Return the total weight of each class, clean first. Raises `InputError` if a class is missing."""
    label, weight = labels.items(sequences, options.objective)
    label, weight = label.astype(np.float64), weight.astype(np.float64)
    positive, negative = float(weight @ label), float(weight @ (1 - label))
    if not positive or not negative:
        available = (
            "no labels" if not positive and not negative else f"only {'hallucinated' if positive else 'clean'} ones"
        )
        raise InputError(
            f"the {part} part has {available} by {options.objective}: {len(sequences)} sequences",
            hint="a probe needs both classes: more data, another seed, or the other objective",
        )
    return negative, positive


class _Reader:
    """Reads states to the device, group by group. If there is only one group, it stays there for all epochs."""

    def __init__(self, states: ActivationStates, sublayers: tuple[int, ...], device: torch.device, seed: int) -> None:
        self.states, self.sublayers, self.device, self.seed = states, sublayers, device, seed
        self.lengths = states.lengths
        self.single_group = len(states.groups) == 1
        self._cache: dict[bytes, torch.Tensor] = {}

    def read(self, sequences: Indices) -> torch.Tensor:
        key = sequences.tobytes()
        if key in self._cache:
            return self._cache[key]
        states = self.states.read(sequences, self.sublayers).to(self.device)
        if not bool(states.sum(dtype=states.dtype).isfinite()) and not bool(states.isfinite().all()):
            raise InputError("the activations hold numbers that are not finite", hint="keep them in fp32 or bf16")
        if self.single_group:
            self._cache[key] = states
        return states

    def parts(self, sequences: Indices) -> list[Indices]:
        """Split `sequences` by group."""
        if self.single_group:
            return [sequences]
        parts = (group[np.isin(group, sequences)] for group in self.states.groups)
        return [part for part in parts if len(part)]

    def shuffled(self, part: Indices, random: np.random.Generator | None = None) -> Indices:
        """Shuffle a part for reading. If it is the only group, the order is always the same, or else by `random`."""
        if self.single_group:
            return np.random.default_rng(self.seed).permutation(part)
        return part if random is None else random.permutation(part)


def _mean_and_scale(reader: _Reader, train: Indices) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute mean and standard deviation of each dimension of the states over the training tokens.

    Both have the shape (sublayers, width). They standardise states for training, which helps Adam and changes no
    optimum.
    """
    import torch

    count, width = len(reader.sublayers), reader.states.width
    total, first, square = 0, torch.zeros(count, width).double(), torch.zeros(count, width).double()
    shift: torch.Tensor | None = None  # close to the mean, so that no precision is lost
    for part in reader.parts(train):
        x = reader.read(reader.shuffled(part))
        shift = x.mean(1, keepdim=True) if shift is None else shift
        for i in range(count):
            for rows in x[i].split(_ROWS):
                centred = rows - shift[i]
                first[i] += centred.sum(0).double().cpu()
                square[i] += (centred * centred).sum(0).double().cpu()
        total += x.shape[1]
    shifted_mean = first / total
    mean = shifted_mean.float() if shift is None else (shifted_mean + shift[:, 0].cpu()).float()
    deviation = (square / total - shifted_mean**2).clamp(min=0).sqrt().float()
    scale = torch.where(deviation > 1e-12, deviation, torch.ones(()))
    return mean.to(reader.device), scale.to(reader.device)


class _Run:
    """One training run of all sublayers and learning rates with one batch size, the only one in its options."""

    def __init__(
        self, reader: _Reader, labels: ProbeLabels, options: ProbeOptions, positive_weight: float, weights: ProbeWeights
    ) -> None:
        import torch

        self.reader, self.labels, self.options = reader, labels, options
        self.positive_weight, self.weights = positive_weight, weights
        self.random = np.random.default_rng([options.seed, options.batch_sizes[0]])
        self.steps = 0
        self.moments = {n: (torch.zeros_like(p), torch.zeros_like(p)) for n, p in weights.parts.items()}
        rates = torch.tensor(options.learning_rates, device=weights.mean.device)
        self.rates = {"projection": rates.repeat_interleave(weights.k)[None, :, None]}
        self.rates["offset"] = self.rates["projection"][..., 0]
        self.rates |= {"output": rates[None, :, None], "bias": rates[None]}
        shape = (len(reader.sublayers), len(options.learning_rates))
        self.active = np.arange(shape[0])
        self.best = {n: p.clone() for n, p in weights.parts.items()}
        self.loss = np.full(shape, np.inf)
        self.epoch_of = np.zeros(shape, dtype=np.int64)

    def train(self, train: Indices, valid: Indices, progress: Callable[[str], None]) -> None:
        """Train until no sublayer has a lower validation loss for `patience` epochs, or until `max_epochs`."""
        size = self.options.batch_sizes[0]
        for epoch in range(1, self.options.max_epochs + 1):
            parts = self.reader.parts(train)
            for i in self.random.permutation(len(parts)):
                order = self.reader.shuffled(parts[i], self.random)
                states = self.reader.read(order)
                items = labelled_items(self.labels, self.reader.lengths, order, self.options, self.positive_weight)
                for first, last in _batches(len(order), size, self.random):
                    batch = items.batch(first, last)
                    start = int(items.starts[first])
                    self._step(states, slice(start, start + int(batch.lengths.sum())), batch)
            self._validate(valid, epoch)
            progress(
                f"{self.options.kind} probes by {self.options.objective}, batches of {size}, epoch {epoch}: "
                f"{len(self.active)} of {len(self.loss)} sublayers in training, best loss {self.loss.min():.4f}"
            )
            if not len(self.active):
                break

    def _active_states(self, states: torch.Tensor, tokens: slice) -> torch.Tensor | list[torch.Tensor]:
        """Return the states of sublayers in training. On a CPU, these are views, because copies may be gigabytes."""
        if not states.is_cuda:
            return [states[i, tokens] for i in self.active.tolist()]
        return states[:, tokens] if len(self.active) == len(self.loss) else states[self.active, tokens]

    def _step(self, states: torch.Tensor, tokens: slice, batch: LabelledItems) -> None:
        """Take one step of Adam on the mean loss of a batch."""
        import torch

        total = float(batch.weights.sum())
        if not total:
            return
        x = self._active_states(states, tokens)
        z = self.weights.project(x).requires_grad_()
        heads: dict[str, torch.Tensor] = {
            n: self.weights.parts[n].detach().requires_grad_() for n in ("output", "bias") if n in self.best
        }
        loss = losses_of(logits_of(z, heads, batch, self.options), batch).sum() / total
        dz, *rest = torch.autograd.grad(loss, [z, *heads.values()])
        gradients = self.weights.gradients(x, dz) | dict(zip(heads, rest, strict=True))
        self.steps += 1
        corrections = [1 - beta**self.steps for beta in BETAS]
        for name, gradient in gradients.items():
            first, second = self.moments[name]
            first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            step = (first / corrections[0]) / ((second / corrections[1]).sqrt() + EPSILON)
            self.weights.parts[name] -= self.rates[name] * step

    def _validate(self, valid: Indices, epoch: int) -> None:
        """Keep the best version of each probe. Drop sublayers without any gain for `patience` epochs."""
        import torch

        total, weight = np.zeros(self.weights.rates * len(self.active)), 0.0
        with torch.no_grad():
            for part in self.reader.parts(valid):
                states = self.reader.read(part)
                items = labelled_items(self.labels, self.reader.lengths, part, self.options, self.positive_weight)
                z = self.weights.project(self._active_states(states, slice(None)))
                loss = losses_of(logits_of(z, self.weights.parts, items, self.options), items)
                total += loss.double().cpu().numpy()
                weight += float(items.weights.sum())
        mean = (total / weight).reshape(len(self.active), -1)
        if not np.isfinite(mean).any(1).all():
            raise InputError("the training diverged: the loss is not finite", hint="a smaller learning rate")
        patient = epoch - self.epoch_of[self.active] <= self.options.patience
        better = (np.nan_to_num(mean, nan=np.inf) < self.loss[self.active]) & patient
        self.loss[self.active] = np.where(better, mean, self.loss[self.active])
        self.epoch_of[self.active] = np.where(better, epoch, self.epoch_of[self.active])
        for row, rate in zip(*np.nonzero(better), strict=True):
            for name, weights in self.weights.parts.items():
                columns = self.weights.of_rate(name, rate)
                self.best[name][self.active[row], columns] = weights[row, columns]
        active = (epoch - self.epoch_of[self.active] < self.options.patience).any(1)
        if not active.all():
            staying = torch.from_numpy(np.flatnonzero(active))
            self.weights.keep(staying.to(self.weights.mean.device))
            self.moments = {n: (a[staying], b[staying]) for n, (a, b) in self.moments.items()}
            self.active = self.active[active]


def _batches(count: int, size: int, random: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield batches as slices (first, last) of the stored sequences, with a random offset, in random order.

    A batch is therefore contiguous in memory and need not be copied. Because of the offset, batches differ between
    epochs.
    """
    offset = int(random.integers(size)) if count > size else 0
    bounds = [0, *range(offset or size, count, size), count]
    pairs = [(a, b) for a, b in pairwise(bounds) if b > a]
    for i in random.permutation(len(pairs)).tolist():
        yield pairs[i]


def _best_of_grid(
    runs: Sequence[_Run], sublayers: tuple[int, ...], options: ProbeOptions, mean: torch.Tensor, scale: torch.Tensor
) -> FittedProbes:
    """Choose each sublayer's probe with the lowest validation loss, and undo the standardisation of its states."""
    import torch

    losses = np.stack([run.loss for run in runs], 1)  # (sublayers, sizes, rates)
    size_i, rate_i = np.unravel_index(losses.reshape(len(sublayers), -1).argmin(1), losses.shape[1:])
    best = {
        name: torch.stack(
            [
                runs[s].best[name][i, runs[s].weights.of_rate(name, r)]
                for i, (s, r) in enumerate(zip(size_i.tolist(), rate_i.tolist(), strict=True))
            ]
        ).double()
        for name in runs[0].best
    }
    best["projection"] = best["projection"] / scale[:, None].double()
    best["offset"] = best["offset"] - (best["projection"] @ mean[..., None].double())[..., 0]
    if options.kind == "pooling":
        best["offset"][:, 1] = 0.0  # softmax attention does not depend on a constant
    arrays = {name: part.float().cpu().numpy() for name, part in best.items()}
    rows = np.arange(len(sublayers))
    return FittedProbes(
        from_tensors(options.kind, options.objective, sublayers, arrays),
        loss=losses[rows, size_i, rate_i],
        learning_rate=np.array(options.learning_rates)[rate_i],
        batch_size=np.array(options.batch_sizes)[size_i],
        epochs=np.stack([run.epoch_of for run in runs], 1)[rows, size_i, rate_i],
    )


def scores_of(states: ActivationStates, sequences: Indices, probes: Probes) -> dict[int, NDArray[np.float64]]:
    """Score sequences with each probe: (probes, tokens), or (probes, 1) for the objective "response"."""
    scores: dict[int, NDArray[np.float64]] = {}
    sequences = np.asarray(sequences)
    for group in states.groups:
        part = group[np.isin(group, sequences)]
        if not len(part):
            continue
        tensor = states.read(part, probes.sublayers).numpy()
        ends = np.cumsum(states.lengths[part])
        for i, end in zip(part.tolist(), ends.tolist(), strict=True):
            each = probes.scores_each(tensor[:, end - int(states.lengths[i]) : end])
            scores[i] = (each[:, -1:] if probes.objective == "response" else each).astype(np.float64)
    return scores


def fit_ensemble(
    probes: Probes, scores: ScoresBySequence, labels: ProbeLabels, train: Indices, valid: Indices, options: ProbeOptions
) -> Probes:
    """Fit a logistic regression on the probabilities of frozen probes (CH-Wang et al. 2024, §4.1, §5.1).

    Args:
        probes: The frozen probes.
        scores: The scores that the probes give to all sequences in `train` and `valid`.
        labels: The labels to predict.
        train: The sequences on which the probes were fitted.
        valid: The sequences for early stopping.
        options: The hyper-parameters of the probes. The regression uses them, too.

    Returns:
        `probes` with the weights and the intercept of the regression.
    """
    used = np.sort(np.r_[train, valid]).tolist()
    lengths = np.zeros(len(labels.responses), dtype=np.int64)
    lengths[used] = [scores[i].shape[1] for i in used]
    probabilities = np.concatenate([scores[i] for i in used], 1).T.astype(np.float32)
    vectors = in_memory(probabilities[None], lengths, [0])  # the probabilities of the probes serve as states
    fitted = fit(vectors, labels, train, valid, replace(options, kind="linear", objective=probes.objective))
    return replace(probes, mix=fitted.probes.projection[0, 0], mix_bias=float(fitted.probes.offset[0, 0]))
