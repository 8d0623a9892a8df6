"""End long commands gracefully when they are asked to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_asked_for() -> Iterator[Callable[[], bool]]:
    """Keep SIGTERM from ending the process, and yield a function that tells whether the signal has arrived."""
    received: list[bool] = []
    previous = signal.signal(signal.SIGTERM, lambda *_: received.append(True))
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGTERM, previous)
