"""Factored verification (C §2.2): a response in claims, each checked by itself, their probabilities multiplied.

The claims are the response's sentences or what a model lists; the checker is any of our detectors, or a chat model.
Nothing is thresholded here: C's threshold lies between the mean scores of labelled faithful and hallucinated responses
(`metrics.calibration.threshold_between_means`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from veridical.core.detector import Detector, DetectorContext, DetectorInfo, digest_of, fingerprint_of, info_of
from veridical.core.errors import InputError
from veridical.core.segment import has_words
from veridical.core.spans import Span
from veridical.core.spec import Spec
from veridical.core.types import Case, Claim, Judgement, Source, Usage, Verdict
from veridical.detectors.claims.aggregate import compose
from veridical.detectors.claims.citations import DANGLING, MISSING, WRONG, CitationPolicy, ResponseCitations
from veridical.detectors.claims.claim_checker import Checker, DetectorChecker, Finding, Question
from veridical.detectors.claims.claim_coverage import coverage, to_cover
from veridical.detectors.claims.claims import Claims, sentence_claims, split_by_model
from veridical.detectors.claims.few_shot import read_shots
from veridical.detectors.claims.llm_checker import WAYS, ModelChecker
from veridical.llm.connection import OPTIONS, Connection
from veridical.llm.prompts import prompt
from veridical.llm.protocol import ChatModel, model_fingerprint

__all__ = ["Verify"]

_OPTIONS = ("citations", "splitter", "coverage")
_ASKING = ("window", "claims_per_call", "shots", "least_mass")


class Verify:
    """Each claim of the response checked by itself, by another detector (`verify:overlap`) or by a language model.

    `checker` is a detector, a checker of claims, or "yes_no" or "cot", which ask `model` (`ModelChecker` has more
    options). `splitter` says what the claims are: the "sentences", or what `model` lists ("model"). With `citations` a
    claim is checked against the sources that it cites. `coverage`: each sentence of a source with `must_cover` is
    checked against the response, too.

    One verdict a claim, score = 1 - P(supported); `hallucination` is 1 - the product of those probabilities, over the
    claims that could be judged (and 1 where a citation dangles); `omission` is 1 - the least mean P(covered) of a
    perspective. A claim whose answer cannot be read leaves `judged` and is counted in the notes.
    """

    info = DetectorInfo(needs_sources=True, needs_chat_model=True)

    def __init__(
        self,
        checker: Checker | Detector | str = "yes_no",
        *,
        model: ChatModel | None = None,
        splitter: Literal["sentences", "model"] = "sentences",
        citations: CitationPolicy | None = None,
        coverage: bool = True,
    ) -> None:
        if splitter not in ("sentences", "model"):
            raise InputError(f"the splitter is {splitter!r}", hint="sentences or model")
        if model is None and (splitter == "model" or isinstance(checker, str)):
            raise InputError("verify has no model to ask", hint="give model=, or take a detector as the checker")
        self.checker = _checker(checker, model)
        self.model = model
        self.splitter = splitter
        self.citations = citations
        self.coverage = coverage
        given = [("splitter", splitter, "sentences"), ("citations", str(citations or "off"), "off")]
        given.append(("coverage", "yes" if coverage else "no", "yes"))
        more = (f",{option}={value}" for option, value, usual in given if value != usual)
        self.name = f"verify:{self.checker.name}{''.join(more)}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Verify:
        """`verify[:CHECKER][,citations=…,splitter=…,coverage=no,…]`.

        CHECKER is the spec of any detector that needs sources, or yes_no or cot, which ask a model and also take
        window, claims_per_call, shots=FILE, least_mass, and how the model is reached. Without one it is yes_no where a
        model is named, else overlap. `citations` are as in `CitationPolicy.parse`.
        """
        own, rest = spec.split(_OPTIONS)
        connection = context.connection or Connection()
        if rest.value is None or rest.value in WAYS:
            rest.accept((*OPTIONS, *_ASKING), values=1)
            asking, reached = rest.split(_ASKING)
            connection = connection.with_options(reached.options)
            if rest.values or rest.options or connection.model:
                return cls(_asking(rest.value, asking, connection), **_read(own, connection))
        return cls(context.load(rest.nested("overlap")), **_read(own, connection))

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on: how it asks, and what the detector that checks the claims says of itself."""
        checker = self.checker
        about: dict[str, Any] = {"splitter": self.splitter, "citations": str(self.citations or "off")}
        inner = fingerprint_of(checker.detector) if isinstance(checker, DetectorChecker) else {"name": checker.name}
        about |= {"coverage": self.coverage, "checker": inner}
        models = [model for model in (self.model, getattr(checker, "model", None)) if model is not None]
        if models:
            prompts = (prompt("split_claims"), *getattr(checker, "prompts", ()))
            shots = [[shot.document, shot.claim, shot.supported] for shot in getattr(checker, "shots", ())]
            about["prompts"] = [each.hash for each in prompts]
            about["shots"] = digest_of(shots)
            about["server"] = digest_of([model_fingerprint(model) for model in models])
        return about

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement a case; the claims of all cases go to the checker in one call."""
        plans = self._plans(cases)
        questions = [question for plan in plans for question in plan.questions()]
        findings = iter(self.checker.check(questions))
        return [self._judgement(plan, [next(findings) for _ in plan.questions()]) for plan in plans]

    def _plans(self, cases: Sequence[Case]) -> list[_Plan]:
        why = [_nothing(case) for case in cases]
        asked = [case for case, reason in zip(cases, why, strict=True) if reason is None]
        cited = self.citations is not None
        if self.splitter == "model" and self.model is not None:
            split = iter(split_by_model(self.model, asked, cited=cited))
        else:
            split = iter([sentence_claims(case.response, cited=cited) for case in asked])
        pairs = zip(cases, why, strict=True)
        return [self._plan(case, None if reason else next(split), reason) for case, reason in pairs]

    def _plan(self, case: Case, claims: Claims | None, why: str | None) -> _Plan:
        plan = _Plan(case, claims, why)
        if claims is not None:
            cited = ResponseCitations.of_case(case) if self.citations else None
            plan.cited = cited
            plan.claims = [self._asked(case, claim, cited) for claim in claims.claims]
            if cited is not None and self.citations and self.citations.each:
                plan.alone = [pair for asked in plan.claims for pair in _alone(case, asked, cited)]
        if self.coverage:
            plan.covers = list(to_cover(case))
        return plan

    def _asked(self, case: Case, claim: Claim, cited: ResponseCitations | None) -> _Asked:
        """What is asked of a claim: nothing, where it cites nothing and such claims are skipped."""
        if cited is None or self.citations is None:
            return _Asked(claim, Question(case.id, claim.text, case.sources, strict_values=True))
        own = cited.cited_by(claim)
        text = claim.text if self.checker.reads_citations else cited.without_citations(claim)
        if not text:
            return _Asked(claim, None, "nothing is claimed besides a citation", cites=bool(own))
        if own and not any(has_words(source.text) for source in own):
            return _Asked(claim, None, "the cited sources hold no text", cites=True)
        if not own and self.citations.uncited == "skip":
            return _Asked(claim, None, "no source is cited")
        question = Question(case.id, text, own or case.sources, strict_values=True)
        return _Asked(claim, question, cites=bool(own))

    def _judgement(self, plan: _Plan, findings: Sequence[Finding]) -> Judgement:
        n, m = sum(asked.question is not None for asked in plan.claims), len(plan.alone)
        omission, omissions, judged_sources, unread = coverage(plan.case, plan.covers, findings[n + m :])
        split = plan.split or Claims(())
        usage = Usage.total([split.usage, *(finding.usage for finding in findings)])
        notes = [*([plan.why] if plan.why else []), *split.notes]
        if plan.why is not None:
            return Judgement(
                plan.case.id,
                self.name,
                omission=omission,
                omissions=omissions,
                judged=(),
                notes=(*notes, *unread),
                usage=usage,
                provenance=self._provenance(split, findings),
                judged_sources=judged_sources,
            )
        answered = iter(findings[:n])
        answers = [_answer(a, next(answered) if a.question else Finding(None, a.why)) for a in plan.claims]
        further = self._citation_verdicts(plan, answers, findings[n : n + m])
        pairs = list(zip((asked.claim for asked in plan.claims), answers, strict=True))
        judgement = compose(plan.case, self.name, pairs, further=further, left=split.left, notes=notes)
        invented = any(verdict.label == DANGLING for verdict in further)
        return replace(
            judgement,
            hallucination=1.0 if invented else judgement.hallucination,
            omission=omission,
            omissions=omissions,
            judged_sources=judged_sources,
            notes=(*judgement.notes, *unread),
            usage=usage,
            provenance=self._provenance(split, findings),
        )

    def _citation_verdicts(self, plan: _Plan, answers: Sequence[Finding], alone: Sequence[Finding]) -> list[Verdict]:
        """What is found about citations: they dangle, they are missing, or what they cite does not back the claim."""
        if plan.cited is None or self.citations is None:
            return []
        found = list(plan.cited.dangling())
        for asked, answer in zip(plan.claims, answers, strict=True):
            if not asked.cites and self.citations.missing and not plan.cited.in_claim(asked.claim):
                found.append(Verdict(asked.claim.spans[0], 1.0, MISSING, reason="no source is cited"))
            own = plan.cited.links(asked.claim) if answer.score is not None else []
            if len({id for _, id in own}) == 1:
                found += [_wrong(citation, asked.claim, answer) for citation, _ in own]
        for (asked, citation, _), answer in zip(plan.alone, alone, strict=True):
            if answer.score is not None:
                found.append(_wrong(citation, asked.claim, answer))
        return found

    def _provenance(self, split: Claims, findings: Sequence[Finding]) -> tuple[tuple[str, str], ...]:
        """The hash of each prompt that a model was asked with, and what each stage cost."""
        stages = {"split": split.usage, "check": Usage.total(finding.usage for finding in findings)}
        prompts = [prompt("split_claims")] if split.usage else []
        if isinstance(self.checker, ModelChecker) and any(finding.usage for finding in findings):
            prompts += self.checker.prompts
        if not prompts:
            return ()
        return (
            *((f"prompt {name}", hash) for name, hash in sorted({p.name: p.hash for p in prompts}.items())),
            *(
                (f"stage {stage}", f"{u.calls} calls, {u.prompt_tokens} + {u.completion_tokens} tokens")
                for stage, u in sorted(stages.items())
                if u
            ),
        )


@dataclass(slots=True)
class _Asked:
    """A claim, and the question asked of it; without one, `why`."""

    claim: Claim
    question: Question | None
    why: str | None = None
    cites: bool = False


@dataclass(slots=True)
class _Plan:
    """All that is asked of one case, in the order of its questions: claims, citations alone, what is to be covered."""

    case: Case
    split: Claims | None
    why: str | None
    cited: ResponseCitations | None = None
    claims: list[_Asked] = field(default_factory=list)
    alone: list[tuple[_Asked, Span, Question]] = field(default_factory=list)
    covers: list[tuple[Source, Span]] = field(default_factory=list)

    def questions(self) -> list[Question]:
        response = (Source("response", self.case.response),)
        return [
            *(asked.question for asked in self.claims if asked.question),
            *(question for _, _, question in self.alone),
            *(
                Question(self.case.id, span.of(source.text), response)
                for source, span in self.covers
                if has_words(self.case.response)  # nothing is covered by nothing: no need to ask
            ),
        ]


def _asking(way: str | None, options: Spec, reached: Connection) -> ModelChecker:
    """The checker that asks a model, as a spec's options say."""
    return ModelChecker(
        reached.chat(),
        way=way or "yes_no",  # type: ignore[arg-type]
        shots=read_shots(options.options["shots"]) if "shots" in options.options else (),
        least_mass=options.number("least_mass", 0.5),
        window=options.whole("window"),
        claims_per_call=options.whole("claims_per_call", 1) or 1,
    )


def _read(options: Spec, reached: Connection) -> dict[str, Any]:
    """The arguments of `Verify` that a spec's options give."""
    splitter = options.choice("splitter", "sentences", ("sentences", "model"))
    return {
        "splitter": splitter,
        "model": reached.chat() if splitter == "model" else None,
        "citations": CitationPolicy.parse(options.options.get("citations", "off")),
        "coverage": options.flag("coverage", True),
    }


def _checker(given: Checker | Detector | str, model: ChatModel | None) -> Checker:
    if isinstance(given, str):
        assert model is not None
        return ModelChecker(model, way=given)  # type: ignore[arg-type]
    if isinstance(given, Detector):
        if not info_of(given).needs_sources:
            raise InputError(f"{given.name} reads no sources", hint="a checker of claims must")
        return DetectorChecker(given)
    return given


def _nothing(case: Case) -> str | None:
    """Why nothing can be asked of a case, None where something can."""
    if not has_words(case.response):
        return "the response makes no claim"
    if not case.sources:
        return "no sources to check against"
    return None if any(has_words(source.text) for source in case.sources) else "the sources hold no text"


def _alone(case: Case, asked: _Asked, cited: ResponseCitations) -> Iterator[tuple[_Asked, Span, Question]]:
    """The claim against each of several sources that it cites."""
    own = cited.links(asked.claim)
    if asked.question is not None and len({id for _, id in own}) > 1:
        for citation, id in own:
            yield asked, citation, replace(asked.question, sources=(case.source(id),))


def _answer(asked: _Asked, answer: Finding) -> Finding:
    """The answer about the claim as it stands: where another wording was asked, a part left unjudged leaves it all."""
    if not answer.unjudged or (asked.question is not None and asked.question.claim == asked.claim.text):
        return answer
    return replace(answer, unjudged=(Span(0, len(asked.claim.text)),))


def _wrong(span: Span, claim: Claim, answer: Finding) -> Verdict:
    reason = "the cited source does not back the claim" if answer.score == 1.0 else None
    return Verdict(span, answer.score or 0.0, WRONG, claim, answer.evidence, reason)
