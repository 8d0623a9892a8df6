"""When a request may go out: so many a minute, not while the server asked for patience, later after each failure."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

__all__ = ["Pace", "retry_after"]


class Pace:
    """The pace of all requests to one server; safe for threads.

    `per_minute` spaces requests evenly (None = no limit). After the n-th failure of a request (from 0) the wait is
    random between half and all of `base` · 2^n seconds, at most `longest`. Clock, sleep and chance can be replaced.
    """

    def __init__(
        self,
        *,
        per_minute: float | None = None,
        base: float = 0.5,
        longest: float = 60.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.longest = longest
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._base = base
        self._now, self._sleep, self._chance = now, sleep, chance
        self._lock = threading.Lock()
        self._next = 0.0  # when the next request may go
        self._held = 0.0  # until when none may go

    def wait(self) -> None:
        """Come back when a request may go out."""
        with self._lock:
            now = self._now()
            turn = max(now, self._next, self._held)
            self._next = turn + self._gap
        while turn > now:
            self._sleep(turn - now)
            with self._lock:  # another request may meanwhile have been told to wait
                now, turn = self._now(), max(turn, self._held)

    def back_off(self, failures: int, asked: float | None, *, all_wait: bool) -> bool:
        """Wait before another try after `failures` earlier ones; False, at once, if the server asks for too long.

        `asked` is the wait in seconds that the server asked for; `all_wait` holds every other request back, too.
        """
        if asked is not None and asked > self.longest:
            return False
        wait = min(self.longest, self._base * 2**failures) * (0.5 + 0.5 * self._chance())
        wait = max(wait, asked or 0.0)
        if all_wait:
            with self._lock:
                self._held = max(self._held, self._now() + wait)
        else:
            self._sleep(wait)
        return True


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """The seconds that a server asks to wait (Retry-After as seconds or as a date, or retry-after-ms); None if not.

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
