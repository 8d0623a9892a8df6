"""A small thread-safe cache for results computed from texts, so that cases with the same text share these results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A thread-safe LRU cache that limits the total size and the number of its values.

    Args:
        most: The maximum total size of all values, in the unit of the sizes passed to `get`. The latest value is kept
            even if it is larger.
        count: The maximum number of values. It limits the memory, because even the values of short texts take
            kilobytes.

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
        """Return the cached value of `key`, or compute and cache it.

        Args:
            key: The key.
            size: The size of the value, such as the length of its text. It counts towards the maximum total size.
            make: A function that computes the value if it is not cached.
        """
        with self._lock:
            entry = self._values.get(key)
            if entry is not None:
                self._values.move_to_end(key)
                return entry[1]
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = (size, value)
                self._total += size
            while (self._total > self.most or len(self._values) > self.count) and len(self._values) > 1:
                self._total -= self._values.popitem(last=False)[1][0]
        return value
