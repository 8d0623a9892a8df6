"""Measure inter-annotator agreement: on labels, corrected for chance, and on spans.

Krippendorff's alpha and Fleiss' kappa are corrected for agreement by chance. `ratings` has one list of labels for each
annotator, with None for each item that the annotator did not label. Labels can be any hashable values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.tokens import Units
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical_lab.metrics.spans import f1_sp

Ratings = Sequence[Sequence[Hashable | None]]


def krippendorff_alpha(ratings: Ratings) -> float:
    """Compute Krippendorff's alpha for nominal labels.

    Alpha lies in (-1, 1]. It is 1 if all annotators agree and 0 if they agree as often as by chance. Below 0, they
    disagree systematically. Labels may be missing, and items with fewer than two labels are not used. If all labels are
    the same, alpha is undefined, because no disagreement is expected.

    See Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", §C. Liu et al. 2022, §3, use this measure.

    >>> round(krippendorff_alpha([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]), 3)  # §A
    0.095
    """
    counts = _counts(ratings)
    counts = counts[counts.sum(axis=1) >= 2]
    each = counts.sum(axis=1)
    if not counts.size:
        raise UndefinedMetricError("alpha is not defined: no item has two labels")
    totals, n = counts.sum(axis=0), float(each.sum())
    # the share of ordered pairs of labels that differ: within items, and among all labels put together
    observed = float(((each**2 - (counts**2).sum(axis=1)) / (each - 1)).sum()) / n
    expected = float(n**2 - (totals**2).sum()) / (n * (n - 1))
    if expected == 0:
        raise UndefinedMetricError(f"alpha is not defined: all {n:g} labels that count are the same")
    return 1.0 - observed / expected


def fleiss_kappa(ratings: Ratings) -> float:
    """Compute Fleiss' kappa (Fleiss 1971; used in CH-Wang et al. 2024, §3.3).

    Kappa lies in [-1/(annotators - 1), 1]. It is 1 if all annotators agree and 0 if they agree as often as by chance.
    Below 0, they agree less often than by chance. If all labels are the same, kappa is undefined. Every item must have
    the same number of labels, at least two. Otherwise an `InputError` is raised, and you can use alpha instead.

    >>> fleiss_kappa([["yes", "no", "yes", "no"], ["yes", "no", "no", "yes"]])
    0.0
    """
    counts = _counts(ratings)
    raters = np.unique(counts.sum(axis=1))
    if raters.size != 1 or raters[0] < 2:
        numbers = ", ".join(f"{count:g}" for count in raters) or "no"
        raise InputError(f"items have {numbers} labels", hint="kappa needs the same two or more on each; use alpha")
    k = float(raters[0])
    agreed = float((((counts**2).sum(axis=1) - k) / (k * (k - 1))).mean())
    chance = float(((counts.sum(axis=0) / counts.sum()) ** 2).sum())
    if np.count_nonzero(counts.sum(axis=0)) == 1:
        raise UndefinedMetricError(f"kappa is not defined: all {counts.sum():g} labels are the same")
    return (agreed - chance) / (1.0 - chance)


def _counts(ratings: Ratings) -> Floats:
    """Count how often each item got each label. *Shape:* (items, labels)"""
    lengths = {len(row) for row in ratings}
    if len(lengths) > 1:
        raise InputError(f"annotators have {sorted(lengths)} items", hint="one row per annotator; None where missing")
    items = [Counter(label for label in column if label is not None) for column in zip(*ratings, strict=True)]
    names = {name: i for i, name in enumerate(dict.fromkeys(name for item in items for name in item))}
    counts = np.zeros((len(items), len(names)))
    for i, item in enumerate(items):
        for name, times in item.items():
            counts[i, names[name]] = times
    return counts


def pairwise_span_f1(annotations: Sequence[Sequence[Sequence[Span]]], units: Sequence[Units] | None = None) -> float:
    """Compute the mean F1-Sp over all pairs of annotators, in [0, 1]. 1 means that all marked the same characters.

    `annotations[a][i]` are the spans that annotator a marked in text i. `units` has the same meaning as in
    `spans.f1_sp`. A pair is left out if neither annotator marked anything. If no pair is left, the value is undefined.

    The mean is not corrected for chance, because the correction needs a number of true negatives, which spans do not
    have. F1 does not depend on true negatives (Hripcsak & Rothschild 2005).

    >>> pairwise_span_f1([[[Span(0, 4)]], [[Span(0, 4)]], [[Span(2, 6)]]])
    0.6666666666666666
    """
    if len(annotations) < 2:
        raise InputError(f"{len(annotations)} annotators", hint="agreement needs two or more")
    marked = [(a, b) for a, b in combinations(annotations, 2) if any(a) or any(b)]
    if not marked:
        raise UndefinedMetricError("no annotator marked a span")
    return float(np.mean([f1_sp(a, b, units) for a, b in marked]))
