"""Several annotators' judgements of one case merged into one by a stated rule (D §3.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from veridical.core.errors import InputError
from veridical.core.spans import Span, union
from veridical.core.types import GOLD_THRESHOLD, Case, Judgement, Omission, Verdict, check_judgement, judged_spans

__all__ = ["at_least", "majority"]


def majority(judgements: Sequence[Judgement], case: Case) -> Judgement:
    """`at_least` with more than half of the judgements: two of three, three of five."""
    return at_least(len(judgements) // 2 + 1, judgements, case)


def at_least(k: int, judgements: Sequence[Judgement], case: Case) -> Judgement:
    """What at least `k` of the judgements say: a character is hallucinated where so many of them mark it.

    Each judgement counts once a character, with its verdicts of score 0.5 or more. The same holds for omissions,
    source by source. A verdict keeps its label where all who mark it give the same. The response counts as
    hallucinated (omitting) where a span remains, or where at least `k` say so without marking any place; it is None
    where nobody says anything of it. Judged is what at least `k` judged.

    Raises `InputError` unless 1 <= k <= number of judgements, or for a judgement of another case.

    >>> case = Case("1", "born in Rome")
    >>> marks = [Span(8, 12), Span(5, 12), Span(0, 4)]
    >>> people = [Judgement("1", f"human:{i}", verdicts=(Verdict(m, 1.0),)) for i, m in enumerate(marks)]
    >>> [v.span for v in at_least(2, people, case).verdicts], at_least(3, people, case).hallucination
    ([Span(start=8, end=12)], 0.0)
    """
    if not 1 <= k <= len(judgements):
        raise InputError(f"at least {k} of {len(judgements)} judgements", hint="k lies from 1 to their number")
    for judgement in judgements:
        check_judgement(case, judgement)
    marked = [
        [(v.span, v.label) for v in sorted(j.verdicts, key=lambda v: v.span) if v.score >= GOLD_THRESHOLD]
        for j in judgements
    ]
    verdicts = tuple(Verdict(span, 1.0, label) for span, label in _agreed(k, marked))
    omissions: list[Omission] = []
    for source in case.sources:
        left_out = [
            [(o.span, None) for o in j.omissions if o.source_id == source.id and o.score >= GOLD_THRESHOLD]
            for j in judgements
        ]
        omissions += [Omission(source.id, span, 1.0) for span, _ in _agreed(k, left_out)]
    judged = [[(span, None) for span in judged_spans(case, j)] for j in judgements]
    whole = all(j.judged is None for j in judgements)
    return Judgement(
        case.id,
        f"human:{k}-of-{len(judgements)}",
        _said(k, [(j.hallucination, bool(m)) for j, m in zip(judgements, marked, strict=True)], bool(verdicts)),
        _said(k, [(j.omission, bool(j.omissions)) for j in judgements], bool(omissions)),
        verdicts,
        tuple(omissions),
        None if whole else tuple(union(span for span, _ in _agreed(k, judged))),
    )


def _said(k: int, votes: Sequence[tuple[float | None, bool]], remains: bool) -> float | None:
    """The response-level score from (score, whether any place was marked) of each judgement."""
    if all(score is None and not placed for score, placed in votes):
        return None
    placeless = sum((score or 0.0) >= GOLD_THRESHOLD and not placed for score, placed in votes)
    return float(remains or placeless >= k)


def _agreed(k: int, marked: Sequence[Sequence[tuple[Span, str | None]]]) -> list[tuple[Span, str | None]]:
    """The maximal spans of characters that at least `k` annotators mark, with the label if it is one and the same."""
    edges = sorted({edge for marks in marked for span, _ in marks for edge in (span.start, span.end)})
    agreed: list[Span] = []
    for start, end in pairwise(edges):
        piece = Span(start, end)
        if sum(any(span.contains(piece) for span, _ in marks) for marks in marked) >= k:
            agreed.append(piece)
    return [(span, _label(span, marked)) for span in union(agreed)]


def _label(span: Span, marked: Sequence[Sequence[tuple[Span, str | None]]]) -> str | None:
    labels = Counter(label for marks in marked for place, label in marks if place.overlaps(span))
    return next(iter(labels)) if len(labels) == 1 else None
