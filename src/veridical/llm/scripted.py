"""A chat model that says what it was told to say: for tests, for examples, and for runs that are replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from veridical.core.types import Usage
from veridical.llm.protocol import Failure, Reply, Request, TokenLogprob

__all__ = ["Answer", "Scripted", "yes_no_reply"]

Answer = str | Reply | Failure
Script = Sequence[Answer] | Mapping[str, Answer] | Callable[[Request], Answer | None]


class Scripted:
    """Replies from a script, and keeps every request in `requests`.

    `script` is a sequence (used up in order), a mapping (the first key that stands in the last message answers), or a
    callable of the request. A text becomes a `Reply` with counted words as its usage and no log-probabilities. Where
    the script has no answer the outcome is a `Failure` of the kind "script".

    >>> model = Scripted({"Paris": "Yes"})
    >>> from veridical.llm.protocol import Message
    >>> [r.text for r in model.chat([Request((Message("user", "Is Paris a city?"),))])]
    ['Yes']
    """

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[Request] = []
        self._script = script
        self._used = 0

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """One answer of the script for each request, in order."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Reply | Failure:
        self.requests.append(request)
        answer = self._look_up(request)
        if answer is None:
            return Failure("the script has no answer to this request", "script", False)
        if isinstance(answer, str):
            words = sum(len(message.content.split()) for message in request.messages)
            return Reply(answer, usage=Usage(1, words, len(answer.split())))
        return answer

    def _look_up(self, request: Request) -> Answer | None:
        if callable(self._script):
            return self._script(request)
        if isinstance(self._script, Mapping):
            asked = request.messages[-1].content
            return next((answer for key, answer in self._script.items() if key in asked), None)
        self._used += 1
        return self._script[self._used - 1] if self._used <= len(self._script) else None


def yes_no_reply(probability: float, *, mass: float = 1.0, yes: str = "Yes", no: str = "No") -> Reply:
    """A reply "Yes" or "No" whose log-probabilities say `probability` of yes, out of `mass` that both have together."""
    from math import log

    pairs = [(t, log(p)) for t, p in ((yes, probability * mass), (no, (1 - probability) * mass)) if p > 0]
    pairs.sort(key=lambda pair: -pair[1])
    return Reply(pairs[0][0], (TokenLogprob(*pairs[0], tuple(pairs)),))
