"""Retrieve arguments: from a question to a case with the same number of arguments for each perspective."""

from __future__ import annotations

import random
from typing import Protocol

from veridical.records.types import Case
from veridical_lab.datasets.topics import Topic, draw_arguments

__all__ = ["ArgumentStore", "retrieve"]


class ArgumentStore(Protocol):
    """A source of arguments: a `KnowledgeBase`, or anything else with this method."""

    def topic(self, query: str) -> Topic:
        """Return the topic that `query` names or is about.

        Raises:
            InputError: There is none.
        """
        ...


def retrieve(store: ArgumentStore, question: str, *, arguments: int | None = None, seed: int = 0) -> Case:
    """Draw arguments, and return a case without a response, which has these arguments as sources that must be covered.

    The draw depends only on the seed and the topic's id (Chang et al. 2024, §4.1).

    Args:
        store: The store from which the arguments come.
        question: A topic, or a question about a topic. It becomes the question of the case.
        arguments: The number of arguments for each perspective. Default: drawn from 1 to 3.
        seed: The random seed.

    Raises:
        InputError: There is no such topic, or it has too few arguments.
    """
    topic = store.topic(question)
    drawn = draw_arguments(topic, random.Random(f"{seed}\0arguments\0{topic.id}"), arguments)
    return Case(f"{topic.id}/{seed}", "", tuple(argument.source() for argument in drawn), question=question)
