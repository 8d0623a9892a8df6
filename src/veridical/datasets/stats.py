"""What is in a labelled data set, counted."""

from __future__ import annotations

from collections.abc import Iterable

from veridical.core.spans import length
from veridical.core.types import GOLD_THRESHOLD, Example
from veridical.datasets.split import content_hash, document_of

__all__ = ["count_examples"]


def count_examples(examples: Iterable[Example]) -> dict[str, str]:
    """Counts of cases, documents, labels, marked text and groups, and the hash that results refer to, by their names.

    >>> from veridical.core.types import Case, Judgement
    >>> example = Example(Case("1", "It rains."), Judgement("1", "human:a", hallucination=1.0))
    >>> count_examples([example])["of them hallucinated"]
    '1 (100.0%)'
    """
    examples = list(examples)
    golds = [example.gold for example in examples]
    labels = [gold.hallucination >= GOLD_THRESHOLD for gold in golds if gold.hallucination is not None]
    marks = [[v.span for v in gold.verdicts if v.score >= GOLD_THRESHOLD] for gold in golds]
    marked_characters = sum(map(length, marks))
    characters = sum(len(example.case.response) for example in examples)
    values: dict[str, set[str]] = {}
    for example in examples:
        for key, value in example.group:
            values.setdefault(key, set()).add(value)
    counts = {
        "cases": len(examples),
        "documents": len({document_of(example) for example in examples}),
        "labelled responses": len(labels),
        "of them hallucinated": f"{sum(labels)} ({sum(labels) / len(labels):.1%})" if labels else 0,
        "not judged": sum(gold.judged == () for gold in golds),
        "marked spans": sum(map(len, marks)),
        "marked characters": f"{marked_characters} of {characters} ({marked_characters / max(characters, 1):.1%})",
        "omitted passages": sum(o.score >= GOLD_THRESHOLD for gold in golds for o in gold.omissions),
        "annotators' judgements": sum(len(example.annotations) for example in examples),
        "groups": ", ".join(f"{key} ({len(of_key)} values)" for key, of_key in values.items()) or "none",
        "hash": content_hash(examples),
    }
    return {name: str(count) for name, count in counts.items()}
