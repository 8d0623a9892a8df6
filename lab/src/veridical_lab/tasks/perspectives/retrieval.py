"""Retrieve arguments for a question, the same number for each perspective, and make a case of them."""

from __future__ import annotations

import random
from typing import Protocol

from veridical.records.types import Case
from veridical_lab.datasets.topics import Topic, draw_arguments


class ArgumentStore(Protocol):
    """Where arguments come from: a `KnowledgeBase`, or anything else with this method."""

    def topic(self, query: str) -> Topic:
        """Find the topic that `query` names or is about.

        Raises:
            InputError: There is no such topic.
        """
        ...


def retrieve(store: ArgumentStore, question: str, *, arguments: int | None = None, seed: int = 0) -> Case:
    """Draw arguments, and make a case with these arguments as sources that must be covered, and without a response.

    For a given `arguments`, the draw depends only on the seed and the id of the topic (Chang et al. 2024, §4.1).

    Args:
        store: Where the arguments come from.
        question: A topic, or a question about a topic. It becomes the question of the case.
        arguments: How many arguments to draw for each perspective. Default: a number drawn from 1 to 3.
        seed: The random seed.

    Raises:
        InputError: There is no such topic, or it has too few arguments.
    """
    topic = store.topic(question)
    drawn = draw_arguments(topic, random.Random(f"{seed}\0arguments\0{topic.id}"), arguments)
    return Case(f"{topic.id}/{seed}", "", tuple(argument.source() for argument in drawn), question=question)
