"""Choose decision thresholds from labels and scores at one `Level`, by a criterion such as F1.

Fit on validation data only, and fit each level separately. At the levels `SPAN` and `SOURCE`, each content word of the
response, or of the sources that must be covered, is one item.

An item is flagged if score >= threshold, so a threshold of 0 flags everything. Most criteria choose the lowest score to
flag. The threshold is then the midpoint between this score and the next lower one, so that small rounding differences
change no decision on the validation data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from veridical.metrics import UndefinedMetricError
from veridical.metrics.alignment import response_pair, word_scores
from veridical.metrics.arrays import Bools, Floats, as_probabilities
from veridical.metrics.calibrators import two_class_sample
from veridical.metrics.coverage import coverage_pair, source_words
from veridical.records.decide import unjudged
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Example, Judgement, Level
from veridical.text.stopwords import STOP_WORDS

ThresholdFitter: TypeAlias = Callable[[Bools, Floats], float]

CRITERIA = ("f1", "balanced_accuracy", "means", "precision@P")


def threshold_fitter(criterion: str) -> ThresholdFitter:
    """Return the function that fits a threshold to labels and scores by `criterion`.

    The criteria are:

    - "f1": the highest F1.
    - "balanced_accuracy": the highest balanced accuracy.
    - "means": halfway between the mean scores of both classes.
    - "precision@P": the highest recall with a precision of at least P, such as "precision@0.9".

    Raises:
        UnknownNameError: The criterion is not one of `CRITERIA`.

    >>> import numpy as np
    >>> threshold_fitter("precision@0.6")(np.array([False, True, False, True]), np.array([0.1, 0.3, 0.6, 0.8]))
    0.2
    """
    fits: dict[str, ThresholdFitter] = {
        "f1": threshold_for_f1,
        "balanced_accuracy": threshold_for_balanced_accuracy,
        "means": threshold_between_means,
    }
    if criterion in fits:
        return fits[criterion]
    kind, _, wanted = criterion.partition("@")
    try:
        precision = float(wanted) if kind == "precision" else -1.0
    except ValueError:
        precision = -1.0
    if not 0.0 < precision <= 1.0:
        raise UnknownNameError("criterion", criterion, CRITERIA)
    return lambda labels, scores: threshold_for_precision(labels, scores, precision)


def threshold_for_f1(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Choose the threshold with the highest F1 (CH-Wang et al. 2024, §5.2).

    Among equally good thresholds, the highest is chosen. If flagging everything is best, and some scores are 0, the
    threshold is 0.

    >>> threshold_for_f1([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8])
    0.2
    """
    cuts, tp, fp, p, _ = _cuts(labels, scores, weight)
    return _best(cuts, 2 * tp / (tp + fp + p))


def threshold_for_balanced_accuracy(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Choose the threshold with the highest balanced accuracy (Youden's J).

    Among equally good thresholds, the highest is chosen.

    >>> threshold_for_balanced_accuracy([0, 1, 0, 1], [0.1, 0.3, 0.5, 0.75])
    0.625
    """
    cuts, tp, fp, p, n = _cuts(labels, scores, weight)
    return _best(cuts, tp / p - fp / n)


def threshold_for_precision(
    labels: ArrayLike, scores: ArrayLike, wanted: float, weight: ArrayLike | None = None
) -> float:
    """Choose the threshold with the highest recall among those with a precision of at least `wanted`.

    Raises:
        UndefinedMetricError: No threshold reaches this precision. The message names the best precision.

    >>> threshold_for_precision([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8], 0.6)
    0.2
    """
    if not 0.0 < wanted <= 1.0:
        raise InputError(f"a precision of {wanted} is wanted", hint="it lies above 0 and at most at 1")
    cuts, tp, fp, _, _ = _cuts(labels, scores, weight)
    reached = tp / (tp + fp)
    enough = np.flatnonzero(reached >= wanted)
    if not enough.size:
        raise UndefinedMetricError(f"no threshold has a precision of {wanted:g}; the best is {reached.max():.4g}")
    return flagging_from(cuts, int(enough[-1]))


def threshold_between_means(labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Return the threshold halfway between the mean scores of the positive and the negative class.

    For scores in [0, 1], the threshold lies in [0, 1]. This is the threshold of George and Stuhlmüller 2023, §2.3. They
    average the probability that a summary is right, which is one minus our score, so both midpoints give the same
    decisions.

    >>> threshold_between_means([0, 0, 1], [0.0, 0.5, 0.75])
    0.5
    """
    gold, score, w = two_class_sample(labels, scores, weight)
    negative, positive = (float(w[side] @ score[side] / w[side].sum()) for side in (~gold, gold))
    return (negative + positive) / 2


def _best(cuts: Floats, values: Floats) -> float:
    """Return the threshold at the first of `cuts` with the highest value. Values that differ by rounding are a tie."""
    return flagging_from(cuts, int(np.argmax(values >= values.max() - 1e-12)))


def flagging_from(cuts: Floats, place: int) -> float:
    """Return a threshold that flags the scores `cuts[: place + 1]` and no lower ones.

    The threshold lies halfway between the last of these scores and the next lower score (0 if there is none). `cuts`
    contains distinct scores in descending order.
    """
    lowest, next_lower = float(cuts[place]), float(cuts[place + 1]) if place + 1 < len(cuts) else 0.0
    middle = (lowest + next_lower) / 2
    return middle if middle > next_lower else lowest  # there is no float between neighbouring floats


def _cuts(
    labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None
) -> tuple[Floats, Floats, Floats, float, float]:
    """Count the true and false positives for each possible cut.

    Return the distinct scores in descending order, the true positives and the false positives if everything from each
    score up is flagged, and the totals of positives and negatives.
    """
    gold, score, w = two_class_sample(labels, as_probabilities(scores), weight)
    cuts, place = np.unique(score[w > 0], return_inverse=True)
    tp, fp = (np.cumsum(np.bincount(place, each[w > 0])[::-1], dtype=np.float64) for each in (w * gold, w * ~gold))
    cuts = cuts[::-1]
    if cuts[0] == 0:
        raise UndefinedMetricError("all scores are 0: no threshold separates them")
    return cuts, tp, fp, float(w @ gold), float(w @ ~gold)


def with_response_scores(judgement: Judgement) -> Judgement:
    """Fill in missing scores of the whole response from the highest verdict and the highest omission.

    If `hallucination` is None, it becomes the score of the highest verdict. If `omission` is None, it becomes the score
    of the highest omission.

    >>> from veridical.records.types import Span, Verdict
    >>> with_response_scores(Judgement("1", "me", verdicts=(Verdict(Span(0, 2), 0.4),))).hallucination
    0.4
    """
    hallucination, coverage = judgement.hallucination, judgement.omission
    if hallucination is None:
        hallucination = max((verdict.score for verdict in judgement.verdicts), default=None)
    if coverage is None:
        coverage = max((omission.score for omission in judgement.omissions), default=None)
    return replace(judgement, hallucination=hallucination, omission=coverage)


def pairs(level: Level, example: Example, judgement: Judgement) -> Floats | None:
    """Return the data of one case for fitting a threshold at `level`: rows of gold label and score, *shape* (k, 2).

    At the levels `RESPONSE` and `COVERAGE`, a case has one row. At `SPAN` and `SOURCE`, it has one row for each content
    word of the response, or of the sources with `must_cover`.

    Return None if the gold judgement and `judgement` cannot be compared at this level. At level `RESPONSE`, also return
    None if the gold judgement is only about a part of the response.

    >>> from veridical.records.types import Case
    >>> example = Example(Case("1", "In Rome"), Judgement("1", "human:a", hallucination=1.0))
    >>> pairs(Level.RESPONSE, example, Judgement("1", "me", hallucination=0.3))
    array([[1. , 0.3]])
    """
    pair: tuple[ArrayLike, ArrayLike] | None
    match level:
        case Level.RESPONSE if unjudged(example.case, example.gold):
            pair = None
        case Level.RESPONSE:
            pair = response_pair(example, with_response_scores(judgement))
        case Level.SPAN:
            pair = word_scores(example, judgement, is_stop_word=STOP_WORDS.__contains__)
        case Level.COVERAGE:
            pair = coverage_pair(example, judgement)
        case Level.SOURCE:
            pair = source_words(example, judgement, is_stop_word=STOP_WORDS.__contains__)
    return None if pair is None or not np.size(pair[0]) else np.column_stack(pair).astype(np.float64)
