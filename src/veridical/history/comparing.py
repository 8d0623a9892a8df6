"""Compare two runs over the same cases, and follow runs of the same name over time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import NormalDist, fmean, stdev

import numpy as np

from veridical.history.records import CaseRow, ComparedCase, Comparison, RunRow, Share, TrendPoint
from veridical.metrics.significance import mcnemar, wilson_interval

_DECIDED = ("flagged", "clear", "no_claim")
_RESAMPLES = 2000
_Z = NormalDist().inv_cdf(0.975)


def compare(
    runs: tuple[str, str], first: Iterable[CaseRow], second: Iterable[CaseRow], *, limit: int, offset: int = 0
) -> Comparison:
    """Compare the outcomes and scores of two runs over the same cases, for example with two detectors.

    Cases are matched by id. If several cases have the same id, they are matched in order.

    Args:
        runs: The ids of both runs, which the result repeats.
        first: The cases of the first run.
        second: The cases of the second run.
        limit: How many of the cases with different outcomes to list.
        offset: How many of these cases to skip, for further pages.
    """
    rows_a, rows_b = _by_name(first), _by_name(second)
    pairs = [(row, rows_b[name]) for name, row in rows_a.items() if name in rows_b]
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    for a, b in pairs:
        outcomes[a.outcome][b.outcome] += 1
    decided = [(a, b) for a, b in pairs if a.outcome in _DECIDED and b.outcome in _DECIDED]
    flags = Counter((a.outcome == "flagged", b.outcome == "flagged") for a, b in decided)
    only = flags[True, False], flags[False, True]
    n = len(decided)
    agreement = (flags[True, True] + flags[False, False]) / n if n else None
    shares = [(flags[True, True] + count) / n for count in only] if n else []
    by_chance = shares[0] * shares[1] + (1 - shares[0]) * (1 - shares[1]) if n else 1.0
    changed = sorted(((a, b) for a, b in pairs if a.outcome != b.outcome), key=_distance, reverse=True)
    return Comparison(
        runs=runs,
        pairs=len(pairs),
        unpaired=(len(rows_a) - len(pairs), len(rows_b) - len(pairs)),
        outcomes={name: dict(counts) for name, counts in outcomes.items()},
        judged=n,
        agreement=agreement,
        kappa=None if agreement is None or by_chance > 1 - 1e-12 else (agreement - by_chance) / (1 - by_chance),
        flagged=(_proportion(shares[0] * n, n), _proportion(shares[1] * n, n)) if n else None,
        difference=_difference(only, n) if n else None,
        only=only,
        p=mcnemar(*only) if n else None,
        score_difference=_score_difference(decided),
        changed=len(changed),
        cases=tuple(_compared(a, b) for a, b in changed[offset : offset + limit]),
    )


def trend(runs: Sequence[RunRow]) -> list[TrendPoint]:
    """Compute the proportion of flagged cases in each run, oldest run first, to show how it changes over time."""
    points = []
    for run in sorted(runs, key=lambda run: (run.created, run.id)):
        judged = sum(run.cases.get(outcome, 0) for outcome in _DECIDED)
        share = _proportion(run.cases.get("flagged", 0), judged) if judged else None
        names = tuple(detector["name"] for detector in run.about.get("detectors", ()))
        points.append(TrendPoint(run=run.id, created=run.created, detectors=names, judged=judged, share=share))
    return points


def _by_name(rows: Iterable[CaseRow]) -> dict[tuple[str, int], CaseRow]:
    seen: Counter[str] = Counter()
    by_name = {}
    for row in rows:
        by_name[row.name, seen[row.name]] = row
        seen[row.name] += 1
    return by_name


def _proportion(count: float, n: int) -> Share:
    low, high = wilson_interval(count, n)
    return Share(value=count / n, low=low, high=high)


def _difference(only: tuple[int, int], n: int) -> Share:
    """Compute how much more the second run flags, with an interval by paired bootstrap.

    A bootstrap sample of pairs is drawn as three multinomial counts: the pairs that only the first run flags, those
    that only the second run flags, and all other pairs.
    """
    kinds = np.array([only[0], only[1], n - sum(only)]) / n
    drawn = np.random.default_rng(0).multinomial(n, kinds, size=_RESAMPLES)
    low, high = np.quantile((drawn[:, 1] - drawn[:, 0]) / n, [0.025, 0.975])
    return Share(value=(only[1] - only[0]) / n, low=float(low), high=float(high))


def _score_difference(pairs: Sequence[tuple[CaseRow, CaseRow]]) -> Share | None:
    steps = [b.score - a.score for a, b in pairs if a.score is not None and b.score is not None]
    if len(steps) < 2:
        return None
    mean, half = fmean(steps), _Z * stdev(steps) / sqrt(len(steps))
    return Share(value=mean, low=mean - half, high=mean + half)


def _distance(pair: tuple[CaseRow, CaseRow]) -> float:
    a, b = (row.score for row in pair)
    return -1.0 if a is None or b is None else abs(b - a)


def _compared(a: CaseRow, b: CaseRow) -> ComparedCase:
    outcomes, scores = (a.outcome, b.outcome), (a.score, b.score)
    return ComparedCase(name=a.name, numbers=(a.number, b.number), outcomes=outcomes, scores=scores)
