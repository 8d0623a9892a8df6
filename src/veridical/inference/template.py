"""Render cases with prompt templates, and find where each source and the response are in the rendered text.

A template is a text with the fields {source}, {question}, {history} and {response}. If a field is empty, its line is
omitted. There are two special names: "chat" uses the tokenizer's own chat template, and "raw" uses the prompt that
produced the response.

Few-shot examples are files in `shots/`. If you change one of them, give the template a new name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case

_FIELD = re.compile(r"\{(source|question|history|response)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A prompt template, which turns a case into one text: instructions, sources, question, and last the response.

    Attributes:
        name: The name of the template.
        text: The text of the template. It contains each field at most once and ends in {response}. {count} is the
            number of sources.
        separator: The text between two sources.
        label: A word before each source, which is followed by the number of the source, as in "passage 1: ". Empty for
            no label.
        without_question: The text that is used instead of `text` for a case without a question.
        exact: If true, white space between the prompt and the response is kept. If false, it is stripped.
    """

    name: str
    text: str
    separator: str = "\n\n"
    label: str = ""
    without_question: str | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        fields = _FIELD.findall(self.text)
        if len(set(fields)) < len(fields) or not self.text.endswith("{response}"):
            raise InputError(
                f"template {self.name!r} is {self.text!r}",
                hint="it holds {source}, {question}, {history} at most once each and ends in {response}",
            )

    @property
    def digest(self) -> str:
        """A hash of the template's texts, as 16 hexadecimal digits.

        A trained detector records it, to detect that its template has changed.
        """
        about = f"{self.text}\0{self.separator}"
        if self.label or self.without_question is not None:
            about += f"\0{self.label}\0{self.without_question}"
        return hashlib.sha256(about.encode()).hexdigest()[:16]


def _examples(name: str) -> str:
    """Read the few-shot examples of a template, each followed by an empty line."""
    text = (files("veridical.inference") / "shots" / f"{name}.txt").read_text(encoding="utf-8")
    return text.replace("\r\n", "\n").strip("\n") + "\n\n"


_DIALOGUE = "Conversation: {history}\nKnowledge: {source}\nReply that keeps to the knowledge: {response}"
_DATA_TO_TEXT = "Attributes: {source}\nDescription: {response}"

# the published prompts that LettuceDetect's checkpoints were trained with (Kovács and Recski 2025; MIT licence)
_PASSAGES = """Briefly answer the following question:
{question}
Bear in mind that your response should be strictly based on the following {count} passages:
{source}
In case the passages do not contain the necessary information to answer the question, please reply with: \
"Unable to answer based on given passages."
output:{response}"""
_SUMMARY = "Summarize the following text:\n{source}\noutput:{response}"


def _translations() -> Iterator[Template]:
    """Read LettuceDetect's prompts in the other languages that have checkpoints."""
    text = (files("veridical.inference") / "lettucedetect.json").read_text(encoding="utf-8")
    for language, fields in json.loads(text).items():
        yield Template(f"lettucedetect-{language}", separator="\n", exact=True, **fields)


TEMPLATES = {
    t.name: t
    for t in (
        Template("bare", "{history}\n{question}\n{source}\n{response}"),
        Template("data-to-text", _examples("data-to-text") + _DATA_TO_TEXT, separator=", "),
        Template("data-to-text-bare", _DATA_TO_TEXT, separator=", "),
        Template("dialogue", _examples("dialogue") + _DIALOGUE),
        Template("dialogue-bare", _DIALOGUE),
        Template("general", "{history}\n{source}\n\nQuestion: {question}\nAnswer: {response}"),
        Template("lettucedetect", _PASSAGES, "\n", "passage", _SUMMARY),
        Template("knowledge", "Knowledge: {source}\nResponse: {response}"),
        Template("plain", "{response}"),
        Template("qa", "Source: {source}\nQuestion: {question}\nAnswer: {response}"),
        Template("short", "{source}\n\nIn short: {response}"),
        Template("tldr", "{source}\nTL;DR: {response}"),
        Template("chat", "{history}\n{source}\n\n{question}\n{response}"),
        Template("raw", "{response}"),
        *_translations(),
    )
}

Piece = tuple[str, Span]  # a source's id, and a span of its characters


@dataclass(frozen=True, slots=True)
class Placed:
    """The position of a source, or of a piece of it, in a rendered prompt.

    Attributes:
        source_id: The id of the source.
        in_text: The span of the piece in the rendered text.
        in_source: The span of the same characters in the source. Both spans have the same length.
    """

    source_id: str
    in_text: Span
    in_source: Span


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a model's input, with the positions of the response and of each source in it.

    Attributes:
        text: The text.
        response: The span of the response, which is always at the end.
        sources: The position of each source, or of each shown piece of a source.
        notes: Remarks for the user, for example about sources that could not be located.
        markup: How special tokens that are written in the text, such as "</s>", are tokenised. If true, they become the
            special tokens. If false, they are plain characters.
        literal: The spans in which special tokens are tokenised as plain characters even if `markup` is true: the
            sources or the chat message, and the response.
    """

    text: str
    response: Span
    sources: tuple[Placed, ...]
    notes: tuple[str, ...] = ()
    markup: bool = False
    literal: tuple[Span, ...] = ()


def get_template(name: str) -> Template:
    """Return the prompt template called `name`, such as "qa" or "chat".

    Raises:
        UnknownNameError: There is no such template.
    """
    if name not in TEMPLATES:
        raise UnknownNameError("template", name, TEMPLATES)
    return TEMPLATES[name]


def render(
    case: Case, template: Template | str, *, tokenizer: Any = None, pieces: Sequence[Piece] | None = None
) -> Rendered:
    r"""Render a case as one text for a model, by filling in a prompt template.

    Args:
        case: The case to render.
        template: The template, or its name.
        tokenizer: The tokenizer, which only the template "chat" needs.
        pieces: The parts of sources to show, in order, each as (source id, span). Default: all sources in full.

    The template "raw" uses `case.prompt`, and removes from it the parts of sources that are not in `pieces`. Each
    source is located where its text first occurs in the prompt without overlapping a source that was located before.
    `Rendered.notes` name the sources that cannot be located.

    Raises:
        InputError: The template is "chat", and the tokenizer has no chat template.
        CannotJudgeError: The template is "raw", and the case has no prompt.

    >>> from veridical.records.types import Source
    >>> prompt = render(Case("1", "Paris.", (Source("a", "It is Paris."),)), "tldr")
    >>> prompt.text, prompt.response.of(prompt.text), prompt.sources[0].in_text
    ('It is Paris.\nTL;DR: Paris.', 'Paris.', Span(start=0, end=12))
    """
    template = get_template(template) if isinstance(template, str) else template
    if template.name == "raw":
        return _raw(case, pieces)
    if pieces is None:
        pieces = [(source.id, Span(0, len(source.text))) for source in case.sources if source.text]
    if template.name == "chat" and not getattr(tokenizer, "chat_template", None):
        raise InputError("the tokenizer has no chat template", hint=f"use another: {', '.join(sorted(TEMPLATES))}")
    text, in_message = _fill(case, template, pieces)
    if template.name != "chat":
        return Rendered(text + case.response, Span(len(text), len(text) + len(case.response)), tuple(in_message))
    from veridical.inference.chat_template import render_chat

    text, messages = render_chat(tokenizer, [("user", text.rstrip("\n"))])
    response = Span(len(text), len(text) + len(case.response))
    if not messages:
        note = "the chat template changed the message; sources have no place in it"
        return Rendered(text + case.response, response, (), (note,), markup=True, literal=(response,))
    (_, message, cut) = messages[0]  # chat templates often strip a message: `cut` characters at its beginning
    sources = []
    for placed in in_message:
        start = max(placed.in_text.start - cut + message.start, message.start)
        end = min(placed.in_text.end - cut + message.start, message.end)
        if start < end:
            first = placed.in_source.start + start - message.start + cut - placed.in_text.start
            sources.append(Placed(placed.source_id, Span(start, end), Span(first, first + end - start)))
    return Rendered(text + case.response, response, tuple(sources), markup=True, literal=(message, response))


def _fill(case: Case, template: Template, pieces: Sequence[Piece]) -> tuple[str, list[Placed]]:
    """Fill in a template up to the response, without lines whose field is empty. Return the text and its sources."""
    values = {
        "question": case.question or "",
        "history": "\n".join(f"{turn.speaker}: {turn.text}" for turn in case.history),
        "response": "",
    }
    text = ""
    sources: list[Placed] = []
    form = template.text
    if template.without_question is not None and not values["question"]:
        form = template.without_question
    for line in form.replace("{count}", str(len(pieces))).splitlines(keepends=True):
        field = _FIELD.search(line)
        if field is None:
            if text or line.strip():  # an empty line separates what is above it from what is below
                text += line
            continue
        name = field[1]
        if not (pieces if name == "source" else name == "response" or values[name]):
            continue
        text += line[: field.start()]
        if name == "source":
            for i, (source_id, span) in enumerate(pieces):
                text += template.separator if i else ""
                text += f"{template.label} {i + 1}: " if template.label else ""
                shown = span.of(case.source(source_id).text)
                sources.append(Placed(source_id, Span(len(text), len(text) + len(shown)), span))
                text += shown
        else:
            text += values[name]
        text += line[field.end() :]
    return text, sources


def _raw(case: Case, pieces: Sequence[Piece] | None) -> Rendered:
    """Render the case's own prompt. If there are `pieces`, show only these parts of the sources."""
    if case.prompt is None:
        raise CannotJudgeError(
            f"case {case.id!r} has no prompt", hint="the raw template needs the prompt that made the response"
        )
    prompt_sources: list[Placed] = []
    notes = []
    for source in case.sources:  # each at its first match that no other source has taken
        length = len(source.text)
        start = case.prompt.find(source.text) if source.text else -1
        while start >= 0 and any(Span(start, start + length).overlaps(other.in_text) for other in prompt_sources):
            start = case.prompt.find(source.text, start + 1)
        if start < 0:
            notes.append(f"source {source.id!r} is not verbatim in the prompt")
        else:
            prompt_sources.append(Placed(source.id, Span(start, start + length), Span(0, length)))
    shown = None if pieces is None else dict(pieces)  # each source has at most one piece
    sources: list[Placed] = []
    text, copied = "", 0  # the prompt up to `copied` is in `text`
    for source_place in sorted(prompt_sources, key=lambda place: place.in_text):
        in_text, span = source_place.in_text, source_place.in_source
        text += case.prompt[copied : in_text.start]
        copied = in_text.end
        if shown is not None:
            if source_place.source_id not in shown:
                continue
            span = shown[source_place.source_id]
        sources.append(Placed(source_place.source_id, Span(len(text), len(text) + span.end - span.start), span))
        text += case.prompt[in_text.start + span.start : in_text.start + span.end]
    text += case.prompt[copied:]
    response = Span(len(text), len(text) + len(case.response))
    literal = (*(place.in_text for place in sources), response)
    return Rendered(text + case.response, response, tuple(sources), tuple(notes), markup=True, literal=literal)
