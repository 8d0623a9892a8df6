"""Present cases to a classifier: as a whole, or one sentence of the response or one argument at a time.

In pairs, the classifier reads one sentence with one argument. A sentence or argument counts as supported if it is
supported in at least one of its pairs.

A decoder reads the key-value format of Chang et al. 2024, appendix B: one JSON object with question, response and
arguments, in which the label is the next value. An encoder reads the same texts as a pair.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import special_tokens
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.segment import has_words, sentences

CLASSIFIER_TASKS: Mapping[str, str] = {"hallucination": "only what is given", "coverage": "all that is given"}
"""The two tasks, each with the key that the label follows."""

READING_UNITS = ("whole", "part", "pair")
"""What is read at once.

This is the whole case, as in the paper; a sentence of the response with all sources, or a source with the whole
response; or one sentence with one source.
"""


@dataclass(frozen=True, slots=True)
class CasePart:
    """What is judged at once: a whole case, a `span` of the response, or a `source`.

    `readings` are the texts to read, each as a mapping of fields, and the lowest of their scores counts. In pairs,
    `pairs` has the source id and the response sentence of each reading.
    """

    readings: tuple[Mapping[str, Any], ...]
    span: Span | None = None
    source: Source | None = None
    pairs: tuple[tuple[str, Span], ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The token ids of a reading, and whether each token is in text 0 or text 1 of a pair (always 0 for a decoder).

    If the two texts of a pair are read separately, `other` is the second one.
    """

    ids: tuple[int, ...]
    types: tuple[int, ...]
    other: tuple[int, ...] = ()


def case_parts(case: Case, task: str, unit: str) -> list[CasePart]:
    """Split a case into parts for one of `CLASSIFIER_TASKS`. A case with nothing to judge has no parts.

    >>> case = Case("1", "It is fast. It is red.", (Source("a", "Fast.", "pro", True),), question="Good?")
    >>> [part.readings for part in case_parts(case, "hallucination", "part")][0]
    ({'question': 'Good?', 'arguments': {'pro': ['Fast.']}, 'response': 'It is fast.'},)
    >>> [[reading["response"] for reading in part.readings] for part in case_parts(case, "coverage", "pair")]
    [['It is fast.', 'It is red.']]
    """
    with_words = [source for source in case.sources if has_words(source.text)]
    to_cover = [source for source in with_words if source.must_cover]
    if not has_words(case.response) or not (to_cover if task == "coverage" else with_words):
        return []
    question = {"question": case.question} if case.question else {}
    if unit == "whole":
        grouped = _by_perspective(to_cover if task == "coverage" else with_words)
        return [CasePart(({**question, "response": case.response, "arguments": grouped},))]
    spoken = [span for span in sentences(case.response) if has_words(span.of(case.response))]
    in_pairs = unit == "pair"
    if task == "coverage":
        responses = [span.of(case.response) for span in spoken] if in_pairs else [case.response]
        return [
            CasePart(
                tuple({**question, "response": text, "argument": source.text} for text in responses),
                source=source,
                pairs=tuple((source.id, span) for span in spoken) if in_pairs else (),
            )
            for source in to_cover
        ]
    arguments = [_by_perspective(each) for each in ([[source] for source in with_words] if in_pairs else [with_words])]
    return [
        CasePart(
            tuple({**question, "arguments": each, "response": span.of(case.response)} for each in arguments),
            span=span,
            pairs=tuple((source.id, span) for source in with_words) if in_pairs else (),
        )
        for span in spoken
    ]


def _by_perspective(sources: Sequence[Source]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for source in sources:
        groups.setdefault(source.perspective or "given", []).append(source.text)
    return groups


def encode_reading(
    model: LocalModel, reading: Mapping[str, Any], task: str, *, answers: bool, apart: bool = False
) -> EncodedPart:
    """Tokenise a reading.

    With `answers`, the tokens end where the label begins. With `apart`, an encoder gets two separate texts.
    """
    if model.kind == "encoder":
        one, two = (_plain(value) for name, value in reading.items() if name != "question")
        if apart:
            first, second = (tuple(model.tokenizer(text)["input_ids"]) for text in (one, two))
            return EncodedPart(first, (0,) * len(first), second)
        pair = model.tokenizer(one, two, return_token_type_ids=True)
        return EncodedPart(tuple(pair["input_ids"]), tuple(pair["token_type_ids"]))
    text = json.dumps(dict(reading), ensure_ascii=False)
    if answers:
        text = f'{text[:-1]}, "{CLASSIFIER_TASKS[task]}": "'
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    all_ids = (*special_tokens(model).before, *ids)
    return EncodedPart(all_ids, (0,) * len(all_ids))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return " ".join(f"{name}: {' '.join(texts)}" for name, texts in value.items())
