"""Tell whether the passages of a case answer its question, and whether they contradict a sentence.

By default, the default detector decides this offline. If you pass a chat model, the model decides, and the detector
steps in only if the model does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from veridical.detectors.claims.claim_checker import ClaimResult, Question
from veridical.detectors.claims.llm_checker import ask_by_chunk, chat_messages, read_yes_no
from veridical.detectors.default.detector import Default
from veridical.llm.prompts import prompt
from veridical.llm.protocol import ChatModel, Reply, Request
from veridical.records.types import Case
from veridical.workflows.causes.word_comparison import CaseWords

_LEAST_MASS = 0.5  # least probability of Yes and No together


@dataclass(frozen=True, slots=True)
class Reading:
    """A probability in [0, 1].

    If a chat model was asked and did not answer, the probability comes from the default detector, and `problem` says
    why. Otherwise, `problem` is None.
    """

    probability: float
    problem: str | None = None


class Reader(Protocol):
    """Estimates whether passages answer a question, and whether they contradict a response.

    Both methods return one reading per case, in order.
    """

    def answered(self, cases: Sequence[Case]) -> list[Reading]:
        """Estimate the probability that the sources of each case answer its question.

        Every case must have sources and a question.
        """
        ...

    def contradicted(self, cases: Sequence[Case]) -> list[Reading]:
        """Estimate the probability that the sources of each case contradict its response, given that it is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class DetectorReader:
    """Compares passages with questions and responses, using the default detector."""

    detector: Default

    def answered(self, cases: Sequence[Case]) -> list[Reading]:
        """Estimate the probability that the passages answer the question, from the encoder and from shared words.

        The result is the mean of two numbers:

        * The encoder's probability that the passages contradict the sentence "The passages answer the question", rather
          than say nothing about it. This probability is low if the passages are on another subject.
        * The highest proportion of the question's words that a single passage contains.
        """
        statements = [
            Case(case.id, f'The passages answer the question "{case.question}"', case.sources) for case in cases
        ]
        by_words = [max(CaseWords(case).question_shares, default=0.0) for case in cases]
        return [
            Reading((max((p for _, p in of_case), default=share) + share) / 2)
            for of_case, share in zip(self.detector.contradicted(statements), by_words, strict=True)
        ]

    def contradicted(self, cases: Sequence[Case]) -> list[Reading]:
        """Return, for each case, the highest probability that the sources contradict a sentence of the response."""
        return [Reading(max((p for _, p in of_case), default=0.0)) for of_case in self.detector.contradicted(cases)]


@dataclass(frozen=True, slots=True)
class ChatReader:
    """Asks a chat model one question for each case. The result is the model's probability of the word Yes."""

    model: ChatModel
    offline: Reader

    def answered(self, cases: Sequence[Case]) -> list[Reading]:
        """Ask the chat model whether the sources contain the answer to the question."""
        results = self._ask("cause_answered", "question", cases, [case.question or "" for case in cases])
        return _completed(results, cases, self.offline.answered)

    def contradicted(self, cases: Sequence[Case]) -> list[Reading]:
        """Ask the chat model whether the sources contradict the response."""
        results = self._ask("cause_contradicted", "statement", cases, [case.response for case in cases])
        return _completed(results, cases, self.offline.contradicted)

    def _ask(self, name: str, placeholder: str, cases: Sequence[Case], texts: Sequence[str]) -> list[ClaimResult]:
        prompts = prompt("verify_document"), prompt(name)
        questions = [Question(f"{case.id}#{i}", texts[i], case.sources) for i, case in enumerate(cases)]

        def request(about: Sequence[Question], document: str) -> Request:
            messages = chat_messages(prompts, document, (), **{placeholder: about[0].claim})
            hashes = "+".join(each.hash for each in prompts)
            return Request(messages, max_tokens=16, top_logprobs=10, stage="cause", prompt=hashes)

        def read(reply: Reply, _: Sequence[Question]) -> list[ClaimResult]:
            return [read_yes_no(reply, "Answer", _LEAST_MASS)]

        return ask_by_chunk(self.model, questions, request, read)


def _completed(
    results: Sequence[ClaimResult], cases: Sequence[Case], offline: Callable[[Sequence[Case]], list[Reading]]
) -> list[Reading]:
    """Convert each result to P(Yes). If a result has no score, ask the offline reader, and note the problem."""
    missing = [case for case, result in zip(cases, results, strict=True) if result.score is None]
    unanswered = iter(offline(missing) if missing else [])  # which loads the encoder
    return [
        replace(next(unanswered), problem=result.reason or "no answer")
        if result.score is None
        else Reading(1 - result.score)
        for result in results
    ]
