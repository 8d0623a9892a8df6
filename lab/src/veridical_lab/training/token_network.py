"""The trainable network of a token classifier, with its loss on a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.tokens.scoring import LabelledWindow
from veridical.inference.heads import HeadSettings, PairHead
from veridical.inference.local_model import LocalModel
from veridical.inference.pair_runner import PairRunner
from veridical.models.load import unload
from veridical.models.torch_engine import TorchEngine
from veridical.records.errors import InputError
from veridical.records.types import GOLD_THRESHOLD
from veridical.text.lexical import FEATURES
from veridical_lab.training.loop import bf16_products
from veridical_lab.training.token_options import TokenTraining

if TYPE_CHECKING:
    import torch

_SHORT = 512  # tokens


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A window with the targets of its units, of its response, and of whether its errors contradict the sources.

    Unknown targets are NaN.
    """

    labelled: LabelledWindow
    targets: NDArray[np.float32]
    response: float
    contradiction: float = np.nan


class TokenNetwork:
    """The trainable network of a token classifier: a backbone with heads for units, responses and contradictions.

    Args:
        runner: Runs the backbone. Training changes the backbone unless it is frozen.
        options: How to train.
        start_from: Begin with the head of an earlier training. Default: a random head.

    Attributes:
        head_settings: The form of the heads.
        parameters: All trained parameters. Those of the heads come first.

    Raises:
        InputError: `start_from` has heads of another form.
    """

    def __init__(self, runner: PairRunner, options: TokenTraining, start_from: PairHead | None = None) -> None:
        import torch

        model = runner.model
        self.runner, self.options, self.backbone = runner, options, model.model
        self._engine = TorchEngine(model)
        width = int(model.model.config.get_text_config().hidden_size)
        hidden = width if options.hidden is None else options.hidden
        features = len(FEATURES) if options.reads_lexical else 0
        self.head_settings = HeadSettings(
            options.unit,  # type: ignore[arg-type]
            options.pooling,  # type: ignore[arg-type]
            hidden,
            features,
            contradiction=options.contradiction_weight > 0,
            whole=options.whole,  # type: ignore[arg-type]
            whole_hidden=width if options.whole_hidden is None else options.whole_hidden,
        )
        if not options.frozen:
            unload(model)  # a later load must not return the changed weights
        model.model.requires_grad_(not options.frozen)
        if options.frozen_embeddings:
            model.model.get_input_embeddings().requires_grad_(False)
        _set_dropout(model, options.dropout)
        self.head = torch_head(width, self.head_settings, options.seed).to(model.device)
        if start_from is not None:
            if start_from.settings != self.head_settings:
                raise InputError(
                    f"the head to begin with has {start_from.settings}, this training {self.head_settings}",
                    hint="train with the same unit, pooling, hidden units and features",
                )
            self.head.load_state_dict({name: torch.from_numpy(t.copy()) for name, t in start_from.tensors.items()})
        self.parameters = [p for group in self.groups() for p in group["params"]]

    def groups(self) -> list[dict[str, Any]]:
        """Return parameter groups for the optimiser: heads and backbone, each group with its peak learning rate."""
        groups = [
            {"params": list(self.head.parameters()), "lr": self.options.head_learning_rate},
            {"params": [p for p in self.backbone.parameters() if p.requires_grad], "lr": self.options.learning_rate},
        ]
        return [group for group in groups if group["params"]]

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights that training changes, by name. They are not copied."""
        weights = {f"head.{name}": t for name, t in self.head.state_dict().items()}
        if not self.options.frozen:
            weights |= {f"model.{name}": t for name, t in self.backbone.state_dict().items()}
        return weights

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set all weights that training changes."""
        for name, target in self.weights.items():
            target.copy_(weights[name])

    def numpy_head(self) -> PairHead:
        """Return the heads with their current weights."""
        tensors = {name: t.detach().float().cpu().numpy().copy() for name, t in self.head.state_dict().items()}
        return PairHead(self.head_settings, tensors)

    def loss(self, rows: Sequence[Sequence[Item]], class_weights: tuple[float, float]) -> torch.Tensor:
        """Compute the loss of a batch, the weighted sum of up to four cross-entropies.

        They are over units, over responses, over the worst unit of each wrong response without word labels, and over
        whether errors contradict the sources or are not mentioned there.

        Args:
            rows: The items in each row of the batch. Items in a row share a prompt.
            class_weights: The loss weights of hallucinated units and of other units.
        """
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

        device = self.runner.model.device
        states, items, starts, wholes = self._states(rows)
        units, features = self._pooled(states, items, starts)
        whole = states[torch.tensor(wholes, device=device)]
        if self.head_settings.whole == "both":
            whole = torch.cat([whole, self._means(states, items, starts)], 1)
        counts = torch.tensor([len(item.targets) for item in items], device=device)
        of_item = torch.repeat_interleave(torch.arange(len(items), device=device), counts)
        if features is not None:
            units = torch.cat([units, features], 1)
            sums = torch.zeros((len(items), features.shape[1]), device=device).index_add_(0, of_item, features)
            whole = torch.cat([whole, sums / counts.clamp(min=1)[:, None]], 1)
        unit_logits, whole_logits, kind_logits = self.head(units, whole)
        targets = torch.from_numpy(np.concatenate([item.targets for item in items])).to(device)
        responses = torch.tensor([item.response for item in items], device=device, dtype=torch.float32)
        smooth = self.options.label_smoothing
        has_target = torch.isfinite(targets)
        total = states.new_zeros(())
        if has_target.any():
            target = targets[has_target]
            positive, negative = (torch.tensor(weight, device=device) for weight in class_weights)
            weight = torch.where(target >= GOLD_THRESHOLD, positive, negative)
            losses = cross_entropy(unit_logits[has_target], target * (1 - smooth) + smooth / 2, reduction="none")
            total = total + (losses * weight).sum() / weight.sum()
        labelled = torch.isfinite(responses)
        if labelled.any():
            target = responses[labelled] * (1 - smooth) + smooth / 2
            total = total + self.options.response_weight * cross_entropy(whole_logits[labelled], target)
        unlocated = labelled & (responses >= GOLD_THRESHOLD)
        unlocated &= torch.zeros(len(items), device=device).index_add_(0, of_item, has_target.float()) == 0
        for row in torch.nonzero(unlocated)[:, 0].tolist():
            logits = unit_logits[of_item == row]
            if len(logits):  # a smooth maximum, because at least one word must be wrong
                worst = (torch.softmax(logits, 0) * logits).sum()
                target = responses[row] * (1 - smooth) + smooth / 2
                total = total + self.options.response_weight * cross_entropy(worst, target) / len(items)
        kinds = torch.tensor([item.contradiction for item in items], device=device, dtype=torch.float32)
        has_kind = torch.isfinite(kinds)
        if kind_logits is not None and has_kind.any():
            target = kinds[has_kind] * (1 - smooth) + smooth / 2
            total = total + self.options.contradiction_weight * cross_entropy(kind_logits[has_kind], target)
        return total

    def _states(self, rows: Sequence[Sequence[Item]]) -> tuple[torch.Tensor, list[Item], list[int], list[int]]:
        """Compute the states of all positions of a batch, *(positions, width)*, and list the items of the batch.

        For each item, also return the position where its response starts, and the position of the state for the whole
        response.
        """
        import torch

        gradients = torch.no_grad() if self.options.frozen else nullcontext()
        with bf16_products(self.runner.model, wanted=self.options.bf16), gradients:  # type: ignore[attr-defined]
            batch = self.runner.lay([[item.labelled.window for item in row] for row in rows])
            states = self._engine.forward(batch)
        width = states.shape[1]
        items = [item for row in rows for item in row]
        starts = [r * width + start for r, of_row in enumerate(batch.starts) for start in of_row]
        wholes = [r * width + whole for r, of_row in enumerate(batch.wholes) for whole in of_row]
        return states.float().reshape(-1, states.shape[-1]), items, starts, wholes

    def _means(self, states: torch.Tensor, items: Sequence[Item], starts: Sequence[int]) -> torch.Tensor:
        """Average the states of the tokens of each response, *(items, width)*."""
        import torch

        sizes = [item.labelled.window.count for item in items]
        places = [start + i for start, size in zip(starts, sizes, strict=True) for i in range(size)]
        counts = torch.tensor(sizes, device=states.device)
        of_item = torch.repeat_interleave(torch.arange(len(items), device=states.device), counts)
        sums = states.new_zeros((len(items), states.shape[1]))
        return sums.index_add(0, of_item, states[torch.tensor(places, device=states.device)]) / counts[:, None]

    def _pooled(
        self, states: torch.Tensor, items: Sequence[Item], starts: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Pool the states of the tokens of every unit, *(units, width)*, and collect features, *(units, features)*."""
        import torch

        tokens: list[int] = []
        of_unit: list[int] = []
        count = 0
        for item, start in zip(items, starts, strict=True):
            for first, end in item.labelled.ranges:
                tokens += range(start + first, start + end)
                of_unit += [count] * (end - first)
                count += 1
        device = states.device
        flat = states[torch.tensor(tokens, dtype=torch.long, device=device)]
        index = torch.tensor(of_unit, dtype=torch.long, device=device)
        empty = flat.new_zeros((count, flat.shape[1]))
        if self.head_settings.pooling == "max":
            where = index[:, None].expand_as(flat)
            pooled = empty.scatter_reduce(0, where, flat, "amax", include_self=False)
        else:
            sizes = torch.bincount(index, minlength=count).clamp(min=1)
            pooled = empty.index_add(0, index, flat) / sizes[:, None]
        if not self.head_settings.features:
            return pooled, None
        features = np.concatenate([item.labelled.features for item in items])  # type: ignore[arg-type]
        return pooled, torch.from_numpy(features).to(device)


@contextmanager
def eager_attention(model: LocalModel, max_tokens: int) -> Iterator[None]:
    """Compute attention without a fused kernel inside the context, if windows are short and the device is a CPU.

    On CPUs, unfused attention on short windows is a third faster, including the backward pass.
    """
    previous = model.model.config._attn_implementation
    applies = model.device.type == "cpu" and 0 < max_tokens <= _SHORT
    try:
        if applies:
            model.model.set_attn_implementation("eager")
        yield
    finally:
        if applies:
            model.model.set_attn_implementation(previous)


def _set_dropout(model: LocalModel, rate: float) -> None:
    """Set every dropout rate of a network."""
    import torch

    for module in model.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = rate
        for name in ("dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, rate)


def torch_head(width: int, settings: HeadSettings, seed: int) -> Any:
    """Make a torch module with the parameters of a `PairHead`, initialised by `seed`.

    Its inputs are the states of units and the input of the heads for whole responses. Its outputs are the logits of
    units, of responses and of contradiction. The contradiction logits are None if there is no head for contradiction.
    """
    import torch

    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            size = width + settings.features
            whole = size + (width if settings.whole == "both" else 0)
            self.hidden = torch.nn.Linear(size, settings.hidden) if settings.hidden else None
            self.units = torch.nn.Linear(settings.hidden or size, 1)
            self.whole = torch.nn.Linear(whole, settings.whole_hidden) if settings.whole_hidden else None
            self.pair = torch.nn.Linear(settings.whole_hidden or whole, 1)
            self.contradiction = torch.nn.Linear(settings.whole_hidden or whole, 1) if settings.contradiction else None

        def forward(
            self, units: torch.Tensor, whole: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
            hidden = units if self.hidden is None else torch.tanh(self.hidden(units))
            whole = whole if self.whole is None else torch.tanh(self.whole(whole))
            kinds = None if self.contradiction is None else self.contradiction(whole)[:, 0]
            return self.units(hidden)[:, 0], self.pair(whole)[:, 0], kinds

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Head()
