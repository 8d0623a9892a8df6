"""Whether scores are probabilities, how to calibrate them, and where to put a threshold.

Fit on validation data only. Fitted calibrators are small frozen objects whose parameters are JSON; they apply with
numpy alone. Fitting needs scikit-learn (extra `stats`). A score is flagged where score >= threshold, so that a
threshold of 0 flags everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridical.core.errors import InputError, MissingExtraError
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats, as_probabilities, as_scores, labels_and_scores

__all__ = [
    "Bin",
    "Isotonic",
    "Platt",
    "bin_terms",
    "calibrator",
    "ece",
    "ece_of_sums",
    "fit_isotonic",
    "fit_platt",
    "reliability",
    "threshold_between_means",
    "threshold_for_balanced_accuracy",
    "threshold_for_f1",
    "threshold_for_precision",
]

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a reliability curve: the mean score in it, the share of positives, and the weight it holds."""

    score: float
    rate: float
    weight: float


def reliability(
    labels: ArrayLike,
    scores: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    bins: int = BINS,
    equal_mass: bool = False,
) -> list[Bin]:
    """The reliability curve: at most `bins` bars by ascending score, empty ones left out.

    Bins are of equal width over [0, 1], closed on the right (Guo et al. 2017 §2), or of equal mass; equal scores
    always share a bin.

    >>> reliability([0, 1, 1], [0.05, 0.9, 1.0], bins=2)
    [Bin(score=0.05, rate=0.0, weight=1.0), Bin(score=0.95, rate=1.0, weight=2.0)]
    """
    gold, score, w = labels_and_scores(labels, as_probabilities(scores), weight)
    if bins < 1:
        raise InputError(f"{bins} bins", hint="1 or more")
    where = _equal_mass(score, w, bins) if equal_mass else np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], score)
    mass, total, hits = (np.bincount(where, values, minlength=bins) for values in (w, w * score, w * gold))
    return [Bin(float(total[i] / mass[i]), float(hits[i] / mass[i]), float(mass[i])) for i in np.flatnonzero(mass)]


def _equal_mass(score: Floats, weight: Floats, bins: int) -> NDArray[np.int64]:
    """The bin of each item: where the middle of the weight that shares its score lies."""
    _, place = np.unique(score, return_inverse=True)
    mass = np.bincount(place, weight)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    binned: NDArray[np.int64] = np.minimum((middle * bins).astype(np.int64), bins - 1)[place]
    return binned


def ece(
    labels: ArrayLike,
    scores: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    bins: int = BINS,
    equal_mass: bool = False,
) -> float:
    """The expected calibration error, the weighted mean gap between score and share of positives over `reliability`'s
    bars: [0, 1], 0 = scores are the share of positives (in each bar), 1 = always sure and wrong; lower is better.

    Naeini et al. 2015, for the probability of the positive class; `equal_mass` as Nixon et al. 2019.

    >>> round(ece([0, 1, 1], [0.05, 0.9, 1.0], bins=2), 4)
    0.05
    """
    bars = reliability(labels, scores, weight, bins=bins, equal_mass=equal_mass)
    return sum(bar.weight * abs(bar.score - bar.rate) for bar in bars) / sum(bar.weight for bar in bars)


def bin_terms(labels: ArrayLike, scores: ArrayLike) -> Floats:
    """What each item adds to the sums that `ece` (10 bins of equal width) is made of, *shape* (items, 30).

    The sums are, for each bin: the weight, the scores, the positives.
    """
    gold, score, _ = labels_and_scores(labels, as_probabilities(scores))
    terms = np.zeros((gold.size, 3, BINS))
    bin_of = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], score)
    terms[np.arange(gold.size), :, bin_of] = np.column_stack([np.ones(gold.size), score, gold])
    return terms.reshape(gold.size, -1)


def ece_of_sums(sums: Floats) -> float:
    """`ece` of the sums of `bin_terms`.

    >>> round(ece_of_sums(bin_terms([0, 1, 1], [0.05, 0.9, 1.0]).sum(axis=0)), 4)
    0.05
    """
    mass, scores, positives = sums.reshape(3, -1)
    return float(np.abs(scores - positives).sum() / mass.sum())


@dataclass(frozen=True, slots=True)
class Platt:
    """Scores to probabilities by a logistic curve, 1 / (1 + exp(-(slope * score + intercept))). Platt 1999.

    >>> Platt(slope=2.0, intercept=-1.0).apply([0.5])
    array([0.5])
    """

    slope: float
    intercept: float

    def apply(self, scores: ArrayLike) -> Floats:
        """The probability of each score, *shape* (n,), in [0, 1]."""
        logits = self.slope * as_scores(scores) + self.intercept
        small = np.exp(-np.abs(logits))  # never overflows
        probability: Floats = np.where(logits >= 0, 1.0, small) / (1.0 + small)
        return probability

    def parameters(self) -> dict[str, Any]:
        """What `calibrator` makes it from again; JSON."""
        return {"kind": "platt", **asdict(self)}


@dataclass(frozen=True, slots=True)
class Isotonic:
    """Scores to probabilities by a rising line through (`scores`, `probabilities`), flat outside.

    Zadrozny & Elkan 2002.

    >>> Isotonic(scores=(0.2, 0.6), probabilities=(0.0, 1.0)).apply([0.1, 0.4, 0.9])
    array([0. , 0.5, 1. ])
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.scores or len(self.scores) != len(self.probabilities):
            raise InputError(f"{len(self.scores)} scores for {len(self.probabilities)} probabilities")
        if np.any(np.diff(self.scores) <= 0) or np.any(np.diff(self.probabilities) < 0):
            raise InputError("an isotonic calibrator has to rise", hint="scores strictly, probabilities weakly")

    def apply(self, scores: ArrayLike) -> Floats:
        """The probability of each score, *shape* (n,), in [0, 1]."""
        probability: Floats = np.interp(as_scores(scores), self.scores, self.probabilities)
        return probability

    def parameters(self) -> dict[str, Any]:
        """What `calibrator` makes it from again; JSON."""
        return {"kind": "isotonic", "scores": list(self.scores), "probabilities": list(self.probabilities)}


def calibrator(parameters: Mapping[str, Any]) -> Platt | Isotonic:
    """The calibrator that `parameters()` described; `InputError` for anything else.

    >>> calibrator({"kind": "platt", "slope": 1.0, "intercept": 0.0})
    Platt(slope=1.0, intercept=0.0)
    """
    match dict(parameters):
        case {"kind": "platt", "slope": float() | int() as slope, "intercept": float() | int() as intercept}:
            return Platt(float(slope), float(intercept))
        case {"kind": "isotonic", "scores": [*scores], "probabilities": [*probabilities]}:
            return Isotonic(tuple(map(float, scores)), tuple(map(float, probabilities)))
    raise InputError(f"not a calibrator: {dict(parameters)!r}", hint='"kind" is "platt" or "isotonic"')


def fit_platt(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> Platt:
    """Platt's logistic curve for `scores` (any real numbers), with his smoothed targets (Platt 1999).

    The targets keep the curve finite where the scores part the classes. Raises `UndefinedMetricError` with one class.
    """
    gold, score, w = _two_classes(labels, scores, weight)
    try:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("fitting a calibration", "stats") from None
    middle = float(w @ score / w.sum())
    spread = float(np.sqrt(w @ (score - middle) ** 2 / w.sum())) or 1.0
    positives, negatives = float(w @ gold), float(w @ ~gold)
    target = np.where(gold, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    # each item once as a positive and once as a negative, weighed by its target: logistic loss of a soft label
    x = np.tile((score - middle) / spread, 2).reshape(-1, 1)
    y = np.repeat([True, False], gold.size)
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
    model.fit(x, y, sample_weight=np.concatenate([w * target, w * (1 - target)]))
    slope = float(model.coef_[0, 0]) / spread
    return Platt(slope, float(model.intercept_[0]) - slope * middle)


def fit_isotonic(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> Isotonic:
    """The rising line nearest to the labels in squared error (pool adjacent violators); flat outside the scores seen.

    It overfits small samples (Niculescu-Mizil & Caruana 2005 advise about a thousand); prefer `fit_platt` there.
    """
    gold, score, w = _two_classes(labels, scores, weight)
    try:
        from sklearn.isotonic import IsotonicRegression  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("fitting a calibration", "stats") from None
    counted = w > 0
    model = IsotonicRegression(y_min=0.0, y_max=1.0).fit(
        score[counted], gold[counted].astype(float), sample_weight=w[counted]
    )
    return Isotonic(tuple(model.X_thresholds_.tolist()), tuple(model.y_thresholds_.tolist()))


def _two_classes(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None) -> tuple[Bools, Floats, Floats]:
    gold, score, w = labels_and_scores(labels, scores, weight)
    if not (w @ gold and w @ ~gold):
        raise UndefinedMetricError(f"fitting needs both classes; all {gold.size} labels are {bool(w @ gold)}")
    return gold, score, w


def threshold_for_f1(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """The observed score from which flagging gives the highest F1; the highest such score on a tie.

    CH-Wang et al. 2024, §5.2. It is 0, which flags everything, where some scores are 0 and nothing does better.

    >>> threshold_for_f1([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8])
    0.3
    """
    cuts, tp, fp, p, _ = _cuts(labels, scores, weight)
    return _best(cuts, 2 * tp / (tp + fp + p))


def threshold_for_balanced_accuracy(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """The observed score with the highest balanced accuracy (Youden's J); the highest such score on a tie.

    >>> threshold_for_balanced_accuracy([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8])
    0.8
    """
    cuts, tp, fp, p, n = _cuts(labels, scores, weight)
    return _best(cuts, tp / p - fp / n)


def threshold_for_precision(
    labels: ArrayLike, scores: ArrayLike, wanted: float, weight: ArrayLike | None = None
) -> float:
    """The lowest observed score from which precision is at least `wanted`: the threshold with the most recall then.

    Raises `UndefinedMetricError`, with the best there is, where no threshold reaches it.

    >>> threshold_for_precision([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8], 0.6)
    0.3
    """
    if not 0.0 < wanted <= 1.0:
        raise InputError(f"a precision of {wanted} is wanted", hint="it lies above 0 and at most at 1")
    cuts, tp, fp, _, _ = _cuts(labels, scores, weight)
    reached = tp / (tp + fp)
    enough = np.flatnonzero(reached >= wanted)
    if not enough.size:
        raise UndefinedMetricError(f"no threshold has a precision of {wanted:g}; the best is {reached.max():.4g}")
    return float(cuts[enough[-1]])


def threshold_between_means(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """The middle between the mean score of each class, in [0, 1] for scores in [0, 1].

    George and Stuhlmüller 2023, §2.3, average the probability that a summary is right; a score is one minus it, and the
    middle the same.

    >>> threshold_between_means([0, 0, 1], [0.0, 0.5, 0.75])
    0.5
    """
    gold, score, w = _two_classes(labels, scores, weight)
    negative, positive = (float(w[side] @ score[side] / w[side].sum()) for side in (~gold, gold))
    return (negative + positive) / 2


def _best(cuts: Floats, values: Floats) -> float:
    """The first of `cuts` with the highest value; rounding does not break a tie."""
    return float(cuts[np.argmax(values >= values.max() - 1e-12)])


def _cuts(
    labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None
) -> tuple[Floats, Floats, Floats, float, float]:
    """Distinct scores, descending; true and false positives from each on; both classes' totals."""
    gold, score, w = _two_classes(labels, as_probabilities(scores), weight)
    cuts, place = np.unique(score[w > 0], return_inverse=True)
    tp, fp = (np.cumsum(np.bincount(place, each[w > 0])[::-1], dtype=np.float64) for each in (w * gold, w * ~gold))
    cuts = cuts[::-1]
    if cuts[0] == 0:
        raise UndefinedMetricError("all scores are 0: no threshold separates them")
    return cuts, tp, fp, float(w @ gold), float(w @ ~gold)
