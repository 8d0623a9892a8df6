"""How the scores of several members become one score: logistic regressions fitted on labels, or their mean.

Rows have one column per member, NaN where it gave no score. Each set of members that may be left has a regression of
its own, so that a missing member changes the weights of the others and not the meaning of the result. NumPy alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veridical.core.errors import InputError
from veridical.core.types import DEFAULT_THRESHOLD, check_threshold
from veridical.metrics.arrays import Floats
from veridical.models.linear import LinearClassifier

__all__ = ["Combination", "LevelCombinations", "Mean"]


@dataclass(frozen=True, slots=True)
class Combination:
    """A logistic regression on the standardised scores of some members.

    P = 1 / (1 + exp(-(intercept + sum of weight * (score - mean) / deviation))); a score that is missing counts as
    the mean, one more than five deviations away as five.

    Attributes:
        members: The columns that it reads, ascending.
        mean: Of each of them on the data that it was fitted on.
        deviation: Likewise, above 0.
        weights: Of each of them.
        intercept: The log odds where every score is at its mean.
    """

    members: tuple[int, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float

    def __post_init__(self) -> None:
        if not self.members or len({len(self.members), len(self.mean), len(self.deviation), len(self.weights)}) > 1:
            raise InputError("a combination has as many means, deviations and weights as members, and at least one")
        if list(self.members) != sorted(set(self.members)) or self.members[0] < 0:
            raise InputError("the members of a combination are numbers from 0, ascending")
        if min(self.deviation) <= 0 or not all(
            math.isfinite(x) for x in (*self.mean, *self.deviation, *self.weights, self.intercept)
        ):
            raise InputError("the numbers of a combination are finite, and its deviations above 0")

    @property
    def classifier(self) -> LinearClassifier:
        """The same as arrays."""
        return LinearClassifier(*map(np.array, (self.mean, self.deviation, self.weights, [self.intercept])))

    def probabilities(self, rows: Floats) -> Floats:
        """The probability of each row *(n, all members)*. *Shape:* (n,)

        >>> Combination((1,), (0.5,), (0.25,), (2.0,), 0.0).probabilities(np.array([[0.9, 0.5], [0.9, np.nan]]))
        array([0.5, 0.5])
        """
        distance = self.classifier.decide(rows[:, list(self.members)])
        probability: Floats = np.exp(-np.logaddexp(0.0, -distance))
        return probability

    def contributions(self, rows: Floats) -> Floats:
        """weight * standardised score of each member, 0 of the others. *Shape:* that of `rows`"""
        parts = np.zeros(rows.shape)
        parts[:, list(self.members)] = self.classifier.contributions(rows[:, list(self.members)])
        return parts


@dataclass(frozen=True, slots=True)
class LevelCombinations:
    """What was fitted for one level: the first combination for all members that score it, the others for some of them.

    `threshold` is the probability from which it flags, in [0, 1].
    """

    threshold: float
    combinations: tuple[Combination, ...]

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        if not self.combinations:
            raise InputError("nothing is fitted for a level")

    @property
    def members(self) -> tuple[int, ...]:
        """The members that score this level."""
        return self.combinations[0].members

    def combination_for(self, present: Sequence[int]) -> Combination:
        """The combination of `present` alone; else the smallest one of them and others, which count as average."""
        wanted = set(present)
        fitting = [c for c in self.combinations if wanted <= set(c.members)]
        return min(fitting, key=lambda c: len(c.members), default=self.combinations[0])

    def combine(self, rows: Floats) -> tuple[Floats, Floats]:
        """The probability of each row *(n, all members)* by those that gave a score, and what each member adds to it.

        *Shape:* (n,), NaN where no member that scores this level gave a score, and that of `rows`, NaN likewise.
        """
        probabilities, parts = np.full(len(rows), np.nan), np.full(rows.shape, np.nan)
        there = ~np.isnan(rows)
        there[:, [i for i in range(rows.shape[1]) if i not in self.members]] = False
        patterns, which = np.unique(there, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            present = np.flatnonzero(pattern)
            if present.size:
                combination = self.combination_for(present.tolist())
                same = np.flatnonzero(which.ravel() == number)
                probabilities[same] = combination.probabilities(rows[same])
                parts[np.ix_(same, present)] = combination.contributions(rows[same])[:, present]
        return probabilities, parts


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of the members' scores, where nothing is fitted; `members` are the columns that count."""

    members: tuple[int, ...]
    threshold: float = DEFAULT_THRESHOLD

    def combine(self, rows: Floats) -> tuple[Floats, Floats]:
        """The mean of each row, and what each member adds to it, counted from 0.5; NaN as in `LevelCombinations`."""
        counted = rows[:, list(self.members)]
        there = ~np.isnan(counted)
        count = np.maximum(there.sum(axis=1), 1)
        mean = np.where(there.any(axis=1), np.where(there, counted, 0.0).sum(axis=1) / count, np.nan)
        parts = np.full(rows.shape, np.nan)
        parts[:, list(self.members)] = (counted - DEFAULT_THRESHOLD) / count[:, None]
        return mean, parts
