"""Make synthetic errors: change grounded examples so that a known part of the response becomes unsupported.

Each way to corrupt has its own file. The gold marks every place of the response that is unsupported after the change.
If such a place cannot be found, the example is skipped and counted. The same seed gives the same errors, whatever the
order of the examples.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from veridical.records.errors import InputError, UnknownNameError
from veridical.records.registry import Registry
from veridical.records.types import Example
from veridical_lab.corrupt.gold import grouped

__all__ = [
    "WAYS",
    "Attempt",
    "Corrupted",
    "Corruptor",
    "attempts",
    "change_all",
    "chosen_names",
    "corrupt",
    "is_grounded",
    "nothing_corrupted",
    "weighted_order",
]


class Corruptor(Protocol):
    """Makes errors in one way. A corruptor is built from all examples, and may draw replacements from them.

    It may also have a method `change_many(examples, draws)`, which returns the same as `change` for each, but faster.
    """

    name: str

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Put an error into the example, with a new gold and a new id, or return why the example cannot be used."""
        ...


WAYS = Registry(
    "way to corrupt",
    {
        "arguments": "veridical_lab.corrupt.arguments:Arguments",
        "attributes": "veridical_lab.corrupt.attributes:Attributes",
        "entities": "veridical_lab.corrupt.entities:Entities",
        "knowledge": "veridical_lab.corrupt.knowledge:Knowledge",
        "masked": "veridical_lab.corrupt.masked:Masked",
        "rules": "veridical_lab.corrupt.rules:Rules",
    },
    group="veridical_lab.corrupt",
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of trying to corrupt one example.

    `examples` contains the example itself, the corrupted one, or both. If `examples` is empty, `skipped` may say why.
    """

    id: str
    examples: tuple[Example, ...] = ()
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Corrupted:
    """Grounded and corrupted examples in their original order, and how many were skipped for each reason."""

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
    """Corrupt some of the grounded examples and keep the others unchanged.

    Examples that are labelled hallucinated, or that have no label, are skipped. The documents stay the same, so both
    versions of a text are in the same part of a split by document. `share`, `pairs` and `seed` are those of `attempts`.

    Args:
        how: How to corrupt: a name in `WAYS`, or a function that makes a corruptor from the examples, such as
            `partial(Rules, errors=(0.7, 0.3))`.
        types: The types of error to make, if the way has several (`rules`, `arguments`). Default: the usual types of
            the way.

    Raises:
        InputError: The fraction is out of range, the way has no types to choose from, or nothing could be corrupted.
    """
    examples = list(examples)
    make = WAYS.load(how) if isinstance(how, str) else how
    if types is not None and not hasattr(make, "types"):
        raise InputError(f"{how!r} has no error types to choose from", hint="leave the types out, or take 'rules'")
    corruptor: Corruptor = make(examples) if types is None else make(examples, types=types)
    skipped: Counter[str] = Counter()
    results: list[Example] = []
    for attempt in attempts(examples, corruptor, share=share, pairs=pairs, seed=seed):
        results += attempt.examples
        skipped.update([attempt.skipped] if attempt.skipped else [])
    changed = sum(not is_grounded(example) for example in results)
    if not changed:
        raise nothing_corrupted(len(examples), corruptor.name, dict(skipped.most_common()))
    return Corrupted(tuple(results), changed, dict(skipped.most_common()))


def nothing_corrupted(count: int, way: str, skipped: Mapping[str, int]) -> InputError:
    """Make the error for a run that has changed nothing. It names the first reasons of `skipped`."""
    why = ", ".join(f"{reason} ({n})" for reason, n in islice(skipped.items(), 3)) or "no example was drawn"
    return InputError(f"none of {count} examples could be corrupted by {way!r}", hint=why)


def change_all(
    corruptor: Corruptor, examples: Sequence[Example], draws: Sequence[random.Random]
) -> list[Example | str]:
    """Change each example with its own random source, all at once if the corruptor supports batches."""
    if hasattr(corruptor, "change_many"):
        return list(corruptor.change_many(examples, draws))
    return list(map(corruptor.change, examples, draws))


def attempts(
    examples: Iterable[Example],
    corruptor: Corruptor,
    *,
    share: float = 0.5,
    pairs: bool = False,
    seed: int = 0,
    batch_size: int = 32,
) -> Iterator[Attempt]:
    """Try to corrupt a stream of examples, and yield each result. To change all examples at once, use `corrupt`.

    Args:
        examples: The labelled examples, which are read as a stream, `batch_size` at a time.
        corruptor: Makes the errors.
        share: The fraction of grounded examples to corrupt, in (0, 1].
        pairs: Whether to yield each corrupted example after its unchanged original, and to leave out examples that were
            not drawn.
        seed: The random seed. The draw for an example depends neither on other examples nor on the batch.
        batch_size: How many examples to change at once, at least 1.

    Raises:
        InputError: The fraction or the batch size is out of range.
    """
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share is {share:g}", hint="above 0, at most 1")
    if batch_size < 1:
        raise InputError(f"the batch size is {batch_size}", hint="at least 1")
    remaining = iter(examples)
    while batch := list(islice(remaining, batch_size)):
        draws = {i: random.Random(f"{seed}\0{corruptor.name}\0{example.case.id}") for i, example in enumerate(batch)}
        chosen = [i for i, example in enumerate(batch) if is_grounded(example) and draws[i].random() < share]
        changed = change_all(corruptor, [batch[i] for i in chosen], [draws[i] for i in chosen])
        results = dict(zip(chosen, changed, strict=True))
        for i, example in enumerate(batch):
            result = results.get(i)
            if isinstance(result, Example):
                yield Attempt(example.case.id, (grouped(example, corrupted="no"), result) if pairs else (result,))
            elif isinstance(result, str):
                yield Attempt(example.case.id, skipped=result)
            elif not is_grounded(example):
                yield Attempt(example.case.id, skipped="not labelled as grounded")
            else:
                yield Attempt(example.case.id, () if pairs else (grouped(example, corrupted="no"),))


def weighted_order(names: Iterable[str], weights: Mapping[str, float], draw: random.Random) -> list[str]:
    """Shuffle names at random, so that names with higher weights tend to come first."""
    return sorted(names, key=lambda name: draw.random() ** (1 / weights[name]), reverse=True)


def chosen_names(what: str, names: Iterable[str], allowed: Collection[str]) -> tuple[str, ...]:
    """Check names that a user has chosen, and leave out repeated ones.

    Raises:
        UnknownNameError: A name is not allowed.
        InputError: There are no names.
    """
    chosen = tuple(dict.fromkeys(names))
    for unknown in (name for name in chosen if name not in allowed):
        raise UnknownNameError(what, unknown, allowed)
    if not chosen:
        raise InputError(f"no {what} is named", hint=f"choose from {', '.join(allowed)}")
    return chosen


def is_grounded(example: Example) -> bool:
    """Return whether the gold says that the whole response is grounded."""
    gold = example.gold
    return gold.judged is None and gold.hallucination is not None and gold.hallucination < 0.5
