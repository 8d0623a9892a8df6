"""Compute how many items of each predicted class to annotate so that the labels become balanced.

The method follows Liu et al. 2022, §3.3 and appendix C. The rates in equation (9) are estimated from items that people
have already labelled. The scores of the candidates, the items that are not labelled yet, tell how many candidates each
rate applies to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veridical.metrics.confusion import Confusion
from veridical.records.errors import InputError

_LEAST_FLAGGED = 0.05  # share of a round: later rounds need some predicted hallucinations to estimate precision
_MORE = 2  # pseudo-items of the average label on either side of a threshold
_TARGETS = (0.3, 0.7)  # limits of the share of hallucinated items that one round aims at


@dataclass(frozen=True, slots=True)
class Subsampling:
    """Which proportion of each predicted class to annotate.

    Attributes:
        exact: The value of equation (9). None if the equation is undefined.
        hallucinated: The proportion of predicted hallucinations to take, in (0, 1].
        consistent: The proportion of all other items to take, in (0, 1]. It is below 1 only if `exact` is above 1.
        note: Why the proportions differ from the equation. None if they follow the equation.
    """

    exact: float | None
    hallucinated: float
    consistent: float = 1.0
    note: str | None = None


def subsampling(counts: Confusion, target: float = 0.5) -> Subsampling:
    """Compute the proportions that balance both classes, from how a detector's predictions agree with people's labels.

    The classes are balanced if s·TP + FN = s·FP + TN, which gives s = (TN - FN) / (TP - FP). Wherever it is defined,
    equation (9) of Liu et al. 2022 gives the same, (-2αβγ + αβ + βγ + αγ - γ) / ((2γ - 1) α (1 - β)), where α is the
    true positive rate, β the true negative rate and γ the precision, all for the class "hallucinated". The counts also
    give s for β = 1 (no false positives). If the proportion h of hallucinated
    items (`target`) is not to be one half, TP and FN are multiplied by 2 (1 - h), and TN and FP by 2 h.

    In three cases, other proportions are used:

    - γ ≤ ½: Predicted hallucinations are right at most half the time, so taking fewer of them does not balance the
      classes. All of them are taken.
    - s < 0: Most items that are predicted consistent are hallucinated, so there are too many hallucinations even
      without the predicted ones. Still, one in twenty items is a predicted hallucination, because the next round needs
      some of them to estimate precision. This minimum is also used if s is small.
    - s > 1: Hallucinations are already the rarer class. All predicted hallucinations are taken, and 1/s of all other
      items.

    >>> subsampling(Confusion(tp=90, fp=10, fn=10, tn=30)).hallucinated
    0.25
    """
    if counts.tn is None:
        raise InputError("true negatives are not counted", hint="give all four counts")
    if not 0.0 < target < 1.0:
        raise InputError(f"the share of hallucinated items is to be {target:g}", hint="between 0 and 1")
    surplus = 2 * ((1 - target) * counts.tp - target * counts.fp)
    shortage = 2 * (target * counts.tn - (1 - target) * counts.fn)
    if counts.tp + counts.fp == 0:
        return Subsampling(None, 1.0, note="nothing is predicted to be hallucinated")
    if counts.tn + counts.fn == 0:
        return Subsampling(None, 1.0, note="nothing is predicted to be consistent")
    if surplus <= 0:
        exact = None if surplus == 0 else shortage / surplus
        return Subsampling(exact, 1.0, note="the precision is not above one half: all are taken")
    exact = shortage / surplus
    least = min(1.0, _LEAST_FLAGGED / (1 - _LEAST_FLAGGED) * (counts.tn + counts.fn) / (counts.tp + counts.fp))
    if exact < least:
        why = "below 0" if exact < 0 else f"below {least:.2g}"
        return Subsampling(exact, least, note=f"the ratio is {why}: one in twenty is a predicted hallucination")
    if exact > 1:
        proportion = max(0.01, 1 / exact)
        return Subsampling(
            exact, 1.0, proportion, note="the ratio is above 1: fewer predicted consistent ones are taken"
        )
    return Subsampling(exact, exact)


@dataclass(frozen=True, slots=True)
class Annotated:
    """Annotated items: a label by people and a score by a detector for each item.

    Attributes:
        labels: Whether people say that the item is hallucinated.
        scores: The score in [0, 1] by a detector that has not seen the document of the item.
        weights: How many items of the pool each item stands for (`item_weights`). Default: one.
    """

    labels: Sequence[bool]
    scores: Sequence[float]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.labels), len(self.scores), len(self.labels if self.weights is None else self.weights)}
        if len(sizes) > 1 or sizes == {0}:
            raise InputError(f"{len(self.labels)} labels, {len(self.scores)} scores", hint="give one of each per item")


def expected_counts(annotated: Annotated, candidates: Sequence[float], threshold: float) -> Confusion:
    """Estimate how many candidates are hallucinated on either side of a threshold.

    The candidates on each side are counted, and the annotated items on that side tell which proportion is hallucinated.
    Annotated items with more extreme scores than any candidate are not used. A few annotated items could happen to be
    all of one class, so two made-up items with the average label are added to each side.

    In the result, hallucinated is the positive class.

    Args:
        annotated: The annotated items.
        candidates: The scores of the items to choose from, in [0, 1].
        threshold: An item with this score or a higher one is predicted to be hallucinated.

    >>> annotated = Annotated([True, True, True, False], [0.9, 0.8, 0.3, 0.2])
    >>> expected_counts(annotated, [0.9, 0.8, 0.7, 0.6, 0.1], 0.5)
    Confusion(tp=3.5, fp=0.5, fn=0.625, tn=0.375)
    """
    of_pool = np.asarray(candidates, dtype=float)
    wrong, scores = np.asarray(annotated.labels, dtype=bool), np.asarray(annotated.scores, dtype=float)
    weights = np.ones(len(wrong)) if annotated.weights is None else np.asarray(annotated.weights, dtype=float)
    alike = np.abs(scores - 0.5) <= np.abs(of_pool - 0.5).max(initial=0.0)
    weights = np.where(alike, weights, 0.0) if weights[alike].sum() else weights
    average = float(weights[wrong].sum() / weights.sum())
    counts = []
    for side, candidates_here in (
        (scores >= threshold, of_pool >= threshold),
        (scores < threshold, of_pool < threshold),
    ):
        proportion = (float(weights[side & wrong].sum()) + _MORE * average) / (float(weights[side].sum()) + _MORE)
        counts += [int(candidates_here.sum()) * proportion, int(candidates_here.sum()) * (1 - proportion)]
    tp, fp, fn, tn = counts
    return Confusion(tp=tp, fp=fp, fn=fn, tn=tn)


def best_threshold(annotated: Annotated, candidates: Sequence[float], count: int, target: float = 0.5) -> float:
    """Choose the threshold at which equation (9) gives the largest proportion.

    At this threshold, the consistent candidates below it outnumber the hallucinated ones by most (TN - FN, with the
    weights of `target`). If a detector has seen few consistent items, they may not outnumber the others at any
    threshold. Then the threshold with the largest proportion of consistent candidates below it is chosen, among those
    with at least `count` candidates below. The round is not balanced by this threshold, but it comes closer.
    """
    lowest = sorted(candidates)
    thresholds = sorted({*annotated.scores, lowest[min(count, len(lowest) - 1)]})
    expected = {t: expected_counts(annotated, candidates, t) for t in thresholds}
    surplus = {t: target * (c.tn or 0.0) - (1 - target) * c.fn for t, c in expected.items()}
    best = max(thresholds, key=surplus.__getitem__)
    if surplus[best] > 0:
        return best
    below = {t: c.fn + (c.tn or 0.0) for t, c in expected.items()}
    enough = [t for t in thresholds if below[t] >= min(count, len(lowest) - 1)]
    return max(enough or thresholds, key=lambda t: (expected[t].tn or 0.0) / max(below[t], 1.0))


def evening_target(labels: Sequence[bool], count: int) -> float:
    """Compute which proportion of the next `count` items must be hallucinated so that all items are balanced.

    The result is at least 0.3 and at most 0.7.

    >>> evening_target([True] * 60 + [False] * 40, 100)
    0.4
    """
    least, most = _TARGETS
    return min(most, max(least, ((len(labels) + count) / 2 - sum(labels)) / count))
