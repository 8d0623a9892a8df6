"""Measure how well annotators work: error rates with intervals, signs of spam, and a qualification quiz.

No annotator is assumed to be right. Labels have two values. As in Dawid & Skene 1979, expectation maximisation
estimates the error rates of all annotators and the true labels of all items together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from veridical.datasets.split import document_of
from veridical.metrics.arrays import Floats
from veridical.metrics.significance import draw_documents
from veridical.records.errors import InputError
from veridical.records.types import Example
from veridical_lab.annotate.consensus import annotators_of, join_annotations
from veridical_lab.annotate.items import says_hallucinated

_ITERATIONS = 100
_PRIOR = 0.5  # pseudo-labels of either kind, so that no rate is exactly 0 or 1
# signs of spam (Liu et al. 2022, §3.3)
_LEAST = 10  # labels; annotators with fewer are not checked
_CONFLICT = 0.3  # the largest proportion of labels that may differ from the majority of the others
_SECONDS = 10.0  # the least median time per label
_CHANCE = 0.01  # the least probability that someone who labels at the rate of the others always gives the same label


@dataclass(frozen=True, slots=True)
class AnnotatorQuality:
    """How well one annotator works.

    Attributes:
        name: The annotator's name, as in `Judgement.by`.
        labels: How many items the annotator labelled.
        hallucinated: The proportion of these items that the annotator called hallucinated.
        misses: The estimated proportion of hallucinated items that the annotator calls consistent.
        misses_interval: The 95 % interval of `misses`, sampled by document. None if it cannot be estimated.
        false_alarms: The estimated proportion of consistent items that the annotator calls hallucinated.
        false_alarms_interval: The 95 % interval of `false_alarms`. None if it cannot be estimated.
        conflict: The proportion of the annotator's labels that differ from the majority of the others. None if the
            others never have a majority.
        seconds: The median time per label in seconds. None if times are not known.
        signs: Signs of spam, in words. Empty if there are none.
    """

    name: str
    labels: int
    hallucinated: float
    misses: float
    misses_interval: tuple[float, float] | None
    false_alarms: float
    false_alarms_interval: tuple[float, float] | None
    conflict: float | None
    seconds: float | None
    signs: tuple[str, ...] = field(default=())


def error_rates(ratings: Floats, weights: Floats | None = None, start: Floats | None = None) -> tuple[Floats, Floats]:
    """Estimate the error rates of annotators and the true labels of items.

    Args:
        ratings: 1 for hallucinated, 0 for consistent, NaN for not labelled. *Shape:* (annotators, items)
        weights: How often each item counts. *Shape:* (items,)
        start: The probabilities that items are hallucinated, to start from. Default: the mean of each item's labels.
            *Shape:* (items,)

    Returns:
        The rates of misses and false alarms of each annotator, *shape* (annotators, 2), and for each item the
        probability that it is hallucinated, *shape* (items,).

    >>> ratings = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0]], dtype=float)
    >>> error_rates(ratings)[0].round(1)[2].tolist()  # misses one of three
    [0.4, 0.1]
    """
    is_labelled = ~np.isnan(ratings)
    yes = np.where(is_labelled, ratings, 0.0)
    no = np.where(is_labelled, 1.0 - ratings, 0.0)
    weight = np.ones(ratings.shape[1]) if weights is None else weights
    truth = yes.sum(axis=0) / np.maximum(is_labelled.sum(axis=0), 1) if start is None else start
    misses = alarms = np.full(len(ratings), 0.5)
    for _ in range(_ITERATIONS):
        positive, negative = weight * truth, weight * (1.0 - truth)
        misses = (no @ positive + _PRIOR) / (is_labelled @ positive + 2 * _PRIOR)
        alarms = (yes @ negative + _PRIOR) / (is_labelled @ negative + 2 * _PRIOR)
        prevalence = np.clip(positive.sum() / max(float(weight.sum()), 1e-12), 1e-6, 1 - 1e-6)
        odds = np.log(prevalence / (1 - prevalence))
        odds = odds + yes.T @ np.log((1 - misses) / alarms) + no.T @ np.log(misses / (1 - alarms))
        updated = 1.0 / (1.0 + np.exp(-np.clip(odds, -500, 500)))
        done = float(np.abs(updated - truth).max(initial=0.0)) < 1e-6
        truth = updated
        if done:
            break
    return np.stack([misses, alarms], axis=1), truth


def annotator_quality(examples: Iterable[Example], *, resamples: int = 200) -> list[AnnotatorQuality]:
    """Measure how well each annotator of some items works, in the order of the annotators' names.

    Args:
        examples: The cases with annotations.
        resamples: How many bootstrap samples to draw for the intervals, by document.

    Raises:
        InputError: Nobody labelled anything.
    """
    joined, _ = join_annotations(examples)
    names = annotators_of(joined)
    if not names:
        raise InputError("there are no annotations", hint="examples with `annotations`, as `veridical annotate` writes")
    ratings = np.full((len(names), len(joined)), np.nan)
    times: dict[str, list[float]] = {name: [] for name in names}
    for j, example in enumerate(joined):
        for judgement in example.annotations:
            label = says_hallucinated(judgement)
            if label is not None:
                ratings[names.index(judgement.by), j] = float(label)
            times[judgement.by] += [float(value) for key, value in judgement.provenance if key == "seconds"]
    rates, truth = error_rates(ratings)
    documents = [document_of(example) for example in joined]
    intervals = _intervals(ratings, truth, documents, resamples)
    conflict = _conflict(ratings)
    results = []
    for i, name in enumerate(names):
        labels = ratings[i][~np.isnan(ratings[i])]
        seconds = median(times[name]) if times[name] else None
        positive_rate = float(labels.mean()) if len(labels) else 0.0
        signs = []
        if len(labels) >= _LEAST:
            # where one label is rare, others give the same label most of the time, too
            alike = others_of(ratings, i) if positive_rate == 1.0 else 1.0 - others_of(ratings, i)
            if positive_rate in (0.0, 1.0) and alike ** len(labels) < _CHANCE:
                signs.append("always the same label")
            if conflict[i] is not None and conflict[i] > _CONFLICT:  # type: ignore[operator]
                signs.append(f"{conflict[i]:.0%} of the labels are against the majority of the others")
            if seconds is not None and seconds < _SECONDS:
                signs.append(f"{seconds:.0f} seconds per label")
        results.append(
            AnnotatorQuality(
                name,
                len(labels),
                positive_rate,
                float(rates[i, 0]),
                None if intervals is None else (float(intervals[0, i, 0]), float(intervals[1, i, 0])),
                float(rates[i, 1]),
                None if intervals is None else (float(intervals[0, i, 1]), float(intervals[1, i, 1])),
                conflict[i],
                seconds,
                tuple(signs),
            )
        )
    return results


def others_of(ratings: Floats, i: int) -> float:
    """Compute the proportion of "hallucinated" among the labels of all annotators but `i`, or 0.5 without labels."""
    others = np.delete(ratings, i, axis=0)
    return float(np.nanmean(others)) if np.isfinite(others).any() else 0.5


def _intervals(ratings: Floats, truth: Floats, documents: Sequence[str], resamples: int) -> Floats | None:
    """Bootstrap the 2.5 and 97.5 % quantiles of all rates, *shape* (2, annotators, 2). None for a single document."""
    index = {name: i for i, name in enumerate(dict.fromkeys(documents))}
    if len(index) < 2:
        return None
    of_item = np.array([index[name] for name in documents])
    samples = draw_documents(len(index), resamples=resamples, seed=0)
    values = np.stack([error_rates(ratings, times[of_item], truth)[0] for times in samples])
    quantiles: Floats = np.quantile(values, [0.025, 0.975], axis=0)
    return quantiles


def _conflict(ratings: Floats) -> list[float | None]:
    """Compute which share of each annotator's labels differs from the majority of the others. Ties are left out."""
    is_labelled = ~np.isnan(ratings)
    yes = np.where(is_labelled, ratings, 0.0)
    shares: list[float | None] = []
    for i in range(len(ratings)):
        others = is_labelled.sum(axis=0) - is_labelled[i]
        votes = yes.sum(axis=0) - yes[i]
        counted = is_labelled[i] & (others > 0) & (2 * votes != others)
        against = counted & ((2 * votes > others) != (yes[i] > 0))
        shares.append(float(against.sum() / counted.sum()) if counted.any() else None)
    return shares


@dataclass(frozen=True, slots=True)
class QuizScore:
    """The result of one candidate in a qualification quiz. A question without an answer counts as wrong."""

    name: str
    right: int
    asked: int
    passed: bool


def score_quiz(examples: Iterable[Example], *, needed: int | None = None) -> list[QuizScore]:
    """Score a qualification quiz: compare annotations with known gold labels.

    To pass, a candidate needs `needed` right answers. Default: 8 in 10.

    Raises:
        InputError: There are no questions or candidates, a question has no known answer, or `needed` is not from 1 to
            the number of questions.
    """
    quiz, _ = join_annotations(examples)
    names = annotators_of(quiz)
    if not quiz or not names:
        raise InputError(f"{len(quiz)} questions and {len(names)} candidates", hint="give examples with annotations")
    key = {example.case.id: says_hallucinated(example.gold) for example in quiz}
    if unknown := [id for id, label in key.items() if label is None]:
        raise InputError(f"the right answer to {unknown[0]!r} is not known", hint="a quiz has gold labels")
    least = -(-8 * len(quiz) // 10) if needed is None else needed
    if not 0 < least <= len(quiz):
        raise InputError(f"{least} right answers are needed of {len(quiz)}", hint=f"from 1 to {len(quiz)}")
    right = dict.fromkeys(names, 0)
    for example in quiz:
        for judgement in example.annotations:
            right[judgement.by] += says_hallucinated(judgement) == key[example.case.id]
    return [QuizScore(name, right[name], len(quiz), right[name] >= least) for name in names]
