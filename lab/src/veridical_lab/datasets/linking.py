"""Join texts that must stay together in a split.

These are texts that share a sentence, or passages that share a question.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["linked"]


def linked(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return one name for all names that the pairs join, directly or through others.

    Which of the names is returned depends on the order of the pairs.

    >>> linked([("a", "b"), ("c", "d"), ("e", "b")])
    {'a': 'b', 'b': 'b', 'c': 'd', 'd': 'd', 'e': 'b'}
    """
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while above.setdefault(name, name) != name:
            above[name] = name = above[above[name]]
        return name

    for one, other in pairs:
        above[top(one)] = top(other)
    return {name: top(name) for name in above}
