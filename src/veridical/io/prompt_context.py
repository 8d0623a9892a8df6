"""Find the retrieved context that an application has written into a prompt.

The default prompts of LangChain, LlamaIndex, Haystack and Open WebUI are recognised by the words before and after the
context. For other prompts, you can define markers of your own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from veridical.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Marker:
    """Locates the retrieved context in the prompts of one application, by the words before and after it.

    The retrieved context consists of the passages that the application has put into the prompt as evidence. If `after`
    is None, the context goes on to the end of the message.
    """

    before: re.Pattern[str]
    after: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The retrieved context in a prompt, and the user's question in it (None if there is none)."""

    text: str
    question: str | None

    @property
    def passages(self) -> list[str]:
        """The texts of the context's `<source>` elements (Open WebUI), or else the whole context as one passage."""
        return [element["text"].strip() for element in _SOURCE.finditer(self.text)] or [self.text.strip()]


def _marker(before: str, after: str | None = None) -> Marker:
    return Marker(re.compile(before, re.MULTILINE), None if after is None else re.compile(after, re.MULTILINE))


_LINE = r"-{6,40}[ ]{0,4}\n"
_QUESTION = r"^[ \t]{0,40}(?=(?:Question|Query): )"
_KNOWN = (
    _marker(r"^[ \t]{0,40}<context>", r"^[ \t]{0,40}</context>"),  # Open WebUI, prompts of LangChain's hub
    # LlamaIndex, and LangChain's chains that refine
    _marker(rf"^Context information (?:from multiple sources )?is below\.[ ]{{0,4}}\n{_LINE}", rf"^{_LINE}Given the "),
    _marker(rf"with some more context below\.\n{_LINE}", rf"^{_LINE}Given the new context"),
    _marker(rf"^Use the context information below to assist the user\.\n{_LINE}", r"^-{20}[ ]{0,4}$"),
    _marker(r"^[ \t]{0,40}Here are the relevant documents for the context:$", r"^[ \t]{0,40}Instruction: Based on the"),
    # LangChain
    _marker(r"^Use the following pieces of context to answer the question at the end\.[^\n]{0,600}\n", _QUESTION),
    _marker(
        rf"^Use the following pieces of context to answer the user's question\.[ ]{{0,4}}\n[^\n]{{0,600}}\n{_LINE}"
    ),
    _marker(
        r"pieces of retrieved context to answer the question\.[^\n]{0,600}\nQuestion: [^\n]{0,4000}\nContext:",
        r"^Answer:\s{0,40}\Z",
    ),
    _marker(r"pieces of retrieved context to answer the question\.[^\n]{0,600}\n\n"),
    _marker(r"^You are a helpful assistant\. Use the following context in your response:\n\n"),
    # Haystack
    _marker(
        r"^[ \t]{0,40}Given (?:these documents|the following information), answer the question\."
        r"\s{0,80}^[ \t]{0,40}(?:Documents|Context):",
        _QUESTION,
    ),
    _marker(r"^[ \t]{0,40}According to the following documents:", r"^[ \t]{0,40}Answer the given question:"),
)
_SOURCE = re.compile(r"<source\b[^>\n]{0,1000}>(?P<text>(?:(?!</?source\b).)*)</source>", re.DOTALL)
_ASKED = re.compile(r"(?:Question|Query|Answer the given question): ")


def read_marker(text: str) -> Marker:
    """Parse a marker, written as "BEFORE...AFTER", or as "BEFORE" if the context is the rest of the message.

    Raises:
        InputError: The text has no words before the context.

    >>> context_of("Facts: It rains. Task: Tell me.", [read_marker("Facts:...Task:")]).text
    ' It rains. '
    """
    before, _, after = text.partition("...")
    if not before.strip():
        raise InputError(f"the context marker {text!r} has no beginning", hint="such as 'Documents:...Question:'")
    return Marker(re.compile(re.escape(before)), re.compile(re.escape(after)) if after.strip() else None)


def context_of(message: str, own: Iterable[Marker] = ()) -> Context | None:
    r"""Find the retrieved context in a prompt, and the user's question. Return None if no marker fits.

    Your own markers are tried first. The context begins after the first occurrence of the opening words and ends before
    the last occurrence of the closing words, because the documents in it may contain the same words.

    >>> prompt = "Given these documents, answer the question.\nDocuments:\nIt rains.\nQuestion: Does it?\nAnswer:"
    >>> context_of(prompt)
    Context(text='\nIt rains.\n', question='Does it?')
    >>> context_of("You are a helpful assistant.") is None
    True
    """
    for marker in (*own, *_KNOWN):
        begins = marker.before.search(message)
        if begins is None:
            continue
        start, end, rest = begins.end(), len(message), ""
        if marker.after is not None:
            ends = list(marker.after.finditer(message, start))
            if not ends:
                continue
            end, rest = ends[-1].start(), message[ends[-1].start() :]
        if message[start:end].strip():
            return Context(message[start:end], _question([begins[0], rest]))
    return None


def _question(texts: Sequence[str]) -> str | None:
    """Find the question in the words around a context. Return None if there is no question."""
    for text in texts:
        if asked := _ASKED.search(text):
            question = text[asked.end() :].strip().removesuffix("Context:").removesuffix("Answer:").strip()
            return question.removesuffix("Helpful").strip() or None
    rest = texts[-1].partition("</context>")[2].strip().removeprefix("<user_query>").removesuffix("</user_query>")
    return rest.strip() or None
