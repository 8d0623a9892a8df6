"""Write statements about passages with a chat model, and check every statement before it is used for training.

A statement is dropped if it is malformed, if its label cannot be right, or if a chat model that does not see the label
assigns another one. The dropped statements are counted by reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from veridical.datasets.reading import text_id
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request
from veridical.llm.reply_parser import json_object, numbered
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Usage, Verdict
from veridical.text.languages import language_of
from veridical.text.segment import sentences, words
from veridical_lab.adapt.passages import Passage

REASONS = {
    "no reply": "the model did not reply",
    "unreadable": "the reply is not one JSON object of the form asked for",
    "no sentence": "the text has fewer than 4 or more than 60 words, or several lines",
    "about the task": "the text speaks of the passage, the statement or the task",
    "other language": "the text is in another language than the passage",
    "duplicate": "the same text is there already",
    "copied": "the text is a sentence of the passage",
    "no marked error": "the wrong words do not occur exactly once, or equal their correction",
    "correction unknown": "the passage does not have the correction",
    "contradicts its label": "the passage has another value, sign or reference than a supported text",
    "labelled otherwise": "asked again without the label, the model gives another one, or none",
}
"""The reasons for dropping a statement, in the order of the checks."""
_PACKAGE = "veridical_lab.adapt"
_KINDS = {"supported": "entailment", "contradicted": "contradiction", "not mentioned": "neutral"}
_LABELS = {"supported": "entailment", "contradicted": "contradiction", "unmentioned": "neutral"}
_TASK = re.compile(r"\b(?:passage|statement|text above|json|prompt|instructions?|as an ai)\b", re.IGNORECASE)
_BATCH = 32  # passages per round of requests
_COPY = 0.97  # minimum similarity to a sentence of the passage for a text to count as copied


@dataclass(slots=True)
class Statements:
    """The statements that were kept, and how many were dropped and why.

    Attributes:
        examples: Labelled statements and answers. Their group `label` is entailment, contradiction or neutral.
        written: The number of statements that the model wrote.
        dropped: The number of dropped statements for each reason (`REASONS`).
        usage: The usage of the chat models. None if there were no calls.
    """

    examples: list[Example] = field(default_factory=list)
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """A statement that the model wrote, with its label. If contradicted, also the wrong words and the right ones."""

    label: str
    text: str
    wrong: str = ""
    right: str = ""
    question: str | None = None


def write_statements(
    passages: Sequence[Passage],
    model: ChatModel,
    *,
    labeller: ChatModel | None = None,
    progress: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> Statements:
    """Write statements about passages with a chat model, and keep those that pass every check.

    Args:
        passages: The passages. For each passage, one request writes statements and another labels them.
        model: The model that writes.
        labeller: The model that labels the statements again without seeing their first labels. Default: `model`.
        progress: A function that is called with the name of the step, how many passages are done, and how many there
            are.
    """
    found, seen = Statements(), set[str]()
    for start in range(0, len(passages), _BATCH):
        some = passages[start : start + _BATCH]
        replies = model.chat([_request("write_statements", 1500, passage=each.text) for each in some])
        kept = [list(_checked(*pair, seen, found)) for pair in zip(some, replies, strict=True)]
        asked = [i for i, written in enumerate(kept) if written]
        listed = ["\n".join(f"{n}. {each.text}" for n, each in enumerate(kept[i], 1)) for i in asked]
        labels = (labeller or model).chat(
            [
                _request("label_statements", 256, passage=some[i].text, statements=text)
                for i, text in zip(asked, listed, strict=True)
            ]
        )
        found.usage = Usage.total([found.usage, *(reply.usage for reply in (*replies, *labels))])
        for i, reply in zip(asked, labels, strict=True):
            said = {} if isinstance(reply, Failure) else numbered(reply.text)
            for number, written in enumerate(kept[i], 1):
                if _LABELS.get(said.get(number, "").strip(" .*").casefold()) == written.label:
                    found.examples.append(_example(some[i], written))
                else:
                    found.dropped["labelled otherwise"] += 1
        progress("passages", start + len(some), len(passages))
    return found


def _request(name: str, most: int, **texts: str) -> Request:
    template = prompt(name, _PACKAGE)
    return Request((Message("user", fill(template, **texts)),), max_tokens=most, stage="write", prompt=template.hash)


def _checked(passage: Passage, reply: Reply | Failure, seen: set[str], found: Statements) -> Iterator[_Written]:
    """Yield the statements in a reply that pass the checks of form and content, and count the others in `found`."""
    if isinstance(reply, Failure):
        found.dropped["no reply"] += 1
        return
    document = json_object(reply.text)
    items = [] if document is None else list(_items(document))
    if not items:
        found.dropped["unreadable"] += 1
        return
    language = language_of(passage.text)
    inside = [span.of(passage.text) for span in sentences(passage.text)]
    for item in items:
        found.written += 1
        reason = "unreadable" if item is None else _reason(item, passage, inside, language, seen)
        if item is None or reason is not None:
            found.dropped[str(reason)] += 1
        else:
            seen.add(" ".join(item.text.casefold().split()))
            yield item


def _items(document: dict[str, Any]) -> Iterator[_Written | None]:
    """Yield the statements and answers in a reply, or None for each item that has the wrong form."""
    for key, label in _KINDS.items():
        listed = document.get(key)
        for item in listed if isinstance(listed, list) else ():
            yield _item(item, label)
    question = document.get("question")
    if isinstance(question, str) and question.strip().endswith("?") and len(question) < 300:
        for key, label in (("right answer", "entailment"), ("wrong answer", "contradiction")):
            if key in document:
                yield _item(document[key], label, question.strip())


def _item(item: object, label: str, question: str | None = None) -> _Written | None:
    if not isinstance(item, dict):
        return None
    texts = [item.get(name, "") for name in ("text", "wrong", "right")]
    if not all(isinstance(text, str) for text in texts):
        return None
    text, wrong, right = (str(each).strip() for each in texts)
    if label != "contradiction":
        wrong = right = ""
    return (
        _Written(label, text, wrong, right, question)
        if text and (label != "contradiction" or (wrong and right))
        else None
    )


def _reason(
    item: _Written, passage: Passage, inside: Sequence[str], language: str | None, seen: set[str]
) -> str | None:
    """Return the reason why an item is dropped, or None if it passes all checks."""
    count = len(words(item.text))
    corrected = item.text.replace(item.wrong, item.right) if item.wrong else item.text
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("no sentence", lambda: not 4 <= count <= 60 or len(item.text.splitlines()) > 1),
        ("about the task", lambda: bool(_TASK.search(item.text)) and not _TASK.search(passage.text)),
        ("other language", lambda: language_of(item.text) not in (language, None)),
        ("duplicate", lambda: " ".join(item.text.casefold().split()) in seen),
        ("copied", lambda: any(_similarity(item.text, sentence) >= _COPY for sentence in inside)),
        (
            "no marked error",
            lambda: bool(item.wrong) and (item.text.count(item.wrong) != 1 or item.wrong == item.right),
        ),
        ("correction unknown", lambda: bool(item.right) and not _has(passage.text, item.right)),
        (
            "contradicts its label",
            lambda: item.label != "neutral" and bool(discrepancies(_case(passage, corrected, item.question))),
        ),
    )
    return next((reason for reason, fails in checks if fails()), None)


def _similarity(a: str, b: str) -> float:
    matcher = SequenceMatcher(None, a.casefold().split(), b.casefold().split(), autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= _COPY else 0.0


def _has(text: str, part: str) -> bool:
    """Return whether a text contains all whole numbers and all words of four or more characters in `part`."""
    inside = {word.of(text).casefold() for word in words(text)}
    return all(word.of(part).casefold() in inside for word in words(part) if len(word) > 3 or word.of(part).isdigit())


def _case(passage: Passage, text: str, question: str | None, name: str = "") -> Case:
    return Case(f"{passage.id}/{name}", text, (Source("1", passage.text),), question=question)


def _example(passage: Passage, item: _Written) -> Example:
    marks: tuple[Verdict, ...] = ()
    if item.label == "contradiction":
        start = item.text.index(item.wrong)
        marks = (Verdict(Span(start, start + len(item.wrong)), 1.0, "contradiction", correction=item.right),)
    elif item.label == "neutral":
        marks = (Verdict(Span(0, len(item.text)), 1.0, "absence"),)
    case = _case(passage, item.text, item.question, text_id(item.text))
    gold = Judgement(case.id, "model:written", float(bool(marks)), verdicts=marks)
    return Example(
        case, gold, passage.document, (("kind", "answer" if item.question else "statement"), ("label", item.label))
    )
