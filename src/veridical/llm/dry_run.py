"""Count the calls and tokens of a run before paying for it, with a chat model that sends nothing.

The model answers every prompt of this package in the way that leads to the most further calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from veridical.llm.prompts import prompt
from veridical.llm.protocol import Failure, Reply, Request
from veridical.text.segment import sentences


class DryRun:
    r"""A stand-in for a chat model that sends nothing, to estimate the calls and tokens of a run before paying for it.

    It records every request in `requests`, and gives the answers that lead to the most further calls: every sentence is
    a claim, every claim is wrong, and every revision changes something. A request with a `prefill` is an exception: it
    fails and is not recorded, because real runs send it only after an answer that cannot be parsed.

    >>> from veridical.llm.protocol import Message
    >>> model = DryRun("m")
    >>> model.chat([Request((Message("user", "Is it so?"),), stage="check")])[0].text
    'Feedback: wrong.\nSupported: No'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: list[Request] = []

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer each request with a made-up reply, in order. The same request always gets the same answer."""
        self.requests += [request for request in requests if not request.prefill]
        replies: list[Reply | Failure] = []
        for request in requests:
            if request.prefill:
                replies.append(Failure("a dry run cannot continue a given text", "unsupported", False))
                continue
            question = request.messages[-1].content
            match = _RESPONSE.search(question)
            last_answer = next((m.content for m in reversed(request.messages) if m.role == "assistant"), "")
            response = match[2] if match else last_answer
            text = "Feedback: wrong.\nSupported: No"
            if request.stage == "split":
                text = "\n".join(f"- {' '.join(span.of(response).split())}" for span in sentences(response))
            elif request.stage == "revise":
                text = f"Corrected text:\n{response.rstrip()} Indeed."
            elif request.stage == "summary":
                papers = _PAPER.findall(question.rpartition("<<<papers ")[2])  # the last: an example comes before it
                text = " ".join(f"{author} ({year or 'n.d.'}) found much." for author, year in papers)
            elif prompt("verify_many").hash in request.prompt:
                text = "\n".join(f"{n}. No" for n in range(1, 1000))
            replies.append(Reply(text))
        return replies


_RESPONSE = re.compile(r"\A(?>.*?<<<response (\w+)\n)(.*)\nresponse \1>>>", re.DOTALL)
_PAPER = re.compile(r"^Paper \d+: (.+?)(?:, (\d{4}\w?))?$", re.MULTILINE)
