"""The protocol of claim checkers, which check claims against sources, and an adapter for any detector.

A checker gets the claims of all cases in a single call, and returns one `ClaimResult` for each claim. If the checker
cannot judge a claim, the result has a reason instead of a score. The checker that asks a chat model is in
`veridical.detectors.claims.llm_checker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from veridical.detectors.overlap.detector import Overlap
from veridical.records.decide import merge, unjudged
from veridical.records.detector import Detector
from veridical.records.judging import judge
from veridical.records.spans import Span
from veridical.records.types import Case, Evidence, Judgement, Source, Usage
from veridical.text.names import is_name
from veridical.text.quantities import fold, is_value


@dataclass(frozen=True, slots=True)
class Question:
    """A claim to check, with the sources that may support it.

    Attributes:
        case_id: The id of the case that the claim comes from.
        claim: The text of the claim.
        sources: The sources to check it against.
        strict_values: If true, one unsupported number, date or name is enough to make the claim unsupported. This
            matters for checkers that count words.
    """

    case_id: str
    claim: str
    sources: tuple[Source, ...]
    strict_values: bool = False


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of checking one claim.

    Attributes:
        score: 1 - P(supported), in [0, 1]. None if the claim could not be judged.
        reason: Why the claim has its score, or why it could not be judged.
        evidence: The source spans that support or contradict the claim.
        unjudged: The spans of the claim that the checker could not judge.
        correction: A version of the claim that the sources support.
        usage: The model calls and tokens that the check took.
        no_logprobs: If true, the score is only 0 or 1 because the model gave no log-probabilities.
        unsupported_quotes: The number of quotes in the model's reasoning that occur neither in a source nor in the
            claim.
        label: The kind of error, such as "contradiction", if the checker distinguishes kinds (`Verdict.label`).
    """

    score: float | None
    reason: str | None = None
    evidence: tuple[Evidence, ...] = ()
    unjudged: tuple[Span, ...] = ()
    correction: str | None = None
    usage: Usage | None = None
    no_logprobs: bool = False
    unsupported_quotes: int = 0
    label: str | None = None


class ClaimChecker(Protocol):
    """The protocol of objects that check claims against sources, such as `LLMChecker` and `DetectorChecker`.

    Attributes:
        name: The name of the checker, which becomes part of the detector's name.
        reads_citations: If true, claims may contain citations, such as "Ling (2009) found …". If false, citations are
            removed from the claims first.
    """

    name: str
    reads_citations: bool

    def check(self, questions: Sequence[Question]) -> list[ClaimResult]:
        """Check each claim against the sources in its question, and return the results in the same order."""
        ...


class DetectorChecker:
    """Checks a claim by giving it to a detector as if it were a response.

    The score of the claim is the score of this response, or of its worst span if the response has no score.

    The detector `overlap` can miss a single wrong number in a long claim. Therefore, if the detector is `overlap` and a
    question sets `strict_values`, the claim scores 1 as soon as it has a number, date, quantity or name that no source
    has. These values are compared in the same way as in `overlap:values`.
    """

    reads_citations = False

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.name = detector.name

    def check(self, questions: Sequence[Question]) -> list[ClaimResult]:
        """Judge each claim as if it were a response to the sources in its question."""
        cases = [Case(f"{q.case_id}#{i}", q.claim, q.sources) for i, q in enumerate(questions)]
        judgements = judge(self.detector, cases)
        results = [_result(case, judgement) for case, judgement in zip(cases, judgements, strict=True)]
        if not isinstance(self.detector, Overlap):
            return results
        strict = [i for i, question in enumerate(questions) if question.strict_values]
        # a source's citation (author and year) counts as part of its text
        cited = [[replace(s, text=f"{s.text}\n{s.citation or ''}") for s in cases[i].sources] for i in strict]
        by_value = Overlap(words="values").judge(
            [replace(cases[i], sources=tuple(sources)) for i, sources in zip(strict, cited, strict=True)]
        )
        for i, judgement in zip(strict, by_value, strict=True):
            claim = cases[i].response
            missing = [verdict for verdict in judgement.verdicts if verdict.score == 1.0]
            words = [(verdict.span, fold(verdict.span.of(claim))) for verdict in missing]
            if any(word not in _NOT_VALUES if is_value(word) else is_name(claim, span) for span, word in words):
                missing += [verdict for verdict in judgements[i].verdicts if verdict.score == 1.0]
                reason = _quoted("not in any source", [verdict.span for verdict in missing], claim)
                results[i] = replace(results[i], score=1.0, reason=reason)
        return results


_NOT_VALUES = frozenset({"one", "first", "second"})  # mostly pronouns and adverbs: "one of them", "he first went"


_MAX_QUOTED = 5  # most spans quoted in one reason


def _quoted(reason: str, spans: Sequence[Span], text: str) -> str:
    quoted = [f"“{span.of(text)}”" for span in merge(text, spans)]
    more = f" and {len(quoted) - _MAX_QUOTED} more" if len(quoted) > _MAX_QUOTED else ""
    return f"{reason}: {', '.join(quoted[:_MAX_QUOTED])}{more}"


def _result(case: Case, judgement: Judgement) -> ClaimResult:
    """Turn the judgement of `case`, whose response is a claim, into the result for the claim."""
    worst = max((verdict.score for verdict in judgement.verdicts), default=None)
    score = judgement.hallucination if judgement.hallucination is not None else worst
    if score is None and judgement.judged:
        score = 0.0  # judged without any verdict
    if score is None:
        return ClaimResult(None, "; ".join(judgement.notes) or "the checker does not say", usage=judgement.usage)
    by_reason: dict[str, list[Span]] = {}  # of the worst spans
    for verdict in judgement.verdicts:
        if verdict.score == worst and verdict.score > 0 and (verdict.reason or verdict.label):
            by_reason.setdefault(verdict.reason or verdict.label or "", []).append(verdict.span)
    reasons = [_quoted(reason, spans, case.response) for reason, spans in by_reason.items()]
    by_source: dict[str, list[Evidence]] = {}
    for evidence in (e for verdict in judgement.verdicts for e in verdict.evidence):
        by_source.setdefault(evidence.source_id, []).append(evidence)
    joined = []  # neighbouring spans become one, with the weight of the heaviest
    for id, parts in by_source.items():
        for span in merge(case.source(id).text, (e.span for e in parts)):
            joined.append(Evidence(id, span, max(e.weight for e in parts if e.span.overlaps(span))))
    gaps = tuple(unjudged(case, judgement))
    return ClaimResult(score, "; ".join(reasons) or judgement.reason, tuple(joined), gaps, usage=judgement.usage)
