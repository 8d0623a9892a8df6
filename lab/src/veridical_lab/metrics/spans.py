"""Compare gold spans with predicted spans of the same text.

There are measures with partial credit, measures of exact matches or any overlap, and the two measures of Mu-SHROOM.

Most measures are computed in two steps. One function turns each text into rows, and another computes the value from the
sums over all texts. `f1_sp` does both steps at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats, as_scores
from veridical.metrics.confusion import Confusion
from veridical.metrics.ranking import ranks
from veridical.metrics.tokens import Units, any_in, mask
from veridical.records.errors import InputError
from veridical.records.spans import Span, union


def character_counts(gold: Bools, predicted: Bools) -> Confusion:
    """Count the true positive, false positive and false negative characters of a text.

    Args:
        gold: Whether each character is in a gold span. *Shape:* (characters,)
        predicted: Whether each character is in a predicted span. *Shape:* (characters,)

    >>> character_counts(mask(6, [Span(0, 3)]), mask(6, [Span(2, 5)])).f1()
    0.3333333333333333
    """
    both = int(np.count_nonzero(gold & predicted))
    fp, fn = int(np.count_nonzero(predicted)) - both, int(np.count_nonzero(gold)) - both
    return Confusion(both, fp, fn, gold.size - both - fp - fn)


def coverage_rows(gold: Sequence[Span], predicted: Sequence[Span], units: Units | None = None) -> Floats:
    """Compute the proportion of each span that the spans of the other side cover (CH-Wang et al. 2024, §4.3).

    Args:
        gold: The gold spans of one text.
        predicted: The predicted spans of the text.
        units: The tokens in which spans are measured. A span then consists of the tokens with which it shares a
            character. A span without such tokens gets no row. Default: spans are measured in characters.

    Returns:
        A row for each span: 0 for a gold span or 1 for a predicted span, and the covered proportion in [0, 1]. *Shape:*
        (spans, 2)

    >>> coverage_rows([Span(0, 4)], [Span(2, 5), Span(9, 10)]).round(2).tolist()
    [[0.0, 0.5], [1.0, 0.67], [1.0, 0.0]]
    """
    shares = [_covered(spans, others, units) for spans, others in ((gold, predicted), (predicted, gold))]
    is_predicted = np.repeat([0.0, 1.0], [shares[0].size, shares[1].size])
    return np.column_stack([is_predicted, np.concatenate(shares)])


def _covered(spans: Sequence[Span], others: Sequence[Span], units: Units | None) -> Floats:
    """Compute the proportion of units in each span that any of `others` covers, *shape* (spans with a unit,)."""
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


def coverage_terms(rows: Floats) -> Floats:
    """Compute the four terms that each row of `coverage_rows` adds to the sums of F1-Sp.

    Two terms are for gold spans: their number and their covered proportion. The other two are the same for predicted
    spans. The result has *shape* (spans, 4).
    """
    predicted = rows[:, 0] == 1
    return np.column_stack([~predicted, ~predicted * rows[:, 1], predicted, predicted * rows[:, 1]])


def f1_of_coverage_sums(sums: Floats) -> float:
    """Compute F1-Sp, the span F1 with partial credit, from the sums of `coverage_terms` (CH-Wang et al. 2024, §4.3).

    Recall is the mean covered proportion of the gold spans, and precision is the mean covered proportion of the
    predicted spans. The result is from 0 (no overlap anywhere, or spans on only one side) to 1 (each side covers the
    other).

    Raises:
        UndefinedMetricError: There are no spans at all.

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
    """Compute F1-Sp, the span F1 with partial credit, over several texts (CH-Wang et al. 2024, §4.3).

    Args:
        gold: The gold spans of each text.
        predicted: The predicted spans of each text.
        units: The tokens of each text, in which spans are measured. Default: spans are measured in characters.

    Returns:
        A value from 0 (no overlap anywhere) to 1 (equal spans).

    Raises:
        UndefinedMetricError: No text has a span.

    >>> f1_sp([[Span(0, 4)], []], [[Span(2, 6)], []])
    0.5
    """
    if len(gold) != len(predicted) or (units is not None and len(units) != len(gold)):
        raise InputError(f"{len(gold)} texts with gold spans, {len(predicted)} with predicted ones, or other units")
    units_of_texts = units if units is not None else [None] * len(gold)
    rows = [coverage_rows(g, p, u) for g, p, u in zip(gold, predicted, units_of_texts, strict=True)]
    return f1_of_coverage_sums(sum((coverage_terms(row).sum(axis=0) for row in rows), np.zeros(4)))


def overlap_rows(gold: Sequence[Span], predicted: Sequence[Span]) -> Floats:
    """Make rows as `coverage_rows` does, but with full credit for any overlap.

    A span counts as fully covered if it shares at least one character with a span of the other side.

    >>> overlap_rows([Span(0, 4)], [Span(2, 5), Span(9, 10)]).tolist()
    [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    """
    rows = coverage_rows(gold, predicted)
    rows[:, 1] = rows[:, 1] > 0
    return rows


def exact_counts(gold: Sequence[Span], predicted: Sequence[Span]) -> Confusion:
    """Count the spans of one text that match exactly, the predicted spans without a match, and the gold spans without.

    Repeated and empty spans are ignored. For the F1 of exact spans, add up the counts of all texts and call `f1()`. The
    F1 ranges from 0 (no span matches) to 1 (all match).

    >>> exact_counts([Span(0, 4), Span(6, 8)], [Span(0, 4), Span(6, 9)]).f1()
    0.5
    """
    left = {span for span in gold if len(span)}
    right = {span for span in predicted if len(span)}
    both = len(left & right)
    return Confusion(both, len(right) - both, len(left) - both)


def mushroom_iou(gold: Sequence[Span], predicted: Sequence[Span]) -> float:
    """Compute the intersection over union of the characters in the gold and the predicted spans of one text.

    Mu-SHROOM (SemEval-2025 task 3) averages this value over all texts. The gold spans of Mu-SHROOM consist of the
    characters whose soft label is **above** 0.5.

    Returns:
        A value from 0 (disjoint) to 1 (equal, or both empty).

    >>> mushroom_iou([Span(0, 4)], [Span(2, 6)]), mushroom_iou([], [])
    (0.3333333333333333, 1.0)
    """
    left, right = union(gold), union(predicted)
    if not left and not right:
        return 1.0
    size = max(span.end for span in (*left, *right))
    return character_counts(mask(size, left), mask(size, right)).iou()


def mushroom_cor(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Compute Spearman's correlation between the gold and the predicted soft labels of the characters in one text.

    Mu-SHROOM (SemEval-2025 task 3) averages this value over all texts. The correlation is undefined if all labels of
    one side are equal (to 8 decimals). Then the result is 1 if all labels of the other side are equal, too, and 0
    otherwise.

    Args:
        gold: The fraction of annotators who marked each character. *Shape:* (characters,)
        predicted: The predicted probability of each character. *Shape:* (characters,)

    Returns:
        A value from -1 (opposite orders) over 0 (no correlation) to 1.

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
    return float(np.clip(np.corrcoef(ranks(left), ranks(right))[0, 1], -1.0, 1.0))
