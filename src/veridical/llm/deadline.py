"""One deadline for a whole call: the client's own timeouts begin anew with every byte that a server sends.

The sockets beneath the HTTP client are wrapped, for it has no such setting: each read and write gets what is left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Deadline"]


class Deadline:
    """At most `seconds` for all that a thread does on the network inside `running()`; safe for threads.

    What comes later raises `TimeoutError`; what waits, waits no longer than what is left. Looking up a host's name is
    the system's business and not counted out.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._now = now
        self._of_thread = threading.local()

    @contextmanager
    def running(self) -> Iterator[None]:
        """The time of this thread's call runs from here."""
        self._of_thread.end = self._now() + self.seconds
        try:
            yield
        finally:
            self._of_thread.end = None

    def left(self, wanted: float | None) -> float | None:
        """The seconds that an operation may take that would wait for `wanted` (None = for ever)."""
        end = getattr(self._of_thread, "end", None)
        if end is None:
            return wanted
        rest: float = end - self._now()
        if rest <= 0:
            raise TimeoutError(f"no whole answer within {self.seconds:g} s")
        return rest if wanted is None else min(wanted, rest)

    def bind(self, client: Any) -> None:
        """Let the connections of an httpx (or httpx2) `Client`, proxies included, keep to this deadline.

        A client that is built in another way is left as it is: then only its own timeouts hold.
        """
        for transport in (getattr(client, "_transport", None), *getattr(client, "_mounts", {}).values()):
            pool: Any = getattr(transport, "_pool", None)
            if hasattr(pool, "_network_backend"):
                pool._network_backend = _Network(pool._network_backend, self)


class _Network:
    """A network backend whose streams keep to the deadline."""

    def __init__(self, network: Any, deadline: Deadline) -> None:
        self._network, self._deadline = network, deadline

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        stream = self._network.connect_tcp(host, port, timeout=self._deadline.left(timeout), **options)
        return _Stream(stream, self._deadline)


class _Stream:
    """A stream of bytes that keeps to the deadline."""

    def __init__(self, stream: Any, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._stream.read(max_bytes, timeout=self._deadline.left(timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout=self._deadline.left(timeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        stream = self._stream.start_tls(ssl_context, server_hostname, timeout=self._deadline.left(timeout))
        return _Stream(stream, self._deadline)
