"""Count what a labelled data set contains: cases, documents, labels and marked text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from veridical.datasets.split import content_hash, document_of
from veridical.records.spans import length
from veridical.records.types import GOLD_THRESHOLD, Example


@dataclass(frozen=True, slots=True)
class DataStatistics:
    """What a labelled data set contains.

    Attributes:
        cases: How many examples there are.
        documents: How many documents they come from.
        labelled_responses: How many responses are labelled as a whole.
        hallucinated_responses: How many of these responses are labelled as hallucinated.
        not_judged: For how many cases the gold judges nothing.
        marked_spans: How many spans of responses are labelled as hallucinated.
        marked_characters: How many characters are in these spans.
        characters: How many characters all responses have.
        omitted_passages: How many passages of sources are labelled as left out.
        annotations: How many judgements single annotators made.
        groups: How many different values each group has, by the name of the group.
        hash: The hash of the examples, which result rows also have.
    """

    cases: int
    documents: int
    labelled_responses: int
    hallucinated_responses: int
    not_judged: int
    marked_spans: int
    marked_characters: int
    characters: int
    omitted_passages: int
    annotations: int
    groups: dict[str, int]
    hash: str


def count_examples(examples: Iterable[Example]) -> DataStatistics:
    """Count cases, documents, labels, marked text and groups.

    >>> from veridical.records.types import Case, Judgement
    >>> example = Example(Case("1", "It rains."), Judgement("1", "human:a", hallucination=1.0))
    >>> count_examples([example]).hallucinated_responses
    1
    """
    examples = list(examples)
    golds = [example.gold for example in examples]
    labels = [gold.hallucination >= GOLD_THRESHOLD for gold in golds if gold.hallucination is not None]
    marks = [[v.span for v in gold.verdicts if v.score >= GOLD_THRESHOLD] for gold in golds]
    values: dict[str, set[str]] = {}
    for example in examples:
        for key, value in example.group:
            values.setdefault(key, set()).add(value)
    return DataStatistics(
        cases=len(examples),
        documents=len({document_of(example) for example in examples}),
        labelled_responses=len(labels),
        hallucinated_responses=sum(labels),
        not_judged=sum(gold.judged == () for gold in golds),
        marked_spans=sum(map(len, marks)),
        marked_characters=sum(map(length, marks)),
        characters=sum(len(example.case.response) for example in examples),
        omitted_passages=sum(o.score >= GOLD_THRESHOLD for gold in golds for o in gold.omissions),
        annotations=sum(len(example.annotations) for example in examples),
        groups={key: len(of_key) for key, of_key in values.items()},
        hash=content_hash(examples),
    )
