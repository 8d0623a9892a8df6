"""Group the sources of a case by perspective, the side that a source speaks for.

Coverage is scored for each perspective (Chang et al. 2024, §3.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from veridical.records.types import Source

T = TypeVar("T")


def by_perspective(pairs: Iterable[tuple[Source, T]]) -> list[list[T]]:
    """Group values, such as omission scores, by the perspective of their source. The groups are in order of appearance.

    Each source without a perspective is a group of its own.

    >>> pro, con, other = Source("1", "a", "pro"), Source("2", "b", "con"), Source("3", "c")
    >>> by_perspective([(pro, 0.1), (con, 0.2), (other, 0.3), (pro, 0.4)])
    [[0.1, 0.4], [0.2], [0.3]]
    """
    groups: dict[tuple[str, str], list[T]] = {}
    for source, value in pairs:
        key = ("source", source.id) if source.perspective is None else ("perspective", source.perspective)
        groups.setdefault(key, []).append(value)
    return list(groups.values())
