"""Set the number of training steps and the learning rate schedule."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The number of training steps, the learning rate schedule, and the times of evaluations.

    Attributes:
        steps: The maximum number of steps.
        warmup: The learning rate rises for this many steps, at most half of all steps.
        evaluate_every: The number of steps between two evaluations.
        patience: Stop after this many evaluations without a better result.
        seed: The random seed.
        cooldown: The learning rate falls to 0 over this last fraction of all steps.
    """

    steps: int
    warmup: int
    evaluate_every: int
    patience: int
    seed: int
    cooldown: float = 1.0

    @classmethod
    def of(cls, options: Any) -> Schedule:
        """Build a schedule from `options`, an object with attributes of the same names."""
        return cls(
            **{field.name: getattr(options, field.name) for field in fields(cls) if hasattr(options, field.name)}
        )

    def scale_at(self, step: int) -> float:
        """Compute the factor by which to multiply the peak learning rate at a step, counted from 0.

        The factor rises linearly to 1 during the warm-up and falls linearly to 0 during the cooldown. If fewer steps
        remain after the warm-up than the cooldown has, the factor falls during all remaining steps.

        >>> schedule = Schedule(steps=10, warmup=2, evaluate_every=1, patience=1, seed=0)
        >>> [round(schedule.scale_at(step), 2) for step in (0, 1, 6)]
        [0.5, 1.0, 0.5]
        """
        warmup = max(1, min(self.warmup, round(self.steps / 2)))
        falling = min(self.steps - warmup, round(self.cooldown * self.steps))
        return min(1.0, (step + 1) / warmup, (self.steps - step) / max(1, falling))
