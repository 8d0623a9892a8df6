"""Delay requests to keep a rate limit, to back off after failures, or because the server asks to wait.

`RateLimiter` does the waiting, and `retry_after` reads how long a server asks to wait.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

from veridical.records.errors import InputError


class RateLimiter:
    """Delays the requests to one server, to keep a rate limit and to back off after failures. Threads can share it.

    Call `wait` before each request, and `back_off` after a failure. After the n-th failure of a request (counted from
    0), the next try waits for a random time between half and all of `base_wait` · 2^n seconds, but at most `max_wait`.
    If the server asks for a longer wait of up to `max_wait`, the next try waits as long as it asks.

    Args:
        per_minute: The maximum number of requests per minute, evenly spaced. None for no limit.
        base_wait: The wait after a first failure, in seconds.
        max_wait: The longest wait after a failure, in seconds.
        now: A function that returns the time in seconds.
        sleep: A function that waits for a number of seconds.
        jitter: A function that returns a random number in [0, 1).

    Raises:
        InputError: `per_minute` is not above 0.
    """

    def __init__(
        self,
        *,
        per_minute: float | None = None,
        base_wait: float = 0.5,
        max_wait: float = 60.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if per_minute is not None and not per_minute > 0:
            raise InputError(f"per_minute is {per_minute}", hint="above 0, None is no limit")
        self.max_wait = max_wait
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._base_wait = base_wait
        self._now, self._sleep, self._jitter = now, sleep, jitter
        self._lock = threading.Lock()
        self._next_slot = 0.0
        self._paused_until = 0.0

    def wait(self) -> None:
        """Block until the next request may be sent. Call this before each request."""
        with self._lock:
            now = self._now()
            slot = max(now, self._next_slot, self._paused_until)
            self._next_slot = slot + self._gap
        while slot > now:
            self._sleep(slot - now)
            with self._lock:  # meanwhile the server may have asked another request to wait
                now, slot = self._now(), max(slot, self._paused_until)

    def back_off(self, failures: int, requested_wait: float | None, *, all_wait: bool) -> bool:
        """Wait after a failed request, before it is tried again.

        Args:
            failures: How many times the request had failed before this failure.
            requested_wait: How many seconds the server asked to wait. None if it did not ask.
            all_wait: If true, do not block here. Instead, the next calls of `wait` block, so that all requests to the
                server wait and not only this one.

        Returns:
            True if the request should be tried again. False, without waiting, if the server asks to wait longer than
            `max_wait`.
        """
        if requested_wait is not None and requested_wait > self.max_wait:
            return False
        wait = min(self.max_wait, self._base_wait * 2**failures) * (0.5 + 0.5 * self._jitter())
        wait = max(wait, requested_wait or 0.0)
        if all_wait:
            with self._lock:
                self._paused_until = max(self._paused_until, self._now() + wait)
        else:
            self._sleep(wait)
        return True


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return how many seconds a server asks to wait, from the header Retry-After (seconds or a date) or retry-after-ms.

    Return None if the server does not ask to wait, or if the header cannot be parsed.

    >>> retry_after({"retry-after": "7"}), retry_after({"retry-after-ms": "250"}), retry_after({"retry-after": "soon"})
    (7.0, 0.25, None)
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
            return float(text) / unit
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - now())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None
