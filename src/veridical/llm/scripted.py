"""Answer requests from a script instead of a model, in tests, in examples, and to replay a run.

Use `yes_no_reply` to make scripted replies with log-probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Self

from veridical.io.files import read_text
from veridical.llm.protocol import Failure, Reply, Request, TokenLogprob
from veridical.records.errors import DataError
from veridical.records.types import Usage

ScriptedReply = str | Reply | Failure
Script = Sequence[ScriptedReply] | Mapping[str, ScriptedReply] | Callable[[Request], ScriptedReply | None]


class Scripted:
    """A chat model for tests that answers from a script, and records every request in `requests`.

    A text in the script becomes a `Reply` without log-probabilities, whose usage counts words instead of tokens. If the
    script has no answer, the outcome is a `Failure` of the kind "script". A request with a `prefill` also fails, unless
    the script is a function.

    Args:
        script: A sequence of replies to give in order, a mapping, or a function that returns the reply to a request. In
            a mapping, the first key that occurs in the last message selects the reply.
        name: The name of the model.

    >>> model = Scripted({"Paris": "Yes"})
    >>> from veridical.llm.protocol import Message
    >>> [r.text for r in model.chat([Request((Message("user", "Is Paris a city?"),))])]
    ['Yes']
    """

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[Request] = []
        self._script = script
        self._next = 0

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Return the script's reply to each request, in order, or a failure of the kind "script" if it has none."""
        outcomes: list[Reply | Failure] = []
        for request in requests:
            self.requests.append(request)
            answer: ScriptedReply | None
            if callable(self._script):
                answer = self._script(request)
            elif request.prefill:
                answer = Failure("a script cannot continue a given text", "unsupported", False)
            elif isinstance(self._script, Mapping):
                question = request.messages[-1].content
                answer = next((reply for key, reply in self._script.items() if key in question), None)
            else:
                answer = self._script[self._next] if self._next < len(self._script) else None
                self._next += 1
            if answer is None:
                answer = Failure("the script has no answer to this request", "script", False)
            elif isinstance(answer, str):
                words = sum(len(message.content.split()) for message in request.messages)
                answer = Reply(answer, usage=Usage(1, words, len(answer.split())))
            outcomes.append(answer)
        return outcomes

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Load the scripted replies from a JSON file.

        The file contains either a list of replies, or an object whose keys are words to find in the question and whose
        values are the replies.

        Raises:
            DataError: The file contains neither a list nor an object.
        """
        path = Path(path)
        try:
            script = json.loads(read_text(path))
        except DataError:
            raise
        except ValueError as error:
            raise DataError(f"not JSON: {error}", path=path) from None
        replies = script.values() if isinstance(script, dict) else script
        if not isinstance(script, dict | list) or not all(isinstance(reply, str) for reply in replies):
            raise DataError("not a script", path=path, hint='{"words of the question": "the reply", …} or ["reply", …]')
        return cls(script, name=f"scripted:{path.name}")


def yes_no_reply(probability: float, *, mass: float = 1.0, yes: str = "Yes", no: str = "No") -> Reply:
    """Build a scripted reply "Yes" or "No" with log-probabilities, for tests of detectors that use them.

    The text of the reply is the more probable of the two words.

    Args:
        probability: The share of "Yes" in the probability of both words, P(yes) / (P(yes) + P(no)), in [0, 1].
        mass: The probability of both words together, P(yes) + P(no), in (0, 1]. The rest belongs to other tokens.
        yes: The token for yes.
        no: The token for no.
    """
    pairs = [(t, log(p)) for t, p in ((yes, probability * mass), (no, (1 - probability) * mass)) if p > 0]
    pairs.sort(key=lambda pair: -pair[1])
    return Reply(pairs[0][0], (TokenLogprob(*pairs[0], tuple(pairs)),))
