"""Verify a response by its claims: split it into claims, check each claim separately, and multiply the probabilities.

The method follows George and Stuhlmüller 2023, §2.2 and §3.2. The claims are the sentences of the response, or a list
that a model writes. The checker is a chat model or any detector.

This module applies no threshold. To compute the threshold of the paper, which lies between the mean scores of labelled
faithful and hallucinated responses, use `metrics.thresholding.threshold_between_means`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Literal

from veridical.detectors.claims.aggregate import AGGREGATES, aggregate_claims, aggregate_coverage, sentences_to_cover
from veridical.detectors.claims.cited_claims import CitationPolicy, ResponseCitations
from veridical.detectors.claims.claim_checker import ClaimChecker, ClaimResult, DetectorChecker, Question
from veridical.detectors.claims.claims import Claims, nothing_to_check, sentence_claims, split_by_model
from veridical.detectors.claims.few_shot import draw_few_shot, few_shot_option
from veridical.detectors.claims.llm_checker import METHODS, LLMChecker
from veridical.detectors.claims.qa_checker import QAChecker
from veridical.detectors.discrepancies.discrepancy import Discrepancy
from veridical.detectors.discrepancies.finding import MISSING_VALUES, discrepancies
from veridical.detectors.discrepancies.values import ambiguous_dates
from veridical.llm.connection import OPTIONS, Connection
from veridical.llm.prompts import prompt
from veridical.llm.protocol import ChatModel, model_fingerprint
from veridical.records.detector import (
    Detector,
    DetectorContext,
    DetectorInfo,
    digest_of,
    fingerprint_of,
    info_of,
    thresholds_of,
)
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.spec import Spec
from veridical.records.types import Case, Claim, Example, Judgement, Level, Source, Usage, Verdict
from veridical.text.citations import DANGLING, MISSING, WRONG
from veridical.text.segment import has_words

_OPTIONS = ("citations", "splitter", "aggregate", "coverage")
_LLM_OPTIONS = ("window", "claims_per_call", "few_shot", "min_probability_mass", "prompt")


class Verify:
    """Checks each claim of the response by itself, with another detector (`verify:overlap`) or a language model.

    Each claim has a verdict with the score 1 - P(supported). `hallucination` combines these scores as `aggregate` says,
    and is 1 if a citation matches no source. `omission` is 1 minus the mean P(covered) of the perspective
    (`Source.perspective`) with the lowest mean. If a model's answer about a claim cannot be parsed, the claim is not
    judged, and a note says how many such claims there are.

    Args:
        checker: A detector, a `ClaimChecker`, or "yes_no", "cot", "critique" or "qa", which ask `model`. `LLMChecker`
            and `QAChecker` have more options.
        model: The chat model that checks or lists claims.
        splitter: How to get the claims: "sentences" takes the response's sentences, "model" asks the chat model for a
            list.
        citations: The policy for citations. With a policy, a claim is checked only against the sources that it cites.
            Default: each claim is checked against all sources.
        aggregate: How to compute the response's score. "any" takes the probability that at least one claim is wrong, if
            claims are independent. It is high for every long response unless supported claims score 0. "worst" takes
            the score of the worst claim. "mean" takes the mean score of all claims, as in FActScore (Min et al. 2023).
            Default: "worst" for a detector with fitted thresholds, such as `default`, otherwise "any".
        coverage: Whether to check each sentence of a source with `must_cover` against the response.
    """

    info = DetectorInfo(needs_chat_model=True)

    def __init__(
        self,
        checker: ClaimChecker | Detector | str = "yes_no",
        *,
        model: ChatModel | None = None,
        splitter: Literal["sentences", "model"] = "sentences",
        citations: CitationPolicy | None = None,
        aggregate: str | None = None,
        coverage: bool = True,
    ) -> None:
        usual = "worst" if thresholds_of(checker) else "any"
        aggregate = aggregate or usual
        if aggregate not in AGGREGATES:
            raise UnknownNameError("aggregate", aggregate, AGGREGATES)
        if splitter not in ("sentences", "model"):
            raise InputError(f"the splitter is {splitter!r}", hint="sentences or model")
        if checker == "qa" and model is not None:
            self.checker: ClaimChecker = QAChecker(model)
        elif isinstance(checker, str) and model is not None:
            self.checker = LLMChecker(model, method=checker)  # type: ignore[arg-type]
        elif isinstance(checker, str) or (splitter == "model" and model is None):
            raise InputError("verify has no model to ask", hint="give model=, or take a detector as the checker")
        elif not isinstance(checker, Detector):
            self.checker = checker
        elif info_of(checker).needs_sources:
            self.checker = DetectorChecker(checker)
        else:
            raise InputError(f"{checker.name} reads no sources", hint="check claims with a detector that does")
        self.model = model
        self.splitter = splitter
        self.citations = citations
        self.aggregate = aggregate
        self.coverage = coverage
        options = [("splitter", splitter, "sentences"), ("citations", str(citations or "off"), "off")]
        options.append(("aggregate", aggregate, usual))
        options.append(("coverage", "yes" if coverage else "no", "yes"))
        changed = (f",{option}={value}" for option, value, default in options if value != default)
        self.name = f"verify:{self.checker.name}{''.join(changed)}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Verify:
        """Make the detector for `verify[:CHECKER][,OPTION=VALUE,…]`.

        CHECKER is the spec of any detector that needs sources, or a method that asks a model: yes_no, cot, critique or
        qa. The default is yes_no if a model is named, and the detector `default` otherwise. The last six options are
        for methods that ask a model. You can add the options that say how to reach this model (`llm.connection`).

        Options:
            splitter, aggregate, coverage: As in `Verify`.
            citations: "skip" or "all", then "+missing", "+each" or both (`CitationPolicy`).
            window, claims_per_call, min_probability_mass: As in `LLMChecker`.
            few_shot: A file of examples, "builtin" (the four examples in the package), or the number of examples to
                draw from labelled data (`bench --fit`). Not for qa.
            prompt: A file whose prompt replaces Veridical's prompt. It must have the same placeholder. Not for qa.
            questions: For qa, at most this many questions are asked about a claim. Default: 3.
        """
        options, rest = spec.split(_OPTIONS)
        connection = context.connection or Connection()
        checker: ClaimChecker | Detector | None = None
        if rest.value == "qa":
            names = ("window", "questions")
            qa_options, connection_options = rest.accept((*OPTIONS, *names), values=1).split(names)
            connection = connection.with_options(connection_options.options)
            checker = QAChecker(
                connection.chat(), questions=qa_options.whole("questions") or 3, window=qa_options.whole("window")
            )
        elif rest.value is None or rest.value in METHODS:
            rest.accept((*OPTIONS, *_LLM_OPTIONS), values=1)
            llm_options, connection_options = rest.split(_LLM_OPTIONS)
            connection = connection.with_options(connection_options.options)
            if rest.values or rest.options or connection.model:
                few_shot = llm_options.options.get("few_shot")
                checker = LLMChecker(
                    connection.chat(),
                    method=rest.value or "yes_no",  # type: ignore[arg-type]
                    few_shot=few_shot_option(few_shot) if few_shot else (),
                    min_probability_mass=llm_options.number("min_probability_mass", 0.5),
                    window=llm_options.whole("window"),
                    claims_per_call=llm_options.whole("claims_per_call", 1) or 1,
                    prompt_file=llm_options.options.get("prompt"),
                )
        splitter = options.choice("splitter", "sentences", ("sentences", "model"))
        return cls(
            checker or context.load(rest.nested("default")),
            model=connection.chat() if splitter == "model" else None,
            splitter=splitter,  # type: ignore[arg-type]
            citations=CitationPolicy.parse(options.options.get("citations", "off")),
            aggregate=options.options.get("aggregate"),
            coverage=options.flag("coverage", True),
        )

    @property
    def thresholds(self) -> dict[Level, float]:
        """The lowest score that is flagged, for claims, for source sentences, and perhaps for the response.

        All are the checker's threshold for responses, because each claim is checked as if it were a response. The
        response has it only if `aggregate` is "worst". There are no thresholds if the checker is not a detector, or if
        it has no fitted threshold for responses.
        """
        fitted = thresholds_of(self.checker.detector) if isinstance(self.checker, DetectorChecker) else {}
        if Level.RESPONSE not in fitted:
            return {}
        levels = [Level.SPAN, Level.SOURCE, *([Level.RESPONSE] if self.aggregate == "worst" else [])]
        return dict.fromkeys(levels, fitted[Level.RESPONSE])

    def fit(self, examples: Sequence[Example]) -> Verify:
        """Copy the detector, with as many few-shot examples as its checker was made for, drawn from `examples`.

        If the checker has its few-shot examples already, or needs none, the detector itself is returned.
        """
        if not isinstance(self.checker, LLMChecker) or len(self.checker.few_shot) == self.checker.n_few_shot:
            return self
        fitted = copy(self)
        fitted.checker = self.checker.with_few_shot(draw_few_shot(examples, self.checker.n_few_shot))
        return fitted

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on.

        This includes the splitter, citation policy, aggregate, checker, prompts, few-shot examples and server.
        """
        checker = self.checker
        about: dict[str, Any] = {"splitter": self.splitter, "citations": str(self.citations or "off")}
        if self.aggregate != "any":
            about["aggregate"] = self.aggregate
        inner = fingerprint_of(checker.detector) if isinstance(checker, DetectorChecker) else {"name": checker.name}
        about |= {"coverage": self.coverage, "checker": inner}
        models = [model for model in (self.model, getattr(checker, "model", None)) if model is not None]
        if models:
            prompts = (prompt("split_claims"), *getattr(checker, "prompts", ()))
            about["prompts"] = [each.hash for each in prompts]
            about["few_shot"] = digest_of([astuple(each) for each in getattr(checker, "few_shot", ())])
            about["min_probability_mass"] = getattr(checker, "min_probability_mass", None)
            about["server"] = digest_of([model_fingerprint(model) for model in models])
        return about

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. The claims of all cases are passed to the checker in one call."""
        problems = [nothing_to_check(case) for case in cases]
        to_split = [case for case, problem in zip(cases, problems, strict=True) if problem is None]
        cited = self.citations is not None
        if self.splitter == "model" and self.model is not None:
            claims = iter(split_by_model(self.model, to_split, cited=cited))
        else:
            claims = iter([sentence_claims(case.response, cited=cited) for case in to_split])
        plans = []
        for case, problem in zip(cases, problems, strict=True):
            to_cover = sentences_to_cover(case) if self.coverage else []
            plan = _Plan(case, Claims((), notes=(problem,)) if problem else next(claims), to_cover)
            if problem is None:
                self._add_questions(plan)
            plans.append(plan)
        results = iter(self.checker.check([question for plan in plans for question in plan.questions()]))
        return [self._judgement(plan, [next(results) for _ in plan.questions()]) for plan in plans]

    def _add_questions(self, plan: _Plan) -> None:
        """Add a question about each claim to the plan.

        With a citation policy, the question is about the cited sources. If the policy sets `each`, further questions
        are about each cited source alone.
        """
        case = plan.case
        plan.citations = None if self.citations is None else ResponseCitations.of_case(case)
        for claim in plan.split.claims:
            if self.citations is None or plan.citations is None:
                plan.claims.append(
                    _ClaimToCheck(claim, Question(case.id, claim.text, case.sources, strict_values=True))
                )
                continue
            sources = plan.citations.cited_by(claim)
            text = claim.text if self.checker.reads_citations else plan.citations.without_citations(claim)
            if not text:
                plan.claims.append(_ClaimToCheck(claim, None, "nothing is claimed besides a citation"))
            elif sources and not any(has_words(source.text) for source in sources):
                plan.claims.append(_ClaimToCheck(claim, None, "the cited sources hold no text"))
            elif not sources and self.citations.uncited == "skip":
                plan.claims.append(_ClaimToCheck(claim, None, "no source is cited"))
            else:
                question = Question(case.id, text, sources or case.sources, strict_values=True)
                plan.claims.append(_ClaimToCheck(claim, question))
                if self.citations.each and len(sources) > 1:
                    for citation, id in plan.citations.links(claim):
                        alone = replace(question, sources=(case.source(id),))
                        plan.single_sources.append((claim, citation, alone))

    def _judgement(self, plan: _Plan, results: Sequence[ClaimResult]) -> Judgement:
        n_claims = sum(to_check.question is not None for to_check in plan.claims)
        n_single = len(plan.single_sources)
        coverage = aggregate_coverage(plan.case, plan.to_cover, results[n_claims + n_single :])
        checked = iter(results[:n_claims])
        claim_results = []
        for to_check in plan.claims:
            result = next(checked) if to_check.question else ClaimResult(None, to_check.problem)
            if result.unjudged and to_check.question and to_check.question.claim != to_check.claim.text:
                # positions differ once citations are removed, so an unjudged part makes the whole claim unjudged
                result = replace(result, unjudged=(Span(0, len(to_check.claim.text)),))
            claim_results.append((to_check.claim, result))
        by_rule = isinstance(self.checker, DetectorChecker)
        found = discrepancies(plan.case, MISSING_VALUES) if by_rule else ()
        claim_results = [(claim, _with_found(claim, result, found)) for claim, result in claim_results]
        outside = [each.verdict(1.0) for each in found if not any(_holds(claim, each) for claim, _ in claim_results)]
        citations = self._citation_verdicts(plan, claim_results, results[n_claims : n_claims + n_single])
        score = AGGREGATES[self.aggregate]
        judgement = aggregate_claims(
            plan.case, self.name, claim_results, plan.split, other_verdicts=[*citations, *outside], score=score
        )
        dangling = any(verdict.label == DANGLING for verdict in citations)
        check_usage = Usage.total(result.usage for result in results)
        prompts = [prompt("split_claims")] if plan.split.usage else []
        if isinstance(self.checker, LLMChecker | QAChecker) and check_usage:
            prompts += self.checker.prompts
        provenance = sorted({(f"prompt {p.name}", p.hash) for p in prompts})
        for stage, usage in (("check", check_usage), ("split", plan.split.usage)):
            if prompts and usage:
                tokens = f"{usage.prompt_tokens} + {usage.completion_tokens} tokens"
                provenance.append((f"stage {stage}", f"{usage.calls} calls, {tokens}"))
        return replace(
            judgement,
            hallucination=1.0 if dangling or outside else judgement.hallucination,
            omission=coverage.omission,
            omissions=coverage.omissions,
            judged_sources=coverage.judged_sources,
            notes=(*judgement.notes, *coverage.notes, *(ambiguous_dates(plan.case) if by_rule else ())),
            usage=Usage.total([plan.split.usage, *(result.usage for result in results)]),
            provenance=tuple(provenance),
        )

    def _citation_verdicts(
        self, plan: _Plan, claims: Sequence[tuple[Claim, ClaimResult]], single_sources: Sequence[ClaimResult]
    ) -> list[Verdict]:
        """Build verdicts on citations that refer to no source, that are missing, or that do not support their claim."""
        if plan.citations is None or self.citations is None:
            return []
        verdicts = plan.citations.dangling()
        wrong: list[tuple[Span, Claim, ClaimResult]] = []
        for claim, result in claims:
            if self.citations.missing and not plan.citations.in_claim(claim):
                verdicts.append(Verdict(claim.spans[0], 1.0, MISSING, reason="no source is cited"))
            links = plan.citations.links(claim)
            if len({id for _, id in links}) == 1:
                wrong += [(citation, claim, result) for citation, _ in links]
        for (claim, citation, _), result in zip(plan.single_sources, single_sources, strict=True):
            wrong.append((citation, claim, result))
        for citation, claim, result in wrong:
            if result.score is not None:
                reason = "the cited source does not back the claim" if result.score == 1.0 else None
                verdicts.append(Verdict(citation, result.score, WRONG, claim, result.evidence, reason))
        return verdicts


def _holds(claim: Claim, discrepancy: Discrepancy) -> bool:
    return any(span.overlaps(discrepancy.span) for span in claim.spans)


def _with_found(claim: Claim, result: ClaimResult, found: Sequence[Discrepancy]) -> ClaimResult:
    """If a claim contains a discrepancy, give its result the score 1 and the reason of the discrepancy."""
    inside = [each for each in found if _holds(claim, each)]
    if not inside:
        return result
    reasons = dict.fromkeys(each.reason for each in inside)
    evidence = dict.fromkeys((*(piece for each in inside for piece in each.evidence), *result.evidence))
    return replace(result, score=1.0, reason="; ".join(reasons), evidence=tuple(evidence), unjudged=())


@dataclass(frozen=True, slots=True)
class _ClaimToCheck:
    """A claim and the question about it. If there is no question, `problem` says why."""

    claim: Claim
    question: Question | None
    problem: str | None = None


@dataclass(slots=True)
class _Plan:
    """All questions about one case, in this order: claims, single cited sources, sentences to cover."""

    case: Case
    split: Claims
    to_cover: list[tuple[Source, Span]]
    citations: ResponseCitations | None = None
    claims: list[_ClaimToCheck] = field(default_factory=list)
    single_sources: list[tuple[Claim, Span, Question]] = field(default_factory=list)

    def questions(self) -> list[Question]:
        """Return the questions for the checker, in order."""
        questions = [to_check.question for to_check in self.claims if to_check.question]
        questions += [question for _, _, question in self.single_sources]
        if has_words(self.case.response):  # an empty response covers nothing: no need to ask
            response = (Source("response", self.case.response),)
            questions += [Question(self.case.id, span.of(source.text), response) for source, span in self.to_cover]
        return questions
