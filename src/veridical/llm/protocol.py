"""The protocol of chat models: a batch of requests goes in, one reply or failure for each comes out, in order.

The records are frozen and hold no policy. A failure is a value, so one bad answer never loses the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from veridical.core.errors import InputError
from veridical.core.types import Usage

__all__ = [
    "ChatModel",
    "Failure",
    "Fingerprinted",
    "Incremental",
    "Message",
    "Reply",
    "Request",
    "TokenLogprob",
    "model_fingerprint",
]

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat; `role` is "system", "user" or "assistant"."""

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise InputError(f"a message has the role {self.role!r}", hint=f"one of {', '.join(ROLES)}")


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    Attributes:
        messages: The turns so far, the question last.
        temperature: 0 = greedy, 1 = the model's own distribution.
        max_tokens: The most tokens that the answer may have.
        top_logprobs: How many alternatives to report for each token of the answer, from 0 (only the tokens
            themselves) to 20; None = no log-probabilities at all.
        stop: Texts at which the answer ends.
        seed: For sampling; None = the server's choice.
        stage: The purpose of the call, to count cost by stage. It is not sent.
        prompt: The hash of the prompt files behind the messages. It is not sent, but it is part of the cache key.
        continuation: An answer to score. Nothing is generated; the reply holds this text and the log-probabilities of
            its tokens. Only `OpenAIChat` with `api="completions"` can do this.
        prefill: The beginning of the answer; the reply holds the text after it. Only `LocalChat` can do this.

    Raises:
        InputError: If there are no messages, or a number is out of its range.
    """

    messages: tuple[Message, ...]
    temperature: float = 0.0
    max_tokens: int = 512
    top_logprobs: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    stage: str = ""
    prompt: str = ""
    continuation: str | None = None
    prefill: str = ""

    def __post_init__(self) -> None:
        if not self.messages:
            raise InputError("a request has no messages")
        if not self.temperature >= 0:  # also false for NaN
            raise InputError(
                f"the temperature is {self.temperature}", hint="0 is greedy, 1 the model's own distribution"
            )
        if self.max_tokens < 1:
            raise InputError(f"max_tokens is {self.max_tokens}", hint="at least 1")
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= 20:
            raise InputError(f"top_logprobs is {self.top_logprobs}", hint="from 0 to 20, or None")
        if self.continuation is not None and not self.continuation.strip():
            raise InputError("the continuation of a request is empty", hint="the text to score, or None")


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of an answer: its text, its natural log-probability, and the likeliest (token, logprob) there."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Attributes:
        text: The answer.
        tokens: Its tokens with their log-probabilities. None where the server gives none; never read that as
            certainty.
        usage: Its cost; all zero if `cached`.
        finish: Why it ended, in the server's words: "stop", "length" (cut at max_tokens) …; "" = not known.
        cached: Whether it came from a cache and cost nothing.
    """

    text: str
    tokens: tuple[TokenLogprob, ...] | None = None
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    finish: str = "stop"
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without a usable answer.

    Attributes:
        reason: Why, in one line.
        kind: A word to count by: "budget" (not sent, the budget is spent), "timeout", "connection", "rate_limit",
            "server", "rejected" (the server says the request is wrong), "malformed" (the answer breaks the
            protocol), "refusal", "empty", "cut" (at max_tokens before an answer), "auth" (the key was refused),
            "context" (longer than the model's context), "unsupported" (the model cannot score a given text, or
            continue one), "script" (a scripted model has no answer).
        retryable: Whether the same call may succeed later.
        usage: The cost of the failed call.
    """

    reason: str
    kind: str
    retryable: bool
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class ChatModel(Protocol):
    """A chat model with synchronous calls. Each model decides how many requests run at once."""

    name: str

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Return one reply or failure for each request, in the same order.

        Raise only for an unusable configuration (no key, unknown model, no server), where no request can succeed.
        """
        ...


@runtime_checkable
class Incremental(ChatModel, Protocol):
    """A chat model that yields each outcome as soon as it is ready, so that a cache stores it even if the run dies."""

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield (index of the request, its outcome), each index once, in the order in which they are ready."""
        ...


@runtime_checkable
class Fingerprinted(ChatModel, Protocol):
    """A chat model that can say which facts, besides the request, decide its replies; see `model_fingerprint`."""

    def fingerprint(self) -> Mapping[str, Any]:
        """Return name, server (without credentials), version of the weights …, as JSON values."""
        ...


def model_fingerprint(model: ChatModel) -> dict[str, Any]:
    """Return the facts that decide the model's replies besides the request; only its name if it declares none.

    >>> from veridical.llm.scripted import Scripted
    >>> model_fingerprint(Scripted([], name="m"))
    {'model': 'm'}
    """
    return dict(model.fingerprint()) if isinstance(model, Fingerprinted) else {"model": model.name}
