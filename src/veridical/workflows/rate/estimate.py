"""Estimate which proportion of the answers in a run is wrong, from labels of some answers.

The detector's decisions and scores only serve to divide the run into strata (sets of similar rows). Within each
stratum, the labelled answers are a random sample. The estimate is the stratified mean (Neyman 1934; Holt & Smith 1979
for bins that are chosen after labelling), which corrects any false alarms and misses of the detector. With one stratum
per outcome, the estimate equals the correction of Rogan & Gladen 1978, and prediction-powered inference with stratified
predictions (Angelopoulos et al. 2023; Fisch et al. 2024).

A group of rows is estimated by the difference estimator of prediction-powered inference: the mean prediction for its
rows, plus the mean error of the predictions on its labelled rows.

The intervals are Wilson's, computed for the effective sample size: the number of random labels that would have the same
variance (Franco, Little, Louis & Slud 2019). They cover only this run, so labelling the whole run leaves no
uncertainty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import erfc, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veridical.metrics.measure import Measured
from veridical.metrics.significance import bonferroni, wilson_interval
from veridical.records.errors import CannotJudgeError
from veridical.records.types import Outcome
from veridical.workflows.rate.rows import Run, RunRow
from veridical.workflows.rate.strata import strata

Floats: TypeAlias = NDArray[np.float64]

_SIGNIFICANT = 0.05
_LEAST_OF_GROUP = 5  # least labels of a group, and of all other rows, to test their difference


@dataclass(frozen=True, slots=True)
class GroupRate:
    """The estimated proportion of wrong answers in one group of rows.

    Attributes:
        column: The column that defines the groups, such as "model", or "created:week" for the week of a time.
        group: The value of the column in this group.
        rows: How many rows the group has.
        flagged: How many of its rows are flagged.
        labels: How many of its rows have a label.
        wrong: The estimated proportion of wrong answers. None if the group has no labels.
        p: The p-value of the difference between this group and all other rows, corrected for the number of groups
            (Bonferroni). None if the group or the other rows have fewer than five labels.
        change: "higher" or "lower" than the other rows, if `p` is below 0.05. Otherwise None, because the difference
            may be noise.
    """

    column: str
    group: str
    rows: int
    flagged: int
    labels: int
    wrong: Measured | None = None
    p: float | None = None
    change: str | None = None


@dataclass(frozen=True, slots=True)
class RateReport:
    """The estimated proportion of wrong answers in a run.

    Attributes:
        run: The folder or file of the run.
        rows: How many rows were judged.
        flagged: How many rows the detector flagged, without any correction.
        unjudged: How many rows the detector could not judge.
        failed: How many rows could not be read or judged. The estimates do not cover these rows.
        labels: How many labels (wrong or not wrong, given by people) were used.
        wrong: The proportion of wrong answers among the judged rows, with its confidence interval.
        flagged_wrong: The proportion of wrong answers among flagged rows. The other flagged rows are false alarms.
        clear_wrong: The proportion of wrong answers among clear rows. The detector missed these answers.
        groups: The proportions by group.
        skipped: How many labels were not used, by reason.
        level: The confidence level of the intervals, in (0, 1).
        no_claim: How many rows have an answer that makes no claim.
    """

    run: str
    rows: int
    flagged: int
    unjudged: int
    failed: int
    labels: int
    wrong: Measured
    flagged_wrong: Measured | None = None
    clear_wrong: Measured | None = None
    groups: tuple[GroupRate, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)
    level: float = 0.95
    no_claim: int = 0


def estimate(
    run: Run, wrong: Mapping[int, bool], by: Sequence[str] = (), *, skipped: Mapping[str, int] | None = None
) -> RateReport:
    """Estimate the proportion of wrong answers in a run, which is a set of answers that a detector judged.

    Args:
        run: The run. Within each outcome (flagged, clear, …), the labelled rows must be drawn at random
            (`strata.draw`).
        wrong: The labels: whether the answer is wrong, by the number of the row.
        by: The columns whose values divide the rows into groups, such as "model" or "created:week". Pass the same
            columns as to `read_run`.
        skipped: How many labels were not used, by reason. The report repeats these numbers.

    Returns:
        The proportions with their confidence intervals, for all rows, for flagged and clear rows, and by group.

    Raises:
        CannotJudgeError: The rows of one outcome have fewer than two labels, which is too few for an estimate. If only
            one row has this outcome, one label is enough.
    """
    rows = run.rows
    labels = np.array([float(wrong[row.row]) if row.row in wrong else np.nan for row in rows])
    labelled = (~np.isnan(labels)).astype(np.int64)
    for outcome in Outcome:
        indices = [i for i, row in enumerate(rows) if row.outcome is outcome]
        labels_of = int(labelled[indices].sum()) if indices else 0
        if labels_of < min(2, len(indices)):
            raise CannotJudgeError(
                f"{'only 1' if labels_of else 'none'} of the {len(indices):,} {outcome.value} answers has a label",
                hint="label at least two of them; --sheet chooses which",
            )
    shares = _Strata(strata(rows, labelled), labels)
    everything = np.ones(len(rows), dtype=bool)

    def share_of(outcome: Outcome) -> Measured | None:
        among = np.array([row.outcome is outcome for row in rows])
        return shares.share(among) if among.any() else None

    return RateReport(
        run.name,
        len(rows),
        sum(row.outcome is Outcome.FLAGGED for row in rows),
        sum(row.outcome is Outcome.UNJUDGED for row in rows),
        run.failed,
        int(labelled.sum()),
        shares.share(everything),
        share_of(Outcome.FLAGGED),
        share_of(Outcome.CLEAR),
        tuple(group for column in by for group in _groups(rows, column, shares)),
        dict(skipped or {}),
        no_claim=sum(row.outcome is Outcome.NO_CLAIM for row in rows),
    )


class _Strata:
    """Counts labels by stratum. A label is 1 for a wrong answer, 0 for a right one, and NaN for an unlabelled row."""

    def __init__(self, stratum: NDArray[np.int64], labels: Floats) -> None:
        labelled = ~np.isnan(labels)
        self.stratum = stratum
        self.labels = labels
        self.labelled = labelled
        self.sizes = np.bincount(stratum).astype(np.float64)
        self.counts = np.bincount(stratum[labelled], minlength=len(self.sizes)).astype(np.float64)
        wrong = np.bincount(stratum[labelled], labels[labelled], minlength=len(self.sizes))
        self.rates = wrong / np.maximum(self.counts, 1)
        overall = (self.sizes @ self.rates / self.sizes.sum() * labelled.sum() + 0.5) / (labelled.sum() + 1)
        # add half a label with the mean rate: ten right answers do not prove that a stratum has no wrong answers
        self.smooth = (wrong + overall / 2) / (self.counts + 0.5)
        self.variances = self.smooth * (1 - self.smooth)

    def share(self, among: NDArray[np.bool_]) -> Measured:
        """Estimate the proportion of wrong rows in `among`, which must be whole strata, with its interval."""
        sizes = np.bincount(self.stratum[among], minlength=len(self.sizes))
        weights = sizes / sizes.sum()
        unlabelled = 1 - self.counts / self.sizes
        variance = float(weights**2 * unlabelled @ (self.variances / np.maximum(self.counts - 1, 1)))
        labels = int(self.labelled[among].sum())
        return _measured(float(weights @ self.rates), float(weights @ self.smooth), variance, labels)

    def group(self, among: NDArray[np.bool_]) -> tuple[float, float]:
        """Estimate the proportion of wrong rows in a group by the difference estimator, and the estimate's variance.

        The group must have labels. The variance is that of an infinitely large run, because a difference between groups
        should hold for the system behind the answers, and not only for these rows.
        """
        labelled = among & self.labelled
        weights = (self.sizes / np.maximum(self.counts, 1))[self.stratum[labelled]]
        weights /= weights.sum()
        errors = self.labels[labelled] - self.rates[self.stratum[labelled]]
        share = float(self.rates[self.stratum[among]].mean() + weights @ errors)
        return min(max(share, 0.0), 1.0), float(weights**2 @ self.variances[self.stratum[labelled]])


def _measured(share: float, smooth: float, variance: float, labels: int) -> Measured:
    """Put a confidence interval around an estimated proportion.

    Args:
        share: The estimate.
        smooth: The estimate from smoothed rates, on which `variance` is based, too. If it is 0, so is `variance`.
        variance: The variance of the estimate. It is 0 if every row has a label.
        labels: How many labels the estimate uses.
    """
    if variance == 0:
        return Measured(share, share, share, labels)
    effective = smooth * (1 - smooth) / variance
    return Measured(share, *wilson_interval(share * effective, effective), labels)


def _groups(rows: Sequence[RunRow], column: str, shares: _Strata) -> list[GroupRate]:
    """Estimate each group of a column, and test whether it differs from all other rows. Groups are sorted by name."""
    value_of = np.array([row.columns.get(column, "") for row in rows], dtype=object)
    flagged = np.array([row.outcome is Outcome.FLAGGED for row in rows])
    groups: list[GroupRate] = []
    differences: dict[int, float] = {}  # from the other rows, by the index of the group
    p_values: list[float] = []
    for name in sorted({str(value) for value in value_of if value}):
        among = value_of == name
        labels = int(shares.labelled[among].sum())
        measured = None
        if labels:
            share, variance = shares.group(among)
            smooth = float(shares.smooth[shares.stratum[among]].mean())
            measured = _measured(share, smooth, variance * (1 - labels / int(among.sum())), labels)
            if min(labels, shares.labelled.sum() - labels) >= _LEAST_OF_GROUP:
                other, other_variance = shares.group(~among)
                differences[len(groups)] = share - other
                p_values.append(erfc(abs(share - other) / sqrt(2 * (variance + other_variance))))
        groups.append(GroupRate(column, name, int(among.sum()), int(flagged[among].sum()), labels, measured))
    for i, p in zip(differences, bonferroni(p_values), strict=True):
        change = None if p >= _SIGNIFICANT else "higher" if differences[i] > 0 else "lower"
        groups[i] = replace(groups[i], p=p, change=change)
    return groups
