"""What was made of texts lately, kept for the next case that has the same text; memory is bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["Recent"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key, the least recently used dropped first; several threads may use it.

    Args:
        most: The sizes of all values together, at most; the latest stays, however large it is.
        count: How many values, at most: what is made of a short text takes kilobytes, whatever its size says.

    >>> lengths: Recent[str, int] = Recent(most=10)
    >>> [lengths.get(text, len(text), lambda: len(text)) for text in ("abc", "abcdef", "abc", "ab")]
    [3, 6, 3, 2]
    >>> len(lengths)
    2
    """

    def __init__(self, most: int, count: int = 2000) -> None:
        self.most, self.count = most, count
        self._total = 0
        self._values: OrderedDict[K, tuple[int, V]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, size: int, make: Callable[[], V]) -> V:
        """The value of `key`, of the size `size`; `make` gives it where there is none."""
        with self._lock:
            known = self._values.get(key)
            if known is not None:
                self._values.move_to_end(key)
                return known[1]
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = (size, value)
                self._total += size
            while (self._total > self.most or len(self._values) > self.count) and len(self._values) > 1:
                self._total -= self._values.popitem(last=False)[1][0]
        return value
