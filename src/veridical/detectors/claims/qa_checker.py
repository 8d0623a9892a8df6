"""Check a claim by question answering: compare the claim's answers with the sources' answers (QAGS, QuestEval).

A chat model writes questions about the claim and answers them from the sources. Both answers to a question are compared
by the F1 of their words, with numbers and dates compared by value. The method follows Wang et al. 2020 and Scialom et
al. 2021, and is a baseline of CH-Wang et al. 2024, §5.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from veridical.detectors.claims.claim_checker import ClaimResult, Question
from veridical.detectors.claims.llm_checker import ask_by_chunk, chat_messages
from veridical.detectors.overlap.counting import clipped_overlap
from veridical.llm.prompts import PromptTemplate, fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request
from veridical.llm.reply_parser import strip_reasoning
from veridical.records.errors import InputError
from veridical.records.types import Evidence, Usage
from veridical.text.matching import WORDS, Profile
from veridical.text.quantities import fold
from veridical.text.quotes import find_quote
from veridical.text.segment import has_words, words

_LONGEST_ANSWER = 30  # words; a longer reply explains instead of answering
_LINE = re.compile(r"^[\s>*_#\d.)-]*(question|answer)[ \t*_]*:[ \t*_]*(\S.*)$", re.IGNORECASE)
_MARKS = " \t*_"


class QAChecker:
    """Checks claims by question answering: a chat model asks questions about a claim and answers them from the sources.

    Each question has two answers, one that the claim gives and one from the sources. They are compared by the F1 of
    their words (`answer_f1`), which is 0 if the sources do not answer the question. The score of a claim is 1 minus the
    mean F1 of its questions.

    Args:
        model: The chat model that asks and answers.
        questions: The maximum number of questions about a claim.
        window: The maximum number of characters of the sources in one prompt. If the sources need several prompts, the
            best answer counts. Default: all sources in one prompt.
    """

    reads_citations = False

    def __init__(self, model: ChatModel, *, questions: int = 3, window: int | None = None) -> None:
        if not 1 <= questions <= 20 or (window is not None and window < 1):
            raise InputError(f"questions is {questions} and window is {window}", hint="1 to 20, and at least 1")
        self.model = model
        self.questions = questions
        self.window = window
        options = [("questions", questions, 3), ("window", window, None)]
        self.name = f"qa:{model.name}" + "".join(f",{o}={v}" for o, v, default in options if v != default)

    @cached_property
    def prompts(self) -> tuple[PromptTemplate, ...]:
        """The prompt templates: for writing questions, for the document, and for answering."""
        return prompt("qa_questions"), prompt("verify_document"), prompt("qa_answer")

    def check(self, questions: Sequence[Question]) -> list[ClaimResult]:
        """Check each claim. One call to the model requests questions about all claims, and another one the answers."""
        ask = self.prompts[0]
        requests = [
            Request(
                (Message("user", fill(ask, claim=question.claim, count=str(self.questions))),),
                max_tokens=96 * self.questions,
                stage="ask",
                prompt=ask.hash,
            )
            for question in questions
        ]
        replies = self.model.chat(requests) if requests else []
        pairs_of_claims = [
            [] if isinstance(reply, Failure) else read_questions(reply.text, question.claim)[: self.questions]
            for question, reply in zip(questions, replies, strict=True)
        ]
        to_answer = [
            _Asked(question.case_id, text, question.sources, answer=answer)
            for question, pairs in zip(questions, pairs_of_claims, strict=True)
            for text, answer in pairs
        ]
        answers = iter(ask_by_chunk(self.model, to_answer, self._request, _read_answer, self.window))
        return [
            _of_claim(reply, [next(answers) for _ in pairs])
            for reply, pairs in zip(replies, pairs_of_claims, strict=True)
        ]

    def _request(self, questions: Sequence[Question], document: str) -> Request:
        (question,) = questions
        prompts = self.prompts[1], self.prompts[2]
        messages = chat_messages(prompts, document, question=question.claim)
        return Request(messages, max_tokens=64, stage="answer", prompt="+".join(p.hash for p in prompts))


@dataclass(frozen=True, slots=True)
class _Asked(Question):
    """A question about a claim (`claim` holds its text), and the answer that the claim gives."""

    answer: str = ""


def read_questions(reply: str, claim: str) -> list[tuple[str, str]]:
    r"""Parse a reply that lists questions about a claim, and return each question with the claim's answer.

    Questions whose answer does not occur in the claim are skipped.

    >>> read_questions("Question: When?\nAnswer: in 1889\nQuestion: Why?\nAnswer: rain", "Built in 1889.")
    [('When?', 'in 1889')]
    """
    pairs: dict[str, str] = {}
    question = None
    for line in strip_reasoning(reply).splitlines():
        match = _LINE.match(line)
        text = match[2].rstrip(_MARKS) if match else ""
        if match and match[1].lower() == "question":
            question = text
        elif match and question is not None:
            if has_words(question) and has_words(text) and find_quote(claim, text) is not None:
                pairs.setdefault(question, text)
            question = None
    return list(pairs.items())


def answer_f1(answer: str, other: str) -> float:
    """Compute the F1 score of the words that two answers share, in [0, 1].

    Stop words are ignored, and numbers and dates are compared by value.

    >>> answer_f1("in May 2021", "May 2021"), answer_f1("1,200 people", "1.2 thousand"), answer_f1("Anna", "Berg")
    (1.0, 0.6666666666666666, 0.0)
    """
    one, two = Profile(answer, WORDS["values"]), Profile(other, WORDS["values"])
    if not one.total or not two.total:
        return float(re.findall(r"\w+", fold(answer)) == re.findall(r"\w+", fold(other)))
    precision, recall = clipped_overlap([one], [two], []), clipped_overlap([two], [one], [])
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _read_answer(reply: Reply, questions: Sequence[Question]) -> list[ClaimResult]:
    """Score a reply as 1 minus its F1 with the claim's answer.

    The place in the sources where the reply occurs is the evidence.
    """
    (question,) = questions
    assert isinstance(question, _Asked)
    lines = [line.strip() for line in strip_reasoning(reply.text).splitlines() if line.strip()]
    match = _LINE.match(lines[0]) if lines else None
    answer = match[2].rstrip(_MARKS) if match else lines[0] if lines else ""
    if len(lines) != 1 or not has_words(answer) or len(words(answer)) > _LONGEST_ANSWER or reply.finish == "length":
        return [ClaimResult(None, "the reply is not a short answer", usage=reply.usage)]
    if "unanswerable" in answer.lower():
        reason = f"“{question.claim}”: the response says “{question.answer}”, the sources do not say"
        return [ClaimResult(1.0, reason, usage=reply.usage)]
    quoted = ((source.id, find_quote(source.text, answer)) for source in question.sources)
    evidence = next((Evidence(id, span) for id, span in quoted if span), None)
    score = 1.0 - answer_f1(question.answer, answer)
    reason = f"“{question.claim}”: the response says “{question.answer}”, the sources “{answer}”"
    return [ClaimResult(score, reason, (evidence,) if evidence else (), usage=reply.usage)]


def _of_claim(reply: Reply | Failure, answers: Sequence[ClaimResult]) -> ClaimResult:
    """Average the scores of a claim's questions. The reason names the question whose answers differ most."""
    usage = Usage.total([reply.usage, *(answer.usage for answer in answers)])
    scored = [(answer.score, answer) for answer in answers if answer.score is not None]
    if not scored:
        problem = reply.reason if isinstance(reply, Failure) else "no question about the claim could be read"
        return ClaimResult(None, answers[0].reason if answers else problem, usage=usage)
    worst, answer = max(scored, key=lambda pair: pair[0])
    evidence = tuple(dict.fromkeys(e for _, each in scored for e in each.evidence))
    mean = sum(score for score, _ in scored) / len(scored)
    return ClaimResult(mean, answer.reason if worst > 0 else None, evidence, usage=usage)
