"""Decide whether to keep a revision.

George and Stuhlmüller 2023, §4, keep every revision. Here a revised text must be better than the text before and must
not lose supported claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from veridical.core.decide import decide, omitted, unjudged
from veridical.core.detector import Detector
from veridical.core.edits import carry
from veridical.core.judging import judge
from veridical.core.segment import words
from veridical.core.spans import Span, length
from veridical.core.stopwords import STOP_WORDS
from veridical.core.types import Case, Edit, Judgement, Source, Thresholds, Usage
from veridical.revise.statements import Statement, statements_of

__all__ = ["Acceptance", "Candidate", "accept", "left_out", "shares_left_out"]

_ROUNDING = 1e-9  # scores this close count as equal


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text before and after edits, both judged."""

    before: Case
    judgement_before: Judgement
    edits: tuple[Edit, ...]
    after: Case
    judgement_after: Judgement


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The decision on a candidate: the `problem` that rejects it, or None, and the usage of the decision."""

    problem: str | None
    usage: Usage | None = None


def accept(candidates: Sequence[Candidate], detector: Detector, thresholds: Thresholds) -> list[Acceptance]:
    """Decide for each candidate whether it is better than the text before.

    A better text meets four conditions:

    - No more of it is unjudged than of the text before.
    - Its hallucination score is lower. Equal scores are compared by the sum over unsupported claims, because a product
      over claims stays 1 as long as one claim is certainly wrong.
    - It keeps every supported claim. A claim is kept if no edit touches it; if its words are still there and nothing
      there is unsupported; or if `detector` finds that the new text supports it.
    - It keeps every source covered: the share of the source's words that is left out stays below the coverage
      threshold.
    """
    problems = [_problem(candidate, thresholds) for candidate in candidates]
    doubtful = [
        list(_doubtful(candidate, thresholds)) if problem is None else []
        for candidate, problem in zip(candidates, problems, strict=True)
    ]
    cases = [
        Case(f"{candidate.before.id}#{i}", statement.text, (Source("revision", candidate.after.response),))
        for candidate, statements in zip(candidates, doubtful, strict=True)
        for i, statement in enumerate(statements)
    ]
    answers = iter(judge(detector, cases))
    results = []
    for statements, problem in zip(doubtful, problems, strict=True):
        judgements = [next(answers) for _ in statements]
        lost = []
        for statement, judgement in zip(statements, judgements, strict=True):
            score, threshold = judgement.hallucination, thresholds.response
            if score is None:
                score = max((verdict.score for verdict in judgement.verdicts), default=None)
                threshold = thresholds.span
            if score is None or judgement.judged == () or score >= threshold:
                lost.append(statement.text)
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            problem = f"a supported claim would be lost: “{lost[0]}”{more}"
        results.append(Acceptance(problem, Usage.total(judgement.usage for judgement in judgements)))
    return results


def _problem(candidate: Candidate, thresholds: Thresholds) -> str | None:
    """Return why a candidate is not better, or which covered source it leaves out; None if neither."""
    before, after = candidate.judgement_before, candidate.judgement_after
    if after.hallucination is None and not after.verdicts:
        return f"the revised text could not be judged: {'; '.join(after.notes) or 'no score'}"
    more = length(unjudged(candidate.after, after)) - length(unjudged(candidate.before, before))
    if more > 0:
        return f"{more} more characters of the revised text could not be judged"
    old, new = (
        max((verdict.score for verdict in j.verdicts), default=0.0) if j.hallucination is None else j.hallucination
        for j in (before, after)
    )
    old_sum, new_sum = (
        sum(statement.score for statement in statements_of(c, j, thresholds) if statement.unsupported)
        for c, j in ((candidate.before, before), (candidate.after, after))
    )
    if new >= old - _ROUNDING and (new > old + _ROUNDING or new_sum >= old_sum - _ROUNDING):
        return f"the hallucination score does not fall: {old:.3f} before, {new:.3f} after"
    if not any(source.must_cover for source in candidate.before.sources):
        return None
    if before.omission is not None:
        if after.omission is None:
            return "whether the revised text covers its sources could not be judged"
        if before.omission < thresholds.coverage <= after.omission:
            scores = f"{before.omission:.3f} before, {after.omission:.3f} after"
            return f"a source that was covered would be left out: omission {scores}"
    left_out_before = shares_left_out(candidate.before, before, thresholds)
    left_out_after = shares_left_out(candidate.after, after, thresholds)
    for source in candidate.before.sources:
        if left_out_before.get(source.id, 0.0) < thresholds.coverage <= left_out_after.get(source.id, 0.0):
            return f"source {source.id!r} was covered and would be left out"
    return None


def shares_left_out(case: Case, judgement: Judgement, thresholds: Thresholds) -> dict[str, float]:
    """Return the share of its content words that is left out of each source to cover, by the source's id."""
    by_source: dict[str, list[Span]] = {}
    for omission in omitted(judgement, decide(case, judgement, thresholds)):
        by_source.setdefault(omission.source_id, []).append(omission.span)
    shares = {}
    for id, spans in by_source.items():
        text = case.source(id).text
        content = [word for word in words(text) if word.of(text).casefold() not in STOP_WORDS]
        left_out = sum(any(word.overlaps(span) for span in spans) for word in content)
        shares[id] = left_out / len(content) if content else 1.0
    return shares


def left_out(case: Case, judgement: Judgement, thresholds: Thresholds) -> list[Source]:
    """Return the sources to cover whose share of left-out content words reaches the coverage threshold."""
    shares = shares_left_out(case, judgement, thresholds)
    least = max(thresholds.coverage, _ROUNDING)
    return [source for source in case.sources if source.must_cover and shares.get(source.id, 0.0) >= least]


def _doubtful(candidate: Candidate, thresholds: Thresholds) -> Iterator[Statement]:
    """Yield supported claims that an edit touches, if some of their words are gone or flagged words are among them."""
    text = candidate.after.response
    after = statements_of(candidate.after, candidate.judgement_after, thresholds)
    flagged = [statement.span for statement in after if statement.unsupported]
    for statement in statements_of(candidate.before, candidate.judgement_before, thresholds):
        span = statement.span
        touched = any(edit.span.start < span.end and edit.span.end > span.start for edit in candidate.edits)
        if statement.unsupported or not touched:
            continue
        moved = carry(span, candidate.edits)
        new_words = {word.of(moved.of(text)).casefold() for word in words(moved.of(text))}
        old_words = {word.of(statement.text).casefold() for word in words(statement.text)} - STOP_WORDS
        if not old_words <= new_words or any(other.overlaps(moved) for other in flagged):
            yield statement
