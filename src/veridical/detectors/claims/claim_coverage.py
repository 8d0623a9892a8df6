"""Coverage by claims: is each sentence of a source that had to be covered backed by the response?

A hallucination with the roles swapped (C's checking of claims, A's recall).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from veridical.core.perspectives import by_perspective
from veridical.core.segment import has_words
from veridical.core.spans import Span
from veridical.core.types import Case, Omission, Source, SourceSpan
from veridical.detectors.claims.citations import statements
from veridical.detectors.claims.claim_checker import Finding

__all__ = ["coverage", "to_cover"]


def to_cover(case: Case) -> Iterator[tuple[Source, Span]]:
    """The sentences of the sources with `must_cover`."""
    for source in case.sources:
        if source.must_cover:
            yield from ((source, span) for span in statements(source.text))


def coverage(
    case: Case, asked: Sequence[tuple[Source, Span]], findings: Sequence[Finding]
) -> tuple[float | None, tuple[Omission, ...], tuple[SourceSpan, ...] | None, list[str]]:
    """1 - the least mean P(covered) of a perspective, each sentence's omission, what of the sources was judged (None =
    all), and notes on what was not.

    `findings` answer for the sentences `asked`; they are not looked at where the response is empty. A source with an
    unread sentence is not known to be covered: only what is surely left out of it is kept, and counts as judged.
    """
    if not asked:
        return None, (), None, []
    nothing = Finding(1.0, "the response is empty")
    answers = list(findings) if has_words(case.response) else [nothing] * len(asked)
    unread = [source.id for (source, _), answer in zip(asked, answers, strict=True) if answer.score is None]
    scores: list[tuple[Source, float]] = []
    omissions = []
    for (source, span), answer in zip(asked, answers, strict=True):
        if answer.score is None:
            continue
        scores.append((source, answer.score))
        if source.id not in unread or answer.score == 1.0:
            omissions.append(Omission(source.id, span, answer.score, answer.reason))
    notes = [f"{len(unread)} of {len(asked)} sentences to cover could not be judged"] if unread else []
    worst = max((sum(group) / len(group) for group in by_perspective(scores)), default=None)
    judged = tuple(SourceSpan(omission.source_id, omission.span) for omission in omissions) if unread else None
    return (None if unread else worst), tuple(omissions), judged, notes
