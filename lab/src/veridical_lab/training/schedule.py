"""Set how many steps a training takes, and how the learning rate rises and falls."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Schedule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The steps of a training.

    Attributes:
        steps: The largest number of steps.
        warmup: The number of steps until the peak learning rate, at most half of all steps.
        evaluate_every: The number of steps between two evaluations.
        patience: The number of evaluations without a new best before training ends.
        seed: The random seed.
        cooldown: The fraction of the steps, at the end, over which the learning rate falls to 0.
    """

    steps: int
    warmup: int
    evaluate_every: int
    patience: int
    seed: int
    cooldown: float = 1.0

    @classmethod
    def of(cls, options: Any) -> Schedule:
        """Return the schedule in `options`, an object with attributes of the same names."""
        return cls(
            **{field.name: getattr(options, field.name) for field in fields(cls) if hasattr(options, field.name)}
        )

    def scale_at(self, step: int) -> float:
        """Return the factor by which the peak learning rate is multiplied at a step, counted from 0.

        It rises to 1 in a straight line during warm-up. In the cooldown, it falls to 0. If there are fewer steps after
        the warm-up than in the cooldown, it falls during all of them.

        >>> schedule = Schedule(steps=10, warmup=2, evaluate_every=1, patience=1, seed=0)
        >>> [round(schedule.scale_at(step), 2) for step in (0, 1, 6)]
        [0.5, 1.0, 0.5]
        """
        warmup = max(1, min(self.warmup, round(self.steps / 2)))
        falling = min(self.steps - warmup, round(self.cooldown * self.steps))
        return min(1.0, (step + 1) / warmup, (self.steps - step) / max(1, falling))
