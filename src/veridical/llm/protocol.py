"""The protocol of chat models: you pass a batch of requests, and get one reply or failure for each of them, in order.

All records are frozen. A failure is returned rather than raised, so that one bad answer does not lose the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from veridical.records.errors import InputError
from veridical.records.types import Usage

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat. Its `role` is "system", "user" or "assistant"."""

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise InputError(f"a message has the role {self.role!r}", hint=f"one of {', '.join(ROLES)}")


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    Attributes:
        messages: The turns so far, with the question last.
        temperature: The sampling temperature, where 0 is greedy and 1 is the model's own distribution.
        max_tokens: How many tokens the answer may have.
        top_logprobs: How many alternatives to report for each token of the answer, from 0 (only the tokens themselves)
            to 20. None asks for no log-probabilities at all.
        stop: Texts at which the answer ends.
        seed: The seed for sampling. None leaves the choice to the server.
        stage: What the call is for, such as "split" or "revise", so that cost can be counted by stage. Not sent.
        prompt: The hash of the prompt files from which the messages were made. Not sent, but part of the cache key.
        prefill: How the answer begins. The model continues from there, and the reply holds only the new text. Only
            `LocalChat` can do this.

    Raises:
        InputError: There are no messages, or a number is out of its range.
    """

    messages: tuple[Message, ...]
    temperature: float = 0.0
    max_tokens: int = 512
    top_logprobs: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    stage: str = ""
    prompt: str = ""
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


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of an answer, with its natural log-probability.

    `top` holds the most likely tokens in this place, as pairs (token, logprob).
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a chat model.

    Attributes:
        text: The text of the answer.
        tokens: The tokens of the answer with their log-probabilities. None if the server gives no log-probabilities,
            which does not mean that the model is certain.
        usage: What the answer cost. All zero if `cached`.
        finish: Why the answer ended, in the server's words, such as "stop" or "length" (cut at max_tokens). "" if the
            reason is not known.
        cached: Whether the answer came from a cache and cost nothing.
    """

    text: str
    tokens: tuple[TokenLogprob, ...] | None = None
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    finish: str = "stop"
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a request that got no usable answer.

    Attributes:
        reason: Why there is no usable answer, in one line.
        kind: The kind of failure, for counting: "budget" (not sent, because the budget is spent), "timeout",
            "connection", "rate_limit", "server", "rejected" (the server calls the request wrong), "malformed" (the
            answer breaks the protocol), "refusal", "empty", "cut" (at max_tokens before an answer), "auth" (the key was
            refused), "context" (longer than the model's context), "unsupported" (the model cannot continue a given
            text), or "script" (a scripted model has no answer).
        retryable: Whether the same call may succeed later.
        usage: What the failed call cost.
    """

    reason: str
    kind: str
    retryable: bool
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class ChatModel(Protocol):
    """Answers requests with synchronous calls. Each model decides how many requests run at once."""

    name: str

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer each request with one reply or failure, in the same order.

        Raise an error only if no request can succeed, because the key is missing, the model is unknown, or there is no
        server.
        """
        ...


@runtime_checkable
class Incremental(ChatModel, Protocol):
    """A chat model that yields each outcome as soon as it is ready.

    A cache can then store the outcome even if the run is killed later.
    """

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield the index and the outcome of each request once, as soon as the outcome is ready."""
        ...


@runtime_checkable
class Fingerprinted(ChatModel, Protocol):
    """A chat model that can say what its replies depend on, besides the request (see `model_fingerprint`)."""

    def fingerprint(self) -> Mapping[str, Any]:
        """Return what replies depend on, as JSON.

        This is the name, the server (without credentials) and the version of the weights.
        """
        ...


@runtime_checkable
class WithAccess(ChatModel, Protocol):
    """A chat model whose stored replies are only for users who hold its key."""

    def access(self) -> str | None:
        """Hash everything that gives access to the model, such as the key. Return None if everyone has access."""
        ...


def model_fingerprint(model: ChatModel) -> dict[str, Any]:
    """Return what the model's replies depend on, besides the request.

    If the model has no fingerprint, this is only its name.

    >>> from veridical.llm.scripted import Scripted
    >>> model_fingerprint(Scripted([], name="m"))
    {'model': 'm'}
    """
    return dict(model.fingerprint()) if isinstance(model, Fingerprinted) else {"model": model.name}
