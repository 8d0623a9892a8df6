"""Ask a chat model with the user's settings, and ask again if a reply ended before its answer began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from veridical.llm.protocol import ChatModel, Failure, Reply, Request, model_fingerprint
from veridical.llm.reply_parser import strip_reasoning, yes_no, yes_no_mass
from veridical.records.types import Usage

ROOM = 4096
"""How many tokens to allow in the second request, after a reply that was cut before its answer began."""

WORD = 32
"""A request that allows at most this many tokens asks for a single word."""


class Asking:
    """Passes requests on to a chat model, with the `max_tokens` and `temperature` that the user has set.

    Some models reason before they answer. If a reply was cut at `max_tokens` before its answer began, the request is
    sent once more with `ROOM` tokens, unless the user has set `max_tokens`. The usage of the outcome includes both
    calls.

    Args:
        model: The chat model to ask.
        max_tokens: How many tokens every reply may have. Default: as each request says.
        temperature: The temperature of requests that would otherwise be greedy. Default: they stay greedy.
    """

    def __init__(self, model: ChatModel, *, max_tokens: int | None = None, temperature: float | None = None) -> None:
        self.model = model
        self.name = model.name
        self.max_tokens = max_tokens
        self.temperature = temperature

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"], name)

    def fingerprint(self) -> dict[str, Any]:
        """Return the model's own fingerprint, with the `max_tokens` and `temperature` that the user has set."""
        limits = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        return model_fingerprint(self.model) | {name: value for name, value in limits.items() if value is not None}

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer each request with one reply or failure, in order."""
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
