"""Render conversations with a tokenizer's own chat template, and find each message in the rendered text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from veridical.records.errors import InputError, VeridicalError
from veridical.records.spans import Span


def render_chat(tokenizer: Any, messages: Sequence[tuple[str, str]]) -> tuple[str, list[tuple[int, Span, int]]]:
    """Render a conversation with the tokenizer's chat template, up to the beginning of the model's answer.

    The template is filled with placeholders instead of the messages, so no message can change what the template does.

    Args:
        tokenizer: A tokenizer with a chat template.
        messages: The role and the content of each turn.

    Returns:
        The text, and a triple for each message in it: the index of the message, the span of its content in the text,
        and the number of white-space characters that the template stripped from its beginning. If the template changes
        the content of messages, they cannot be located, and there are no triples.

    Raises:
        InputError: The template rejects the roles, drops the user's message, or changes a message that contains a
            special token.
    """

    def apply(contents: Sequence[str]) -> str:
        turns = [{"role": role, "content": text} for (role, _), text in zip(messages, contents, strict=True)]
        try:
            return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        except VeridicalError:
            raise
        except Exception as error:  # a template is foreign code and can fail in any way
            raise InputError(
                f"the tokenizer's chat template does not take these messages: {str(error) or type(error).__name__}",
                hint="another order of roles, or a model whose template takes it",
            ) from error

    # the white space around a placeholder shows whether the template strips its messages
    pad = "\t\x0b\t"
    text = apply([f"{pad}content-of-message-{i}-{pad}" if content else "" for i, (_, content) in enumerate(messages)])
    rendered, copied = "", 0  # the template's output up to `copied` is in `rendered`
    places = []
    for mark in re.finditer(f"({pad})?content-of-message-([0-9]+)-({pad})?", text):
        index = int(mark[2])
        content = messages[index][1]
        shown = content if mark[1] else content.lstrip()
        cut = len(content) - len(shown)
        shown = shown if mark[3] else shown.rstrip()
        rendered += text[copied : mark.start()]
        places.append((index, Span(len(rendered), len(rendered) + len(shown)), cut))
        rendered += shown
        copied = mark.end()
    if {index for index, _, _ in places} == {i for i, (_, content) in enumerate(messages) if content}:
        return rendered + text[copied:], places
    contents = [content for _, content in messages]
    special = [str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values() if token.special]
    if any(token in content for token in special for content in contents):
        raise InputError(
            "the chat template changes messages, and one of them holds a special token",
            hint="remove the special token, or use another template",
        )
    text = apply(contents)
    for i, (role, content) in enumerate(messages):
        if role == "user" and content.strip() and apply([*contents[:i], f"{content} {i}", *contents[i + 1 :]]) == text:
            raise InputError(
                "the tokenizer's chat template leaves out what the user says",
                hint="a template that takes messages as plain text is needed",
            )
    return text, []
