"""Compare gold with predicted spans of the same text: partial credit, exact, any overlap, and Mu-SHROOM's two measures.

Row functions take one text and return rows, so that cases can be weighted; value functions take the rows of all cases.
`f1_sp` does both for a list of texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from veridical.core.errors import InputError
from veridical.core.spans import Span, union
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats, as_scores, as_weight
from veridical.metrics.confusion import Confusion
from veridical.metrics.ranking import spearman
from veridical.metrics.tokens import Units, any_in, mask

__all__ = [
    "character_counts",
    "coverage_rows",
    "coverage_terms",
    "exact_counts",
    "f1_of_coverage_sums",
    "f1_of_coverages",
    "f1_sp",
    "mushroom_cor",
    "mushroom_iou",
    "overlap_rows",
]


def character_counts(gold: Bools, predicted: Bools, judged: Bools | None = None) -> Confusion:
    """Count characters from masks of *shape* (n,); only characters in `judged` (None = all) count.

    >>> character_counts(mask(6, [Span(0, 3)]), mask(6, [Span(2, 5)])).f1()
    0.3333333333333333
    """
    if judged is not None:
        gold, predicted = gold[judged], predicted[judged]
    both = int(np.count_nonzero(gold & predicted))
    fp, fn = int(np.count_nonzero(predicted)) - both, int(np.count_nonzero(gold)) - both
    return Confusion(both, fp, fn, gold.size - both - fp - fn)


def coverage_rows(gold: Sequence[Span], predicted: Sequence[Span], units: Units | None = None) -> Floats:
    """Return a row (1 if predicted or 0 if gold, share covered by the other side) per span, *shape* (spans, 2).

    A span counts as the set of `units` (tokens) that share a character with it; None = its characters. A span without
    a unit gets no row. The shares are the summands of both sums in CH-Wang et al. 2024, §4.3.

    >>> coverage_rows([Span(0, 4)], [Span(2, 5), Span(9, 10)]).round(2).tolist()
    [[0.0, 0.5], [1.0, 0.67], [1.0, 0.0]]
    """
    shares = [_covered(spans, others, units) for spans, others in ((gold, predicted), (predicted, gold))]
    is_predicted = np.repeat([0.0, 1.0], [shares[0].size, shares[1].size])
    return np.column_stack([is_predicted, np.concatenate(shares)])


def _covered(spans: Sequence[Span], others: Sequence[Span], units: Units | None) -> Floats:
    """Return the share of each span's units that are in any of `others`, *shape* (spans with a unit,)."""
    ends = np.array([(span.start, span.end) for span in spans], dtype=np.int64).reshape(-1, 2)
    size = max((span.end for span in (*spans, *others)), default=0)
    if units is None:
        first, last = ends[:, 0], ends[:, 1]
        hit = mask(size, others)
    else:
        first = np.searchsorted(units[:, 1], ends[:, 0], side="right")
        last = np.searchsorted(units[:, 0], ends[:, 1], side="left")
        reach = max(size, int(units[-1, 1])) if units.size else size
        hit = any_in(mask(reach, others), units)
        empty = ends[:, 0] == ends[:, 1]  # an empty span inside a token marks a place, not the token
        last = np.where(empty, first, last)
    before = np.r_[0, np.cumsum(hit)]
    size_of = last - first
    counted = size_of > 0
    share: Floats = (before[last] - before[first])[counted] / size_of[counted]
    return share


def f1_of_coverages(rows: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Compute F1-Sp from rows of `coverage_rows`: [0, 1], 0 = no overlap anywhere, 1 = each side covers the other.

    Recall is the mean share over the gold spans of all texts, precision that over the predicted ones (CH-Wang et al.
    2024, §4.3). With spans on one side only it is 0; without any span it is undefined.

    >>> f1_of_coverages([[0, 0.5], [1, 1.0], [1, 0.0]])
    0.5
    """
    table = np.asarray(rows, dtype=np.float64).reshape(-1, 2)
    return f1_of_coverage_sums(as_weight(weight, len(table)) @ coverage_terms(table))


def coverage_terms(rows: Floats) -> Floats:
    """Return the terms of each row of `coverage_rows` in the four sums behind F1-Sp, *shape* (spans, 4).

    The sums are: number of gold spans, their covered shares, number of predicted spans, their covered shares.
    """
    predicted = rows[:, 0] == 1
    return np.column_stack([~predicted, ~predicted * rows[:, 1], predicted, predicted * rows[:, 1]])


def f1_of_coverage_sums(sums: Floats) -> float:
    """Compute F1-Sp from the sums of `coverage_terms`; raise `UndefinedMetricError` if there are no spans at all.

    >>> f1_of_coverage_sums(np.array([1, 0.5, 2, 1.0]))
    0.5
    """
    n_gold, gold, n_predicted, predicted = sums.tolist()
    if n_gold == 0 and n_predicted == 0:
        raise UndefinedMetricError("span F1 is not defined: there are no spans, gold or predicted")
    if gold == 0 or predicted == 0:
        return 0.0
    recall, precision = gold / n_gold, predicted / n_predicted
    return float(2 * precision * recall / (precision + recall))


def f1_sp(
    gold: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]], units: Sequence[Units] | None = None
) -> float:
    """Compute F1-Sp, the span F1 with partial credit, over texts: [0, 1], 0 = no overlap anywhere, 1 = perfect.

    CH-Wang et al. 2024, §4.3. `units[i]` are the tokens of text i (None = characters are the units). Join or clean the
    spans first if needed. Undefined if no text has a gold or predicted span.

    >>> f1_sp([[Span(0, 4)], []], [[Span(2, 6)], []])
    0.5
    """
    if len(gold) != len(predicted) or (units is not None and len(units) != len(gold)):
        raise InputError(f"{len(gold)} texts with gold spans, {len(predicted)} with predicted ones, or other units")
    units_of_texts = units if units is not None else [None] * len(gold)
    rows = [coverage_rows(g, p, u) for g, p, u in zip(gold, predicted, units_of_texts, strict=True)]
    return f1_of_coverages(np.concatenate(rows) if rows else np.zeros((0, 2)))


def overlap_rows(gold: Sequence[Span], predicted: Sequence[Span]) -> Floats:
    """Return rows like `coverage_rows`, with full credit for any shared character; `f1_of_coverages` is overlap F1.

    >>> overlap_rows([Span(0, 4)], [Span(2, 5), Span(9, 10)]).tolist()
    [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    """
    rows = coverage_rows(gold, predicted)
    rows[:, 1] = rows[:, 1] > 0
    return rows


def exact_counts(gold: Sequence[Span], predicted: Sequence[Span]) -> Confusion:
    """Count the spans of one text that match exactly; repeated and empty spans do not count.

    With the counts summed over texts, `f1()` is exact-span F1: [0, 1], 0 = no span matches exactly, 1 = all do.

    >>> exact_counts([Span(0, 4), Span(6, 8)], [Span(0, 4), Span(6, 9)]).f1()
    0.5
    """
    left = {span for span in gold if len(span)}
    right = {span for span in predicted if len(span)}
    both = len(left & right)
    return Confusion(both, len(right) - both, len(left) - both)


def mushroom_iou(gold: Sequence[Span], predicted: Sequence[Span]) -> float:
    """Compute the intersection over union of characters in one text: [0, 1], 0 = disjoint, 1 = equal or both empty.

    This is Mu-SHROOM's first measure (SemEval-2025 task 3), averaged over texts there. Its hard gold labels are the
    characters whose soft label is **above** 0.5.

    >>> mushroom_iou([Span(0, 4)], [Span(2, 6)]), mushroom_iou([], [])
    (0.3333333333333333, 1.0)
    """
    left, right = union(gold), union(predicted)
    if not left and not right:
        return 1.0
    size = max(span.end for span in (*left, *right))
    return character_counts(mask(size, left), mask(size, right)).iou()


def mushroom_cor(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Compute Spearman's correlation of the characters' soft labels in one text: [-1, 1], 0 = none, negative = opposed.

    This is Mu-SHROOM's second measure, averaged over texts there. If a side is constant (to 8 decimals), the value is
    1 if both are constant, at whatever values, and 0 otherwise.

    >>> mushroom_cor([0.0, 0.5, 1.0], [0.1, 0.2, 0.3]), mushroom_cor([0, 0, 0], [1, 1, 1]), mushroom_cor([0, 1], [0, 0])
    (1.0, 1.0, 0.0)
    """
    left, right = as_scores(gold, "soft labels"), as_scores(predicted, "soft labels")
    if left.size != right.size:
        raise InputError(f"{left.size} gold soft labels for {right.size} predicted ones")
    if not left.size:
        raise UndefinedMetricError("a correlation of soft labels needs a text with characters")
    constant = [np.unique(values.round(8)).size == 1 for values in (left, right)]
    if any(constant):
        return float(all(constant))
    return spearman(left, right)
