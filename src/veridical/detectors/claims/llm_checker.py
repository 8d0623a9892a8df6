"""Ask a chat model whether sources support a claim, and parse its answer.

The methods follow George and Stuhlmüller 2023: the probability of Yes (§2.2, A.1.2), reasoning with quotes (A.1.3), or
a critique with a revised claim (A.3.1).

Each call asks about one claim and one chunk of the sources. A claim is supported if at least one chunk supports it. A
reply that does not clearly answer the question gives no score.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal

from veridical.detectors.claims.claim_checker import ClaimResult, Question
from veridical.detectors.claims.few_shot import FewShotExample, answered_examples, require_few_shot
from veridical.detectors.claims.source_chunks import chunk_sources
from veridical.llm.prompts import PromptTemplate, fill, prompt, read_prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request
from veridical.llm.reply_parser import labelled, labelled_values, numbered, quotes, strip_reasoning, yes_no, yes_no_mass
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Evidence, Source, Usage
from veridical.text.quotes import find_quote
from veridical.text.segment import words

METHODS = ("yes_no", "cot", "critique")
_MAX_QUOTED = 5  # most quotes in one reason
_QUOTE_SIMILARITY = 0.95


# ------------------------------------------------------------------------------------------- asking


def chat_messages(
    prompts: tuple[PromptTemplate, PromptTemplate],
    document: str,
    answered: Sequence[tuple[str, str, str]] = (),
    **text: str,
) -> tuple[Message, ...]:
    """Build the messages that ask a question about a document, with the few-shot examples first.

    Each question begins with the document, always in the same form, so that a server with a prefix cache can reuse the
    document for all claims.

    Args:
        prompts: The prompt template for the document, and the one for the question.
        document: The sources as text.
        answered: The few-shot examples, each as document, claim and answer.
        text: The claim or response to insert into the question, by the name of its placeholder.
    """
    document_prompt, question_prompt = prompts
    (placeholder,) = text
    messages = []
    for example, claim, answer in answered:
        question = f"{fill(document_prompt, document=example)}\n\n{fill(question_prompt, **{placeholder: claim})}"
        messages += [Message("user", question), Message("assistant", answer)]
    question = f"{fill(document_prompt, document=document)}\n\n{fill(question_prompt, **text)}"
    return (*messages, Message("user", question))


class LLMChecker:
    """Checks claims by asking a chat model whether the sources support them.

    Args:
        model: The chat model to ask.
        method: "yes_no" takes the probability of the word Yes (George and Stuhlmüller 2023, A.1.2). "cot" asks for
            reasoning with quotes, then 0 or 1 (A.1.3). "critique" asks for a critique, 0 or 1, and a revised claim
            (A.3.1).
        few_shot: The examples to show in the prompt, or the number of examples that `Verify.fit` should draw from
            labelled data.
        window: At most this many characters of the sources are in one prompt. Default: all. A chunk that the model
            refuses as too long is halved.
        claims_per_call: At most this many claims about the same sources are in one prompt. Above 1, each claim is
            answered by 0 or 1, which is cheaper but less exact.
        min_probability_mass: The lowest probability that Yes and No must have together, in [0, 1].
        prompt_file: A file whose prompt replaces the prompt in `llm/prompts/`. It must have the same placeholder.
    """

    reads_citations = True
    document_prompt = "verify_document"

    def __init__(
        self,
        model: ChatModel,
        *,
        method: Literal["yes_no", "cot", "critique"] = "yes_no",
        few_shot: Sequence[FewShotExample] | int = (),
        window: int | None = None,
        claims_per_call: int = 1,
        min_probability_mass: float = 0.5,
        prompt_file: str | Path | None = None,
    ) -> None:
        if method not in METHODS:
            raise UnknownNameError("method of checking", method, METHODS)
        if claims_per_call < 1 or (window is not None and window < 1):
            raise InputError(f"claims_per_call is {claims_per_call} and window is {window}", hint="both are at least 1")
        if method == "critique" and few_shot:
            raise InputError("a critique takes no few-shot examples", hint="yes_no and cot do")
        if claims_per_call > 1 and (method != "yes_no" or few_shot):
            raise InputError(
                "several claims per call take neither reasoning nor few-shot examples", hint="use yes_no without them"
            )
        self.model = model
        self.method = method
        self.few_shot = () if isinstance(few_shot, int) else tuple(few_shot)
        self.n_few_shot = few_shot if isinstance(few_shot, int) else len(self.few_shot)
        self.window = window
        self.claims_per_call = claims_per_call
        self.min_probability_mass = min_probability_mass
        asking = {"yes_no": "verify_yes_no", "cot": "verify_cot", "critique": "critique_claim"}[method]
        question = prompt("verify_many" if claims_per_call > 1 else asking)
        self.prompts = prompt(self.document_prompt), read_prompt(prompt_file, question) if prompt_file else question
        own = self.prompts[1].name if prompt_file else None
        options = [("claims_per_call", claims_per_call, 1), ("window", window, None), ("prompt", own, None)]
        self.name = f"{method}{f'+{self.n_few_shot}' if self.n_few_shot else ''}:{model.name}" + "".join(
            f",{option}={value}" for option, value, default in options if value != default
        )

    def with_few_shot(self, examples: Sequence[FewShotExample]) -> LLMChecker:
        """Copy the checker, with `examples` in place of its own few-shot examples."""
        shown = copy(self)
        shown.few_shot = tuple(examples)
        return shown

    def check(self, questions: Sequence[Question]) -> list[ClaimResult]:
        """Ask the chat model about each claim, and return the results in the order of the questions.

        All requests are sent to the model in one call. If a chunk of the sources was too long for the model, its
        request is repeated with each half of the chunk.
        """
        require_few_shot(self.name, self.few_shot, self.n_few_shot)
        return ask_by_chunk(self.model, questions, self._request, self._read, self.window, self.claims_per_call)

    def _request(self, questions: Sequence[Question], document: str) -> Request:
        if self.claims_per_call > 1:
            lines = (" ".join(question.claim.split()) for question in questions)
            numbered_claims = "\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1))
            messages = chat_messages(self.prompts, document, claims=numbered_claims)
            max_tokens = 16 + 8 * len(questions)
        else:
            answered = answered_examples(self.few_shot, "Supported", reasoning=self.method == "cot")
            messages = chat_messages(self.prompts, document, answered, claim=questions[0].claim)
            max_tokens = 16 if self.method == "yes_no" else 1024
        return Request(
            messages,
            max_tokens=max_tokens,
            top_logprobs=10 if self.method == "yes_no" and self.claims_per_call == 1 else None,
            stage="critique" if self.method == "critique" else "check",
            prompt="+".join(p.hash for p in self.prompts),
        )

    def _read(self, reply: Reply, questions: Sequence[Question]) -> list[ClaimResult]:
        if self.claims_per_call > 1:
            return read_many(reply, len(questions))
        (question,) = questions
        if self.method == "cot":
            return [read_cot(reply, "Supported", question.claim, question.sources)]
        if self.method == "critique":
            return [read_critique(reply)]
        return [read_yes_no(reply, "Supported", self.min_probability_mass)]


def ask_by_chunk(
    model: ChatModel,
    questions: Sequence[Question],
    request: Callable[[Sequence[Question], str], Request],
    read: Callable[[Reply, Sequence[Question]], list[ClaimResult]],
    window: int | None = None,
    per_call: int = 1,
) -> list[ClaimResult]:
    """Ask about each chunk of the sources, and return for each claim the result for the chunk that supports it best.

    If the answer about one chunk is missing or unclear, the claim gets a score only if another chunk supports it.

    Args:
        model: The chat model, which gets all requests in one call. A request whose chunk was too long is repeated with
            each half of the chunk.
        questions: The claims to check, with their sources.
        request: A function that builds the request for some questions about a chunk.
        read: A function that parses the reply to this request into one result per question.
        window: The maximum size of a chunk in characters. Default: all sources in one chunk.
        per_call: The maximum number of questions about the same sources in one request.
    """
    calls: list[_Call] = []
    for _, group in groupby(range(len(questions)), key=lambda i: (questions[i].case_id, questions[i].sources)):
        same_sources = tuple(group)
        chunks = chunk_sources(questions[same_sources[0]].sources, window)
        for start in range(0, len(same_sources), per_call):
            calls += [_Call(same_sources[start : start + per_call], text) for text in chunks]
    results: list[list[ClaimResult]] = [[] for _ in questions]
    while calls:
        questions_of_calls = [[questions[i] for i in call.indices] for call in calls]
        replies = model.chat([request(about, call.text) for about, call in zip(questions_of_calls, calls, strict=True)])
        next_calls: list[_Call] = []
        for call, about, reply in zip(calls, questions_of_calls, replies, strict=True):
            halves = call.halves(reply)
            next_calls += halves
            if halves:  # the refused call may have cost something
                answers = [ClaimResult(None, _TOO_LONG, usage=reply.usage)] if reply.usage else []
            elif isinstance(reply, Failure):
                answers = [ClaimResult(None, reply.reason, usage=None if i else reply.usage) for i in range(len(about))]
            else:
                answers = read(reply, about)
            for i, answer in zip(call.indices, answers, strict=False):
                results[i].append(answer)
        calls = next_calls
    return [_best_chunk(by_chunk) for by_chunk in results]


_TOO_LONG = "longer than the model's context"
_MAX_HALVINGS = 6


@dataclass(frozen=True, slots=True)
class _Call:
    """One call: the indices of the questions it asks, and a chunk of their sources."""

    indices: tuple[int, ...]
    text: str
    halvings: int = 0

    def halves(self, reply: Reply | Failure) -> list[_Call]:
        """Return two calls with half the text each, if the model refused the text as too long.

        The list is empty if the model did not refuse the text, or if the text was already halved too often.
        """
        if not isinstance(reply, Failure) or reply.kind != "context" or self.halvings >= _MAX_HALVINGS:
            return []
        parts = chunk_sources([Source("", self.text)], len(self.text) // 2 + 1)
        return [replace(self, text=text, halvings=self.halvings + 1) for text in parts] if len(parts) > 1 else []


def _best_chunk(chunks: Sequence[ClaimResult]) -> ClaimResult:
    """Return the result of the chunk that supports the claim best.

    If the answer about a chunk could not be read, this chunk might support the claim. The claim then gets a score only
    if another chunk supports it.
    """
    usage = Usage.total(chunk.usage for chunk in chunks)
    scored = [chunk for chunk in chunks if chunk.score is not None]
    unread = [chunk for chunk in chunks if chunk.score is None and chunk.reason != _TOO_LONG]
    best = min(scored, key=lambda chunk: chunk.score or 0.0, default=None)
    says_yes = best is not None and best.score is not None and best.score < 1 - best.score
    if best is None or (unread and not says_yes):
        reason = unread[0].reason if unread else _TOO_LONG
        reason = reason if len(chunks) == 1 else f"{len(unread)} of {len(chunks)} windows: {reason}"
        return ClaimResult(None, reason, usage=usage)
    evidence = tuple(dict.fromkeys(e for chunk in scored for e in chunk.evidence))
    return replace(best, usage=usage, evidence=evidence)


# ------------------------------------------------------------------------------------------- reading replies


def read_yes_no(reply: Reply, label: str, min_probability_mass: float) -> ClaimResult:
    """Compute 1 - P(supported) from the probabilities of Yes and No as the first token of a reply.

    P(supported) is normalised over Yes and No (George and Stuhlmüller 2023, §2.2). If the server gives no
    log-probabilities, the score is 0 or 1.

    The answer may follow the word in `label` ("Supported: Yes"). There is no score in these cases:

    - The reply is not simply Yes or No, or has several answers that disagree.
    - Yes and No together have a probability below `min_probability_mass`.
    """
    masses = yes_no_mass(reply)
    if masses is not None and sum(masses) > 0:
        if sum(masses) < min_probability_mass:
            reason = f"Yes and No have a probability of only {sum(masses):.2g} together"
            return ClaimResult(None, reason, usage=reply.usage)
        return ClaimResult(masses[1] / sum(masses), usage=reply.usage)
    answers = {yes_no(answer) for answer in labelled_values(reply.text, label)}
    first = yes_no(reply.text)
    if first is not None or not answers:
        answers.add(first)
    return _plain_answer(reply, answers.pop() if len(answers) == 1 else None)


def _plain_answer(reply: Reply, supported: bool | None) -> ClaimResult:
    if supported is None:
        reason = f"no plain Yes or No in the reply: {_excerpt(strip_reasoning(reply.text))}"
        return ClaimResult(None, reason, usage=reply.usage)
    return ClaimResult(0.0 if supported else 1.0, usage=reply.usage, no_logprobs=True)


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line[:60]}…”" if len(line) > 61 else f"“{line}”" if line else "it is empty"


def read_cot(reply: Reply, label: str, claim: str, sources: Sequence[Source]) -> ClaimResult:
    """Parse a reply with reasoning: a score of 0 or 1 from its last line, with the quotes in the reasoning as evidence.

    This is the format of George and Stuhlmüller 2023, A.1.3. Quotes that occur in a source become evidence. Quotes of
    three words or more that occur neither in a source nor in the claim are listed in `reason`, and counted in
    `unsupported_quotes`.

    Small models do not always keep to the format, so two more forms are accepted: a bare "Yes" or "No", and an answer
    at the end of the last line, after a finished sentence and outside quotes ("It says so. Supported: Yes").

    Args:
        reply: The reply of the chat model.
        label: The label of the answer on the last line ("Supported").
        claim: The claim that was asked about.
        sources: The sources that may be quoted.
    """
    if reply.finish == "length":
        return ClaimResult(None, "the reply was cut short", usage=reply.usage)
    lines = [line for line in strip_reasoning(reply.text).splitlines() if line.strip()]
    if len(lines) == 1 and len(lines[0].split()) == 1 and yes_no(lines[0]) is not None:
        return replace(_plain_answer(reply, yes_no(lines[0])), reason="the reply has no reasoning", no_logprobs=False)
    last = lines[-1] if lines else ""
    inline = re.fullmatch(rf"(.*[.!?]) +([*_]*{label}[*_]*:[*_ ]*(?:Yes|No)[.*_]*)", last, re.IGNORECASE)
    if inline and inline[1].count('"') % 2 == 0 and inline[1].count("“") == inline[1].count("”"):
        lines[-1:] = inline.groups()
    answer = labelled("\n".join(lines), label)
    if answer is None or labelled(lines[-1], label) is None:
        reason = f"no plain line “{label}: Yes or No” ends the reply: {_excerpt(last)}"
        return ClaimResult(None, reason, usage=reply.usage)
    result = _plain_answer(reply, yes_no(answer))
    if result.score is None:
        return result
    reasoning = " ".join(" ".join(lines[:-1]).split())
    reasoning = re.sub(r"^[*_#> ]*reasoning[*_ ]*:[*_ ]*", "", reasoning, flags=re.IGNORECASE)
    return replace(explain_quotes(result, reasoning, claim, sources), no_logprobs=False)


_SUPPORTED = re.compile(r"^[ \t>*_#-]*supported[ \t*_]*[:=]", re.IGNORECASE | re.MULTILINE)
_CRITIQUE = re.compile(r"^[\s>*_#-]*critique[ \t*_]*[:=][ \t*_]*", re.IGNORECASE)


def read_critique(reply: Reply) -> ClaimResult:
    """Parse a reply with a critique: a score of 0 or 1 from the line that begins with "Supported:".

    This is the format of George and Stuhlmüller 2023, A.3.1. The critique before this line becomes the `reason`, and
    the revised claim after it becomes the `correction`. There is no score if the line is missing, if it does not say
    Yes or No, or if the reply was cut off.
    """
    text = strip_reasoning(reply.text)
    supported = yes_no(labelled(text, "Supported") or "")
    line = _SUPPORTED.search(text)
    if reply.finish == "length":
        return ClaimResult(None, "the reply was cut short", usage=reply.usage)
    if supported is None or line is None:
        return ClaimResult(
            None, f"no plain line “Supported: Yes or No” in the reply: {_excerpt(text)}", usage=reply.usage
        )
    critique = " ".join(_CRITIQUE.sub("", text[: line.start()]).split()).strip("*_ ")
    revised = labelled(text, "Revised")
    if revised is not None and re.fullmatch(r"\W*n/?a\W*", revised, re.IGNORECASE):
        revised = None
    correction = None if supported else revised
    return ClaimResult(0.0 if supported else 1.0, critique or None, correction=correction, usage=reply.usage)


_NUMBERED_ANSWER = re.compile(
    r"^[^\w\n]*+(?:claim[^\w\n]*+)?(\d{1,6})[^\w\n]++(yes|no)\b", re.IGNORECASE | re.MULTILINE
)


def read_many(reply: Reply, n: int) -> list[ClaimResult]:
    """Parse a reply about `n` numbered claims, with a score of 0 or 1 for each.

    A claim has no score if its number has no Yes or No, or has both. If the reply also answers numbers that were not
    asked for, no claim has a score, because the model may have numbered the claims differently.
    """
    lines = numbered(reply.text)
    answers = [(int(number), word.lower()) for number, word in _NUMBERED_ANSWER.findall(strip_reasoning(reply.text))]
    others = sorted({number for number, _ in answers if not 1 <= number <= n})
    if reply.finish == "length" and lines:
        lines.pop(max(lines))  # the last line may be incomplete
    results = []
    for i in range(1, n + 1):
        usage = reply.usage if i == 1 else None
        unclear = others or len({word for number, word in answers if number == i}) > 1
        supported = yes_no(lines[i]) if i in lines and not unclear else None
        if supported is None:
            reason = f"no plain Yes or No for claim {i} in the reply: {_excerpt(lines.get(i, ''))}"
            reason = f"the reply answers claim {others[0]}, which was not asked" if others else reason
            results.append(ClaimResult(None, reason, usage=usage))
        else:
            results.append(ClaimResult(0.0 if supported else 1.0, usage=usage, no_logprobs=True))
    return results


_ELLIPSIS = re.compile(r"(?<!\s)\s*+[\[(]?(?:…|\.{3,})[\])]?\s*")


def explain_quotes(result: ClaimResult, reasoning: str, claim: str, sources: Sequence[Source]) -> ClaimResult:
    """Copy a result, with a model's reasoning as its reason, and the source passages quoted there as its evidence.

    Quotes of three words or more that occur neither in a source nor in the claim are listed in the reason, and counted
    in `unsupported_quotes`.
    """
    evidence: dict[Evidence, None] = {}
    unsupported: list[str] = []
    parts = (part.strip() for quote in quotes(reasoning) for part in _ELLIPSIS.split(quote) if words(part))
    for part in parts:
        spans = ((s.id, find_quote(s.text, part, min_similarity=_QUOTE_SIMILARITY)) for s in sources)
        match = next((Evidence(id, span) for id, span in spans if span), None)
        if match is not None:
            evidence.setdefault(match)
        elif len(words(part)) >= 3 and find_quote(claim, part, min_similarity=_QUOTE_SIMILARITY) is None:
            unsupported.append(part)
    if unsupported:
        quoted = ", ".join(f"“{quote}”" for quote in unsupported[:_MAX_QUOTED])
        reasoning = f"quotes what is in no source: {quoted}. {reasoning}".strip()
    return replace(result, reason=reasoning or None, evidence=tuple(evidence), unsupported_quotes=len(unsupported))
