"""Check self-consistency: sample more answers from the generator, and compare each sentence with these answers.

The check needs the generator but no sources. It finds statements that the generator is unsure about, but no errors that
the generator repeats with confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from veridical.detectors.claims.aggregate import aggregate_claims
from veridical.detectors.claims.claim_checker import ClaimChecker, ClaimResult, DetectorChecker, Question
from veridical.detectors.claims.claims import Claims, sentence_claims
from veridical.detectors.claims.llm_checker import LLMChecker
from veridical.detectors.claims.source_chunks import format_sources
from veridical.detectors.overlap.detector import Overlap
from veridical.llm.connection import OPTIONS, Connection
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request, model_fingerprint
from veridical.llm.reply_parser import strip_reasoning
from veridical.records.detector import Detector, DetectorContext, DetectorInfo, digest_of
from veridical.records.errors import InputError
from veridical.records.judging import NO_CLAIM, not_judged
from veridical.records.spec import Spec
from veridical.records.types import Case, Claim, Judgement, Level, Source, Usage
from veridical.text.segment import has_words

_OPTIONS = ("samples", "temperature", "max_tokens", "seed", "min_probability_mass")
_CHECKERS = ("yes_no", "cot")


class SampleChecker(LLMChecker):
    """Asks a chat model whether a sentence agrees with another answer to the same question. `SelfCheck` uses it."""

    document_prompt = "selfcheck_document"


class SelfCheck:
    """Checks each sentence against further answers that a chat model gives to the same question (`selfcheck:overlap`).

    The generator is the chat model that wrote the response. It is asked again with the prompt of the case. If the case
    has no prompt, the question is sent together with the history and the sources. Each sentence is then checked against
    each of the new answers, as if the answer were its source. The score of a sentence is the mean over the answers, and
    `hallucination` is the mean score of all sentences.

    Args:
        generator: The chat model to ask again.
        checker: The method of comparing a sentence with another answer: a detector, a `ClaimChecker`, or "yes_no" or
            "cot", which ask the generator. Default: word overlap.
        samples: How many answers to sample.
        temperature: The sampling temperature, above 0.
        max_tokens: At most this many tokens are in an answer.
        seed: The seed of the first sample. Each further sample has the next seed.
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_chat_model=True, needs_sources=False)

    def __init__(
        self,
        generator: ChatModel,
        checker: ClaimChecker | Detector | str | None = None,
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
        if isinstance(checker, str):
            self.checker: ClaimChecker = SampleChecker(generator, method=checker)  # type: ignore[arg-type]
        else:
            checker = Overlap() if checker is None else checker
            self.checker = DetectorChecker(checker) if isinstance(checker, Detector) else checker
        self.samples = samples
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.seed = seed
        asks_generator = isinstance(self.checker, SampleChecker) and self.checker.model is generator
        self.name = f"selfcheck:{self.checker.name}{'' if asks_generator else f':{generator.name}'}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> SelfCheck:
        """Make the detector for `selfcheck[:CHECKER][,OPTION=VALUE,…]`.

        CHECKER is the spec of a detector, or "yes_no" or "cot". The default is overlap. You can add the options that
        say how to reach the chat model (`llm.connection`).

        Options:
            samples, temperature, max_tokens, seed: As in `SelfCheck`.
            min_probability_mass: As in `LLMChecker`.
        """
        options, rest = spec.split(_OPTIONS)
        connection_options, rest = rest.split(OPTIONS)
        seed = options.options.get("seed", "0")
        if not seed.isascii() or not seed.isdecimal():
            raise InputError(f"seed of selfcheck is {seed!r}", hint="a whole number from 0")
        generator = (context.connection or Connection()).with_options(connection_options.options).chat()
        mass = options.number("min_probability_mass", 0.5)
        checker: ClaimChecker | Detector = (
            SampleChecker(generator, method=rest.value, min_probability_mass=mass)  # type: ignore[arg-type]
            if rest.value in _CHECKERS
            else context.load(rest.nested("overlap"))
        )
        return cls(
            generator,
            checker,
            samples=options.whole("samples", 5) or 5,
            temperature=options.number("temperature", 1.0, 0.0, float("inf")),
            max_tokens=options.whole("max_tokens", 512) or 512,
            seed=int(seed),
        )

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on: generator, checker, and sampling settings."""
        return {
            "model": self.generator.name,
            "server": digest_of(model_fingerprint(self.generator)),
            "checker": self.checker.name,
            "prompts": [each.hash for each in getattr(self.checker, "prompts", ())],
            "sampling": [self.samples, self.temperature, self.max_tokens, self.seed],
            "min_probability_mass": getattr(self.checker, "min_probability_mass", None),
        }

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. One call requests all new answers, and another compares the sentences with them."""
        requests = [self._requests(case) for case in cases]
        all_requests = [request for case_requests in requests for request in case_requests]
        outcomes = iter(self.generator.chat(all_requests) if all_requests else [])
        replies = [[next(outcomes) for _ in case_requests] for case_requests in requests]
        answers = [_answers(case_replies) for case_replies in replies]
        claims = [sentence_claims(case.response).claims for case in cases]
        questions = [
            Question(case.id, claim.text, (Source("sample", answer),))
            for case, case_claims, case_answers in zip(cases, claims, answers, strict=True)
            for claim in case_claims
            for answer in case_answers
        ]
        results = iter(self.checker.check(questions))
        judgements = []
        for case, case_claims, case_answers, case_replies in zip(cases, claims, answers, replies, strict=True):
            checked = [(claim, [next(results) for _ in case_answers]) for claim in case_claims]
            judgements.append(self._judgement(case, checked, case_replies))
        return judgements

    def _requests(self, case: Case) -> list[Request]:
        """Build one request for each sample. The requests differ in their seed, so that a cache keeps them apart.

        The list is empty if the case has neither a prompt nor a question to ask again, or if its response has no words.
        """
        if not has_words(case.response) or (case.prompt is None and case.question is None):
            return []
        text = case.prompt
        if text is None:
            text = "\n".join([*(f"{turn.speaker}: {turn.text}" for turn in case.history), case.question or ""])
            if any(has_words(source.text) for source in case.sources):
                text = fill(prompt("selfcheck_sample"), document=format_sources(case.sources), question=text)
        return [
            Request(
                (Message("user", text),),
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                seed=self.seed + i,
                stage="sample",
            )
            for i in range(self.samples)
        ]

    def _judgement(
        self, case: Case, claims: Sequence[tuple[Claim, list[ClaimResult]]], replies: Sequence[Reply | Failure]
    ) -> Judgement:
        if not claims:
            return not_judged(case, self.name, NO_CLAIM if has_words(case.response) else "the response has no words")
        if not replies:
            return not_judged(case, self.name, "no prompt and no question to ask again")
        notes = []
        unusable = len(replies) - len(_answers(replies))
        if unusable:
            reason = next((r.reason for r in replies if isinstance(r, Failure)), "an empty answer")
            notes.append(f"{unusable} of {len(replies)} samples cannot be used: {reason}")
        shares = []
        for claim, results in claims:
            scores = [result.score for result in results if result.score is not None]
            if not scores:
                problem = results[0].reason if results else "no sample to compare with"
                shares.append((claim, ClaimResult(None, problem)))
                continue
            unreadable = f", {len(results) - len(scores)} unreadable" if len(scores) < len(results) else ""
            reason = f"backed by {len(scores) - sum(scores):.3g} of {len(scores)} other answers{unreadable}"
            shares.append((claim, ClaimResult(sum(scores) / len(scores), reason)))
        split = Claims((), notes=tuple(notes))
        judgement = aggregate_claims(case, self.name, shares, split, score=lambda scores: sum(scores) / len(scores))
        usages = [*(r.usage for r in replies), *(result.usage for _, results in claims for result in results)]
        return replace(judgement, usage=Usage.total(usages))


def _answers(replies: Sequence[Reply | Failure]) -> list[str]:
    """Return the texts of the replies without their reasoning. Texts without words are left out."""
    texts = [strip_reasoning(reply.text) for reply in replies if isinstance(reply, Reply)]
    return [text for text in texts if has_words(text)]
