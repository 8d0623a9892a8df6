"""Run the training loop, with early stopping on validation and checkpoints, for all weights of a network or for some.

Random numbers depend only on the seed and the step, so an interrupted training resumes with identical results.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.models.load import computes_bf16
from veridical_lab.training.checkpoint import (
    CHECKPOINT,
    Reached,
    TrainingStopped,
    resume_checkpoint,
    save_checkpoint,
)
from veridical_lab.training.schedule import Schedule

if TYPE_CHECKING:
    import torch

    from veridical.inference.local_model import LocalModel

_REPORTED = 10  # steps between two lines of progress


def bf16_products(model: LocalModel, *, wanted: bool) -> AbstractContextManager[object]:
    """Compute matrix products of an fp32 model in bf16 inside the context, if `wanted` and supported by the device."""
    import torch

    if not (wanted and model.dtype == torch.float32 and computes_bf16(model.device)):
        return nullcontext()
    return torch.autocast(model.device.type, dtype=torch.bfloat16)


class TrainingLoop(ABC):
    """Runs a training loop with checkpoints and early stopping. Subclasses provide weights, loss and figures.

    Args:
        schedule: The steps of the training.
        optimiser: The optimiser of all trained parameters. Its learning rates are the peak rates of the training.
        out: Where to keep the checkpoint.
        progress: Called with lines of text that report progress.
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
        """A digest of everything that two runs must share to use the same checkpoint."""

    @property
    @abstractmethod
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights that training changes, by name. They are not copied."""

    @abstractmethod
    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set all weights that training changes."""

    @abstractmethod
    def loss(self, step: int) -> tuple[torch.Tensor, int]:
        """Compute the loss of a step. Also return how many tokens the step reads."""

    @abstractmethod
    def figures(self) -> tuple[dict[str, Any], str]:
        """Evaluate the weights on validation. Return figures, of which "figure" is maximised, and a line of text."""

    def run(self, *, stop: Callable[[], bool] | None = None, checkpoint_minutes: float = 10.0) -> None:
        """Take all remaining steps, then restore the best weights. A checkpoint is saved every few minutes.

        Raises:
            TrainingStopped: `stop` returned true. It is called after each step, and a checkpoint is saved first.
        """
        self.resume()
        saved, steps = time.monotonic(), self.schedule.steps
        for step in range(self.reached.step, steps):
            self.take_step(step)
            if (step + 1) % self.schedule.evaluate_every == 0 or step + 1 == steps:
                self.evaluate()
                if self.reached.without_gain >= self.schedule.patience:
                    self.progress(f"no gain in {self.schedule.patience} evaluations: training ends at step {step + 1}")
                    break
            if stop is not None and stop():
                self.save_checkpoint()
                raise TrainingStopped(f"stopped after step {step + 1} of {steps}", hint="the same command goes on")
            if time.monotonic() - saved > 60 * checkpoint_minutes:
                self.save_checkpoint()
                saved = time.monotonic()
        self.set_weights(self.best_weights)

    def take_step(self, step: int) -> None:
        """Take one step with the optimiser."""
        import torch

        started = time.monotonic()
        scale = self.schedule.scale_at(step)
        for group, peak in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = peak * scale
        torch.manual_seed(self.schedule.seed * 1_000_003 + step)
        loss, tokens = self.loss(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.reached.step = step + 1
        self._since.append((float(loss.detach()), tokens, time.monotonic() - started))
        if self.reached.step % _REPORTED == 0:
            losses, counts, seconds = (np.array(values) for values in zip(*self._since, strict=True))
            self.progress(
                f"step {self.reached.step}/{self.schedule.steps}: loss {losses.mean():.4f}, "
                f"{counts.sum() / seconds.sum():.0f} tok/s, {seconds.mean():.2f} s a step"
            )
            self._since = []

    def evaluate(self) -> None:
        """Evaluate on the validation part. If the figure is the best so far, keep a copy of the weights."""
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
        """Save everything that is needed to resume."""
        weights = {"now": self.weights, "best": self.best_weights}
        states = [self.optimiser.state.get(parameter, {}) for parameter in self.parameters]
        save_checkpoint(self.out / CHECKPOINT, self.identity, self.reached, weights, states)

    def resume(self) -> None:
        """Resume from the checkpoint in `out`, if there is one.

        Raises:
            InputError: The checkpoint belongs to another training.
        """
        checkpoint = resume_checkpoint(self.out / CHECKPOINT, self.identity, len(self.parameters))
        if checkpoint is None:
            return
        self.reached, weights, states = checkpoint
        self.set_weights(weights["now"])
        self.best_weights = weights.get("best", {})
        self.optimiser.state.update({p: state for p, state in zip(self.parameters, states, strict=True) if state})
        self.progress(f"continues from step {self.reached.step} of {self.schedule.steps}")
