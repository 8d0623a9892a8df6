"""Prompts as versioned files (`llm/prompts/*.txt`); what is quoted in them is fenced, so that it cannot break out.

A prompt file has placeholders {{name}}. A text put there is enclosed by two lines that hold a hash of it which occurs
in none of the texts, so none can close a fence. Each hash is of one text: what comes first in a prompt (the sources)
stays the same from claim to claim, and a server's prefix cache serves it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from veridical.core.errors import InputError, UnknownNameError
from veridical.llm.protocol import Message

__all__ = ["PromptTemplate", "fill", "make", "names", "plain_prompt", "prompt"]

_PLACEHOLDER = re.compile(r"\{\{(\w+)(!?)\}\}")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt's text, and the hash of it (12 hexadecimal digits) that goes into requests and results."""

    name: str
    text: str
    hash: str

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names of its placeholders, in order, each once."""
        return tuple(dict.fromkeys(match[1] for match in _PLACEHOLDER.finditer(self.text)))


def names(package: str = "veridical.llm") -> list[str]:
    """The names of the prompts in a package's folder `prompts`."""
    folder = files(package) / "prompts"
    return sorted(f.name.removesuffix(".txt") for f in folder.iterdir() if f.name.endswith(".txt"))


def prompt(name: str, package: str = "veridical.llm") -> PromptTemplate:
    """The prompt called `name` in a package's folder `prompts`; `UnknownNameError` with the nearest ones otherwise."""
    known = names(package)
    if name not in known:
        raise UnknownNameError("prompt", name, known)
    return make(name, (files(package) / "prompts" / f"{name}.txt").read_text(encoding="utf-8"))


def make(name: str, text: str) -> PromptTemplate:
    r"""A prompt of your own; its last line ending does not count.

    >>> make("mine", "Is it so?\n{{claim}}\n").placeholders
    ('claim',)
    """
    text = text.replace("\r\n", "\n").rstrip("\n")
    return PromptTemplate(name, text, hashlib.sha256(text.encode()).hexdigest()[:12])


def fill(prompt: PromptTemplate, **texts: str) -> str:
    r"""Fill a prompt's placeholders: {{name}} with the text between fences, {{name!}} with the bare text.

    {{name!}} is for words of our own only (a number, a label), so it takes one short line. Filling is done once over
    the prompt's text, so a placeholder that occurs in a text is left as it is. The same texts always give the same
    prompt.

    Raises:
        InputError: `texts` does not name each placeholder of the prompt and no other.

    >>> print(fill(make("mine", "Is it so?\n{{claim}}"), claim="It rains."))
    Is it so?
    <<<claim 6f58a7623963
    It rains.
    claim 6f58a7623963>>>
    """
    if set(texts) != set(prompt.placeholders):
        raise InputError(
            f"prompt {prompt.name!r} was given {', '.join(sorted(texts)) or 'nothing'}",
            hint=f"its placeholders are {', '.join(prompt.placeholders) or 'none'}",
        )

    def replacement(placeholder: re.Match[str]) -> str:
        name, text = placeholder[1], texts[placeholder[1]]
        if not placeholder[2]:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
            while any(digest.hexdigest()[:12] in other for other in texts.values()):
                digest.update(b"again")
            mark = digest.hexdigest()[:12]
            return f"<<<{name} {mark}\n{text}\n{name} {mark}>>>"
        if "\n" in text or len(text) > 200:
            raise InputError(
                f"prompt {prompt.name!r}: {name!r} is for one short line", hint=f"fence it: {{{{{name}}}}}"
            )
        return text

    return _PLACEHOLDER.sub(replacement, prompt.text)


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
