"""Estimate whether the passages (sources) of a case answer its question, and whether they contradict its response.

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
    """The estimate of a `Reader` for one case.

    Attributes:
        probability: The probability in [0, 1] that the passages answer the question, or that they contradict the
            response.
        problem: Why the chat model gave no usable answer, so that the default detector made the estimate instead. None
            if the chat model answered or was not asked.
    """

    probability: float
    problem: str | None = None


class Reader(Protocol):
    """Estimates whether the passages of a case answer its question, and whether they contradict its response.

    Both methods return one estimate (`Reading`) per case, in order.
    """

    def answered(self, cases: Sequence[Case]) -> list[Reading]:
        """Estimate the probability that the sources of each case answer its question.

        Every case must have sources and a question.
        """
        ...

    def contradicted(self, cases: Sequence[Case]) -> list[Reading]:
        """Estimate, for each case, the probability that its sources contradict its response.

        The response of each case is one flagged sentence, which is assumed to be wrong. A high probability means that
        the sources contradict it, and a low one that they say nothing about it.
        """
        ...


@dataclass(frozen=True, slots=True)
class DetectorReader:
    """A `Reader` that works offline, with the encoder of the default detector."""

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
        """Estimate, for each case, the probability that its sources contradict its response.

        The response is assumed to be wrong: either the sources contradict it, or they say nothing about it. If it has
        several sentences, the highest probability of a sentence is used.
        """
        return [Reading(max((p for _, p in of_case), default=0.0)) for of_case in self.detector.contradicted(cases)]


@dataclass(frozen=True, slots=True)
class ChatReader:
    """A `Reader` that asks a chat model one yes-or-no question for each case, and uses its probability of "Yes".

    If the model does not answer, the reader `offline` makes the estimate.
    """

    model: ChatModel
    offline: Reader

    def answered(self, cases: Sequence[Case]) -> list[Reading]:
        """Ask the chat model if the sources contain the answer, and return its probability of "Yes" for each case."""
        results = self._ask("cause_answered", "question", cases, [case.question or "" for case in cases])
        return _completed(results, cases, self.offline.answered)

    def contradicted(self, cases: Sequence[Case]) -> list[Reading]:
        """Ask the chat model if the sources contradict the response, and return its probability of "Yes" per case."""
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
