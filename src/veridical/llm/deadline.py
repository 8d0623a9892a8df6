"""Limit the time and the size of a whole call to a server.

The timeouts of an HTTP client restart with every byte that arrives, and the client reads replies of any size.
`DeadlineTransport` therefore gives the client a network backend that allows each read and write only the time that is
left for the whole call. It uses only public interfaces of the client.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_MOST_BYTES = 16 * 1024 * 1024  # of a reply

_ERRORS = (
    *("ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout"),
    *("ConnectError", "ReadError", "WriteError", "ProxyError"),
    *("UnsupportedProtocol", "LocalProtocolError", "RemoteProtocolError"),
)


class Deadline:
    """A time limit, in seconds, for all network operations of one call to a server together.

    Wrap the call in `running()`. Threads can share a deadline, and each thread has its own clock. A deadline cannot
    interrupt the lookup of a host name.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._now = now
        self._of_thread = threading.local()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the clock of this thread. The limit holds until the context ends."""
        self._of_thread.end = self._now() + self.seconds
        try:
            yield
        finally:
            self._of_thread.end = None

    def limit(self, timeout: float | None, late: type[Exception] = TimeoutError) -> float | None:
        """Return how many seconds an operation may take: `timeout` or the remaining time, whichever is shorter.

        If `timeout` is None, return the remaining time. Outside `running()`, return `timeout`.

        Raises:
            late: No time is left. You choose the class of this error.
        """
        end: float | None = getattr(self._of_thread, "end", None)
        if end is None:
            return timeout
        left = end - self._now()
        if left <= 0:
            raise late(f"timed out after {self.seconds:g} s")
        return left if timeout is None else min(timeout, left)


class DeadlineTransport:
    """An httpx transport for one server that limits the total time and the response size of each call.

    Each connection serves only one call and reads the whole body of the response. The transport uses the proxy that the
    environment names for the server (HTTPS_PROXY, NO_PROXY …).

    Args:
        deadline: The time limit for each call. If a call takes longer, it raises one of httpx's timeout errors.
        url: The URL of the server.
        httpx: The HTTP library, either httpx or httpx2.
        httpcore: The connection library that belongs to it, either httpcore or httpcore2.
    """

    def __init__(self, deadline: Deadline, url: str, httpx: ModuleType, httpcore: ModuleType) -> None:
        self._httpx, self._httpcore = httpx, httpcore
        self._errors = {getattr(httpcore, name): getattr(httpx, name) for name in _ERRORS}
        options = {
            "ssl_context": httpx.create_ssl_context(),
            "max_keepalive_connections": 0,  # bytes behind the end of a reply would become the next reply
            "network_backend": _Backend(httpcore, deadline),
        }
        address, proxies = urlsplit(url), getproxies()
        proxy_url = None if proxy_bypass(address.netloc) else proxies.get(address.scheme) or proxies.get("all")
        if proxy_url is None:
            self._pool = httpcore.ConnectionPool(max_connections=None, **options)
        else:
            proxy = httpx.Proxy(proxy_url if "://" in proxy_url else f"http://{proxy_url}")
            pool_class = httpcore.SOCKSProxy if proxy.url.scheme.startswith("socks") else httpcore.HTTPProxy
            self._pool = pool_class(str(proxy.url), proxy_auth=proxy.raw_auth, max_connections=None, **options)

    def handle_request(self, request: Any) -> Any:
        """Send an httpx request, read the whole body of the response, and return the response. httpx calls this.

        A response of more than 16 MiB raises httpx's `DecodingError`. So does a compressed response, because it could
        become too large when it is decompressed.
        """
        raw_request = self._httpcore.Request(
            request.method,
            str(request.url),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            response = self._pool.handle_request(raw_request)
            try:
                if b"content-encoding" in {name.lower() for name, value in response.headers if value != b"identity"}:
                    raise self._httpx.DecodingError("the reply is compressed, which was not asked for")
                body = bytearray()
                for part in response.iter_stream():
                    body += part
                    if len(body) > _MOST_BYTES:
                        raise self._httpx.DecodingError(f"the reply has more than {_MOST_BYTES:,} bytes")
            finally:
                response.close()
        except tuple(self._errors) as error:
            httpx_error = next(to for source, to in self._errors.items() if isinstance(error, source))
            raise httpx_error(str(error)) from error
        return self._httpx.Response(
            response.status, headers=response.headers, content=bytes(body), extensions=response.extensions
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


class _Backend:
    """httpcore's network backend, with streams that keep to the deadline."""

    def __init__(self, httpcore: ModuleType, deadline: Deadline) -> None:
        self._httpcore, self._deadline = httpcore, deadline
        self._backend = httpcore.SyncBackend()

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        left = self._deadline.limit(timeout, self._httpcore.ConnectTimeout)
        return _Stream(self._backend.connect_tcp(host, port, left, **options), self._httpcore, self._deadline)

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class _Stream:
    """A network stream that keeps to the deadline."""

    def __init__(self, stream: Any, httpcore: ModuleType, deadline: Deadline) -> None:
        self._stream, self._httpcore, self._deadline = stream, httpcore, deadline
        self.close = stream.close
        self.get_extra_info = stream.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        return self._stream.read(max_bytes, self._deadline.limit(timeout, self._httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.limit(timeout, self._httpcore.WriteTimeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        left = self._deadline.limit(timeout, self._httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._httpcore, self._deadline)
