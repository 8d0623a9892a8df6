"""What a classifier reads: a case as a whole, or one sentence of the response, or one argument, at a time.

In pairs, a sentence and an argument are read at a time, and what any text of the other side supports is supported.

The key-value format of Chang et al. 2024, appendix B: question, response and arguments as one JSON object, whose next
value is the label. An encoder reads the same texts as a pair.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veridical.core.segment import has_words, sentences
from veridical.core.spans import Span
from veridical.core.types import Case, Source
from veridical.models.encode import special_tokens
from veridical.models.load import LocalModel

__all__ = ["TASKS", "UNITS", "CasePart", "EncodedPart", "encode_reading", "parts_of"]

TASKS: Mapping[str, str] = {"hallucination": "only what is given", "coverage": "all that is given"}
"""The two tasks, and the key whose value is the label."""

UNITS = ("whole", "part", "pair")
"""What is read at once: the whole case (the paper); a sentence of the response with all sources, or a source with the
whole response; or a sentence and a source."""


@dataclass(frozen=True, slots=True)
class CasePart:
    """What is judged at once; `span` of the response or `source` where it is a part of the case.

    `readings` are the texts to read, as fields; the lowest score of them counts. In pairs, `pairs` has the id of the
    source and the sentence of the response that each of them is made of.
    """

    readings: tuple[Mapping[str, Any], ...]
    span: Span | None = None
    source: Source | None = None
    pairs: tuple[tuple[str, Span], ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The token ids of a reading, and which text of a pair each is of (all 0 for a decoder).

    `other` is the second text where the two of a pair are read apart.
    """

    ids: tuple[int, ...]
    types: tuple[int, ...]
    other: tuple[int, ...] = ()


def parts_of(case: Case, task: str, unit: str) -> list[CasePart]:
    """The parts of a case for one of `TASKS`, none where it has nothing to judge.

    >>> case = Case("1", "It is fast. It is red.", (Source("a", "Fast.", "pro", True),), question="Good?")
    >>> [part.readings for part in parts_of(case, "hallucination", "part")][0]
    ({'question': 'Good?', 'arguments': {'pro': ['Fast.']}, 'response': 'It is fast.'},)
    >>> [[reading["response"] for reading in part.readings] for part in parts_of(case, "coverage", "pair")]
    [['It is fast.', 'It is red.']]
    """
    given = [source for source in case.sources if has_words(source.text)]
    to_cover = [source for source in given if source.must_cover]
    if not has_words(case.response) or not (to_cover if task == "coverage" else given):
        return []
    asked = {"question": case.question} if case.question else {}
    if unit == "whole":
        read = _by_perspective(to_cover if task == "coverage" else given)
        return [CasePart(({**asked, "response": case.response, "arguments": read},))]
    said = [span for span in sentences(case.response) if has_words(span.of(case.response))]
    in_pairs = unit == "pair"
    if task == "coverage":
        responses = [span.of(case.response) for span in said] if in_pairs else [case.response]
        return [
            CasePart(
                tuple({**asked, "response": text, "argument": source.text} for text in responses),
                source=source,
                pairs=tuple((source.id, span) for span in said) if in_pairs else (),
            )
            for source in to_cover
        ]
    arguments = [_by_perspective(each) for each in ([[source] for source in given] if in_pairs else [given])]
    return [
        CasePart(
            tuple({**asked, "arguments": each, "response": span.of(case.response)} for each in arguments),
            span=span,
            pairs=tuple((source.id, span) for source in given) if in_pairs else (),
        )
        for span in said
    ]


def _by_perspective(sources: Sequence[Source]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for source in sources:
        groups.setdefault(source.perspective or "given", []).append(source.text)
    return groups


def encode_reading(
    model: LocalModel, reading: Mapping[str, Any], task: str, *, answers: bool, apart: bool = False
) -> EncodedPart:
    """The tokens of a reading; with `answers` they end where the label begins, `apart` are an encoder's two texts."""
    if model.kind == "encoder":
        one, two = (_plain(value) for name, value in reading.items() if name != "question")
        if apart:
            first, second = (tuple(model.tokenizer(text)["input_ids"]) for text in (one, two))
            return EncodedPart(first, (0,) * len(first), second)
        pair = model.tokenizer(one, two, return_token_type_ids=True)
        return EncodedPart(tuple(pair["input_ids"]), tuple(pair["token_type_ids"]))
    text = json.dumps(dict(reading), ensure_ascii=False)
    if answers:
        text = f'{text[:-1]}, "{TASKS[task]}": "'
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    all_ids = (*special_tokens(model).before, *ids)
    return EncodedPart(all_ids, (0,) * len(all_ids))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return " ".join(f"{name}: {' '.join(texts)}" for name, texts in value.items())
