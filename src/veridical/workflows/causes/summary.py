"""Count how many cases of a run have each cause, with confidence intervals, and say what to fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from veridical.metrics.measure import Measured
from veridical.metrics.significance import wilson_interval
from veridical.records.types import Cause, CauseKind

TO_MEND = {
    "retriever": (CauseKind.NOT_RETRIEVED, CauseKind.RANKED_TOO_LOW, CauseKind.RIGHT_REFUSAL),
    "documents": (CauseKind.CONFLICTING,),
    "prompt": (CauseKind.WRONG_REFUSAL, CauseKind.NOT_ANSWERED),
    "model": (CauseKind.MISREAD, CauseKind.ADDED, CauseKind.STITCHED),
    "nothing": (CauseKind.NONE,),
    "unknown": (CauseKind.NOT_JUDGED,),
}
"""The causes by the part to fix. A right refusal is the retriever's fault: the model got no passage with the answer."""


@dataclass(frozen=True, slots=True)
class CauseShare:
    """How many cases of a run failed for one cause, or for any cause in the same part of the system.

    Attributes:
        mend: The part of the system to fix: a key of `TO_MEND`, such as "retriever".
        causes: The causes that are counted.
        cases: The number of cases with one of these causes.
        share: The proportion of all cases, with its interval.
    """

    mend: str
    causes: tuple[CauseKind, ...]
    cases: int
    share: Measured


@dataclass(frozen=True, slots=True)
class CauseReport:
    """How often each cause of failure occurred in a run, and which part of the system to fix.

    Attributes:
        cases: The number of cases in the run.
        failed: The number of further rows, which could not be read or judged. They do not count in any proportion.
        to_mend: The number and proportion of cases for each part of the system to fix, such as the retriever.
        causes: The number and proportion of cases for each cause that occurs.
        level: The confidence level of the Wilson intervals (1927), in (0, 1), which assume that cases are independent.
    """

    cases: int
    failed: int
    to_mend: tuple[CauseShare, ...]
    causes: tuple[CauseShare, ...]
    level: float = 0.95


def summarise_causes(causes: Iterable[Cause | None], *, failed: int = 0) -> CauseReport:
    """Count how often each cause of failure occurs in a run, and how many cases concern each part of the system.

    Args:
        causes: The cause of each case. None counts as "not judged".
        failed: The number of further rows, which could not be read or judged. The report repeats this number.

    >>> report = summarise_causes([Cause(CauseKind.ADDED, ""), Cause(CauseKind.NONE, ""), None])
    >>> [(share.mend, share.cases) for share in report.to_mend]
    [('retriever', 0), ('documents', 0), ('prompt', 0), ('model', 1), ('nothing', 1), ('unknown', 1)]
    """
    counts = Counter(CauseKind.NOT_JUDGED if cause is None else cause.kind for cause in causes)
    n = counts.total()

    def share(mend: str, kinds: tuple[CauseKind, ...]) -> CauseShare:
        cases = sum(counts[kind] for kind in kinds)
        return CauseShare(
            mend, kinds, cases, Measured(cases / n, *wilson_interval(cases, n), n) if n else Measured(None)
        )

    return CauseReport(
        n,
        failed,
        tuple(share(mend, kinds) for mend, kinds in TO_MEND.items()),
        tuple(share(mend, (kind,)) for mend, kinds in TO_MEND.items() for kind in kinds if counts[kind]),
    )
