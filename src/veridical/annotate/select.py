"""What to annotate next: less trivial and more balanced than a random sample (Liu et al. 2022, §3.3 and appendix C).

A detector trained on the rounds so far scores the pool. Items that it is sure of, near-paraphrases, and dates or names
replaced by other ones are left out. Of those that it predicts to be hallucinated only a share is taken, such that as
many of either class are to be expected. Nothing here trains or runs a detector: scores are given.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veridical.annotate.items import grouped, place_of
from veridical.core import quantities
from veridical.core.errors import InputError, UnknownNameError
from veridical.core.names import is_name
from veridical.core.segment import words
from veridical.core.spans import Span
from veridical.core.stopwords import STOP_WORDS
from veridical.core.types import Example
from veridical.core.vocabulary import MONTHS, WEEKDAYS
from veridical.corrupt.passages import implied
from veridical.metrics.confusion import Confusion

__all__ = [
    "STRATEGIES",
    "Embed",
    "SelectOptions",
    "Selection",
    "Subsampling",
    "best_threshold",
    "count_predictions",
    "embedding_similarity",
    "equation_9",
    "obvious",
    "select",
    "similarity",
    "subsampling",
]

Floats = NDArray[np.float64]
Embed = Callable[[Sequence[str]], Floats]
"""Turns texts into vectors, *shape* (texts, width)."""
STRATEGIES = ("balance", "random", "uncertainty", "diversity")
_LEAST_SHARE = 0.01  # of the predicted hallucinations: with none of them annotated, no later round could be estimated
_RESERVE = 3  # candidates wanted for each item to choose: else what the detector is sure of comes back


def equation_9(tpr: float, tnr: float, precision: float) -> float:
    """The share s* of predicted hallucinations to annotate so that both classes are even (Liu et al. 2022, eq. 9).

    (-2αβγ + αβ + βγ + αγ - γ) / ((2γ - 1) α (1 - β)) with α the true positive rate, β the true negative rate and γ
    the precision, all of the class "hallucinated". It may be below 0 or above 1.

    Raises:
        InputError: For a rate outside [0, 1].
        ZeroDivisionError: For α = 0, β = 1 or γ = ½, where it is not defined; `subsampling` is.

    >>> round(equation_9(0.9, 0.8, 0.96), 4)
    0.058
    """
    for name, rate in (("true positive rate", tpr), ("true negative rate", tnr), ("precision", precision)):
        if not 0.0 <= rate <= 1.0:
            raise InputError(f"the {name} is {rate}", hint="a rate lies in [0, 1]")
    a, b, c = tpr, tnr, precision
    return (-2 * a * b * c + a * b + b * c + a * c - c) / ((2 * c - 1) * a * (1 - b))


@dataclass(frozen=True, slots=True)
class Subsampling:
    """Which share of each predicted class to annotate.

    Attributes:
        exact: What equation (9) gives; None where it is not defined.
        hallucinated: The share of predicted hallucinations to take, in (0, 1].
        consistent: The share of the others to take, in (0, 1]; below 1 only where `exact` is above 1.
        note: Why the shares are not what the equation gives; None where they are.
    """

    exact: float | None
    hallucinated: float
    consistent: float = 1.0
    note: str | None = None


def subsampling(counts: Confusion, target: float = 0.5) -> Subsampling:
    """The shares that make both classes even, from what a detector predicted and people then said.

    Written in counts, s·TP + FN = s·FP + TN gives s = (TN - FN) / (TP - FP), which is equation (9) wherever that is
    defined and holds where it is not (β = 1, no false positives). For another share h of hallucinated items
    (`target`) than one half, TP and FN count 2 (1 - h) times and TN and FP 2 h times. Where it has no use:

    - γ ≤ ½: predicted hallucinations are no more often hallucinated than not, so that taking fewer of them evens
      nothing out: all are taken.
    - R < 0: there are more hallucinations among those predicted consistent than consistent ones. Even without any
      predicted one they are too many: the smallest share is taken (0.01), not none, or nothing would be known of
      precision in the next round.
    - R > 1: hallucinations are the rarer class already: all predicted ones are taken, and 1/R of the others.

    >>> subsampling(Confusion(tp=90, fp=10, fn=10, tn=30)).hallucinated
    0.25
    """
    if counts.tn is None:
        raise InputError("true negatives are not counted", hint="give all four counts")
    if not 0.0 < target < 1.0:
        raise InputError(f"the share of hallucinated items is to be {target:g}", hint="between 0 and 1")
    surplus = 2 * ((1 - target) * counts.tp - target * counts.fp)
    wanted = 2 * (target * counts.tn - (1 - target) * counts.fn)
    if counts.tp + counts.fp == 0:
        return Subsampling(None, 1.0, note="nothing is predicted to be hallucinated")
    if surplus <= 0:
        exact = None if surplus == 0 else wanted / surplus
        return Subsampling(exact, 1.0, note="the precision is not above one half: all are taken")
    exact = wanted / surplus
    if exact < _LEAST_SHARE:
        why = "below 0" if exact < 0 else f"below {_LEAST_SHARE:g}"
        return Subsampling(exact, _LEAST_SHARE, note=f"the ratio is {why}: the smallest share is taken")
    if exact > 1:
        share = max(_LEAST_SHARE, 1 / exact)
        return Subsampling(exact, 1.0, share, note="the ratio is above 1: fewer predicted consistent ones are taken")
    return Subsampling(exact, exact)


def count_predictions(
    labels: Sequence[bool], scores: Sequence[float], threshold: float, weights: Sequence[float] | None = None
) -> Confusion:
    """What was predicted at `threshold` and what people said, hallucinated being the positive class.

    `weights` undo an earlier round's subsampling: one over the share of its kind that was taken.
    """
    wrong = np.asarray(labels, dtype=bool)
    flagged = np.asarray(scores, dtype=float) >= threshold
    weight = np.ones(len(wrong)) if weights is None else np.asarray(weights, dtype=float)
    return Confusion(
        tp=float(weight[wrong & flagged].sum()),
        fp=float(weight[~wrong & flagged].sum()),
        fn=float(weight[wrong & ~flagged].sum()),
        tn=float(weight[~wrong & ~flagged].sum()),
    )


def best_threshold(labels: Sequence[bool], scores: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """The threshold at which equation (9) gives the largest share: most consistent items above inconsistent ones
    among those below it (TN - FN), the least such threshold; 0.5 if there is no such surplus anywhere.

    >>> best_threshold([True, True, True, False, False], [0.9, 0.8, 0.4, 0.3, 0.1])
    0.4
    """
    order = sorted(set(scores))
    best, most = 0.5, 0.0
    for threshold in order:
        counts = count_predictions(labels, scores, threshold, weights)
        surplus = (counts.tn or 0.0) - counts.fn
        if surplus > most:
            best, most = float(threshold), surplus
    return best


# ------------------------------------------------------------------------------------------------ trivial items


def similarity(replaced: str, original: str) -> float:
    """How much of what two phrases say is the same, from 0 to 1: shared stems and values over all of them.

    Takes the place of an encoder's cosine where there is none. Phrases of stop words alone have 1 or 0.

    >>> similarity("5 km", "5 kilometres"), similarity("the big boat", "a boat")
    (1.0, 0.5)
    """
    ours, theirs = implied(replaced), implied(original)
    if not ours or not theirs:
        return float(replaced.casefold().split() == original.casefold().split())
    return len(ours & theirs) / len(ours | theirs)


def embedding_similarity(replaced: Sequence[str], original: Sequence[str], embed: Embed) -> list[float]:
    """The cosine of the vectors of each pair of phrases, in [-1, 1]."""
    if not replaced:
        return []
    a, b = np.asarray(embed(list(replaced)), dtype=float), np.asarray(embed(list(original)), dtype=float)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines: list[float] = ((a * b).sum(axis=1) / np.where(norms > 0, norms, 1.0)).tolist()
    return cosines


def obvious(item: Example) -> str | None:
    """ "date" or "name" where a definite date, or a name, was replaced by another one; None for anything else.

    Dates such as "today" are not definite. A value that means the same is another form, not another date.
    """
    place = place_of(item)
    new, old = place.span.of(item.case.response), place.correction or ""
    if _is_date(new) and _is_date(old):
        return None if similarity(new, old) == 1.0 else "date"
    if _is_name(item.case.response, place.span) and _is_name_alone(old) and new.casefold() != old.casefold():
        return "name"
    return None


def _is_date(phrase: str) -> bool:
    text = phrase.lower()
    found = {text[word.start : word.end] for word in words(text)}
    year = any(len(word) == 4 and word.isdecimal() and 1000 <= int(word) <= 2100 for word in found)
    return bool(found & {*MONTHS, *WEEKDAYS}) or (year and quantities.is_value(text.strip()))


def _is_name(text: str, span: Span) -> bool:
    content = [
        word.shift(span.start) for word in words(span.of(text)) if word.of(span.of(text)).lower() not in STOP_WORDS
    ]
    return bool(content) and all(is_name(text, word) for word in content)


def _is_name_alone(phrase: str) -> bool:
    return _is_name(f"of {phrase}", Span(3, 3 + len(phrase)))


# ------------------------------------------------------------------------------------------------ a round


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOptions:
    """How items are chosen.

    Attributes:
        count: How many to choose at most.
        strategy: One of `STRATEGIES`: even classes by equation (9); at random; those whose score is nearest to the
            threshold; or those that are farthest from each other.
        sure: Leave out scores from here on, and up to 1 minus this; 1 leaves out none. Where fewer than three
            candidates per wanted item would remain, the least sure of the others stay.
        similar: Leave out near-paraphrases, above this similarity of what was replaced and what stood there.
        obvious: The share of replaced dates and names that is taken nevertheless.
        threshold: The score from which an item is predicted to be hallucinated.
        target: The share of hallucinated items to aim at, between 0 and 1.
        seed: The random seed.
    """

    count: int = 200
    strategy: str = "balance"
    sure: float = 0.95
    similar: float = 0.9
    obvious: float = 0.0
    threshold: float = 0.5
    target: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UnknownNameError("strategy", self.strategy, STRATEGIES)
        if self.count < 1:
            raise InputError(f"{self.count} items are to be chosen", hint="a number from 1")
        if not 0.5 < self.sure <= 1.0:
            raise InputError(f"the score that is sure is {self.sure:g}", hint="above 0.5, at most 1")
        if not (0.0 <= self.obvious <= 1.0 and 0.0 <= self.threshold <= 1.0):
            raise InputError(
                f"the share of obvious items is {self.obvious:g}, the threshold {self.threshold:g}",
                hint="both are in [0, 1]",
            )


@dataclass(frozen=True, slots=True)
class Selection:
    """The items of one round, in the order of the pool.

    Attributes:
        items: Each with the groups `predicted` ("hallucinated", "consistent") where there were scores, and `share`:
            the share of its predicted class that was taken.
        candidates: How many items were left to choose from.
        left_out: How many were left out, by reason.
        subsampling: The shares of both predicted classes; None for other strategies.
    """

    items: tuple[Example, ...]
    candidates: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    subsampling: Subsampling | None = None


def select(
    pool: Sequence[Example],
    options: SelectOptions | None = None,
    *,
    scores: Sequence[float] | None = None,
    counts: Confusion | None = None,
    embed: Embed | None = None,
) -> Selection:
    """Choose the items of the next round.

    Args:
        pool: Items (`items_of`) that are not annotated yet.
        options: How to choose.
        scores: The detector's score of each, in [0, 1]; None in the first round, which is a random sample.
        counts: What the detector predicted, and what people said of it, in the rounds so far (`count_predictions`);
            needed to balance.
        embed: Turns phrases into vectors, for paraphrases and diversity; None: word overlap.

    Raises:
        InputError: Without scores or counts where the strategy needs them, or if nothing is left to choose from.
    """
    options = options or SelectOptions()
    if scores is not None and len(scores) != len(pool):
        raise InputError(f"{len(scores)} scores for {len(pool)} items")
    strategy = "random" if scores is None and options.strategy == "balance" else options.strategy
    if strategy == "uncertainty" and scores is None:
        raise InputError("uncertainty needs the scores of a detector", hint="give one, or take another strategy")
    if strategy == "balance" and counts is None:
        raise InputError(
            "to balance, the detector's counts on annotated items are needed", hint="annotate a round first"
        )
    draw = random.Random(f"select\0{options.seed}")
    left_out: Counter[str] = Counter()
    left = _less_trivial(pool, options, scores, embed, left_out)
    if not left:
        shown = ", ".join(f"{reason} ({n})" for reason, n in left_out.most_common(3)) or "it is empty"
        raise InputError("nothing in the pool is left to annotate", hint=shown)
    shares = [1.0] * len(pool)
    subsampled = None
    if strategy == "balance" and scores is not None and counts is not None:
        subsampled = subsampling(counts, options.target)
        for i in left:
            flagged = scores[i] >= options.threshold
            shares[i] = subsampled.hallucinated if flagged else subsampled.consistent
        chosen = [i for i in left if draw.random() < shares[i]]
        chosen = draw.sample(chosen, min(options.count, len(chosen)))
    elif strategy == "uncertainty" and scores is not None:
        chosen = sorted(left, key=lambda i: (abs(scores[i] - options.threshold), i))[: options.count]
    elif strategy == "diversity":
        chosen = _farthest(left, [pool[i] for i in left], options.count, embed)
    else:
        chosen = draw.sample(left, min(options.count, len(left)))
    items = []
    for i in sorted(chosen):
        predicted = None if scores is None else _CLASSES[scores[i] >= options.threshold]
        items.append(grouped(pool[i], predicted=predicted, share=f"{shares[i]:.4g}"))
    return Selection(tuple(items), len(left), dict(left_out.most_common()), subsampled)


_CLASSES = {True: "hallucinated", False: "consistent"}


def _less_trivial(
    pool: Sequence[Example],
    options: SelectOptions,
    scores: Sequence[float] | None,
    embed: Embed | None,
    left_out: Counter[str],
) -> list[int]:
    """The indices of the items worth annotating; `left_out` counts the others."""
    draw = random.Random(f"obvious\0{options.seed}")
    places = [place_of(item) for item in pool]
    pairs = [
        (place.span.of(item.case.response), place.correction or "") for item, place in zip(pool, places, strict=True)
    ]
    if embed is None:
        close = [similarity(new, old) for new, old in pairs]
    else:
        close = embedding_similarity([new for new, _ in pairs], [old for _, old in pairs], embed)
    left = []
    for i, item in enumerate(pool):
        kind = obvious(item)
        if close[i] > options.similar:
            left_out["near-paraphrase of the original"] += 1
        elif kind is not None and draw.random() >= options.obvious:
            left_out[f"another {kind} in place of the original's"] += 1
        else:
            left.append(i)
    if scores is None or options.sure == 1.0:
        return left
    by_doubt = sorted(left, key=lambda i: (abs(scores[i] - 0.5), i))
    doubtful = sum(1 - options.sure < scores[i] < options.sure for i in left)
    enough = max(doubtful, min(len(left), _RESERVE * options.count))
    left_out["the detector is sure"] += len(left) - enough
    return sorted(by_doubt[:enough])


def _farthest(indices: Sequence[int], items: Sequence[Example], count: int, embed: Embed | None) -> list[int]:
    """`count` of the items, each as far as can be from those before it (greedy k-centre, Sener & Savarese 2018)."""
    phrases = [place_of(item).span.of(item.case.response) for item in items]
    vectors = _hashed(phrases) if embed is None else np.asarray(embed(phrases), dtype=float)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(norms > 0, norms, 1.0)
    chosen = [0]
    nearest = vectors @ vectors[0]
    while len(chosen) < min(count, len(indices)):
        nearest[chosen[-1]] = 2.0  # taken
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
    return [indices[i] for i in chosen]


def _hashed(phrases: Sequence[str], width: int = 512) -> Floats:
    """The stems and values of each phrase as a vector of counts, *shape* (phrases, width)."""
    vectors = np.zeros((len(phrases), width))
    for row, phrase in zip(vectors, phrases, strict=True):
        for key in implied(phrase):
            row[random.Random(key).randrange(width)] += 1.0
    return vectors
