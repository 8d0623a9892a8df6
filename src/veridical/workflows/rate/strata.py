"""Divide a run into strata by outcome and score, and choose which rows to label.

Within an outcome, every row is drawn with the same probability, so labels can afterwards be weighted by any bins of the
score.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veridical.records.errors import InputError
from veridical.records.types import Outcome
from veridical.workflows.rate.rows import RunRow

Ints: TypeAlias = NDArray[np.int64]

LABELS_PER_BIN = 10
_LEAST = 4  # labels of each outcome
# a guess of the labels' standard deviation within an outcome: 15 % of the clear answers are wrong, and half of all
# others; a poor guess makes intervals wider, but never too narrow
_SPREAD = {outcome: sqrt(0.15 * 0.85) if outcome is Outcome.CLEAR else 0.5 for outcome in Outcome}


def strata(rows: Sequence[RunRow], labelled: Ints) -> Ints:
    """Divide the rows into strata, which are bins of similar score within each outcome (flagged, clear, …).

    A stratum has about `LABELS_PER_BIN` labelled rows. If an outcome has at least two labelled rows, each of its strata
    has at least two, too.

    Args:
        rows: The rows of a run.
        labelled: 1 for each row that has a label, 0 for the other rows.

    Returns:
        The number of each row's stratum, from 0. *Shape:* (rows,)
    """
    stratum = np.zeros(len(rows), dtype=np.int64)
    first = 0
    for indices in _by_outcome(rows).values():
        for count in range(max(1, int(labelled[indices].sum()) // LABELS_PER_BIN), 0, -1):
            bins = np.array_split(indices, count)
            if count == 1 or min(labelled[one].sum() for one in bins) >= 2:
                break
        for one in bins:
            stratum[one] = first
            first += 1
    return stratum


def draw(rows: Sequence[RunRow], count: int, labelled: Ints, seed: int = 0) -> list[int]:
    """Draw rows to label, so that the run has `count` labels in total, including existing labels.

    An outcome (flagged, clear, …) gets more labels if it has more rows, and if its labels are likely to differ more
    (`allocate`). Within an outcome, the same proportion of rows is drawn from each bin of scores. Within a bin, the
    rows are sorted by the columns that define groups, with ties in random order, and drawn at even distances. Groups
    are therefore represented about in proportion to their sizes.

    Args:
        rows: The rows of a run.
        count: How many labels the run is to have in total.
        labelled: 1 for each row that already has a label, 0 for the other rows.
        seed: The seed of the random draw.

    Returns:
        The indices of the rows to label, in random order.

    Raises:
        InputError: `count` is not positive, or there are already enough labels.
    """
    if count < 1:
        raise InputError(f"{count} labels", hint="1 or more; 100 give an interval of about ±8 percentage points")
    rng = np.random.default_rng(seed)
    outcomes = _by_outcome(rows)
    spreads = [_SPREAD[outcome] for outcome in outcomes]
    chosen: list[int] = []
    for indices, fraction in zip(
        outcomes.values(), allocate(list(map(len, outcomes.values())), spreads, count), strict=True
    ):
        bins = np.array_split(indices, max(1, fraction // LABELS_PER_BIN))
        for one, size in zip(bins, allocate(list(map(len, bins)), [1.0] * len(bins), fraction), strict=True):
            free = rng.permutation(one[labelled[one] == 0])
            needed = min(len(free), size - int(labelled[one].sum()))
            if needed > 0:
                free = np.array(sorted(free, key=lambda i: tuple(rows[i].columns.items())), dtype=np.int64)
                steps = (rng.random() + np.arange(needed)) * len(free) / needed
                chosen += free[steps.astype(np.int64)].tolist()
    if not chosen:
        raise InputError(f"{int(labelled.sum())} rows have a label, and {count} were asked for", hint="ask for more")
    return [int(i) for i in rng.permutation(chosen)]


def allocate(sizes: Sequence[int], spreads: Sequence[float], count: int) -> list[int]:
    """Distribute `count` labels over strata so that the stratified mean has the lowest variance (Neyman 1934).

    First, every stratum gets a few labels, or as many as it has rows. Then each further label goes where it lowers the
    variance most, which leads to the best whole numbers (Wright 2012).

    Args:
        sizes: How many rows each stratum has.
        spreads: The standard deviation of the labels in each stratum, or a guess of it.
        count: How many labels to distribute. If there are fewer rows, every row gets one label.

    Returns:
        How many labels each stratum gets.

    >>> allocate([1000, 100, 2], [0.3, 0.5, 0.5], 40)
    [33, 5, 2]
    """
    counts = [0] * len(sizes)

    def gain(i: int) -> float:
        if counts[i] < min(_LEAST, sizes[i]):
            return inf
        return sizes[i] * spreads[i] / sqrt(counts[i] * (counts[i] + 1))

    for _ in range(min(count, sum(sizes))):
        i = max((i for i, size in enumerate(sizes) if counts[i] < size), key=lambda i: (gain(i), -counts[i]))
        counts[i] += 1
    return counts


def _by_outcome(rows: Sequence[RunRow]) -> dict[Outcome, Ints]:
    """Map each outcome that occurs to the indices of its rows, lowest scores first."""
    order = sorted(range(len(rows)), key=lambda i: -1.0 if (score := rows[i].score) is None else score)
    outcome_of = [row.outcome for row in rows]
    return {
        outcome: np.array(indices, dtype=np.int64)
        for outcome in Outcome
        if (indices := [i for i in order if outcome_of[i] is outcome])
    }
