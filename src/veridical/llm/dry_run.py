"""A chat model that sends nothing: how many calls and tokens a run would take is counted before it is paid for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from veridical.core.segment import sentences
from veridical.llm.prompts import prompt
from veridical.llm.protocol import Failure, Reply, Request

__all__ = ["Rehearsal"]


class Rehearsal:
    """Keeps every request in `requests`, and answers so that as many as can be follow.

    >>> from veridical.llm.protocol import Message
    >>> model = Rehearsal("m")
    >>> model.chat([Request((Message("user", "Is it so?"),), stage="check")])[0].text
    'Feedback: wrong.\\nSupported: No'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: list[Request] = []

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """An answer a request, the same whenever it is asked."""
        self.requests += requests
        return [Reply(_rehearsed(request)) for request in requests]


_RESPONSE = re.compile(r"<<<response (\w+)\n(.*)\nresponse \1>>>", re.DOTALL)
_PAPER = re.compile(r"^Paper \d+: (.+?)(?:, (\d{4}\w?))?$", re.MULTILINE)


def _rehearsed(request: Request) -> str:
    """What a model might say: every sentence is a claim, every claim is wrong, every revision changes something."""
    asked = request.messages[-1].content
    found = _RESPONSE.search(asked)
    text = found[2] if found else ""
    if request.stage == "split":
        return "\n".join(f"- {' '.join(span.of(text).split())}" for span in sentences(text))
    if request.stage == "revise":
        return f"Corrected text:\n{text.rstrip()} Indeed."
    if request.stage == "summary":
        return " ".join(f"{who} ({year or 'n.d.'}) found much." for who, year in _PAPER.findall(asked))
    if prompt("verify_many").hash in request.prompt:
        return "\n".join(f"{n}. No" for n in range(1, 1000))
    return "Feedback: wrong.\nSupported: No"
