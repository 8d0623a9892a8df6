"""Retrieval: from a question to a case with as many arguments of each perspective, the same ones for a seed."""

from __future__ import annotations

import random
from typing import Protocol

from veridical.core.types import Case
from veridical_lab.datasets.topics import Topic, draw_arguments

__all__ = ["ArgumentStore", "retrieve"]


class ArgumentStore(Protocol):
    """Where arguments come from: a `KnowledgeBase`, or anything else with this method."""

    def topic(self, query: str) -> Topic:
        """The topic that `query` names or is about; `InputError` if there is none."""
        ...


def retrieve(store: ArgumentStore, question: str, *, arguments: int | None = None, seed: int = 0) -> Case:
    """A case without a response: the drawn arguments as sources that must be covered, by perspective.

    The draw depends on the seed and the topic's id alone (Chang et al. 2024, §4.1).

    Args:
        store: Where the arguments come from.
        question: A topic, or a question about one; it becomes the question of the case.
        arguments: How many for each perspective; None: drawn from 1 to 3.
        seed: The random seed.

    Raises:
        InputError: There is no such topic, or it has too few arguments.
    """
    topic = store.topic(question)
    drawn = draw_arguments(topic, random.Random(f"{seed}\0arguments\0{topic.id}"), arguments)
    return Case(f"{topic.id}/{seed}", "", tuple(argument.source() for argument in drawn), question=question)
