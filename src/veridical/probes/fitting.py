"""Probes of all sublayers, and of all learning rates, fitted in one pass over the activations.

The losses of probes are summed and Adam works number by number, so each probe goes exactly where it would go alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError
from veridical.models.probe_heads import Probes, from_tensors
from veridical.probes.activations import Ids, States
from veridical.probes.labelled_sequences import Labels
from veridical.probes.probe_batch import Items, Options, Weights, items_of, logits_of, losses_of

if TYPE_CHECKING:
    import torch

__all__ = ["Fitted", "Options", "fit", "scores_of"]

BETAS, EPSILON = (0.9, 0.999), 1e-8
_ROWS = 1024  # so many rows of states stay in a processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """`probes` of all sublayers, each with the best of the grid; *shapes* of the rest (sublayers,).

    `loss` is on the validation part; `epochs` the number after which it was reached.
    """

    probes: Probes
    loss: NDArray[np.float64]
    learning_rate: NDArray[np.float64]
    batch_size: NDArray[np.int64]
    epochs: NDArray[np.int64]


def _classes(labels: Labels, sequences: Ids, options: Options, part: str) -> tuple[float, float]:
    """The total weights of both classes, clean ones first; `InputError` if one is missing."""
    if options.objective == "response":
        label, weight = labels.responses[sequences], labels.response_weights[sequences]
    else:
        label = np.concatenate([np.zeros(0), *(labels.tokens[i] for i in sequences)])
        weight = np.concatenate([np.zeros(0), *(labels.token_weights[i] for i in sequences)])
    positive, negative = float(weight @ label), float(weight @ (1 - label))
    if not positive or not negative:
        found = "no labels" if not positive and not negative else f"only {'hallucinated' if positive else 'clean'} ones"
        raise InputError(
            f"the {part} part has {found} by {options.objective}: {len(sequences)} sequences",
            hint="a probe needs both classes: more data, another seed, or the other objective",
        )
    return negative, positive


def fit(
    states: States,
    labels: Labels,
    train: Ids,
    valid: Ids,
    options: Options | None = None,
    *,
    sublayers: Sequence[int] | None = None,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda line: None,
) -> Fitted:
    """The probes of `sublayers` (None: all that `states` has), fitted on the sequences `train`, stopped by `valid`.

    Raises `InputError` where a part has labels of one class only, or states are not finite.
    """
    import torch

    options = options or Options()
    chosen = tuple(states.sublayers if sublayers is None else sublayers)
    train, valid = np.sort(np.asarray(train)), np.sort(np.asarray(valid))
    clean, hallucinated = _classes(labels, train, options, "training")
    _classes(labels, valid, options, "validation")
    positive = clean / hallucinated if options.balanced else 1.0
    prior = math.log(positive * hallucinated / clean)  # where probes begin: at the base rate, not at a half
    where = torch.device(device)
    reader = _Reader(states, chosen, where)
    mean, scale = _moments(reader, train, options)
    runs = []
    for size in options.batch_sizes:
        weights = Weights(chosen, options, mean, scale, prior)
        runs.append(_Run(reader, labels, train, valid, options, size, positive, weights).finish(progress))
    return _best_of_grid(runs, chosen, options, mean, scale)


class _Reader:
    """States on the device by group; with one group the last readings are kept, as every epoch asks for the same."""

    def __init__(self, states: States, sublayers: tuple[int, ...], device: torch.device) -> None:
        self.states, self.sublayers, self.device = states, sublayers, device
        self.lengths = states.lengths
        self.whole = len(states.groups) == 1
        self._kept: dict[bytes, torch.Tensor] = {}

    def read(self, sequences: Ids) -> torch.Tensor:
        key = sequences.tobytes()
        if key in self._kept:
            return self._kept[key]
        made = self.states.read(sequences, self.sublayers).to(self.device)
        if not bool(made.sum(dtype=made.dtype).isfinite()) and not bool(made.isfinite().all()):
            raise InputError("the activations hold numbers that are not finite", hint="keep them in fp32 or bf16")
        if self.whole:
            self._kept[key] = made
        return made

    def parts(self, sequences: Ids) -> list[Ids]:
        """Those of `sequences` in each group."""
        if self.whole:
            return [sequences]
        found = (group[np.isin(group, sequences)] for group in self.states.groups)
        return [part for part in found if len(part)]


def _moments(reader: _Reader, train: Ids, options: Options) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation of each number of the states over the training tokens, (sublayers, width)."""
    import torch

    count, width = len(reader.sublayers), reader.states.width
    mean, scale = torch.zeros(count, width), torch.ones(count, width)
    if options.standardise:
        total, first, square = 0, torch.zeros(count, width).double(), torch.zeros(count, width).double()
        shift: torch.Tensor | None = None  # near the mean, so that no digits are lost
        for part in reader.parts(train):
            x = reader.read(_start_order(part, reader, options))
            shift = x.mean(1, keepdim=True) if shift is None else shift
            for i in range(count):
                for rows in x[i].split(_ROWS):
                    centred = rows - shift[i]
                    first[i] += centred.sum(0).double().cpu()
                    square[i] += (centred * centred).sum(0).double().cpu()
            total += x.shape[1]
        middle = first / total
        mean = (middle + shift[:, 0].cpu()).float() if shift is not None else mean
        deviation = (square / total - middle**2).clamp(min=0).sqrt().float()
        scale = torch.where(deviation > 1e-12, deviation, torch.ones(()))
    return mean.to(reader.device), scale.to(reader.device)


def _start_order(sequences: Ids, reader: _Reader, options: Options) -> Ids:
    """The order in which one group is held: shuffled once."""
    return np.random.default_rng(options.seed).permutation(sequences) if reader.whole else sequences


class _Run:
    """One training of all sublayers and learning rates with one batch size."""

    def __init__(
        self,
        reader: _Reader,
        labels: Labels,
        train: Ids,
        valid: Ids,
        options: Options,
        size: int,
        positive: float,
        weights: Weights,
    ) -> None:
        import torch

        self.reader, self.labels, self.options, self.size, self.positive = reader, labels, options, size, positive
        self.train, self.valid, self.weights = train, valid, weights
        self.random = np.random.default_rng([options.seed, size])
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

    def finish(self, progress: Callable[[str], None]) -> _Run:
        for epoch in range(1, self.options.max_epochs + 1):
            self._epoch()
            self._validate(epoch)
            progress(
                f"{self.options.kind} probes by {self.options.objective}, batches of {self.size}, epoch {epoch}: "
                f"{len(self.active)} of {len(self.loss)} sublayers in training, best loss {self.loss.min():.4f}"
            )
            if not len(self.active):
                break
        return self

    def _epoch(self) -> None:
        parts = self.reader.parts(self.train)
        for i in self.random.permutation(len(parts)):
            whole = self.reader.whole
            order = _start_order(parts[i], self.reader, self.options) if whole else self.random.permutation(parts[i])
            states = self.reader.read(order)
            items = items_of(self.labels, self.reader.lengths, order, self.options, self.positive)
            for first, last in _batches(len(order), self.size, self.random):
                batch = items.batch(first, last)
                a = int(items.starts[first])
                self._step(states, slice(a, a + int(batch.lengths.sum())), batch)

    def _active_states(self, states: torch.Tensor, tokens: slice) -> torch.Tensor | list[torch.Tensor]:
        """The states of the sublayers in training; on a CPU as views, for no copy is made of what may be gigabytes."""
        if not states.is_cuda:
            return [states[i, tokens] for i in self.active.tolist()]
        return states[:, tokens] if len(self.active) == len(self.loss) else states[self.active, tokens]

    def _step(self, states: torch.Tensor, tokens: slice, batch: Items) -> None:
        import torch

        total = float(batch.weights.sum())
        if not total:
            return
        x = self._active_states(states, tokens)
        z = self.weights.project(x).requires_grad_()
        behind: dict[str, torch.Tensor] = {
            n: self.weights.parts[n].detach().requires_grad_() for n in ("output", "bias") if n in self.best
        }
        loss = losses_of(logits_of(z, behind, batch, self.options), batch).sum() / total
        dz, *rest = torch.autograd.grad(loss, [z, *behind.values()])
        gradients = self.weights.gradients(x, dz) | dict(zip(behind, rest, strict=True))
        self._adam(gradients)

    def _adam(self, gradients: dict[str, torch.Tensor]) -> None:
        self.steps += 1
        fixes = [1 - beta**self.steps for beta in BETAS]
        for name, gradient in gradients.items():
            first, second = self.moments[name]
            first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            step = (first / fixes[0]) / ((second / fixes[1]).sqrt() + EPSILON)
            self.weights.parts[name] -= self.rates[name] * step

    def _validate(self, epoch: int) -> None:
        """Keeps each probe at its best; a sublayer whose probes are all out of patience leaves the training."""
        import torch

        total, weight = np.zeros(self.weights.rates * len(self.active)), 0.0
        with torch.no_grad():
            for part in self.reader.parts(self.valid):
                states = self.reader.read(part)
                items = items_of(self.labels, self.reader.lengths, part, self.options, self.positive)
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
        for i, j in zip(*np.nonzero(better), strict=True):
            self._copy(self.active[i], i, j)
        going = (epoch - self.epoch_of[self.active] < self.options.patience).any(1)
        if not going.all():
            places = torch.from_numpy(np.flatnonzero(going))
            self.weights.keep(places.to(self.weights.mean.device))
            self.moments = {n: (a[places], b[places]) for n, (a, b) in self.moments.items()}
            self.active = self.active[going]

    def _copy(self, sublayer: int, place: int, rate: int) -> None:
        k = self.weights.k
        for name, part in self.weights.parts.items():
            mine = slice(rate * k, rate * k + k) if name in ("projection", "offset") else rate
            self.best[name][sublayer, mine] = part[place, mine]


def _batches(count: int, size: int, random: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Neighbours of the order in which sequences are held, from a random place on, in random order.

    So a batch is one stretch of memory and nothing is copied, and its company changes from epoch to epoch.
    """
    offset = int(random.integers(size)) if count > size else 0
    bounds = [0, *range(offset or size, count, size), count]
    pairs = [(a, b) for a, b in pairwise(bounds) if b > a]
    for i in random.permutation(len(pairs)).tolist():
        yield pairs[i]


def _best_of_grid(
    runs: Sequence[_Run], sublayers: tuple[int, ...], options: Options, mean: torch.Tensor, scale: torch.Tensor
) -> Fitted:
    import torch

    losses = np.stack([run.loss for run in runs], 1)  # (sublayers, sizes, rates)
    flat = losses.reshape(len(sublayers), -1).argmin(1)
    size_i, rate_i = np.unravel_index(flat, losses.shape[1:])
    k = options.outputs
    picked: dict[str, list[torch.Tensor]] = {name: [] for name in runs[0].best}
    for i, (s, r) in enumerate(zip(size_i.tolist(), rate_i.tolist(), strict=True)):
        for name, part in runs[s].best.items():
            mine = slice(r * k, r * k + k) if name in ("projection", "offset") else r
            picked[name].append(part[i, mine])
    stacked = {name: torch.stack(parts).double() for name, parts in picked.items()}
    projection = stacked["projection"] / scale[:, None].double()
    stacked["offset"] = stacked["offset"] - (projection @ mean[..., None].double())[..., 0]
    stacked["projection"] = projection
    if options.kind == "pooling":
        stacked["offset"][:, 1] = 0.0  # a constant in the attention changes nothing
    arrays = {name: part.float().cpu().numpy() for name, part in stacked.items()}
    everyone = np.arange(len(sublayers))
    return Fitted(
        from_tensors(options.kind, options.objective, sublayers, arrays),
        loss=losses[everyone, size_i, rate_i],
        learning_rate=np.array(options.learning_rates)[rate_i],
        batch_size=np.array(options.batch_sizes)[size_i],
        epochs=np.stack([run.epoch_of for run in runs], 1)[everyone, size_i, rate_i],
    )


def scores_of(states: States, sequences: Ids, probes: Probes) -> dict[int, NDArray[np.float64]]:
    """Each probe's scores by sequence: (probes, tokens), or (probes, 1) of the whole response for that objective."""
    found: dict[int, NDArray[np.float64]] = {}
    sequences = np.asarray(sequences)
    for group in states.groups:
        part = group[np.isin(group, sequences)]
        if not len(part):
            continue
        held = states.read(part, probes.sublayers).numpy()
        ends = np.cumsum(states.lengths[part])
        for i, end in zip(part.tolist(), ends.tolist(), strict=True):
            each = probes.scores_each(held[:, end - int(states.lengths[i]) : end])
            found[i] = (each[:, -1:] if probes.objective == "response" else each).astype(np.float64)
    return found
