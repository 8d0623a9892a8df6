"""Calibrate scores into probabilities with Platt scaling or isotonic regression.

Fit on labelled validation data only. Fitting needs scikit-learn (extra `stats`). A fitted calibrator is a small frozen
object that needs only numpy, and you can save its parameters as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats, as_scores, labels_and_scores
from veridical.records.errors import InputError, MissingExtraError
from veridical.records.strings import shorten


@dataclass(frozen=True, slots=True)
class Platt:
    """Calibrates scores by the logistic curve 1 / (1 + exp(-(slope * score + intercept))). Platt 1999.

    >>> Platt(slope=2.0, intercept=-1.0).apply([0.5])
    array([0.5])
    """

    slope: float
    intercept: float
    kind: Literal["platt"] = field(default="platt", repr=False, kw_only=True)

    def apply(self, scores: ArrayLike) -> Floats:
        """Return the probability of each score, *shape* (n,), in [0, 1]."""
        logits = self.slope * as_scores(scores) + self.intercept
        small = np.exp(-np.abs(logits))  # cannot overflow
        probability: Floats = np.where(logits >= 0, 1.0, small) / (1.0 + small)
        return probability

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as a dictionary of JSON values, from which `calibrator` builds this object again."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Isotonic:
    """Calibrates scores by linear interpolation between fitted points. Zadrozny & Elkan 2002.

    Each point is a score and its probability, from `scores` (strictly increasing) and `probabilities` (never
    decreasing, in [0, 1]). Below the first and above the last point, the probability is constant.

    >>> Isotonic(scores=(0.2, 0.6), probabilities=(0.0, 1.0)).apply([0.1, 0.4, 0.9])
    array([0. , 0.5, 1. ])
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]
    kind: Literal["isotonic"] = field(default="isotonic", repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.scores or len(self.scores) != len(self.probabilities):
            raise InputError(f"{len(self.scores)} scores for {len(self.probabilities)} probabilities")
        if np.any(np.diff(self.scores) <= 0) or np.any(np.diff(self.probabilities) < 0):
            raise InputError("an isotonic calibrator has to rise", hint="scores strictly, probabilities weakly")
        if not 0.0 <= min(self.probabilities) <= max(self.probabilities) <= 1.0:
            raise InputError("a probability of an isotonic calibrator is not from 0 to 1")

    def apply(self, scores: ArrayLike) -> Floats:
        """Return the probability of each score, *shape* (n,), in [0, 1]."""
        probability: Floats = np.interp(as_scores(scores), self.scores, self.probabilities)
        return probability

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as a dictionary of JSON values, from which `calibrator` builds this object again."""
        return {"kind": self.kind, "scores": list(self.scores), "probabilities": list(self.probabilities)}


def calibrator(parameters: Mapping[str, Any]) -> Platt | Isotonic:
    """Build a calibrator from the dictionary that `parameters()` of an earlier calibrator returned.

    Raises:
        InputError: The parameters are not those of a calibrator.

    >>> calibrator({"kind": "platt", "slope": 1.0, "intercept": 0.0})
    Platt(slope=1.0, intercept=0.0)
    """
    match dict(parameters):
        case {"kind": "platt", "slope": float() | int() as slope, "intercept": float() | int() as intercept}:
            return Platt(float(slope), float(intercept))
        case {"kind": "isotonic", "scores": [*scores], "probabilities": [*probabilities]}:
            return Isotonic(tuple(map(float, scores)), tuple(map(float, probabilities)))
    found = shorten(repr(dict(parameters)), 200)
    raise InputError(f"not a calibrator: {found}", hint='"kind" is "platt" or "isotonic"')


def fit_platt(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> Platt:
    """Fit Platt scaling to labelled scores, with Platt's smoothed targets (Platt 1999).

    The scores may be any real numbers. The smoothed targets keep the curve finite even if the scores separate the
    classes completely.

    Raises:
        UndefinedMetricError: All labels are of one class.
    """
    gold, score, w = two_class_sample(labels, scores, weight)
    try:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("fitting a calibration", "stats") from None
    middle = float(w @ score / w.sum())
    spread = float(np.sqrt(w @ (score - middle) ** 2 / w.sum())) or 1.0
    positives, negatives = float(w @ gold), float(w @ ~gold)
    target = np.where(gold, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    # each item counts as a positive and as a negative, weighted by its target: the logistic loss of a soft label
    x = np.tile((score - middle) / spread, 2).reshape(-1, 1)
    y = np.repeat([True, False], gold.size)
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
    model.fit(x, y, sample_weight=np.concatenate([w * target, w * (1 - target)]))
    slope = float(model.coef_[0, 0]) / spread
    return Platt(slope, float(model.intercept_[0]) - slope * middle)


def fit_isotonic(labels: ArrayLike, scores: ArrayLike) -> Isotonic:
    """Fit an isotonic regression of the labels on the scores by least squares (pool adjacent violators).

    For scores beyond those in the data, the probability is constant. Isotonic regression overfits small samples, so use
    `fit_platt` if you have fewer than about a thousand items (Niculescu-Mizil & Caruana 2005).

    Raises:
        UndefinedMetricError: All labels are of one class.
    """
    gold, score, _ = two_class_sample(labels, scores, None)
    try:
        from sklearn.isotonic import IsotonicRegression  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("fitting a calibration", "stats") from None
    model = IsotonicRegression(y_min=0.0, y_max=1.0).fit(score, gold.astype(float))
    return Isotonic(tuple(model.X_thresholds_.tolist()), tuple(model.y_thresholds_.tolist()))


def two_class_sample(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None) -> tuple[Bools, Floats, Floats]:
    """Convert labels, scores and weights to arrays, and check that both classes are present.

    Raises:
        UndefinedMetricError: One of the two classes has no items, or only items of weight 0.
    """
    gold, score, w = labels_and_scores(labels, scores, weight)
    if not (w @ gold and w @ ~gold):
        raise UndefinedMetricError(f"fitting needs both classes; all {gold.size} labels are {bool(w @ gold)}")
    return gold, score, w
