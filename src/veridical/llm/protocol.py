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
    """One request to a chat model: the messages and the sampling parameters.

    Attributes:
        messages: The turns so far, with the question last.
        temperature: The sampling temperature, where 0 is greedy and 1 is the model's own distribution.
        max_tokens: The maximum number of tokens in the answer.
        top_logprobs: The number of most likely tokens to report at each position of the answer, from 0 (only the tokens
            of the answer) to 20. None asks for no log-probabilities at all.
        stop: Texts at which the answer ends.
        seed: The seed for sampling. None leaves the choice to the server.
        stage: What the call is for, such as "split" or "revise", so that cost can be counted by stage. Not sent.
        prompt: The hash of the prompt files from which the messages were made. Not sent, but part of the cache key.
        prefill: A text with which the answer must begin, such as "Answer:". The model continues it, and the reply
            contains only the new text. Of the models in this package, only `LocalChat` can do this, and a `Scripted`
            model whose script is a function.

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

    `top` contains the most likely tokens at this position, as pairs (token, logprob).
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a chat model.

    Attributes:
        text: The text of the answer.
        tokens: The tokens of the answer with their log-probabilities. None if log-probabilities were not requested, or
            the server returns none.
        usage: What the answer cost. All zero if `cached`.
        finish: Why the answer ended, in the server's words, such as "stop" or "length" (cut off at max_tokens). "" if
            the reason is not known.
        cached: True if the answer came from a cache and cost nothing.
    """

    text: str
    tokens: tuple[TokenLogprob, ...] | None = None
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    finish: str = "stop"
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a request that got no usable answer.

    The kinds of failure are:

    * "budget": The request was not sent, because the budget is spent.
    * "timeout": The response was not complete in time.
    * "connection": The connection failed or broke off.
    * "rate_limit": The server has received too many requests (429).
    * "server": The server reports an error of its own, such as HTTP 500.
    * "rejected": The server rejects the request as invalid.
    * "malformed": The response does not follow the protocol, or the logits of a local model are not finite.
    * "refusal": The model refuses to answer, or a content filter blocked the answer.
    * "empty": The answer has no text.
    * "cut": The answer has no text, because it was cut off at max_tokens before it began.
    * "auth": The server denies access, for example because of the API key.
    * "context": The prompt and the answer are longer than the model's context, or do not fit into memory.
    * "unsupported": The model cannot continue a `Request.prefill`.
    * "script": A scripted model has no answer to this request.

    Attributes:
        reason: Why there is no usable answer, in one line for the user.
        kind: The kind of failure, such as "timeout", so that failures can be counted by kind.
        retryable: True if the same request may succeed later.
        usage: What the failed call cost.
    """

    reason: str
    kind: str
    retryable: bool
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class ChatModel(Protocol):
    """The protocol of chat models: `chat` takes a batch of requests and returns a reply or failure for each of them.

    Calls are synchronous. Each model decides how many requests run at once.
    """

    name: str

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer each request with one reply or failure, in the same order.

        Raise an error only if no request can succeed, because the key is missing, the model is unknown, or there is no
        server.
        """
        ...


@runtime_checkable
class Incremental(ChatModel, Protocol):
    """A chat model that also yields each reply or failure as soon as it is ready, instead of all of them at the end.

    A cache can then store each reply at once, so that it is not lost if the process is killed.
    """

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield (index of the request, reply or failure) for each request as soon as it is ready, in any order."""
        ...


@runtime_checkable
class Fingerprinted(ChatModel, Protocol):
    """A chat model that says what identifies it, so that a cache does not return the replies of another model."""

    def fingerprint(self) -> Mapping[str, Any]:
        """Return what identifies the model, as JSON.

        Models with the same fingerprint share stored replies. It should therefore contain all that replies depend on
        besides the request, such as the name, the server (without credentials) and the version of the weights.
        """
        ...


@runtime_checkable
class WithAccess(ChatModel, Protocol):
    """A chat model that needs an API key, so that a cache returns its replies only to users with the same key."""

    def access(self) -> str | None:
        """Return a hash of the credentials for the model, such as the API key, or None if it needs none."""
        ...


def model_fingerprint(model: ChatModel) -> dict[str, Any]:
    """Return what identifies a model, as JSON, so that a cache does not return the replies of another model.

    If the model has no method `fingerprint`, this is only its name.

    >>> from veridical.llm.scripted import Scripted
    >>> model_fingerprint(Scripted([], name="m"))
    {'model': 'm'}
    """
    return dict(model.fingerprint()) if isinstance(model, Fingerprinted) else {"model": model.name}
