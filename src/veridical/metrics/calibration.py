"""Compute the expected calibration error from sums over items (Naeini et al. 2015)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from veridical.metrics.arrays import Floats, as_probabilities, labels_and_scores

BINS = 10


def bin_terms(labels: ArrayLike, scores: ArrayLike) -> Floats:
    """Compute the summands from which `ece_of_sums` computes the expected calibration error, in 10 bins of width 0.1.

    Add them up over all items, and pass the sums to `ece_of_sums`. The result has *shape* (items, 30): first one column
    per bin for counts, then one per bin for scores, then one per bin for labels. An item has 1, its score and its label
    in the three columns of its bin, and 0 elsewhere.
    """
    gold, score, _ = labels_and_scores(labels, as_probabilities(scores))
    terms = np.zeros((gold.size, 3, BINS))
    bin_of = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], score)
    terms[np.arange(gold.size), :, bin_of] = np.column_stack([np.ones(gold.size), score, gold])
    return terms.reshape(gold.size, -1)


def ece_of_sums(sums: Floats) -> float:
    """Compute the expected calibration error from the column sums of `bin_terms`, *shape* (30,).

    In each bin, the mean score is compared with the proportion of positives. The error is the mean of these
    differences, weighted by the number of items in each bin. It lies in [0, 1], where 0 means calibrated, and 1 means
    always sure and always wrong.

    >>> round(ece_of_sums(bin_terms([0, 1, 1], [0.05, 0.9, 1.0]).sum(axis=0)), 4)
    0.05
    """
    mass, scores, positives = sums.reshape(3, -1)
    return float(np.abs(scores - positives).sum() / mass.sum())
