"""Mix the sources of a case with passages of other documents, like a retriever that finds too much."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from veridical.datasets.split import document_of
from veridical.records.errors import InputError
from veridical.records.types import Example, Source


def among_foreign(examples: Sequence[Example], count: int, *, seed: int = 0) -> list[Example]:
    """Mix the sources of each case with the sources of `count` other documents from the same data.

    The seed decides which documents are drawn and where their sources go. All cases of one document get the same
    foreign sources, so the two members of a pair still differ only in their responses. The ids of foreign sources begin
    with "foreign N/", and responses need not cover them. A case without sources is not changed.

    Raises:
        InputError: Fewer than `count` other documents have sources.

    >>> from veridical.records.types import Case, Judgement
    >>> cases = [Case(text, "It is.", (Source("1", text),)) for text in ("Tea.", "Rain.")]
    >>> first, _ = among_foreign([Example(case, Judgement(case.id, "human:a", 0.0)) for case in cases], 1)
    >>> sorted((source.id, source.text) for source in first.case.sources)
    [('1', 'Tea.'), ('foreign 1/1', 'Rain.')]
    """
    passages: dict[str, tuple[Source, ...]] = {}
    for example in sorted(examples, key=lambda example: example.case.id):
        if example.case.sources:
            passages.setdefault(document_of(example), example.case.sources)
    if len(passages) <= count:
        raise InputError(f"{len(passages)} documents have sources", hint=f"{count} foreign ones take {count + 1}")
    names = sorted(passages)
    made = []
    for example in examples:
        document = document_of(example)
        draw = random.Random(f"{seed}\0{document}")
        others = [name for name in draw.sample(names, count + 1) if name != document][:count]
        blocks = [
            tuple(replace(source, id=f"foreign {i}/{source.id}", must_cover=False) for source in passages[name])
            for i, name in enumerate(others, 1)
        ]
        blocks.insert(draw.randrange(count + 1), example.case.sources)
        sources = tuple(source for block in blocks for source in block)
        made.append(replace(example, case=replace(example.case, sources=sources)) if example.case.sources else example)
    return made
