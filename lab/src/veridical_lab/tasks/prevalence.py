"""Estimate the prevalence of hallucinations in summaries from a judge's reports, corrected by an audit of the judge.

This follows George and Stuhlmüller 2023, §3.3, §3.4 and Table 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.measure import Measured
from veridical.metrics.significance import bootstrap
from veridical.records.decide import unjudged
from veridical.records.errors import InputError
from veridical.records.types import DEFAULT_THRESHOLD, Case, Judgement
from veridical.text.segment import has_words, sentences
from veridical.workflows.revise.statements import statements_of


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit, in which people check a judge's reports. A report is a claim that the judge flags.

    The paper's audit (§3.4) is `Audit(66, 100)`: people agreed with 66 % of the reports, and with the judge on every
    claim that it called supported.

    Attributes:
        right: The number of `flagged` claims that are hallucinated according to people.
        flagged: The number of the judge's reports that people checked.
        found: The number of `true` hallucinations that the judge reported.
        true: The number of hallucinations that people know of. If 0, recall is assumed to be 1.
    """

    right: int
    flagged: int
    found: int = 0
    true: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.right <= self.flagged and self.flagged > 0 and 0 <= self.found <= self.true):
            raise InputError(
                f"an audit of {self.right} in {self.flagged} reports, {self.found} of {self.true} found",
                hint="RIGHT of FLAGGED reports, FOUND of TRUE hallucinations; no part is larger than its whole",
            )
        if self.true and not self.found:
            raise InputError("an audit in which nothing true was found", hint="with a recall of 0 there is no estimate")

    @property
    def precision(self) -> float:
        """The share of reports that are right, in [0, 1]."""
        return self.right / self.flagged

    @property
    def recall(self) -> float:
        """The share of hallucinations that are reported, in (0, 1]."""
        return self.found / self.true if self.true else 1.0


@dataclass(frozen=True, slots=True)
class JudgedSummaries:
    """Summaries, the judgement of each by one judge, and the audit of this judge."""

    cases: Sequence[Case]
    judgements: Sequence[Judgement]
    audit: Audit | None = None


@dataclass(frozen=True, slots=True)
class Prevalence:
    """The prevalence of hallucinations in summaries, according to a judge.

    Attributes:
        summaries: The number of summaries that could be judged.
        claims: The number of judged claims in these summaries.
        per_summary: The mean number of hallucinations per summary.
        share: The proportion of summaries with at least one hallucination, in [0, 1].
        per_summary_adjusted: `per_summary`, adjusted by the audit. None if there was no audit.
        share_adjusted: `share`, adjusted by the audit. None if there was no audit.
        unjudged: The number of summaries that could not be judged at all. They are left out of all estimates.
        skipped: The number of sentences of the other summaries that were not judged (the paper leaves out sentences
            without a citation).
    """

    summaries: int
    claims: int
    per_summary: Measured | None
    share: Measured | None
    per_summary_adjusted: Measured | None = None
    share_adjusted: Measured | None = None
    unjudged: int = 0
    skipped: int = 0


def mean_prevalence(
    groups: Sequence[JudgedSummaries], *, threshold: float = DEFAULT_THRESHOLD, resamples: int = 1000, seed: int = 0
) -> Prevalence:
    """Estimate the hallucinations per summary and the share of summaries with any, with bootstrap intervals.

    For adjusted values, each report counts as precision / recall hallucinations. A summary with k reports has any
    hallucination with probability 1 - (1 - precision)^k. This probability ignores hallucinations that the judge
    missed. The intervals of adjusted values include the uncertainty of the audit, because its counts are drawn again
    for each sample.

    If there are several groups of summaries for the same questions, the estimates are means over groups, as in Table 2
    over critics and judges. Then `summaries` is the number of questions, and `claims`, `unjudged` and `skipped` are
    totals over all groups. The bootstrap draws the same questions for every group. Cases with the same id are about the
    same question. The result has adjusted values only if every group has an audit. Groups with the same `Audit` object
    get the same counts when the audit is drawn again.

    Args:
        groups: The groups of summaries.
        threshold: The lowest score at which a claim counts as hallucinated.
        resamples: The number of bootstrap samples of questions.
        seed: The random seed of the bootstrap.
    """
    counts: dict[tuple[str, int], dict[int, int]] = {}  # by question, then by group
    n_claims = n_unjudged = n_skipped = 0
    for g, group in enumerate(groups):
        seen: dict[str, int] = {}
        for case, judgement in zip(group.cases, group.judgements, strict=True):
            question = (case.id, seen.setdefault(case.id, 0))
            seen[case.id] += 1
            statements = statements_of(case, judgement)
            if not statements:
                n_unjudged += 1
                continue
            n_claims += len(statements)
            counts.setdefault(question, {})[g] = sum(s.score >= threshold for s in statements)
            gaps = [gap for gap in unjudged(case, judgement) if has_words(gap.of(case.response))]
            n_skipped += sum(any(gap.overlaps(s) for gap in gaps) for s in sentences(case.response))
    if not counts:
        return Prevalence(0, 0, None, None, unjudged=n_unjudged)
    k = np.array([[by_group.get(g, np.nan) for by_group in counts.values()] for g in range(len(groups))])
    audits = [group.audit for group in groups if group.audit is not None]
    drawn = _DrawnAudits(audits, seed) if len(audits) == len(groups) else None
    settings = (resamples, seed)
    return Prevalence(
        len(counts),
        n_claims,
        _measure(lambda _: k, *settings),
        _measure(lambda _: np.where(np.isnan(k), np.nan, k > 0), *settings),
        _measure(lambda again: k * drawn.rate(again), *settings) if drawn else None,
        _measure(lambda again: 1 - (1 - drawn.precision(again)) ** k, *settings) if drawn else None,
        n_unjudged,
        n_skipped,
    )


class _DrawnAudits:
    """The rates of audits, as measured or drawn for new audits of the same size. *Shape:* (groups, 1)"""

    def __init__(self, audits: Sequence[Audit], seed: int) -> None:
        self.audits = audits
        self.random = np.random.default_rng(seed + 1)

    def precision(self, again: bool) -> Floats:
        """Return the precision of each group's judge, drawn `again` or as measured."""
        return self._each(
            lambda a: float(self.random.binomial(a.flagged, a.precision) if again else a.right) / a.flagged
        )

    def rate(self, again: bool) -> Floats:
        """Return the estimated number of hallucinations per report: precision / recall."""

        def recall(audit: Audit) -> float:
            if not again or not audit.true:
                return audit.recall
            return max(1.0, float(self.random.binomial(audit.true, audit.recall))) / audit.true

        recalls = self._each(recall)
        return self.precision(again) / recalls

    def _each(self, value: Callable[[Audit], float]) -> Floats:
        drawn = {id(audit): value(audit) for audit in {id(audit): audit for audit in self.audits}.values()}
        return np.array([[drawn[id(audit)]] for audit in self.audits])


def _measure(values: Callable[[bool], Floats], resamples: int, seed: int) -> Measured:
    """Average over the questions of each group and then over groups, with a bootstrap interval.

    `values` returns a table of *shape* (groups, questions), with NaN where there is no value. Its argument says whether
    to draw audits again.
    """

    def mean(table: Floats, weight: Floats) -> float:
        judged = ~np.isnan(table)
        total = judged @ weight
        means = (np.where(judged, table, 0.0) @ weight)[total > 0] / total[total > 0]
        return float(means.mean())

    table = values(False)
    point = mean(table, np.ones(table.shape[1]))
    try:
        low, high = bootstrap(
            lambda weight: mean(values(True), weight), range(table.shape[1]), resamples=resamples, seed=seed
        )
    except UndefinedMetricError as error:
        return Measured(point, n=table.shape[1], note=f"no interval: {error.message}")
    return Measured(point, low, high, table.shape[1])
