"""Read and write the key-value format of the task (Chang et al. 2024, appendix B): one JSON object in, one out.

The input has the key "question", and a key for each perspective with its arguments. For a classifier of errors, the
input also has the response. The output has the key "introduction", and a key for each perspective with its passage. For
a chat model, the input is part of a prompt. A model that was tuned on the task reads only the input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from veridical.llm.reply_parser import json_object
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text.segment import has_words

INTRODUCTION = "introduction"
VALUE_ENDS = ('",', '"}', '" }', '"\n', '" \n', '"]')
"""Strings that end the value of a key. Inside a value, JSON escapes quotes, so only `\\",` can occur there."""


@dataclass(frozen=True, slots=True)
class Passages:
    """An introduction, and one passage for each perspective, in order."""

    introduction: str
    passages: Mapping[str, str]

    @property
    def response(self) -> str:
        """The passages, with an empty line between them. This text is checked against the arguments."""
        return "\n\n".join(self.passages.values())

    @property
    def spans(self) -> dict[str, Span]:
        """Where each passage is in the response."""
        places, start = {}, 0
        for name, text in self.passages.items():
            places[name] = Span(start, start + len(text))
            start += len(text) + 2
        return places


def perspectives_of(case: Case) -> dict[str, list[str]]:
    """Group the texts of the sources by perspective, in order.

    Raises:
        InputError: A source has no perspective, a perspective is called like another key, or there are fewer than two
            perspectives.
    """
    groups: dict[str, list[str]] = {}
    for source in case.sources:
        if source.perspective is None or source.perspective in ("question", "response", INTRODUCTION):
            raise InputError(
                f"case {case.id!r}: source {source.id!r} has the perspective {source.perspective!r}",
                hint="each argument needs one; question, response and introduction are reserved names",
            )
        groups.setdefault(source.perspective, []).append(source.text)
    if len(groups) < 2:
        raise InputError(
            f"case {case.id!r} has {len(groups)} perspective{'s' * (len(groups) != 1)}", hint="two or more are needed"
        )
    return groups


def task_input(case: Case) -> str:
    """Write the input for a model. If the case has a response, the input includes it, for a classifier of errors.

    >>> from veridical.records.types import Source
    >>> print(task_input(Case("1", "", (Source("a", "It is fast.", "pro"), Source("b", "It is loud.", "con")), "Fly?")))
    {"question": "Fly?", "pro": ["It is fast."], "con": ["It is loud."]}
    """
    fields: dict[str, str | Sequence[str]] = {"question": case.question or "", **perspectives_of(case)}
    if case.response:
        fields["response"] = case.response
    return json.dumps(fields, ensure_ascii=False)


def task_target(passages: Passages) -> str:
    """Write the output that a model should produce.

    >>> task_target(Passages("Views differ.", {"pro": "It is fast.", "con": "It is loud."}))
    '{"introduction": "Views differ.", "pro": "It is fast.", "con": "It is loud."}'
    """
    return json.dumps({INTRODUCTION: passages.introduction, **passages.passages}, ensure_ascii=False)


def target_so_far(fields: Mapping[str, str], name: str) -> str:
    """Write the beginning of the output: `fields`, then the key `name` up to the beginning of its value.

    >>> print(target_so_far({"introduction": "Views differ."}, "pro"))
    {"introduction": "Views differ.", "pro": "
    """
    return json.dumps({**fields, name: ""}, ensure_ascii=False)[:-2]


def read_value(text: str) -> str | None:
    r"""Read the value that a model wrote after `target_so_far`, up to one of `VALUE_ENDS`.

    Return None if the value cannot be read or has no words.

    >>> read_value(r'They say \"no\".'), read_value('No."'), read_value('{"pro": "No.'), read_value(" ")
    ('They say "no".', 'No.', None, None)
    """
    text = text.rstrip()
    if text.endswith('"') and not text.endswith('\\"'):
        text = text[:-1]
    try:
        value = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return None
    value = "\n".join(line.strip() for line in value.strip().splitlines() if line.strip())
    return value if has_words(value) else None


def read_target(text: str, perspectives: Sequence[str]) -> Passages | str:
    """Read a model's output, or return why it cannot be read.

    Nothing is guessed, and a partial output is refused.

    >>> read_target('{"introduction": "Views differ.", "pro": "It is fast."}', ["pro", "con"])
    "no passage for 'con'"
    """
    fields = json_object(text)
    if fields is None:
        return "not one JSON object"
    by_name = {key.casefold(): value for key, value in fields.items()}
    passages = {}
    for name in (INTRODUCTION, *perspectives):
        value = by_name.get(name.casefold())
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            value = " ".join(value)
        if not isinstance(value, str) or not has_words(value):
            return "no introduction" if name == INTRODUCTION else f"no passage for {name!r}"
        passages[name] = "\n".join(line.strip() for line in value.strip().splitlines() if line.strip())
    more = by_name.keys() - {name.casefold() for name in passages} - {"question"}
    if more:
        return f"a passage for {min(more)!r}, which was not given"
    return Passages(passages.pop(INTRODUCTION), passages)
