"""Make items to annotate: each is one changed place of a response, with the original text (Liu et al. 2022, §3.3).

An item is an `Example` whose gold judges one span. Its only verdict has the span, the score (1 = inconsistent with the
original) and the original text as `correction`. Before people have answered, the gold is what the method that changed
the text says (such as `by="corrupt:rules"`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from veridical.records.errors import InputError
from veridical.records.types import GOLD_THRESHOLD, Example, Judgement, Verdict

__all__ = ["answer", "grouped", "is_item", "item_place", "items_of", "says_hallucinated", "with_label"]


def is_item(example: Example) -> bool:
    """Return whether an example asks about one place of its response."""
    gold = example.gold
    return len(gold.verdicts) == 1 and gold.judged == (gold.verdicts[0].span,)


def item_place(item: Example) -> Verdict:
    """Return the verdict of an item, whose `correction` is the original text.

    Raises:
        InputError: The example is not an item.
    """
    if not is_item(item):
        raise InputError(
            f"{item.case.id!r} is not an item to annotate: its gold does not judge exactly one span",
            hint="make items with veridical_lab.annotate.items.items_of, or `veridical annotate select`",
        )
    return item.gold.verdicts[0]


def items_of(examples: Iterable[Example]) -> Iterator[Example]:
    """Yield one item for each changed place of each example, in order.

    A place is changed if its verdict has the original text (`Verdict.correction`), as written by `veridical data
    corrupt`. Text that was only added makes no item. The id of an item is the id of its example plus `#0`, `#1` and so
    on. Examples that are already items are yielded unchanged.

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
    """Make the judgement of an item by one annotator, who took `seconds` for it."""
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
    """Return the label that a judgement gives to its response, or to its only place, or None if there is no label."""
    if judgement.hallucination is not None:
        return judgement.hallucination >= GOLD_THRESHOLD
    scores = [verdict.score >= GOLD_THRESHOLD for verdict in judgement.verdicts]
    return any(scores) if scores else None


def with_label(item: Example, hallucinated: bool, by: str, annotations: Sequence[Judgement] = ()) -> Example:
    """Return the item with this label as its gold."""
    gold = replace(answer(item, "", hallucinated), by=by)
    return replace(item, gold=gold, annotations=tuple(annotations))


def grouped(example: Example, **values: str | None) -> Example:
    """Return the example with these groups set. To remove a group, set it to None."""
    groups = {**dict(example.group), **values}
    return replace(example, group=tuple(sorted((key, value) for key, value in groups.items() if value is not None)))
