"""From scores to decisions: what is flagged at a threshold, and which flagged spans read as one.

Detectors score; only here is a threshold applied. A threshold comes from a trained artifact or from the user; where
neither gives one, `THRESHOLD` is the point at which a score that is a probability says "more likely than not".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from veridical.core.errors import InputError
from veridical.core.spans import Span, subtract, union
from veridical.core.types import Case, Judgement, Omission, Outcome, Verdict

__all__ = ["THRESHOLD", "check_threshold", "flagged", "merge", "omitted", "outcome", "overall", "unjudged"]

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

    A line break or the end of a sentence keeps them apart, and so does more than `_GAP` characters.

    >>> merge("New York City. Paris", [Span(0, 3), Span(4, 8), Span(9, 13), Span(15, 20)])
    [Span(start=0, end=13), Span(start=15, end=20)]
    """
    joined: list[Span] = []
    for span in union(spans):
        span.check(text)
        if joined and _reads_on(text[joined[-1].end : span.start]):
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined


_GAP = 3
_PARTING = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029.!?;:…。！？；：｡؟۔।॥")


def _reads_on(between: str) -> bool:
    return len(between) <= _GAP and not any(c.isalnum() or c in _PARTING for c in between)


def unjudged(case: Case, judgement: Judgement) -> list[Span]:
    """The parts of the response that could not be judged and hold more than white space."""
    if judgement.judged is None:
        return []
    left = subtract([Span(0, len(case.response))], judgement.judged)
    return [span for span in left if not span.of(case.response).isspace()]


def outcome(case: Case, judgement: Judgement, threshold: float = THRESHOLD, fail_over: float | None = None) -> Outcome:
    """What `judgement` comes to: flagged if any span, of the response or of a source, scores at least `threshold`.

    A side (hallucination, omission) without any span decides by its response-level score. With `fail_over` only a
    response-level score above it flags.

    Clear is only what was judged whole, on every side that was asked for: there is something in the response, all of
    it was judged, something was said of it, and of every source that must be covered. Anything else that is not
    flagged is `UNJUDGED`. A judge says something of a side by giving the score or spans that decide it;
    `judged`, where it is given, says that the response without verdicts was judged, too.

    >>> case = Case("1", "The tower is tall.")
    >>> [outcome(case, Judgement("1", "x", score)).value for score in (0.9, 0.1, None)]
    ['flagged', 'clear', 'unjudged']
    """
    return overall(case, [judgement], [threshold], fail_over)


def overall(
    case: Case, judgements: Sequence[Judgement], thresholds: Sequence[float], fail_over: float | None = None
) -> Outcome:
    """What several judgements of one case come to together, each at its own threshold.

    Flagged if any is. Clear if together they speak of every side that was asked for, and none was left with nothing
    it could judge: one detector may speak of the response alone and another of coverage alone.

    >>> from veridical.core.types import Source
    >>> case = Case("1", "Tall.", (Source("a", "The tower is tall.", must_cover=True),))
    >>> sides = [Judgement("1", "x", hallucination=0.1), Judgement("1", "y", omission=0.2)]
    >>> overall(case, sides, [0.5, 0.5]).value, outcome(case, sides[0]).value
    ('clear', 'unjudged')
    """
    pairs = list(zip(judgements, map(check_threshold, thresholds), strict=True))
    if any(_is_flagged(judgement, threshold, fail_over) for judgement, threshold in pairs):
        return Outcome.FLAGGED
    spans_count = fail_over is None
    response = [_response_heard(case, judgement, spans_count) for judgement in judgements]
    coverage = [_coverage_heard(case, judgement, spans_count) for judgement in judgements]
    partly = any(_speaks(j) and not heard for j, heard in zip(judgements, response, strict=True))
    silent = not all(r or c for r, c in zip(response, coverage, strict=True))
    return Outcome.CLEAR if any(response) and any(coverage) and not partly and not silent else Outcome.UNJUDGED


def _speaks(judgement: Judgement) -> bool:
    """Whether the judgement says anything of the response, or what of it was judged."""
    return judgement.hallucination is not None or bool(judgement.verdicts) or judgement.judged is not None


def _response_heard(case: Case, judgement: Judgement, spans_count: bool) -> bool:
    """Whether all of the response was judged and something was said of it."""
    said = judgement.hallucination is not None or (spans_count and bool(judgement.verdicts or judgement.judged))
    return said and bool(case.response.strip()) and judgement.judged != () and not unjudged(case, judgement)


def _is_flagged(judgement: Judgement, threshold: float, fail_over: float | None) -> bool:
    sides = (
        (judgement.hallucination, [v.score for v in judgement.verdicts]),
        (judgement.omission, [o.score for o in judgement.omissions]),
    )
    for score, span_scores in sides:
        if fail_over is not None:
            if score is not None and score > fail_over:
                return True
        elif any(s >= threshold for s in span_scores or ([] if score is None else [score])):
            return True
    return False


def _coverage_heard(case: Case, judgement: Judgement, spans_count: bool) -> bool:
    """Whether the judgement speaks of all that the response had to cover."""
    asked = {source.id for source in case.sources if source.must_cover and source.text.strip()}
    if judgement.omission is not None:
        return True
    return asked <= ({o.source_id for o in judgement.omissions} if spans_count else set())
