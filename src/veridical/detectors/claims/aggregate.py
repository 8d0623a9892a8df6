"""From the answers about single claims to a judgement: verdicts, the response's score, and what was not judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import expm1, log1p

from veridical.core.spans import Span, subtract
from veridical.core.types import Case, Claim, Judgement, Verdict
from veridical.detectors.claims.claim_checker import Finding

__all__ = ["any_false", "compose"]


def any_false(scores: Sequence[float]) -> float:
    """P(some claim is wrong) = 1 - the product of (1 - score), claims taken as independent: C equation 1, in log space.

    >>> round(any_false([0.5, 0.5]), 2), any_false([0.0, 1.0]), any_false([])
    (0.75, 1.0, 0.0)
    """
    return 1.0 if any(score >= 1.0 for score in scores) else -expm1(sum(log1p(-score) for score in scores)) + 0.0


def compose(
    case: Case,
    by: str,
    answers: Sequence[tuple[Claim, Finding]],
    *,
    further: Sequence[Verdict] = (),
    left: Sequence[Span] = (),
    notes: Sequence[str] = (),
    score: Callable[[Sequence[float]], float] = any_false,
) -> Judgement:
    """One verdict for each answered claim, and what `score` makes of them all.

    Claims without an answer, and the spans `left`, are not judged; each reason is counted in a note. `further` verdicts
    do not count in the response's score.
    """
    verdicts: list[Verdict] = []
    lost = list(left)
    for claim, answer in answers:
        (span,) = claim.spans
        if answer.score is None:
            lost.append(span)
            continue
        verdicts.append(Verdict(span, answer.score, None, claim, answer.evidence, answer.reason))
        if answer.unjudged:
            as_it_stands = claim.text == span.of(case.response)
            lost += [part.shift(span.start) for part in answer.unjudged] if as_it_stands else [span]
    scores = [v.score for v in verdicts]
    judged = tuple(subtract([Span(0, len(case.response))], lost)) if lost else None
    return Judgement(
        case.id,
        by,
        score(scores) if scores else None,
        verdicts=tuple(sorted([*verdicts, *further], key=lambda verdict: verdict.span)),
        judged=judged if scores else (),
        notes=(*notes, *_why_lost([answer for _, answer in answers])),
    )


def _why_lost(answers: Sequence[Finding]) -> Iterator[str]:
    """How many claims could not be judged, for each reason, the most frequent first; what else casts doubt."""
    n = len(answers)
    reasons: dict[str, int] = {}
    for answer in answers:
        if answer.score is None:
            reasons[answer.reason or "no answer"] = reasons.get(answer.reason or "no answer", 0) + 1
    for reason, many in sorted(reasons.items(), key=lambda pair: -pair[1]):
        yield f"{many} of {n} claims not judged: {reason}"
    for many, what in (
        (sum(bool(a.unjudged) and a.score is not None for a in answers), "judged only in part"),
        (sum(a.bare for a in answers), "answered with a bare yes or no: the model gave no log-probabilities"),
        (sum(bool(a.strange) for a in answers), "judged with quotes that stand in no source"),
    ):
        if many:
            yield f"{many} of {n} claims {what}"
