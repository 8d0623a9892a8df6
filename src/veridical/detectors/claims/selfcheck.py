"""Self-consistency: what a generator says each time it is asked is likelier to be known than what it says once.

The question is asked anew several times; a sentence of the response that the other answers do not back is suspect.
Needs no source, only the generator; it finds what the generator is unsure of, not what it is sure of and wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from veridical.core.detector import Detector, DetectorContext, DetectorInfo, digest_of
from veridical.core.errors import InputError
from veridical.core.segment import has_words
from veridical.core.spec import Spec
from veridical.core.types import Case, Claim, Judgement, Level, Source, Usage
from veridical.detectors.claims.aggregate import compose
from veridical.detectors.claims.claim_checker import Checker, DetectorChecker, Finding, Question
from veridical.detectors.claims.claims import sentence_claims
from veridical.detectors.claims.llm_checker import WAYS, ModelChecker
from veridical.detectors.claims.source_chunks import document
from veridical.detectors.overlap.detector import Overlap
from veridical.llm.connection import OPTIONS, Connection
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request, model_fingerprint
from veridical.llm.reply_parser import strip_reasoning

__all__ = ["SelfCheck"]

_OPTIONS = ("samples", "temperature", "max_tokens", "seed")


class SelfCheck:
    """Sampling consistency: the share of a generator's other answers that do not back a sentence (`selfcheck:overlap`).

    `checker` compares a sentence with one other answer: a detector (default: word overlap), a checker of claims, or
    "yes_no" or "cot", which ask the generator. `hallucination` is the mean over the sentences. The prompt of the case
    is asked again, else its question (with its history and sources).
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_chat_model=True)

    def __init__(
        self,
        generator: ChatModel,
        checker: Checker | Detector | str | None = None,
        *,
        samples: int = 5,
        temperature: float = 1.0,
        max_tokens: int = 512,
        seed: int = 0,
    ) -> None:
        if samples < 1 or not temperature > 0:
            raise InputError(
                f"samples is {samples}, the temperature {temperature}", hint="at least one sample, above temperature 0"
            )
        self.generator = generator
        self.checker = _checker(checker or Overlap(), generator)
        self.samples = samples
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.seed = seed
        own = checker in WAYS
        self.name = f"selfcheck:{self.checker.name}{'' if own else f':{generator.name}'}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> SelfCheck:
        """`selfcheck[:CHECKER][,model=NAME,samples=N,temperature=T,max_tokens=N,seed=N,…]`, "…" as for `judge`."""
        own, rest = spec.split(_OPTIONS)
        reached, rest = rest.split(OPTIONS)
        seed = own.options.get("seed", "0")
        if not seed.isascii() or not seed.isdecimal():
            raise InputError(f"seed of selfcheck is {seed!r}", hint="a whole number from 0")
        generator = (context.connection or Connection()).with_options(reached.options).chat()
        checker: Detector | str = rest.value if rest.value in WAYS else context.load(rest.nested("overlap"))  # type: ignore[assignment]
        return cls(
            generator,
            checker,
            samples=own.whole("samples", 5) or 5,
            temperature=own.number("temperature", 1.0, 0.0, float("inf")),
            max_tokens=own.whole("max_tokens", 512) or 512,
            seed=int(seed),
        )

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on: generator, checker, and how samples are drawn."""
        drawn = [self.samples, self.temperature, self.max_tokens, self.seed]
        prompts = [each.hash for each in getattr(self.checker, "prompts", ())]
        server = digest_of(model_fingerprint(self.generator))
        about = {"model": self.generator.name, "server": server, "checker": self.checker.name}
        return {**about, "prompts": prompts, "drawn": drawn}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement a case; all samples are asked for in one call, and all comparisons made in another."""
        asked = [self._requests(case) for case in cases]
        requests = [request for mine in asked for request in mine]
        replies = iter(self.generator.chat(requests) if requests else [])
        answers = [[next(replies) for _ in mine] for mine in asked]
        claims = [sentence_claims(case.response).claims for case in cases]
        questions = [
            Question(case.id, claim.text, (Source("sample", text),))
            for case, own, mine in zip(cases, claims, answers, strict=True)
            for claim in own
            for text in _texts(mine)
        ]
        findings = iter(self.checker.check(questions))
        judged = []
        for case, own, mine in zip(cases, claims, answers, strict=True):
            found = [(claim, [next(findings) for _ in _texts(mine)]) for claim in own]
            judged.append(self._judgement(case, found, mine))
        return judged

    def _requests(self, case: Case) -> list[Request]:
        """The same request under as many seeds as samples are wanted: a cache then keeps them apart."""
        messages = _messages(case)
        if not has_words(case.response) or not messages:
            return []
        return [
            Request(
                messages,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                seed=self.seed + i,
                stage="sample",
            )
            for i in range(self.samples)
        ]

    def _judgement(
        self, case: Case, found: Sequence[tuple[Claim, list[Finding]]], replies: Sequence[Reply | Failure]
    ) -> Judgement:
        if not found or not replies:
            why = "no prompt and no question to ask again" if found else "the response makes no claim"
            return Judgement(case.id, self.name, judged=(), notes=(why,))
        usable = len(_texts(replies))
        notes = []
        if usable < len(replies):
            why = next((r.reason for r in replies if isinstance(r, Failure)), "an empty answer")
            notes.append(f"{len(replies) - usable} of {len(replies)} samples cannot be used: {why}")
        answers = [(claim, _share(several)) for claim, several in found]
        judgement = compose(case, self.name, answers, notes=notes, score=lambda scores: sum(scores) / len(scores))
        spent = [*(r.usage for r in replies), *(f.usage for _, several in found for f in several)]
        return replace(judgement, usage=Usage.total(spent))


def _checker(given: Checker | Detector | str, generator: ChatModel) -> Checker:
    if given in WAYS:
        return ModelChecker(generator, way=given, head="selfcheck_document")  # type: ignore[arg-type]
    return DetectorChecker(given) if isinstance(given, Detector) else given  # type: ignore[return-value]


def _messages(case: Case) -> tuple[Message, ...]:
    """What is asked again: the prompt as it was, else the question after what was said before; () where neither is."""
    if case.prompt is not None:
        return (Message("user", case.prompt),)
    if case.question is None:
        return ()
    asked = "\n".join([*(f"{turn.speaker}: {turn.text}" for turn in case.history), case.question])
    if any(has_words(source.text) for source in case.sources):
        asked = fill(prompt("selfcheck_sample"), document=document(case.sources), question=asked)
    return (Message("user", asked),)


def _texts(replies: Sequence[Reply | Failure]) -> list[str]:
    found = [strip_reasoning(reply.text) for reply in replies if isinstance(reply, Reply)]
    return [text for text in found if has_words(text)]


def _share(several: Sequence[Finding]) -> Finding:
    """The mean over the samples that could be compared; no score where none could."""
    read = [finding.score for finding in several if finding.score is not None]
    if not read:
        return Finding(None, several[0].reason if several else "no sample to compare with")
    n = len(several)
    against = sum(read) / len(read)
    unread = f", {n - len(read)} unreadable" if len(read) < n else ""
    return Finding(against, f"backed by {len(read) - sum(read):.3g} of {len(read)} other answers{unread}")
