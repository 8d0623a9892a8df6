"""Parse the HTTP responses of an OpenAI-compatible server.

A body that follows the protocol becomes a `Reply`, and any other body becomes a `Failure`. To parse the text of the
reply itself, use `reply_parser`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isnan
from typing import Any

from veridical.llm.protocol import Failure, Reply, TokenLogprob
from veridical.records.strings import shorten, visible
from veridical.records.types import Usage

TokenLogprobs = tuple[TokenLogprob, ...]

_HALF_PAIR = re.compile("[\ud800-\udfff]")  # half a surrogate pair is not valid text


def read_response(
    body: bytes,
    *,
    api: str = "chat",
    cost_of: Callable[[int, int], float | None] = lambda prompt_tokens, completion_tokens: None,
    scrub: Callable[[str], str] = lambda text: text,
) -> Reply | Failure:
    """Parse the body of an HTTP response with status 200 into a reply.

    HTML, incomplete JSON, a body without choices or content, or a refusal gives a `Failure` with the reason. If the
    log-probabilities are malformed, they are dropped (`Reply.tokens` is None).

    Args:
        body: The raw bytes of the body.
        api: "chat" or "completions".
        cost_of: A function that returns what prompt and completion tokens cost, or None if the cost is not known.
        scrub: A function that removes secrets, such as the API key, from the server's texts.

    >>> read_response(b'{"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]}').text
    'Yes'
    >>> read_response(b"<html>").reason
    'the server answered with HTML, not JSON'
    """
    try:
        document = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        start = body.lstrip()[:1]
        if not start:
            problem = "the server's answer has no body"
        elif start == b"<":
            problem = "the server answered with HTML, not JSON"
        else:
            problem = "the server's JSON breaks off" if start in b"{[" else "the server's answer is not JSON"
        return Failure(problem, "malformed", True, Usage(1))
    if not isinstance(document, dict):
        return Failure("the server's JSON is not an object", "malformed", True, Usage(1))
    return _read_document(document, api, _usage(document.get("usage"), cost_of), scrub)


def _usage(counts: Any, cost_of: Callable[[int, int], float | None]) -> Usage:
    """Read how many tokens a call used. If the server does not say, the call has no tokens and an unknown cost."""
    counts = counts if isinstance(counts, dict) else {}
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    if all(isinstance(count, int) and 0 <= count < 10**9 for count in (prompt, completion)):
        return Usage(1, prompt, completion, cost_of(prompt, completion))
    return Usage(1)


def _read_document(document: dict[str, Any], api: str, usage: Usage, scrub: Callable[[str], str]) -> Reply | Failure:
    """Read the reply from the JSON of an answer."""
    if document.get("error"):
        return Failure(f"the server says: {_one_line(document['error'], scrub)}", "server", True, usage)
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return Failure("the answer holds no choices", "empty", False, usage)
    choice = choices[0]
    finish = choice.get("finish_reason")
    finish = scrub(finish) if isinstance(finish, str) else ""
    tokens = _tokens(choice.get("logprobs"), api)
    if api == "completions":
        content = choice.get("text")
    else:
        message = choice.get("message")
        if not isinstance(message, dict):
            return Failure("the answer holds no message", "malformed", True, usage)
        if message.get("refusal"):
            return Failure(f"the model refused: {_one_line(message['refusal'], scrub)}", "refusal", False, usage)
        content = message.get("content")
    if finish == "content_filter":
        return Failure("the server's content filter held the answer back", "refusal", False, usage)
    if isinstance(content, list):
        content = "".join(str(p.get("text", "")) for p in content if isinstance(p, dict) and p.get("type") == "text")
    text = "" if content is None else content
    if not isinstance(text, str) or _HALF_PAIR.search(text):
        return Failure("the answer's content is not a text", "malformed", True, usage)
    if not text.strip():
        if finish == "length":
            return Failure("the answer is empty (cut at max_tokens before an answer)", "cut", False, usage)
        return Failure("the answer is empty", "empty", False, usage)
    return Reply(scrub(text), tokens, usage, finish)


def _tokens(logprobs: Any, api: str) -> TokenLogprobs | None:
    """Read the tokens of an answer. Return None if they are missing or malformed.

    The chat interface gives one entry per token, and the completions interface gives parallel lists.
    """
    try:
        if api == "chat":
            entries = logprobs["content"]
            pairs = [(entry["token"], entry["logprob"]) for entry in entries]
            tops = [[(top["token"], top["logprob"]) for top in entry.get("top_logprobs") or ()] for entry in entries]
        else:
            pairs = list(zip(logprobs["tokens"], logprobs["token_logprobs"], strict=True))
            tops = [list((top or {}).items()) for top in logprobs.get("top_logprobs") or [None] * len(pairs)]
        tokens = [
            TokenLogprob(*_pair(*pair), tuple(_pair(*other) for other in top))
            for pair, top in zip(pairs, tops, strict=True)
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return tuple(tokens) or None


def _pair(token: object, logprob: object) -> tuple[str, float]:
    """Return a token and its log-probability. Raise `ValueError` if one has the wrong type or is NaN."""
    if not isinstance(token, str) or not isinstance(logprob, int | float) or isnan(logprob):
        raise ValueError(token)
    return token, float(logprob)


def _one_line(value: object, scrub: Callable[[str], str]) -> str:
    """Return a server's error as one line of at most 200 characters, without secrets."""
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        value = value["message"]
    return shorten(visible(scrub(str(value))), 200)
