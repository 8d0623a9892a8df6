"""From scores to decisions: what is flagged at a threshold, and which flagged spans read as one.

Detectors score; only here is a threshold applied. A threshold comes from a trained artifact or from the user; where
neither gives one, `THRESHOLD` is the point at which a score that is a probability says "more likely than not".
"""

from __future__ import annotations

from collections.abc import Iterable

from veridical.core.errors import InputError
from veridical.core.spans import Span, subtract, union
from veridical.core.types import Case, Judgement, Omission, Outcome, Verdict

__all__ = ["THRESHOLD", "check_threshold", "flagged", "merge", "omitted", "outcome", "unjudged"]

THRESHOLD = 0.5


def check_threshold(threshold: float) -> float:
    """`threshold` itself; `InputError` unless it lies in (0, 1]."""
    if not 0.0 < threshold <= 1.0:
        raise InputError(f"the threshold is {threshold}", hint="it lies above 0 and at most at 1")
    return threshold


def flagged(judgement: Judgement, threshold: float = THRESHOLD) -> list[Verdict]:
    """The verdicts with a score of at least `threshold`, in order of their place."""
    return sorted((v for v in judgement.verdicts if v.score >= threshold), key=lambda v: v.span)


def omitted(judgement: Judgement, threshold: float = THRESHOLD) -> list[Omission]:
    """The omissions with a score of at least `threshold`, by source, then place."""
    found = (o for o in judgement.omissions if o.score >= threshold)
    return sorted(found, key=lambda o: (o.source_id, o.span))


def merge(text: str, spans: Iterable[Span]) -> list[Span]:
    """`spans` in normal form, with neighbours joined that only white space or punctuation parts.

    A line break or the end of a sentence keeps them apart.

    >>> merge("New York City. Paris", [Span(0, 3), Span(4, 8), Span(9, 13), Span(15, 20)])
    [Span(start=0, end=13), Span(start=15, end=20)]
    """
    joined: list[Span] = []
    for span in union(spans):
        if joined and _reads_on(text[joined[-1].end : span.start]):
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined


def _reads_on(between: str) -> bool:
    return len(between) <= 3 and not any(c.isalnum() or c in "\r\n.!?;:。！？" for c in between)


def unjudged(case: Case, judgement: Judgement) -> list[Span]:
    """The parts of the response that could not be judged and hold more than white space."""
    if judgement.judged is None:
        return []
    left = subtract([Span(0, len(case.response))], judgement.judged)
    return [span for span in left if not span.of(case.response).isspace()]


def outcome(case: Case, judgement: Judgement, threshold: float = THRESHOLD, fail_over: float | None = None) -> Outcome:
    """What `judgement` comes to: flagged if any span scores at least `threshold`.

    A judgement without any span decides by its response-level scores. With `fail_over` only a response-level
    score above it flags. If nothing is flagged and part of the response, or all that was asked, went unjudged, the
    outcome is `UNJUDGED`.
    """
    check_threshold(threshold)
    scores = [s for s in (judgement.hallucination, judgement.omission) if s is not None]
    if fail_over is not None:
        hit = any(score > fail_over for score in scores)
    elif judgement.verdicts or judgement.omissions:
        hit = bool(flagged(judgement, threshold) or omitted(judgement, threshold))
    else:
        hit = any(score >= threshold for score in scores)
    if hit:
        return Outcome.FLAGGED
    silent = not scores and not judgement.verdicts and not judgement.omissions
    must = any(source.must_cover for source in case.sources)
    if silent or unjudged(case, judgement) or judgement.judged == () or (must and _no_word_on_coverage(judgement)):
        return Outcome.UNJUDGED
    return Outcome.CLEAR


def _no_word_on_coverage(judgement: Judgement) -> bool:
    return judgement.omission is None and not judgement.omissions
