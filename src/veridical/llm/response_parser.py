"""Reading the body of a chat completion: a `Reply` only if it is wholly what the protocol says, else a `Failure`."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isnan
from typing import Any

from veridical.core.types import Usage
from veridical.llm.protocol import Failure, Reply, TokenLogprob

__all__ = ["read_completion"]

Price = Callable[[int, int], float | None]


def read_completion(body: bytes, price: Price = lambda prompt, completion: None) -> Reply | Failure:
    """The reply in the body of a chat completion; `price` gives what so many prompt and completion tokens cost.

    HTML, JSON that breaks off, no choices, no content, a refusal: each is a failure that says so. Log-probabilities
    that are not what they should be are dropped whole.

    >>> read_completion(b'{"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]}').text
    'Yes'
    >>> read_completion(b"<html>").reason
    'the server answered with HTML, not JSON'
    """
    try:
        document = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return Failure(_not_json(body), "malformed", True, Usage(1))
    if not isinstance(document, dict):
        return Failure("the server's JSON is no object", "malformed", True, Usage(1))
    usage = _usage(document.get("usage"), price)
    if document.get("error"):
        return Failure(f"the server says: {_short(document['error'])}", "server", True, usage)
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return Failure("the answer holds no choices", "empty", False, usage)
    return _read_choice(choices[0], usage)


def _read_choice(choice: dict[str, Any], usage: Usage) -> Reply | Failure:
    message = choice.get("message")
    if not isinstance(message, dict):
        return Failure("the answer holds no message", "malformed", True, usage)
    finish = choice.get("finish_reason")
    finish = finish if isinstance(finish, str) else ""
    if message.get("refusal"):
        return Failure(f"the model refused: {_short(message['refusal'])}", "refusal", False, usage)
    if finish == "content_filter":
        return Failure("the server's content filter held the answer back", "refusal", False, usage)
    text = _text(message.get("content"))
    if text is None:
        return Failure("the answer's content is no text", "malformed", True, usage)
    if not text.strip():
        cut = " (cut at max_tokens before an answer)" if finish == "length" else ""
        return Failure(f"the answer is empty{cut}", "empty", False, usage)
    return Reply(text, _tokens(choice.get("logprobs")), usage, finish)


def _text(content: object) -> str | None:
    """The text of a content, "" for none, None for what is not a text (or holds half of a surrogate pair)."""
    if isinstance(content, list):
        content = "".join(str(p.get("text", "")) for p in content if isinstance(p, dict) and p.get("type") == "text")
    if content is None:
        return ""
    if not isinstance(content, str):
        return None
    try:
        content.encode()
    except UnicodeEncodeError:
        return None
    return content


def _usage(usage: object, price: Price) -> Usage:
    given = usage if isinstance(usage, dict) else {}
    asked, answered = given.get("prompt_tokens"), given.get("completion_tokens")
    if isinstance(asked, int) and isinstance(answered, int) and 0 <= min(asked, answered) <= max(asked, answered) < 1e9:
        return Usage(1, asked, answered, price(asked, answered))
    return Usage(1)  # the server does not say: no cost is made up


def _tokens(logprobs: object) -> tuple[TokenLogprob, ...] | None:
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    try:
        return tuple(
            TokenLogprob(*_pair(entry), tuple(_pair(other) for other in entry.get("top_logprobs") or ()))
            for entry in content
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _pair(entry: dict[str, Any]) -> tuple[str, float]:
    token, logprob = entry["token"], entry["logprob"]
    if not isinstance(token, str) or not isinstance(logprob, int | float) or isnan(logprob):
        raise ValueError(token)
    return token, float(logprob)


def _not_json(body: bytes) -> str:
    if not body.strip():
        return "the server's answer has no body"
    if body.lstrip()[:1] == b"<":
        return "the server answered with HTML, not JSON"
    return "the server's JSON breaks off" if body.lstrip()[:1] in b"{[" else "the server's answer is not JSON"


def _short(value: object) -> str:
    """What a server says, fit for one line of a message."""
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        value = value["message"]
    line = " ".join(str(value).split())
    return line if len(line) <= 200 else f"{line[:199]}…"
