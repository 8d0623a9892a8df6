"""Join texts that must stay in the same part of a split, because they share a sentence or a question."""

from __future__ import annotations

from collections.abc import Iterable


def linked(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Map each name to one name for its group: all names that pairs join, directly or through others.

    Which name stands for a group depends on the order of the pairs.

    >>> linked([("a", "b"), ("c", "d"), ("e", "b")])
    {'b': 'b', 'a': 'b', 'd': 'd', 'c': 'd', 'e': 'b'}
    """
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while above.setdefault(name, name) != name:
            above[name] = name = above[above[name]]
        return name

    for one, other in pairs:
        above[top(one)] = top(other)
    return {name: top(name) for name in above}
