"""Select what to annotate next, so that items are less trivial and classes more balanced than in a random sample.

The method follows Liu et al. 2022, §3.3, app. C. A detector that was trained on the rounds so far scores the pool of
items. Items are left out if the detector is sure of them, if the change is nearly a paraphrase, or if a date or name
was replaced by another one. Only some of the predicted hallucinations are taken, so that both classes should end up
balanced.

This module does not train or run a detector. You pass the scores.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from veridical.metrics.arrays import Floats
from veridical.metrics.confusion import Confusion
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Example
from veridical.text import quantities
from veridical.text.names import is_name
from veridical.text.segment import words
from veridical.text.stopwords import STOP_WORDS
from veridical.text.vocabulary import MONTHS, WEEKDAYS
from veridical_lab.annotate.balance import (
    Annotated,
    Subsampling,
    best_threshold,
    evening_target,
    expected_counts,
    subsampling,
)
from veridical_lab.annotate.items import grouped, item_place
from veridical_lab.corrupt.passages import implied

Embed = Callable[[Sequence[str]], Floats]
"""Turns texts into vectors, *shape* (texts, width)."""
SELECTION_STRATEGIES = ("balance", "random")
_RESERVE = 3  # candidates per item to choose; if there are fewer, items that the detector is sure of come back


# ------------------------------------------------------------------------------------------------ trivial items


def similarity(replaced: str, original: str) -> float:
    """Compute the overlap of two phrases from 0 to 1: the number of shared stems and values divided by that of all.

    Use this function if you have no encoder for `embedding_similarity`. If one of the phrases has only stop words, the
    overlap is 1 for equal phrases and 0 for different ones.

    >>> similarity("5 km", "5 kilometres"), similarity("the big boat", "a boat")
    (1.0, 0.5)
    """
    of_replaced, of_original = implied(replaced), implied(original)
    if not of_replaced or not of_original:
        return float(replaced.casefold().split() == original.casefold().split())
    return len(of_replaced & of_original) / len(of_replaced | of_original)


def embedding_similarity(replaced: Sequence[str], original: Sequence[str], embed: Embed) -> list[float]:
    """Compute the cosine, in [-1, 1], of the vectors of the two phrases in each pair."""
    if not replaced:
        return []
    a, b = np.asarray(embed(list(replaced)), dtype=float), np.asarray(embed(list(original)), dtype=float)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines: list[float] = ((a * b).sum(axis=1) / np.where(norms > 0, norms, 1.0)).tolist()
    return cosines


def obvious(item: Example) -> str | None:
    """Return "date" if a definite date was replaced by another one, "name" if a name was, and None otherwise.

    "Today" is not a definite date. A different form of the same date is not another date.
    """
    place = item_place(item)
    new, old = place.span.of(item.case.response), place.correction or ""
    if _is_date(new) and _is_date(old):
        return None if similarity(new, old) == 1.0 else "date"
    if _is_name(item.case.response, place.span) and _is_name_alone(old) and new.casefold() != old.casefold():
        return "name"
    return None


def _is_date(phrase: str) -> bool:
    text = phrase.lower()
    phrase_words = {text[word.start : word.end] for word in words(text)}
    year = any(len(word) == 4 and word.isdecimal() and 1000 <= int(word) <= 2100 for word in phrase_words)
    return bool(phrase_words & {*MONTHS, *WEEKDAYS}) or (year and quantities.is_value(text.strip()))


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
    """How to choose items.

    Attributes:
        count: How many items to choose, at most.
        strategy: One of `SELECTION_STRATEGIES`: balanced classes by equation (9), or at random.
        sure: Items with this score or more are left out, and so are items with 1 minus this score or less. 1 leaves out
            no items. If fewer than three candidates would remain for each item to choose, those that the detector is
            least sure of are kept after all.
        similar: An item is left out as nearly a paraphrase if the new and the original phrase are more similar than
            this.
        obvious: The proportion of replaced dates and names that is kept nevertheless.
        target: Which proportion of items should be hallucinated, between 0 and 1. Default: the proportion that balances
            the labels of all rounds (`evening_target`).
        seed: The random seed.
    """

    count: int = 200
    strategy: str = "balance"
    sure: float = 0.95
    similar: float = 0.9
    obvious: float = 0.0
    target: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.strategy not in SELECTION_STRATEGIES:
            raise UnknownNameError("strategy", self.strategy, SELECTION_STRATEGIES)
        if self.count < 1:
            raise InputError(f"{self.count} items are to be chosen", hint="a number from 1")
        if not 0.5 < self.sure <= 1.0:
            raise InputError(f"the score that counts as sure is {self.sure:g}", hint="above 0.5, at most 1")
        if not 0.0 <= self.obvious <= 1.0:
            raise InputError(f"the share of obvious items is {self.obvious:g}", hint="in [0, 1]")
        if self.target is not None and not 0.0 < self.target < 1.0:
            raise InputError(f"the share of hallucinated items is to be {self.target:g}", hint="between 0 and 1")


@dataclass(frozen=True, slots=True)
class Selection:
    """The items of one round, in the order of the pool.

    Attributes:
        items: The chosen items. They get the group `share`, the proportion of the predicted class that was taken. If
            there were scores, they also get the group `predicted` ("hallucinated" or "consistent").
        candidates: How many items were left to choose from.
        left_out: How many items were left out, by reason.
        subsampling: Which proportion of each predicted class was taken. None unless the strategy is "balance".
        counts: The expected labels of the candidates (`expected_counts`). None without scores or annotated items.
        threshold: Items with this score or a higher one are predicted to be hallucinated (`best_threshold`). None
            without scores.
    """

    items: tuple[Example, ...]
    candidates: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    subsampling: Subsampling | None = None
    counts: Confusion | None = None
    threshold: float | None = None


def select(
    pool: Sequence[Example],
    options: SelectOptions | None = None,
    *,
    scores: Sequence[float] | None = None,
    annotated: Annotated | None = None,
    embed: Embed | None = None,
) -> Selection:
    """Choose the items of the next round.

    Args:
        pool: The items (`items_of`) that are not annotated yet.
        options: How to choose.
        scores: The detector's score of each item, in [0, 1]. None in the first round, which is a random sample.
        annotated: The labels and scores of the items of the rounds so far. You need them to balance the classes.
        embed: A function that turns phrases into vectors, to find paraphrases. Default: paraphrases are found by word
            overlap.

    Raises:
        InputError: Scores or annotated items are needed but missing, or nothing is left to choose from.
    """
    options = options or SelectOptions()
    if scores is not None and len(scores) != len(pool):
        raise InputError(f"{len(scores)} scores for {len(pool)} items")
    strategy = "random" if scores is None and options.strategy == "balance" else options.strategy
    if strategy == "balance" and annotated is None:
        raise InputError("to balance, annotated items are needed", hint="annotate a round first")
    draw = random.Random(f"select\0{options.seed}")
    left_out: Counter[str] = Counter()
    left = _less_trivial(pool, options, scores, embed, left_out)
    if not left:
        shown = ", ".join(f"{reason} ({n})" for reason, n in left_out.most_common(3)) or "it is empty"
        raise InputError("nothing in the pool is left to annotate", hint=shown)
    shares = [1.0] * len(pool)
    threshold, counts, subsampled = 0.5, None, None
    if scores is not None and annotated is not None:
        candidates = [scores[i] for i in left]
        target = evening_target(annotated.labels, options.count) if options.target is None else options.target
        threshold = best_threshold(annotated, candidates, options.count, target)
        counts = expected_counts(annotated, candidates, threshold)
    if strategy == "balance" and scores is not None and counts is not None:
        subsampled = subsampling(counts, target)
        for i in left:
            shares[i] = subsampled.hallucinated if scores[i] >= threshold else subsampled.consistent
        chosen = [i for i in left if draw.random() < shares[i]]
        chosen = draw.sample(chosen, min(options.count, len(chosen)))
    else:
        chosen = draw.sample(left, min(options.count, len(left)))
    items = []
    for i in sorted(chosen):
        predicted = None
        if scores is not None:
            predicted = "hallucinated" if scores[i] >= threshold else "consistent"
        items.append(grouped(pool[i], predicted=predicted, share=f"{shares[i]:.4g}"))
    return Selection(
        tuple(items),
        len(left),
        dict(left_out.most_common()),
        subsampled,
        counts,
        None if scores is None else threshold,
    )


def _less_trivial(
    pool: Sequence[Example],
    options: SelectOptions,
    scores: Sequence[float] | None,
    embed: Embed | None,
    left_out: Counter[str],
) -> list[int]:
    """Return the indices of the items worth annotating, and count the others in `left_out`."""
    draw = random.Random(f"obvious\0{options.seed}")
    places = [item_place(item) for item in pool]
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
