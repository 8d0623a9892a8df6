"""Make items to annotate. Each asks about one changed place of a response (Liu et al. 2022, §3.3).

An item is an `Example` whose gold judges one span. The only verdict has the span, the score (1 = inconsistent with the
original) and the original text as `correction`. Until people have answered, the gold comes from the method that changed
the text (such as `by="corrupt:rules"`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from veridical.records.errors import InputError
from veridical.records.types import GOLD_THRESHOLD, Example, Judgement, Verdict


def is_item(example: Example) -> bool:
    """Return whether an example asks about one place of its response."""
    gold = example.gold
    return len(gold.verdicts) == 1 and gold.judged == (gold.verdicts[0].span,)


def item_place(item: Example) -> Verdict:
    """Return the place that an item asks about, as a verdict. Its `correction` is the text that stood there before.

    Raises:
        InputError: The example is not an item, because its gold does not judge exactly one span.
    """
    if not is_item(item):
        raise InputError(
            f"{item.case.id!r} is not an item to annotate: its gold does not judge exactly one span",
            hint="make items with veridical_lab.annotate.items.items_of, or `veridical annotate select`",
        )
    return item.gold.verdicts[0]


def items_of(examples: Iterable[Example]) -> Iterator[Example]:
    """Make one item for each changed place of each example, in order.

    A place counts as changed if its verdict has the original text (`Verdict.correction`), as `veridical data corrupt`
    writes it. A place where text was only added makes no item. The id of an item is the id of the example plus `#0`,
    `#1` and so on. Examples that are already items stay as they are.

    >>> from veridical.records.types import Case, Span
    >>> verdict = Verdict(Span(8, 12), 1.0, correction="Rome")
    >>> gold = Judgement("1", "corrupt:rules", 1.0, verdicts=(verdict,))
    >>> [(item.case.id, item.gold.judged) for item in items_of([Example(Case("1", "born in Oslo"), gold)])]
    [('1#0', (Span(start=8, end=12),))]
    """
    for example in examples:
        if is_item(example):
            yield example
            continue
        for i, verdict in enumerate(example.gold.verdicts):
            if not verdict.correction or not len(verdict.span):
                continue
            case = replace(example.case, id=f"{example.case.id}#{i}")
            gold = Judgement(case.id, example.gold.by, verdict.score, verdicts=(verdict,), judged=(verdict.span,))
            document = example.document if example.document is not None else example.case.id
            yield replace(example, case=case, gold=gold, document=document, annotations=())


def answer(item: Example, by: str, hallucinated: bool, *, seconds: float | None = None) -> Judgement:
    """Make the judgement of one annotator, who took `seconds` to answer the item."""
    verdict = replace(item_place(item), score=float(hallucinated))
    provenance = () if seconds is None else (("seconds", f"{seconds:.1f}"),)
    return Judgement(
        item.case.id,
        by if by.startswith("human:") else f"human:{by}",
        verdict.score,
        verdicts=(verdict,),
        judged=(verdict.span,),
        provenance=provenance,
    )


def says_hallucinated(judgement: Judgement) -> bool | None:
    """Return whether a judgement calls its response or a place in it hallucinated, or None if it does not say."""
    if judgement.hallucination is not None:
        return judgement.hallucination >= GOLD_THRESHOLD
    scores = [verdict.score >= GOLD_THRESHOLD for verdict in judgement.verdicts]
    return any(scores) if scores else None


def with_label(example: Example, hallucinated: bool, by: str) -> Example:
    """Give an example this label as its gold: the place of an item, and the whole response otherwise."""
    gold = (
        answer(example, by, hallucinated) if is_item(example) else Judgement(example.case.id, by, float(hallucinated))
    )
    return replace(example, gold=gold)


def grouped(example: Example, **values: str | None) -> Example:
    """Set groups of the example. To remove a group, set it to None."""
    groups = {**dict(example.group), **values}
    return replace(example, group=tuple(sorted((key, value) for key, value in groups.items() if value is not None)))
