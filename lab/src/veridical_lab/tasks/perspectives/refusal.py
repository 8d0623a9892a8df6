"""Measure how reliably a knowledge base refuses questions about topics that it lacks (Chang et al. 2024, §2).

`questions.csv` has three kinds of questions: questions about topics of `perspectrum` in other words ("on"), everyday
questions ("off"), and questions about controversial topics that `perspectrum` lacks ("lacking"). The threshold is
chosen on half of the questions of each kind, and measured on the other half.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from veridical.metrics.significance import wilson_interval
from veridical.records.errors import DataError
from veridical_lab.datasets.topics import topic_groups
from veridical_lab.tasks.perspectives.knowledge_base import KnowledgeBase

KINDS = ("on", "off", "lacking")
RECALL = 0.9

Share = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Question:
    """A question of one of `KINDS`. If the kind is "on", `topic` is the id of the topic."""

    kind: str
    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class Refusals:
    """The match rates of a knowledge base. Proportions have Wilson intervals, as (value, low, high).

    Attributes:
        threshold: The lowest score that counts as a match. It was fitted on half of the questions, for a recall of 0.9.
        matched: The proportion of the other "on" questions that match a topic.
        right: The proportion of the other "on" questions that match their own topic, or a topic that shares an argument
            with it.
        false_matches: The proportion of the other "off" and "lacking" questions that match a topic.
        counts: The number of measured questions of each kind.
    """

    threshold: float
    matched: Share
    right: Share
    false_matches: Share
    counts: dict[str, int]


def read_questions(path: str | Path | None = None) -> list[Question]:
    """Read questions from a CSV file with the columns kind, topic and question.

    Without a path, the laboratory's own file is read.
    """
    own = files("veridical_lab.tasks.perspectives") / "questions.csv"
    try:
        text = own.read_text("utf-8") if path is None else Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", path=path) from None
    questions = []
    for line, row in enumerate(csv.DictReader(text.splitlines()), 2):
        kind, topic, question = (row.get(name) or "" for name in ("kind", "topic", "question"))
        if kind not in KINDS or not question.strip() or (kind == "on" and not topic):
            hint = f"columns kind ({', '.join(KINDS)}), topic (an id, for on) and question"
            raise DataError("not a question", path=path, line=line, hint=hint)
        questions.append(Question(kind, topic, question))
    return questions


def measure_refusals(base: KnowledgeBase, questions: Iterable[Question]) -> Refusals:
    """Choose a threshold on every second question of each kind, and measure it on the other questions.

    Raises:
        DataError: There are fewer than two "on" questions, or fewer than two "off" and fewer than two "lacking"
            questions.
    """
    groups = topic_groups(base.topics())
    by_kind: dict[str, list[tuple[float, bool]]] = {kind: [] for kind in KINDS}
    for question in questions:
        topic, score = base.match(question.text)
        is_right = topic is not None and groups.get(question.topic, question.topic) == groups[topic.id]
        by_kind[question.kind].append((score, is_right))
    chosen_on = [score for score, _ in by_kind["on"][::2]]
    measured = {kind: scored[1::2] for kind, scored in by_kind.items()}
    others = measured["off"] + measured["lacking"]
    if not measured["on"] or not others:
        raise DataError("too few questions to measure", hint="two or more on topics, and two or more on others")
    threshold = sorted(chosen_on, reverse=True)[math.ceil(RECALL * len(chosen_on)) - 1]

    def share(values: Sequence[bool]) -> Share:
        return (sum(values) / len(values), *wilson_interval(sum(values), len(values)))

    return Refusals(
        threshold,
        share([score >= threshold for score, _ in measured["on"]]),
        share([score >= threshold and is_right for score, is_right in measured["on"]]),
        share([score >= threshold for score, _ in others]),
        {kind: len(scored) for kind, scored in measured.items()},
    )
