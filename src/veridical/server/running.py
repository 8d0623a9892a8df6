"""Run the service on uvicorn, with limits on connections and a shutdown that finishes accepted requests."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from veridical.records.errors import InputError
from veridical.server.app import create_app
from veridical.server.observation import LOGGER, JsonLines
from veridical.server.settings import Limits, ServerSettings

_SEND_BUFFER = 128 * 1024  # bytes; the system takes more once a third of them is free


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP protocol (one instance per connection), with time limits for slow clients.

    Clients that are too slow to send a request or to read the response are disconnected. The number of connections is
    limited, both in total and per address.
    At the limit, a new connection replaces an idle connection. If no connection is idle, requests on the new connection
    are answered with the status 503.
    """

    limits = Limits()
    _timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for a request. If there are too many connections, close an idle connection."""
        super().connection_made(transport)  # type: ignore[arg-type]
        # keep the system's buffer small, so that most unread data stay in this process, where they are watched
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self.transport.set_write_buffer_limits(high=0)
        others: list[Any] = list(self.connections)
        same = [other for other in others if other.client and self.client and other.client[0] == self.client[0]]
        too_many_of_client = len(same) > self.limits.client_connections
        if too_many_of_client or len(others) >= self.limits.connections:
            candidates = same if too_many_of_client else others
            idle = next((other for other in candidates if other.timeout_keep_alive_task is not None), None)
            if idle is not None:
                idle.timeout_keep_alive_handler()
            elif too_many_of_client:
                self.limit_concurrency = 0
        self._timer = self.loop.call_later(self.limits.body_timeout, transport.abort)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Handle the data, and start or stop the time limit for the request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Continue with the next request, part of which may have arrived, and start or stop its time limit."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start to watch whether the client reads the response. asyncio calls this when data wait in the send buffer.

        If the buffers of all clients together exceed `limits.memory_bytes`, the client with the largest one is
        disconnected.
        """
        super().pause_writing()
        unread = {other: other.transport.get_write_buffer_size() for other in self.connections}
        if sum(unread.values()) > self.limits.memory_bytes:
            max(unread, key=unread.__getitem__).transport.abort()
        self._await_reader()

    def resume_writing(self) -> None:
        """Stop watching the client, because the buffer is empty."""
        super().resume_writing()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _await_reader(self) -> None:
        buffered = self.transport.get_write_buffer_size()

        def check() -> None:
            if self.transport.get_write_buffer_size() >= buffered:
                self.transport.abort()
            else:
                self._await_reader()

        self._reader_timer = self.loop.call_later(self.limits.body_timeout, check)

    def _watch(self) -> None:
        """Let the time limit run as long as a request is incomplete and no answer is being sent."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self.cycle is not None and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._stop_waiting()
            if self.timeout_keep_alive_task is None:  # the rest of a body arrived after its answer was sent
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
        elif self._timer is None:
            self._timer = self.loop.call_later(self.limits.body_timeout, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class UvicornServer(uvicorn.Server):
    """uvicorn's server, which also reports its address, and treats SIGINT and SIGTERM as a regular end.

    Attributes:
        frozen_after: If the event loop is stuck for this many seconds, the process is ended, with a traceback of each
            thread on standard error. None means never. Some code, such as `re`, can hold the GIL and so stop all Python
            threads. Then no request ends and no signal is handled, so only a new process helps.
    """

    frozen_after: float | None = None

    def __init__(self, config: uvicorn.Config, on_start: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._set_aside = False

    async def on_tick(self, counter: int) -> bool:
        """Once a second, restart the timer that ends a frozen process.

        After startup, also exempt all objects that startup has created from garbage collection.
        """
        if not self._set_aside and not self.config.app.state.service.loading:  # type: ignore[union-attr]
            # a full collection would look at each object of each library again, and nothing else runs meanwhile
            gc.collect()
            gc.freeze()
            self._set_aside = True
        if self.frozen_after is not None and counter % 10 == 0:
            faulthandler.dump_traceback_later(self.frozen_after, exit=True, file=sys.__stderr__ or sys.stderr)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the server, within the time limits that the service sets."""
        faulthandler.cancel_dump_traceback_later()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down at a signal, and do not raise the signal again afterwards, as uvicorn would."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: object = None) -> None:
        """Bind to the address, then report the address."""
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_start(f"http://{f'[{host}]' if ':' in host else host}:{port}/")


def make_server(settings: ServerSettings, *, host: str, port: int, on_start: Callable[[str], None]) -> UvicornServer:
    """Make a server whose `run` serves until SIGINT or SIGTERM, and then finishes the accepted requests.

    Args:
        settings: The settings of the service.
        host: The address to bind to.
        port: The port to bind to. 0 takes any free port.
        on_start: Called with the URL as soon as the server accepts requests.
    """
    limits = settings.limits
    protocol: type[asyncio.Protocol] = type("Protocol", (TimedProtocol,), {"limits": limits})
    config = uvicorn.Config(
        create_app(settings),
        host=host,
        port=port,
        http=protocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.idle,  # type: ignore[arg-type]  # any number of seconds
        timeout_graceful_shutdown=round(limits.grace),
        h11_max_incomplete_event_size=16 * 1024,
    )
    return UvicornServer(config, on_start)


def run_server(settings: ServerSettings, *, host: str, port: int, on_start: Callable[[str], None]) -> None:
    """Run the server of `make_server` until it stops, and write its log as JSON lines to standard error.

    If the event loop is stuck for `limits.timeout` seconds, the process exits with code 1, so that a supervisor can
    start it again.

    Raises:
        InputError: The address cannot be used.
    """
    server = make_server(settings, host=host, port=port, on_start=on_start)
    server.frozen_after = settings.limits.timeout
    with _log_as_lines():
        try:
            server.run()
        except SystemExit:  # uvicorn exits if it cannot bind
            raise InputError(f"cannot bind to {host}:{port}", hint="another --port, or --port 0 for any") from None


@contextmanager
def _log_as_lines() -> Iterator[None]:
    """Write the log of the server, and serious messages of libraries, to standard error."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines())
    levels = {LOGGER: logging.INFO, "uvicorn": logging.CRITICAL, "asyncio": logging.ERROR}
    loggers = [logging.getLogger(name) for name in levels]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    for logger, level in zip(loggers, levels.values(), strict=True):
        logger.handlers, logger.propagate = [lines], False
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, state in zip(loggers, before, strict=True):
            logger.handlers, level, logger.propagate = state
            logger.setLevel(level)
