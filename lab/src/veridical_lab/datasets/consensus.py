"""Merge the judgements of several annotators about a case into one judgement, by votes (CH-Wang et al. 2024, §3.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from veridical.records.errors import InputError
from veridical.records.spans import Span, trimmed, union
from veridical.records.types import GOLD_THRESHOLD, Case, Judgement, Omission, Verdict, check_judgement, judged_spans

_Mark = tuple[Span, str | None]  # a span and its label


def majority(judgements: Sequence[Judgement], case: Case, *, tokens: Sequence[Span] | None = None) -> Judgement:
    """Merge judgements as `at_least` does. More than half of them must agree: two of three, three of five."""
    return at_least(len(judgements) // 2 + 1, judgements, case, tokens=tokens)


def at_least(k: int, judgements: Sequence[Judgement], case: Case, *, tokens: Sequence[Span] | None = None) -> Judgement:
    """Merge judgements so that a character is hallucinated if at least `k` of them mark it.

    If you pass `tokens`, whole tokens are counted instead, as in the paper. A token is marked if any of its characters
    is marked. So if two annotators mark different halves of a token, they agree on it.

    Only verdicts with a score of 0.5 or more are used. Omissions are counted by character in each source. A merged
    verdict has a label if all who mark it give the same label. The response is hallucinated (or omits something) if a
    span remains, or if at least `k` judgements say so without marking any span. If nobody judges the response, its
    score is None. A character counts as judged if at least `k` annotators judged it.

    Args:
        k: How many judgements must agree, from 1 to all of them.
        judgements: The judgements of the case, one per annotator.
        case: The case that they judge.
        tokens: The span of each token of the response, such as the tokens of a model
            (`veridical_lab.models.encode.encode`, `Encoded.spans` without None) or `datasets.marks.tokens`.

    Raises:
        InputError: `k` is out of range, or a judgement is about another case.
        SpanError: A token lies outside the response.

    >>> case = Case("1", "born in Rome")
    >>> marks = [Span(8, 12), Span(5, 12), Span(0, 4)]
    >>> people = [Judgement("1", f"human:{i}", verdicts=(Verdict(m, 1.0),)) for i, m in enumerate(marks)]
    >>> [v.span for v in at_least(2, people, case).verdicts], at_least(3, people, case).hallucination
    ([Span(start=8, end=12)], 0.0)
    >>> halves = [Judgement("1", "a", verdicts=(Verdict(Span(8, 10), 1.0),)),
    ...           Judgement("1", "b", verdicts=(Verdict(Span(10, 12), 1.0),))]
    >>> words = [Span(0, 4), Span(5, 7), Span(8, 12)]
    >>> at_least(2, halves, case).verdicts, [v.span for v in at_least(2, halves, case, tokens=words).verdicts]
    ((), [Span(start=8, end=12)])
    """
    if not 1 <= k <= len(judgements):
        raise InputError(f"at least {k} of {len(judgements)} judgements", hint="k is from 1 to their number")
    for judgement in judgements:
        check_judgement(case, judgement)
    marked = [
        [(v.span, v.label) for v in sorted(j.verdicts, key=lambda v: v.span) if v.score >= GOLD_THRESHOLD]
        for j in judgements
    ]
    if tokens is not None:
        for token in tokens:
            token.check(case.response, "response")
        trimmed_tokens = [span for token in tokens if (span := trimmed(token, case.response))]
        marked = [
            [(token, label) for token in trimmed_tokens for span, label in marks if token.overlaps(span)]
            for marks in marked
        ]
    verdicts = tuple(Verdict(span, 1.0, label) for span, label in _agreed(k, marked))
    omissions: list[Omission] = []
    for source in case.sources:
        left_out = [
            [(o.span, None) for o in j.omissions if o.source_id == source.id and o.score >= GOLD_THRESHOLD]
            for j in judgements
        ]
        omissions += [Omission(source.id, span, 1.0) for span, _ in _agreed(k, left_out)]
    votes = [(j.hallucination, bool(marks)) for j, marks in zip(judgements, marked, strict=True)]
    judged = [[(span, None) for span in judged_spans(case, j)] for j in judgements]
    whole = all(j.judged is None for j in judgements)
    return Judgement(
        case.id,
        f"human:{k}-of-{len(judgements)}",
        _response_score(k, votes, bool(verdicts)),
        _response_score(k, [(j.omission, bool(j.omissions)) for j in judgements], bool(omissions)),
        verdicts,
        tuple(omissions),
        None if whole else tuple(union(span for span, _ in _agreed(k, judged))),
    )


def _response_score(k: int, votes: Sequence[tuple[float | None, bool]], remains: bool) -> float | None:
    """Merge the scores of the response. A vote has the score of one judgement, and whether it marks any span."""
    if all(score is None and not marked for score, marked in votes):
        return None
    without_span = sum((score or 0.0) >= GOLD_THRESHOLD and not marked for score, marked in votes)
    return float(remains or without_span >= k)


def _agreed(k: int, marked: Sequence[Sequence[_Mark]]) -> list[_Mark]:
    """Find the longest spans that at least `k` annotators mark. A span has a label if all of them give the same one."""
    edges = sorted({edge for marks in marked for span, _ in marks for edge in (span.start, span.end)})
    agreed: list[Span] = []
    for start, end in pairwise(edges):
        piece = Span(start, end)
        if sum(any(span.contains(piece) for span, _ in marks) for marks in marked) >= k:
            agreed.append(piece)
    labelled: list[_Mark] = []
    for span in union(agreed):
        labels = Counter(label for marks in marked for marked_span, label in marks if marked_span.overlaps(span))
        labelled.append((span, next(iter(labels)) if len(labels) == 1 else None))
    return labelled
