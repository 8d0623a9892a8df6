"""Who is about to pay for which reply: a row a key in the cache's file, so that no two processes ask the same at once.

A lease is renewed while its holder works and runs out soon after it died.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from veridical.core.errors import InputError, OutputError

__all__ = ["LEASE", "Leases"]

LEASE = 60.0
"""Seconds that a lease lasts unless it is renewed."""

_TABLE = "CREATE TABLE IF NOT EXISTS leases (key TEXT PRIMARY KEY, holder TEXT, until REAL) WITHOUT ROWID"
_CLAIM = """INSERT INTO leases (key, holder, until) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, until = excluded.until WHERE until < ?"""

Open = Callable[[], AbstractContextManager[sqlite3.Connection]]


class Leases:
    """The leases of one holder; `open` opens the file, `seconds` is how long a lease lasts."""

    def __init__(self, open: Open, seconds: float = LEASE) -> None:
        self._open = open
        self._seconds = seconds
        self._holder = uuid.uuid4().hex

    @contextmanager
    def held(self, file: sqlite3.Connection) -> Iterator[None]:
        """While this lasts the leases are renewed; at its end all of them are given back."""
        file.execute(_TABLE)
        over = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(over,), daemon=True, name="veridical-leases")
        renewing.start()
        try:
            yield
        finally:
            over.set()
            renewing.join()
            file.execute("DELETE FROM leases WHERE holder = ?", (self._holder,))

    def claim(self, file: sqlite3.Connection, keys: Iterable[str]) -> list[str]:
        """Those of `keys` that nobody else is about to pay for; they are this holder's now."""
        mine = []
        now = time.time()
        file.execute("BEGIN IMMEDIATE")
        for key in keys:
            if file.execute(_CLAIM, (key, self._holder, now + self._seconds, now)).rowcount:
                mine.append(key)
        file.execute("COMMIT")
        return mine

    def release(self, file: sqlite3.Connection, key: str) -> None:
        """Give one lease back at once: somebody else may have more luck."""
        file.execute("DELETE FROM leases WHERE key = ? AND holder = ?", (key, self._holder))

    def _renew(self, over: threading.Event) -> None:
        while not over.wait(self._seconds / 3):
            # where it fails the worst is that something is paid twice
            with suppress(OutputError, InputError), self._open() as file:
                until = time.time() + self._seconds
                file.execute("UPDATE leases SET until = ? WHERE holder = ?", (until, self._holder))
