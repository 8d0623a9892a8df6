"""The loop in which a network, or a small set of its weights, is tuned: steps, early stop on validation, checkpoints.

Everything random depends on the seed and the step alone, so that an interrupted training continues as if it had not
been interrupted.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical_lab.training.checkpoint import (
    CHECKPOINT,
    Reached,
    remaining_steps,
    resume_checkpoint,
    save_checkpoint,
    scale_at,
)

if TYPE_CHECKING:
    import torch

__all__ = ["Schedule", "Tuning"]

_REPORTED = 10  # steps between two lines of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The steps of a training.

    Attributes:
        steps: The most steps.
        warmup: Steps until the highest learning rate, at most half of all.
        evaluate_every: Steps between two evaluations.
        patience: After how many evaluations without a better one training ends.
        seed: The random seed.
    """

    steps: int
    warmup: int
    evaluate_every: int
    patience: int
    seed: int

    @classmethod
    def of(cls, options: Any) -> Schedule:
        """What options with attributes of these names say."""
        return cls(**{field.name: getattr(options, field.name) for field in fields(cls)})


class Tuning(ABC):
    """One training.

    Args:
        schedule: Its steps.
        optimiser: Of all that is trained; its learning rates are the highest ones, from where they fall to 0.
        out: The folder that the checkpoint is kept in.
        progress: Called with a line of text now and then.
    """

    def __init__(
        self,
        schedule: Schedule,
        optimiser: torch.optim.Optimizer,
        out: Path,
        progress: Callable[[str], None],
    ) -> None:
        self.schedule, self.optimiser = schedule, optimiser
        self.parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        self.rates = [group["lr"] for group in optimiser.param_groups]
        self.out, self.progress = out, progress
        self.reached = Reached()
        self.best_weights: dict[str, torch.Tensor] = {}
        self._since: list[tuple[float, int, float]] = []  # loss, tokens and seconds of the latest steps

    @property
    @abstractmethod
    def identity(self) -> str:
        """What must be equal for a checkpoint to be of the same training."""

    @property
    @abstractmethod
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights that training changes, by name; not copied."""

    @abstractmethod
    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set all of them."""

    @abstractmethod
    def loss(self, step: int) -> tuple[torch.Tensor, int]:
        """The loss of a step, and how many tokens it reads."""

    @abstractmethod
    def figures(self) -> tuple[dict[str, Any], str]:
        """What the weights are worth on validation, and how to say it; of "figure" more is better."""

    def run(self, *, stop: Callable[[], bool] | None = None, checkpoint_minutes: float = 10.0) -> None:
        """Take all steps that are left, then set the best weights.

        Raises:
            TrainingStopped: If `stop`, which is asked after each step, says so; a checkpoint is kept.
        """
        self.resume()
        for step in remaining_steps(
            self.reached,
            self.schedule.steps,
            self.save_checkpoint,
            stop=stop or (lambda: False),
            checkpoint_minutes=checkpoint_minutes,
        ):
            self.take_step(step)
            if (step + 1) % self.schedule.evaluate_every == 0 or step + 1 == self.schedule.steps:
                self.evaluate()
                if self.reached.without_gain >= self.schedule.patience:
                    self.progress(f"no gain in {self.schedule.patience} evaluations: training ends at step {step + 1}")
                    break
        self.set_weights(self.best_weights)

    def take_step(self, step: int) -> None:
        """Take one optimiser step."""
        import torch

        began = time.monotonic()
        scale = scale_at(step, self.schedule.steps, min(self.schedule.warmup / self.schedule.steps, 0.5))
        for group, highest in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = highest * scale
        torch.manual_seed(self.schedule.seed * 1_000_003 + step)
        loss, tokens = self.loss(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.reached.step = step + 1
        self._since.append((float(loss.detach()), tokens, time.monotonic() - began))
        if self.reached.step % _REPORTED == 0:
            losses, counts, seconds = (np.array(values) for values in zip(*self._since, strict=True))
            self.progress(
                f"step {self.reached.step}/{self.schedule.steps}: loss {losses.mean():.4f}, "
                f"{counts.sum() / seconds.sum():.0f} tok/s, {seconds.mean():.2f} s a step"
            )
            self._since = []

    def evaluate(self) -> None:
        """Measure on validation; keep the weights where the figure is the best so far."""
        figures, shown = self.figures()
        value, reached = figures["figure"], self.reached
        reached.history.append({"step": reached.step, **figures})
        if reached.best is None or value > reached.best:
            reached.best, reached.without_gain = value, 0
            self.best_weights = {name: t.detach().clone() for name, t in self.weights.items()}
        else:
            reached.without_gain += 1
        self.progress(f"step {reached.step}: {shown}")
        self.save_checkpoint()

    def save_checkpoint(self) -> None:
        """Save all that is needed to go on."""
        weights = {"now": self.weights, "best": self.best_weights}
        states = [self.optimiser.state.get(parameter, {}) for parameter in self.parameters]
        save_checkpoint(self.out / CHECKPOINT, self.identity, self.reached, weights, states)

    def resume(self) -> None:
        """Go on from the checkpoint in `out`, if there is one; `InputError` if it is of another training."""
        checkpoint = resume_checkpoint(self.out / CHECKPOINT, self.identity, len(self.parameters))
        if checkpoint is None:
            return
        self.reached, weights, states = checkpoint
        self.set_weights(weights["now"])
        self.best_weights = weights.get("best", {})
        self.optimiser.state.update({p: state for p, state in zip(self.parameters, states, strict=True) if state})
        self.progress(f"continues from step {self.reached.step} of {self.schedule.steps}")
