"""How often summaries hallucinate: as reported by a judge, and adjusted by how far that judge can be trusted (C §3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from veridical.core.decide import unjudged
from veridical.core.errors import InputError
from veridical.core.segment import sentences, words
from veridical.core.types import DEFAULT_THRESHOLD, Case, Judgement
from veridical.metrics.arrays import Floats
from veridical.metrics.significance import bootstrap
from veridical.revise.statements import statements_of

__all__ = ["Audit", "Estimate", "Prevalence", "prevalence"]


@dataclass(frozen=True, slots=True)
class Audit:
    """What people found when they looked at a judge's reports: the claims that they agree are hallucinated.

    Of `flagged` claims that the judge reported and people looked at, `right` were hallucinated: its precision. Of
    `true` hallucinations that people know of, the judge reported `found`: its recall, taken for 1 where `true` is 0
    (C §3.4: people agreed with 66 % of the reports, and with every claim called supported: `Audit(66, 100)`).
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
            raise InputError("an audit in which nothing true was found", hint="its recall is 0: no estimate follows")

    @property
    def precision(self) -> float:
        """The share of reports that are right, in [0, 1]."""
        return self.right / self.flagged

    @property
    def recall(self) -> float:
        """The share of hallucinations that are reported, in (0, 1]."""
        return self.found / self.true if self.true else 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with the bounds of its 95 % interval, None where there is none (a single summary)."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Prevalence:
    """What a judge reports over `summaries` that it could judge, and over `claims` of them.

    `per_summary` are hallucinations in the average summary, `share` is the share of summaries with any, in [0, 1].
    The adjusted ones are None without an audit. `unjudged` summaries could not be judged at all and do not count;
    `skipped` sentences of the others were not judged (C leaves out sentences without a citation).
    """

    summaries: int
    claims: int
    per_summary: Estimate | None
    share: Estimate | None
    per_summary_adjusted: Estimate | None = None
    share_adjusted: Estimate | None = None
    unjudged: int = 0
    skipped: int = 0


def prevalence(
    cases: Sequence[Case],
    judgements: Sequence[Judgement],
    *,
    threshold: float = DEFAULT_THRESHOLD,
    audit: Audit | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Prevalence:
    """Hallucinations per summary and the share of summaries with any, with bootstrap intervals over summaries.

    A claim counts as one from a score of `threshold` on. Adjusted, a report counts as precision / recall of a
    hallucination, and a summary with k reports has any with the chance 1 - (1 - precision)^k (missed ones are not
    added there). The interval of an adjusted value also holds the chance of the audit: its counts are drawn anew.
    """
    counts: list[int] = []
    claims = left_out = skipped = 0
    for case, judgement in zip(cases, judgements, strict=True):
        units = statements_of(case, judgement)
        if not units:
            left_out += 1
            continue
        claims += len(units)
        counts.append(sum(unit.score >= threshold for unit in units))
        open_spans = unjudged(case, judgement)
        skipped += sum(
            any(span.overlaps(s) and words(s.of(case.response)) for s in open_spans)
            for span in sentences(case.response)
        )
    if not counts:
        return Prevalence(0, 0, None, None, unjudged=left_out)
    k = np.array(counts, dtype=np.float64)
    drawn = _Drawn(audit, seed) if audit else None
    return Prevalence(
        len(counts),
        claims,
        _estimate(k, lambda _: k, resamples, seed),
        _estimate(k, lambda _: (k > 0).astype(np.float64), resamples, seed),
        _estimate(k, lambda new: k * drawn.rate(new), resamples, seed) if drawn else None,
        _estimate(k, lambda new: 1 - (1 - drawn.precision(new)) ** k, resamples, seed) if drawn else None,
        left_out,
        skipped,
    )


class _Drawn:
    """The audit's rates, as measured or as a new audit of the same size might have given them."""

    def __init__(self, audit: Audit, seed: int) -> None:
        self.audit = audit
        self.random = np.random.default_rng(seed + 1)

    def precision(self, new: bool) -> float:
        found = self.random.binomial(self.audit.flagged, self.audit.precision) if new else self.audit.right
        return float(found) / self.audit.flagged

    def rate(self, new: bool) -> float:
        recall = self.audit.recall
        if new and self.audit.true:
            recall = max(1.0, float(self.random.binomial(self.audit.true, recall))) / self.audit.true
        return self.precision(new) / recall


def _estimate(k: Floats, values: Callable[[bool], Floats], resamples: int, seed: int) -> Estimate:
    point = float(values(False).mean())
    if len(k) == 1:
        return Estimate(point)
    low, high = bootstrap(
        lambda weight: float(weight @ values(True)) / float(weight.sum()), range(len(k)), resamples=resamples, seed=seed
    )
    return Estimate(point, low, high)
