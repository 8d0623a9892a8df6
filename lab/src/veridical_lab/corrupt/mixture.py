"""Mix several ways to corrupt examples by weight. Each example is changed in one of these ways."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from veridical.records.types import Example
from veridical_lab.corrupt import Corruptor, change_all


class Mixture:
    """Changes each example in a way that is drawn by weight. If this way fails, another one is drawn and tried.

    Args:
        corruptors: The ways with their weights, all above 0.
    """

    def __init__(self, corruptors: Sequence[tuple[Corruptor, float]]) -> None:
        self._corruptors = list(corruptors)
        self.name = ",".join(f"{corruptor.name}={weight:g}" for corruptor, weight in self._corruptors)

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Change the example in one of the ways, or say why none of them works."""
        return self.change_many([example], [draw])[0]

    def change_many(self, examples: Sequence[Example], draws: Sequence[random.Random]) -> list[Example | str]:
        """Change each example as `change` does. Each way is called with all of its examples at once."""
        orders: list[list[tuple[Corruptor, float, random.Random]]] = []
        for draw in draws:
            # each way has its own random source, so that its result does not depend on which ways were tried before
            ways = [(corruptor, weight, random.Random(draw.getrandbits(64))) for corruptor, weight in self._corruptors]
            orders.append(sorted(ways, key=lambda way: draw.random() ** (1 / way[1]), reverse=True))
        results: dict[int, Example] = {}
        reasons: Mapping[int, list[str]] = {i: [] for i in range(len(examples))}
        for turn in range(len(self._corruptors)):
            for corruptor, _ in self._corruptors:
                chosen = [i for i, order in enumerate(orders) if i not in results and order[turn][0] is corruptor]
                made = change_all(corruptor, [examples[i] for i in chosen], [orders[i][turn][2] for i in chosen])
                for i, result in zip(chosen, made, strict=True):
                    if isinstance(result, Example):
                        results[i] = result
                    else:
                        reasons[i].append(f"{corruptor.name}: {result}")
        return [results.get(i) or "; ".join(sorted(reasons[i])) for i in range(len(examples))]
