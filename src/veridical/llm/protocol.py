"""What every chat model speaks: requests go in as a batch, one reply or failure comes out for each, in order.

Frozen records without policy. A failure is a value, so that one bad answer never takes the others with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from veridical.core.errors import InputError
from veridical.core.types import Usage

__all__ = ["ChatModel", "Failure", "Incremental", "Message", "Reply", "Request", "TokenLogprob", "total_usage"]

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

    `temperature` 0 = greedy. `top_logprobs` is how many alternatives are wanted for each token of the answer (0 = only
    the tokens themselves, None = no log-probabilities at all). `stage` says what the call is for, so that cost can be
    told by stage; it is not sent. `prompt` is the hash of the prompt files it was made from; it is not sent either, but
    is part of the cache's key.
    """

    messages: tuple[Message, ...]
    temperature: float = 0.0
    max_tokens: int = 512
    top_logprobs: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    stage: str = ""
    prompt: str = ""

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
    """One token of an answer: its text, its natural log-probability, and the likeliest (token, logprob) there."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `tokens` is None where the server gives no log-probabilities, which is never taken for certainty.

    `finish` is why it ended, in the words of the server: "stop", "length" (cut at max_tokens) …, "" where it does not
    say. `cached` = it came from a cache and cost nothing; `usage` then is all zero.
    """

    text: str
    tokens: tuple[TokenLogprob, ...] | None = None
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    finish: str = "stop"
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """No usable answer: `reason` in one line, `kind` a word to count by, `retryable` = the same call may succeed later.

    Kinds: "budget" (not sent, the budget is spent), "timeout", "connection", "rate_limit", "server", "rejected" (the
    server says the request is wrong), "malformed" (an answer that is not what the protocol says), "refusal", "empty",
    "auth" (the key was refused), "context" (longer than the model's context), "script" (a double has no answer).
    `usage` is what it cost anyway.
    """

    reason: str
    kind: str
    retryable: bool
    usage: Usage = field(default_factory=Usage)


def total_usage(usages: Iterable[Usage]) -> Usage:
    """All of it together; `cost` is None as soon as one that made calls has no known cost.

    >>> total_usage([Usage(1, 10, 2, 0.5), Usage(2, 20, 4, 0.25), Usage()])
    Usage(calls=3, prompt_tokens=30, completion_tokens=6, cost=0.75)
    """
    each = list(usages)
    known = all(u.cost is not None for u in each if u.calls) and any(u.cost is not None for u in each)
    return Usage(
        sum(u.calls for u in each),
        sum(u.prompt_tokens for u in each),
        sum(u.completion_tokens for u in each),
        sum(u.cost or 0.0 for u in each) if known else None,
    )


@runtime_checkable
class ChatModel(Protocol):
    """A chat model, behind a synchronous surface; how many requests run at once is its own business."""

    name: str

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """One reply or failure for each request, in the same order.

        Raises only where nothing can be asked at all: unusable configuration (no key, unknown model, no server).
        """
        ...


@runtime_checkable
class Incremental(ChatModel, Protocol):
    """A chat model that hands out each outcome as soon as it is there: a cache keeps it even if the run dies."""

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """(index of the request, its outcome), each index once, in the order in which they come."""
        ...
