"""Compare scores with thresholds to decide which spans and responses are flagged.

Detectors only give scores. This module alone compares scores with thresholds, and returns a `Decision`. The thresholds
come from the user or from a fitted detector (`records.judging.thresholds_in_force`). This module also joins
neighbouring flagged spans for display.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

from veridical.records.spans import Span, subtract, union
from veridical.records.types import (
    Case,
    Decision,
    Judgement,
    Omission,
    Outcome,
    Thresholds,
    Verdict,
    judged_source_spans,
)


def decide(case: Case, judgement: Judgement, thresholds: Thresholds | None = None) -> Decision:
    """Decide which scores of a judgement are flagged, by comparing each score with the threshold for its level.

    The levels are the whole response, its spans, the coverage of the sources as a whole, and spans of the sources
    (`Level`). A score is flagged if it is at least the threshold. The default threshold of every level is 0.5.

    Normally, each verdict is compared with the span threshold. If the judgement has sentence scores
    (`Judgement.sentences`), there are two steps. First, each sentence is compared with the response threshold, and one
    flagged sentence flags the response. Then, in each flagged sentence, the verdicts that reach the span threshold are
    flagged, or the highest one if none does. Verdicts in other sentences are not flagged.

    >>> from veridical.records.types import Verdict
    >>> case = Case("1", "The tower is tall.")
    >>> judged = Judgement("1", "x", hallucination=0.97, verdicts=(Verdict(Span(4, 9), 0.45),))
    >>> decide(case, judged).outcome.value, decide(case, judged, Thresholds(response=0.98)).outcome.value
    ('flagged', 'clear')
    """
    thresholds = thresholds or Thresholds()
    if judgement.sentences:
        marked = _inside(
            judgement, [each.span for each in judgement.sentences if each.score >= thresholds.response], thresholds.span
        )
    else:
        marked = [i for i, verdict in enumerate(judgement.verdicts) if verdict.score >= thresholds.span]
    decision = Decision(
        thresholds,
        Outcome.FLAGGED,
        None if judgement.hallucination is None else judgement.hallucination >= thresholds.response,
        None if judgement.omission is None else judgement.omission >= thresholds.coverage,
        tuple(marked),
        tuple(i for i, omission in enumerate(judgement.omissions) if omission.score >= thresholds.source),
    )
    return replace(decision, outcome=overall(case, [judgement], [decision]))


def _inside(judgement: Judgement, sentences: Sequence[Span], threshold: float) -> list[int]:
    """Return the indices of the verdicts to flag in flagged sentences.

    In each sentence, these are the verdicts that reach `threshold`. If none does, it is the one with the highest score.
    """
    ordered = sorted(range(len(judgement.verdicts)), key=lambda i: judgement.verdicts[i].span.start)
    starts = [judgement.verdicts[i].span.start for i in ordered]
    marked: set[int] = set()
    for sentence in sentences:
        inside = ordered[bisect_left(starts, sentence.start) : bisect_left(starts, sentence.end)]
        above = [i for i in inside if judgement.verdicts[i].score >= threshold]
        marked.update(above or sorted(inside, key=lambda i: -judgement.verdicts[i].score)[:1])
    return sorted(marked)


def flagged(judgement: Judgement, decision: Decision) -> list[Verdict]:
    """Return the verdicts (scored spans of the response) that a decision flags, in the order of their spans."""
    return sorted((judgement.verdicts[i] for i in decision.verdicts), key=lambda v: v.span)


def hallucinated(decision: Decision) -> bool:
    """Return whether a decision flags the response, either as a whole or in at least one span.

    >>> case = Case("1", "The tower is tall.")
    >>> hallucinated(decide(case, Judgement("1", "x", 0.1, verdicts=(Verdict(Span(4, 9), 0.7),))))
    True
    """
    return bool(decision.hallucination or decision.verdicts)


def omitted(judgement: Judgement, decision: Decision) -> list[Omission]:
    """Return the omissions (scored spans of sources) that a decision flags, sorted by source id, then span."""
    return sorted((judgement.omissions[i] for i in decision.omissions), key=lambda o: (o.source_id, o.span))


def merge(text: str, spans: Iterable[Span]) -> list[Span]:
    """Join neighbouring spans that have only white space or punctuation between them.

    Spans stay apart if there is a line break, a mark such as . ! ? ; or :, or more than three characters between them.
    The result is sorted and has no overlaps.

    >>> merge("New York City. Paris", [Span(0, 3), Span(4, 8), Span(9, 13), Span(15, 20)])
    [Span(start=0, end=13), Span(start=15, end=20)]
    """
    joined: list[Span] = []
    for span in union(spans):
        span.check(text)
        gap = text[joined[-1].end : span.start] if joined else None
        if gap is None or len(gap) > _GAP or any(c.isalnum() or c in _SEPARATORS for c in gap):
            joined.append(span)
        else:
            joined[-1] = Span(joined[-1].start, span.end)
    return joined


_GAP = 3  # characters
_SEPARATORS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029.!?;:…。！？；：｡؟۔।॥")


def unjudged(case: Case, judgement: Judgement) -> list[Span]:
    """Return the spans of the response that were not judged, except those with only white space."""
    if judgement.judged is None:
        return []
    gaps = subtract([Span(0, len(case.response))], judgement.judged)
    return [span for span in gaps if not span.of(case.response).isspace()]


def outcome(case: Case, judgement: Judgement, thresholds: Thresholds | None = None) -> Outcome:
    """Return the outcome of a case with a single judgement, such as `Outcome.FLAGGED`.

    Each score is compared with its threshold, 0.5 by default. The rules for the outcome are described at `overall`.

    >>> case = Case("1", "The tower is tall.")
    >>> [outcome(case, Judgement("1", "x", score)).value for score in (0.9, 0.1, None)]
    ['flagged', 'clear', 'unjudged']
    """
    return decide(case, judgement, thresholds).outcome


def overall(
    case: Case, judgements: Sequence[Judgement], decisions: Sequence[Decision], flag_over: float | None = None
) -> Outcome:
    """Combine the judgements of one case by several detectors into one outcome.

    `decisions` has one decision for each judgement, which lists the scores that are flagged. The possible outcomes are:

    - `FLAGGED`: A decision flags the response, its coverage, a verdict or an omission. If you set `flag_over`, the
      decisions are ignored, and the case is flagged if the `hallucination` or `omission` score of a judgement is above
      that number.
    - `CLEAR`: Nothing is flagged, and everything was judged. The response is not blank, all of it was judged and has a
      score, and every source that must be covered has a score. One detector may score the response and another one the
      coverage, as long as each judged its part completely.
    - `NO_CLAIM`: Like `CLEAR`, but every detector that scores responses found that this one makes no claim
      (`Judgement.no_claim`).
    - `UNJUDGED`: Everything else.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "Tall.", (Source("a", "The tower is tall.", must_cover=True),))
    >>> sides = [Judgement("1", "x", hallucination=0.1), Judgement("1", "y", omission=0.2)]
    >>> overall(case, sides, [decide(case, j) for j in sides]).value, outcome(case, sides[0]).value
    ('clear', 'unjudged')
    >>> outcome(Case("1", "I don't know."), Judgement("1", "x", judged=(), no_claim=True)).value
    'no_claim'
    """
    for judgement, decision in zip(judgements, decisions, strict=True):
        if flag_over is None:
            if hallucinated(decision) or decision.omission or decision.omissions:
                return Outcome.FLAGGED
        elif any(s is not None and s > flag_over for s in (judgement.hallucination, judgement.omission)):
            return Outcome.FLAGGED
    spans_count = flag_over is None
    response_judged = sources_judged = no_claim = False
    for judgement in judgements:
        covered = _covers_sources(case, judgement, spans_count)
        sources_judged |= covered
        if judgement.no_claim:
            no_claim = True
            continue
        scored = judgement.hallucination is not None or (spans_count and bool(judgement.verdicts or judgement.judged))
        complete = scored and bool(case.response.strip()) and judgement.judged != () and not unjudged(case, judgement)
        scores_response = judgement.hallucination is not None or judgement.verdicts or judgement.judged is not None
        if (scores_response and not complete) or not (complete or covered):
            return Outcome.UNJUDGED
        response_judged |= complete
    if not sources_judged or not (response_judged or no_claim):
        return Outcome.UNJUDGED
    return Outcome.CLEAR if response_judged else Outcome.NO_CLAIM


def _covers_sources(case: Case, judgement: Judgement, spans_count: bool) -> bool:
    """Return whether every source that must be covered was judged completely and has a score."""
    for source_id, spans in judged_source_spans(case, judgement).items():
        text = case.source(source_id).text
        if any(not span.of(text).isspace() for span in subtract([Span(0, len(text))], spans)):
            return False
    if judgement.omission is not None:
        return True
    required = {source.id for source in case.sources if source.must_cover and source.text.strip()}
    return required <= ({o.source_id for o in judgement.omissions} if spans_count else set())
