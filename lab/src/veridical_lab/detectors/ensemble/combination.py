"""Combine the scores of several members into one: logistic regressions fitted on labels, or the mean.

Rows have one column per member, NaN without a score. Each likely set of remaining members has its own regression, so a
missing member changes the weights of the others but not the meaning of the result. Needs only NumPy.
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

    P = 1 / (1 + exp(-(intercept + sum of weight * (score - mean) / deviation))). A missing score counts as the mean; a
    score more than five deviations away counts as five away.

    Attributes:
        members: The columns it reads, ascending.
        mean: The mean score of each of these members on the data of the fit.
        deviation: Their standard deviations there, above 0.
        weights: Their weights.
        intercept: The log-odds if every score is at its mean.
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
        """The same numbers as arrays."""
        return LinearClassifier(*map(np.array, (self.mean, self.deviation, self.weights, [self.intercept])))

    def probabilities(self, rows: Floats) -> Floats:
        """Return the probability of each row *(n, all members)*. *Shape:* (n,)

        >>> Combination((1,), (0.5,), (0.25,), (2.0,), 0.0).probabilities(np.array([[0.9, 0.5], [0.9, np.nan]]))
        array([0.5, 0.5])
        """
        distance = self.classifier.decide(rows[:, list(self.members)])
        probability: Floats = np.exp(-np.logaddexp(0.0, -distance))
        return probability

    def contributions(self, rows: Floats) -> Floats:
        """Return weight * standardised score of each member, 0 for the others. *Shape:* that of `rows`"""
        parts = np.zeros(rows.shape)
        parts[:, list(self.members)] = self.classifier.contributions(rows[:, list(self.members)])
        return parts


@dataclass(frozen=True, slots=True)
class LevelCombinations:
    """The combinations of one level: the first for all members that score it, the others for some of them.

    `threshold` is the probability from which items are flagged, in [0, 1].
    """

    threshold: float
    combinations: tuple[Combination, ...]

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        if not self.combinations:
            raise InputError("a level has no combination", hint="one or more")

    @property
    def members(self) -> tuple[int, ...]:
        """The members that score this level."""
        return self.combinations[0].members

    def combination_for(self, present: Sequence[int]) -> Combination:
        """Return the smallest combination that contains all `present` members; the absent ones count as average."""
        needed = set(present)
        fitting = [c for c in self.combinations if needed <= set(c.members)]
        return min(fitting, key=lambda c: len(c.members), default=self.combinations[0])

    def combine(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return the probability of each row *(n, all members)*, and what each member adds to its log-odds.

        *Shape:* (n,), NaN if no member that scores this level gave a score; and that of `rows`, NaN for members without
        a score.
        """
        probabilities, parts = np.full(len(rows), np.nan), np.full(rows.shape, np.nan)
        has_score = ~np.isnan(rows)
        has_score[:, [i for i in range(rows.shape[1]) if i not in self.members]] = False
        patterns, pattern_of_row = np.unique(has_score, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            present = np.flatnonzero(pattern)
            if present.size:
                combination = self.combination_for(present.tolist())
                same = np.flatnonzero(pattern_of_row.ravel() == number)
                probabilities[same] = combination.probabilities(rows[same])
                parts[np.ix_(same, present)] = combination.contributions(rows[same])[:, present]
        return probabilities, parts


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of the members' scores, if nothing is fitted; `members` are the columns that count."""

    members: tuple[int, ...]
    threshold: float = DEFAULT_THRESHOLD

    def combine(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return the mean of each row, and what each member adds to it, from 0.5; NaN as in `LevelCombinations`."""
        counted = rows[:, list(self.members)]
        has_score = ~np.isnan(counted)
        count = np.maximum(has_score.sum(axis=1), 1)
        mean = np.where(has_score.any(axis=1), np.where(has_score, counted, 0.0).sum(axis=1) / count, np.nan)
        parts = np.full(rows.shape, np.nan)
        parts[:, list(self.members)] = (counted - DEFAULT_THRESHOLD) / count[:, None]
        return mean, parts
