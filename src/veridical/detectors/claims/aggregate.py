"""Combine the results for single claims into a judgement, with verdicts, the response's score, coverage, and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import expm1, log1p
from statistics import fmean

from veridical.detectors.claims.claim_checker import ClaimResult
from veridical.detectors.claims.claims import Claims
from veridical.records.judging import NO_CLAIM
from veridical.records.perspectives import by_perspective
from veridical.records.spans import Span, subtract
from veridical.records.types import Case, Claim, Judgement, Omission, Source, SourceSpan, Verdict
from veridical.text.citations import statements
from veridical.text.segment import has_words


def any_false(scores: Sequence[float]) -> float:
    """Compute the probability that at least one claim is wrong, from the scores of all claims.

    This is 1 minus the product of (1 - score), computed in log space. The claims are treated as independent, as in
    George and Stuhlmüller 2023, equation 1.

    >>> round(any_false([0.5, 0.5]), 2), any_false([0.0, 1.0]), any_false([])
    (0.75, 1.0, 0.0)
    """
    return 1.0 if any(score >= 1.0 for score in scores) else -expm1(sum(log1p(-score) for score in scores)) + 0.0


AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "any": any_false,  # P(some claim is wrong), George and Stuhlmüller 2023
    "worst": max,  # the score of the worst claim
    "mean": fmean,  # 1 - FActScore: the share of claims that are not supported, Min et al. 2023
}


def aggregate_claims(
    case: Case,
    by: str,
    results: Sequence[tuple[Claim, ClaimResult]],
    split: Claims,
    *,
    other_verdicts: Sequence[Verdict] = (),
    score: Callable[[Sequence[float]], float] = any_false,
) -> Judgement:
    """Build the judgement of a response from the results of its claims, with a verdict for each and one overall score.

    Claims without a score, and sentences without a claim, count as not judged. Notes say how many claims have no score,
    and why.

    Args:
        case: The case that was checked.
        by: The name of the detector.
        results: Each claim with its result. Each claim must have exactly one span.
        split: How the response was split into claims. Only its notes and the sentences that no claim covers are used.
        other_verdicts: More verdicts for the judgement, such as those on citations. They do not affect the response's
            score.
        score: A function that computes the response's score from the scores of the claims.
    """
    verdicts: list[Verdict] = []
    unjudged = list(split.unchecked)
    for claim, result in results:
        (span,) = claim.spans
        if result.score is None:
            unjudged.append(span)
            continue
        correction = result.correction if result.score > 0 else None
        verdicts.append(Verdict(span, result.score, result.label, claim, result.evidence, result.reason, correction))
        if result.unjudged:
            verbatim = claim.text == span.of(case.response)
            unjudged += [part.shift(span.start) for part in result.unjudged] if verbatim else [span]
    scores = [v.score for v in verdicts]
    judged = tuple(subtract([Span(0, len(case.response))], unjudged)) if unjudged else None
    return Judgement(
        case.id,
        by,
        score(scores) if scores else None,
        verdicts=tuple(sorted([*verdicts, *other_verdicts], key=lambda verdict: verdict.span)),
        judged=judged if scores else (),
        notes=(*split.notes, *_notes([result for _, result in results])),
        no_claim=NO_CLAIM in split.notes,
    )


def _notes(results: Sequence[ClaimResult]) -> Iterator[str]:
    """Yield notes about claims that could not be judged, and about claims whose result is doubtful.

    The first notes say for each reason how many claims could not be judged, beginning with the most frequent reason.
    """
    n = len(results)
    for reason, count in Counter(r.reason or "no answer" for r in results if r.score is None).most_common():
        yield f"{count} of {n} claims not judged: {reason}"
    for count, doubt in (
        (sum(bool(r.unjudged) and r.score is not None for r in results), "judged only in part"),
        (sum(r.no_logprobs for r in results), "answered with a bare yes or no: the model gave no log-probabilities"),
        (sum(bool(r.unsupported_quotes) for r in results), "judged with quotes that are in no source"),
    ):
        if count:
            yield f"{count} of {n} claims {doubt}"


def sentences_to_cover(case: Case) -> list[tuple[Source, Span]]:
    """Return a (source, sentence span) pair for each sentence of the sources that the response must cover."""
    return [(source, span) for source in case.sources if source.must_cover for span in statements(source.text)]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How completely a response covers the sources that it must cover (`Source.must_cover`).

    Attributes:
        omission: 1 minus the mean P(covered) of the perspective with the lowest mean, in [0, 1]. None if coverage could
            not be judged. A perspective is a group of sources for the same side (`Source.perspective`).
        omissions: The omission scores, one for each judged sentence of the sources.
        judged_sources: The spans of the sources that were judged. None if all of them were judged.
        notes: A note if some sentences were not judged.
    """

    omission: float | None = None
    omissions: tuple[Omission, ...] = ()
    judged_sources: tuple[SourceSpan, ...] | None = None
    notes: tuple[str, ...] = ()


def aggregate_coverage(case: Case, to_cover: Sequence[tuple[Source, Span]], results: Sequence[ClaimResult]) -> Coverage:
    """Compute how much a response omits, from the results of checking each source sentence against the response.

    If a sentence could not be judged, there is no overall score. The source of this sentence then gets omissions only
    for sentences that are certainly omitted (score 1), and its other sentences count as not judged.

    Args:
        case: The case that was checked.
        to_cover: The source sentences to cover, from `sentences_to_cover`.
        results: The result for each sentence. Ignored if the response has no words, because it then omits everything.
    """
    if not to_cover:
        return Coverage()
    if not has_words(case.response):
        results = [ClaimResult(1.0, "the response is empty")] * len(to_cover)
    unjudged = [source.id for (source, _), result in zip(to_cover, results, strict=True) if result.score is None]
    scores: list[tuple[Source, float]] = []
    omissions = []
    for (source, span), result in zip(to_cover, results, strict=True):
        if result.score is None:
            continue
        scores.append((source, result.score))
        if source.id not in unjudged or result.score == 1.0:
            omissions.append(Omission(source.id, span, result.score, result.reason))
    if unjudged:
        note = f"{len(unjudged)} of {len(to_cover)} sentences to cover could not be judged"
        judged = tuple(SourceSpan(omission.source_id, omission.span) for omission in omissions)
        return Coverage(None, tuple(omissions), judged, (note,))
    worst = max(sum(group) / len(group) for group in by_perspective(scores))
    return Coverage(worst, tuple(omissions))
