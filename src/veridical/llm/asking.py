"""Ask a chat model with the user's settings, and ask again if a reply ended before its answer began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from veridical.llm.protocol import ChatModel, Failure, Reply, Request, model_fingerprint
from veridical.llm.reply_parser import strip_reasoning, yes_no, yes_no_mass
from veridical.records.types import Usage

ROOM = 4096
"""The `max_tokens` of the second request, after a reply that was cut off before its answer began."""

WORD = 32
"""A request whose `max_tokens` is at most this number is treated as a question whose answer is one word (Yes or No)."""


class Asking:
    """Wraps a chat model to apply the user's `max_tokens` and `temperature`, and to repeat requests that were cut off.

    Some models reason before they answer. If a reply was cut off at `max_tokens` before its answer began, the request
    is sent once more with a higher limit (`ROOM`), unless the user has set `max_tokens`. The usage of the second reply
    or failure includes both calls.

    Args:
        model: The chat model to ask.
        max_tokens: Replaces `Request.max_tokens` of every request. Default: each request keeps its own.
        temperature: Replaces `Request.temperature` where it is 0 (greedy). Default: such requests stay greedy.
    """

    def __init__(self, model: ChatModel, *, max_tokens: int | None = None, temperature: float | None = None) -> None:
        self.model = model
        self.name = model.name
        self.max_tokens = max_tokens
        self.temperature = temperature

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"], name)

    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies the model for the reply cache, as JSON.

        This is the wrapped model's own fingerprint, with the `max_tokens` and `temperature` that the user has set.
        """
        limits = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        return model_fingerprint(self.model) | {name: value for name, value in limits.items() if value is not None}

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer each request with one reply or failure, in order.

        A request whose reply was cut off before its answer began is sent a second time, unless the user has set
        `max_tokens`.
        """
        wanted = [
            replace(
                request,
                max_tokens=self.max_tokens or request.max_tokens,
                temperature=request.temperature or self.temperature or 0.0,
            )
            for request in requests
        ]
        outcomes = self.model.chat(wanted)
        if self.max_tokens is not None:
            return outcomes
        cut = [i for i, outcome in enumerate(outcomes) if wanted[i].max_tokens < ROOM and _is_cut(wanted[i], outcome)]
        again = self.model.chat([replace(wanted[i], max_tokens=ROOM) for i in cut]) if cut else []
        for i, outcome in zip(cut, again, strict=True):
            usage = Usage.total([outcomes[i].usage, outcome.usage]) or Usage()
            outcomes[i] = replace(outcome, usage=usage)
        return outcomes


def _is_cut(request: Request, outcome: Reply | Failure) -> bool:
    """Check whether a reply was cut at `max_tokens` before its answer began.

    The reply then consists only of reasoning. If the request allows only a single word (`WORD`), it is enough that the
    reply says neither Yes nor No, because the tag that opens the reasoning may be missing.
    """
    if isinstance(outcome, Failure):
        return outcome.kind == "cut"
    if outcome.finish != "length":
        return False
    if request.max_tokens > WORD:
        return not strip_reasoning(outcome.text).strip()
    return yes_no(outcome.text) is None and sum(yes_no_mass(outcome) or ()) < 0.5
