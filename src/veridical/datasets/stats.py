"""What is in a set of labelled examples: how many cases, documents, labels and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from veridical.core.spans import length
from veridical.core.types import GOLD_THRESHOLD, Example
from veridical.datasets.split import content_hash, document_of

__all__ = ["Statistics", "statistics"]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of a set of examples.

    Attributes:
        cases: All of them, labelled or not.
        documents: Different documents.
        labelled: Cases whose gold says whether the response is hallucinated.
        hallucinated: Cases whose gold says that it is.
        unjudged: Cases in which nothing of the response is labelled.
        marked_spans: Verdicts that mark a hallucination.
        marked_characters: Different characters of the responses in such verdicts.
        characters: All characters of the responses.
        omissions: Passages of sources that are labelled as left out.
        annotations: Judgements of single annotators.
        groups: How many different values each group has.
        hash: The hash that result rows carry (`datasets.split.content_hash`).
    """

    cases: int
    documents: int
    labelled: int
    hallucinated: int
    unjudged: int
    marked_spans: int
    marked_characters: int
    characters: int
    omissions: int
    annotations: int
    groups: Mapping[str, int]
    hash: str


def statistics(examples: Sequence[Example]) -> Statistics:
    """Count what is in `examples`; the time grows with their number alone."""
    golds = [example.gold for example in examples]
    scores = [gold.hallucination for gold in golds if gold.hallucination is not None]
    marked = [[verdict.span for verdict in gold.verdicts if verdict.score >= GOLD_THRESHOLD] for gold in golds]
    groups: dict[str, set[str]] = {}
    for example in examples:
        for key, value in example.group:
            groups.setdefault(key, set()).add(value)
    return Statistics(
        cases=len(examples),
        documents=len({document_of(example) for example in examples}),
        labelled=len(scores),
        hallucinated=sum(score >= GOLD_THRESHOLD for score in scores),
        unjudged=sum(gold.judged == () for gold in golds),
        marked_spans=sum(map(len, marked)),
        marked_characters=sum(map(length, marked)),
        characters=sum(len(example.case.response) for example in examples),
        omissions=sum(omission.score >= GOLD_THRESHOLD for gold in golds for omission in gold.omissions),
        annotations=sum(len(example.annotations) for example in examples),
        groups={key: len(values) for key, values in groups.items()},
        hash=content_hash(examples),
    )
