"""Synthetic errors: labelled examples made ungrounded in a known way, one file per method.

What was changed is written into the gold, which marks every place of the response that the change took the ground
from. A place that cannot be found makes the example unusable; that is counted, never passed over. The same seed gives
the same errors, whatever the order of the examples.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from veridical.core.errors import InputError
from veridical.core.registry import Registry
from veridical.core.types import Example

__all__ = ["WAYS", "Corrupted", "Corruptor", "corrupt", "is_grounded"]


class Corruptor(Protocol):
    """One way to make errors, built with all examples, from which it may draw what it puts in."""

    name: str

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """The example made ungrounded, with its gold, under an id of its own; or why it cannot be used."""
        ...


WAYS = Registry(
    "way to corrupt",
    {
        "arguments": "veridical.corrupt.arguments:Arguments",
        "attributes": "veridical.corrupt.attributes:Attributes",
        "entities": "veridical.corrupt.entities:Entities",
        "knowledge": "veridical.corrupt.knowledge:Knowledge",
        "rules": "veridical.corrupt.rules:Rules",
    },
    group="veridical.corrupt",
)


@dataclass(frozen=True, slots=True)
class Corrupted:
    """Grounded and corrupted examples in the order of their originals, and what was not used, with how often."""

    examples: tuple[Example, ...]
    changed: int
    skipped: Mapping[str, int]


def corrupt(
    examples: Iterable[Example],
    how: str | Callable[..., Corruptor],
    *,
    share: float = 0.5,
    pairs: bool = False,
    seed: int = 0,
    types: Sequence[str] | None = None,
) -> Corrupted:
    """Corrupt some of the grounded examples and keep the others as they are.

    Examples that are already labelled hallucinated, or not labelled, are skipped. Documents stay what they were, so
    that a split by document keeps both versions of a text together.

    Args:
        examples: Labelled examples.
        how: The way to corrupt: a name in `WAYS`, or what makes one of the examples, such as
            `partial(Rules, errors=(0.7, 0.3))`.
        share: The share of the grounded examples that is corrupted, drawn one by one; above 0, at most 1.
        pairs: Every corrupted example has its unchanged original before it, and what was not drawn is left out.
        seed: The random seed; an example's draws do not depend on the others.
        types: The types of error to make, for a way that has several (`rules`, `arguments`); None for its usual ones.

    Raises:
        InputError: For a share out of range, types where there are none, or if nothing could be corrupted.
    """
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share is {share:g}", hint="above 0, at most 1")
    given = list(examples)
    make = WAYS.load(how) if isinstance(how, str) else how
    if types is not None and not hasattr(make, "types"):
        raise InputError(f"{how!r} has no error types to choose from", hint="leave the types out, or take 'rules'")
    way: Corruptor = make(given) if types is None else make(given, types=types)
    skipped: Counter[str] = Counter()
    results: list[Example] = []
    changed = 0
    for example in given:
        draw = random.Random(f"{seed}\0{way.name}\0{example.case.id}")
        if not is_grounded(example):
            skipped["not labelled as grounded"] += 1
            continue
        if draw.random() >= share:
            results += [] if pairs else [_unchanged(example)]
            continue
        result = way.change(example, draw)
        if isinstance(result, str):
            skipped[result] += 1
            continue
        changed += 1
        results += [_unchanged(example), result] if pairs else [result]
    if not changed:
        why = ", ".join(f"{reason} ({n})" for reason, n in skipped.most_common(3)) or "no example was drawn"
        raise InputError(f"none of {len(given)} examples could be corrupted by {way.name!r}", hint=why)
    return Corrupted(tuple(results), changed, dict(skipped.most_common()))


def is_grounded(example: Example) -> bool:
    """Whether the gold says that the whole response is grounded."""
    gold = example.gold
    return gold.judged is None and gold.hallucination is not None and gold.hallucination < 0.5


def _unchanged(example: Example) -> Example:
    groups = tuple(sorted({**dict(example.group), "corrupted": "no"}.items()))
    return replace(example, group=groups)
