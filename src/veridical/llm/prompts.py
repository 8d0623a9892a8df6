"""Prompts as versioned files (`llm/prompts/*.txt`), and what is quoted in them fenced so that it cannot break out.

A prompt file names its places as {{name}}. A text put there stands between two lines that hold a hash of it which
stands in none of the texts, so none can close a fence. Each hash is of one text: what comes first in a prompt (the
sources) stays the same from claim to claim, and a server's prefix cache serves it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from veridical.core.errors import InputError, UnknownNameError
from veridical.llm.protocol import Message

__all__ = ["Prompt", "fill", "make", "names", "plain_prompt", "prompt"]

_PLACE = re.compile(r"\{\{(\w+)(!?)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's text, and the hash of it (12 hexadecimal digits) that goes into requests and results."""

    name: str
    text: str
    hash: str

    @property
    def places(self) -> tuple[str, ...]:
        """The names of its places, in order, each once."""
        return tuple(dict.fromkeys(match[1] for match in _PLACE.finditer(self.text)))


def names() -> list[str]:
    """The names of all shipped prompts."""
    folder = files("veridical.llm") / "prompts"
    return sorted(f.name.removesuffix(".txt") for f in folder.iterdir() if f.name.endswith(".txt"))


def prompt(name: str) -> Prompt:
    """The shipped prompt called `name`; `UnknownNameError` with the nearest ones otherwise."""
    known = names()
    if name not in known:
        raise UnknownNameError("prompt", name, known)
    return make(name, (files("veridical.llm") / "prompts" / f"{name}.txt").read_text(encoding="utf-8"))


def make(name: str, text: str) -> Prompt:
    r"""A prompt of one's own; its last line ending does not count.

    >>> make("mine", "Is it so?\n{{claim}}\n").places
    ('claim',)
    """
    text = text.replace("\r\n", "\n").rstrip("\n")
    return Prompt(name, text, hashlib.sha256(text.encode()).hexdigest()[:12])


def fill(prompt: Prompt, **texts: str) -> str:
    r"""The prompt with its places filled: {{name}} by the text between fences, {{name!}} by the bare text.

    {{name!}} is for words of ours only (a number, a label), so it takes one short line. Filling is done once over the
    prompt's text, so a place that stands in a text is left as it is. The same texts always give the same prompt.
    Raises `InputError` unless `texts` names each place of the prompt and no other.

    >>> print(fill(make("mine", "Is it so?\n{{claim}}"), claim="It rains."))
    Is it so?
    <<<claim 6f58a7623963
    It rains.
    claim 6f58a7623963>>>
    """
    if set(texts) != set(prompt.places):
        raise InputError(
            f"prompt {prompt.name!r} was given {', '.join(sorted(texts)) or 'nothing'}",
            hint=f"its places are {', '.join(prompt.places) or 'none'}",
        )

    def put(place: re.Match[str]) -> str:
        name, text = place[1], texts[place[1]]
        if not place[2]:
            mark = _mark(text, texts)
            return f"<<<{name} {mark}\n{text}\n{name} {mark}>>>"
        if "\n" in text or len(text) > 200:
            raise InputError(
                f"prompt {prompt.name!r}: {name!r} is for one short line", hint=f"fence it: {{{{{name}}}}}"
            )
        return text

    return _PLACE.sub(put, prompt.text)


def _mark(text: str, texts: dict[str, str]) -> str:
    """A hash of `text` that stands in none of the texts."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    while any(digest.hexdigest()[:12] in other for other in texts.values()):
        digest.update(b"again")
    return digest.hexdigest()[:12]


def plain_prompt(messages: Sequence[Message]) -> str:
    r"""The messages as one text for a base model: an answer follows its question, a blank line parts the examples.

    This is the form of George and Stuhlmüller 2023, A.1.2: few-shot examples that end in "Supported: Yes", then a
    question that ends in "Supported:", so that the next token is the answer.

    >>> from veridical.llm.protocol import Message
    >>> turns = Message("user", "1 = 1?\nTrue:"), Message("assistant", "Yes"), Message("user", "1 = 2?\nTrue:")
    >>> plain_prompt(turns)
    '1 = 1?\nTrue: Yes\n\n1 = 2?\nTrue:'
    """
    blocks: list[str] = []
    for message in messages:
        if message.role == "assistant" and blocks:
            blocks[-1] += f" {message.content}"
        else:
            blocks.append(message.content)
    return "\n\n".join(blocks)
