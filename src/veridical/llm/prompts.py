"""Load prompts from versioned files (`llm/prompts/*.txt`), and fill in quoted texts between fences.

A placeholder {{name}} is replaced by a text between two fence lines. Both lines contain a hash that occurs in none of
the texts, so no text can close its own fence.

The hash depends only on the text inside the fence. Prompts about different claims therefore share a prefix (with the
sources) that a server with a prefix cache can reuse.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from veridical.io.files import read_text
from veridical.llm.protocol import Message
from veridical.records.errors import InputError, UnknownNameError

_PLACEHOLDER = re.compile(r"\{\{(\w+)(!?)\}\}")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The text of a prompt with placeholders such as {{claim}}, which `fill` replaces.

    Its `hash` (12 hexadecimal digits) identifies the version of the text. Requests and results record it.
    """

    name: str
    text: str
    hash: str

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names of the placeholders, in order, each once."""
        return tuple(dict.fromkeys(match[1] for match in _PLACEHOLDER.finditer(self.text)))


def names(package: str = "veridical.llm") -> list[str]:
    """List the names of the prompts in a package's folder `prompts`."""
    folder = files(package) / "prompts"
    return sorted(f.name.removesuffix(".txt") for f in folder.iterdir() if f.name.endswith(".txt"))


def prompt(name: str, package: str = "veridical.llm") -> PromptTemplate:
    """Load the prompt called `name`, such as "verify_many", from the folder `prompts` of a package.

    Raises:
        UnknownNameError: There is no such prompt.
    """
    available = names(package)
    if name not in available:
        raise UnknownNameError("prompt", name, available)
    return make(name, (files(package) / "prompts" / f"{name}.txt").read_text(encoding="utf-8"))


def read_prompt(path: str | Path, like: PromptTemplate) -> PromptTemplate:
    """Load a user's own prompt from a file, to use instead of the prompt `like`.

    Raises:
        InputError: The file has other placeholders than `like`.
    """
    own = make(Path(path).name, read_text(Path(path)))
    if set(own.placeholders) != set(like.placeholders):
        placeholders = ", ".join(f"{{{{{name}}}}}" for name in like.placeholders)
        raise InputError(
            f"the prompt {path} has the placeholders {', '.join(own.placeholders) or 'none'}",
            hint=f"it needs {placeholders}",
        )
    return own


def make(name: str, text: str) -> PromptTemplate:
    r"""Build a prompt template from a text with placeholders. Line breaks at its end are dropped.

    >>> make("mine", "Is it so?\n{{claim}}\n").placeholders
    ('claim',)
    """
    text = text.replace("\r\n", "\n").rstrip("\n")
    return PromptTemplate(name, text, hashlib.sha256(text.encode()).hexdigest()[:12])


def fill(prompt: PromptTemplate, **texts: str) -> str:
    r"""Fill the placeholders of a prompt: {{name}} with the text between fences, {{name!}} with the bare text.

    Use {{name!}} only for one short line that you trust, such as a number or a label. Placeholders inside a text are
    not filled. The same texts always give the same prompt.

    Raises:
        InputError: A placeholder has no text, a text has no placeholder, or a bare text is not one short line.

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
    r"""Join messages into one text for a base model.

    Each answer follows its question, and examples are separated by a blank line. This is the form that George and
    Stuhlmüller 2023 use in A.1.2: few-shot examples that end in "Supported: Yes", and then a question that ends in
    "Supported:", so that the next token is the answer.

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
