"""Limit how many requests are processed at the same time, and how much memory their bodies take.

A client is identified by its key, or by its address if there are no keys. A single client can use at most three
quarters of both limits.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veridical.server.errors import Refused
from veridical.server.settings import Limits

_SHARE = 0.75  # of places and memory, for one client


class Intake:
    """Counts the requests that one application is answering and the bytes of their bodies, and rejects excess ones."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests: Counter[str] = Counter()  # requests that have taken a place, by client
        self._bytes: Counter[str] = Counter()  # of the bodies, by client

    async def run(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let `app` answer a request, within the limits, and cancel the request if its client disconnects.

        The body is read as fast as it arrives, because the web server reports that a client has left only after the
        whole body was read. A request counts as being answered once its body is complete or its response has begun, so
        slow uploads do not use up the limit.

        Raises:
            Refused: `limits.queue` plus `limits.batch_cases` requests are already being answered, or their bodies
                exceed `limits.memory_bytes` (429). Or the body is too large for every route (413). Or the request takes
                longer than `limits.stream_timeout` and `limits.body_timeout` together (504).
            ClientDisconnect: The client has disconnected.
        """
        limits = self._limits
        client = str(scope["state"].get("key") or (scope.get("client") or [""])[0])
        places = 0
        if scope["method"] not in ("GET", "HEAD"):
            self._check_places(client)
        received: asyncio.Queue[Message | Refused] = asyncio.Queue()
        most = max(limits.body_bytes, limits.document_bytes)
        size, answered = 0, False

        def take_place() -> None:
            nonlocal places
            if not places and scope["method"] not in ("GET", "HEAD"):
                self._requests[client] += 1
                places = 1

        async def read() -> None:
            nonlocal size
            while (message := await receive())["type"] != "http.disconnect":
                length = len(message.get("body", b""))
                size += length
                self._bytes[client] += length
                try:
                    if size > most:
                        raise Refused(413, f"the body is larger than {most:,} bytes")
                    self._check_bytes(client, most)
                    if not message.get("more_body", False) and not places:
                        self._check_places(client)
                        take_place()
                except Refused as error:
                    received.put_nowait(error)
                    await asyncio.Event().wait()  # read no more of the body until the refusal is sent
                received.put_nowait(message)

        async def next_message() -> Message:
            message = await received.get()
            if isinstance(message, Refused):
                raise message
            return message

        async def send_watched(message: Message) -> None:
            nonlocal answered
            take_place()
            answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        reading = asyncio.ensure_future(read())
        answering = asyncio.ensure_future(app(scope, next_message, send_watched))
        try:
            # streams end by themselves a little earlier, with an event that says so
            async with asyncio.timeout(limits.stream_timeout + limits.body_timeout) as total:
                await asyncio.wait([reading, answering], return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() and not answered:
                    raise ClientDisconnect
                await answering
        except TimeoutError:
            if not total.expired():
                raise
            raise Refused(504, "the request took too long", hint="send less at once") from None
        finally:
            for task in (reading, answering):
                task.cancel()
            await asyncio.gather(reading, answering, return_exceptions=True)
            self._requests -= Counter({client: places})
            self._bytes -= Counter({client: size})

    def _check_places(self, client: str) -> None:
        """Raise `Refused` (429) if all places are taken, or all places that one client may take."""
        places = self._limits.queue + self._limits.batch_cases
        if self._requests.total() >= places or self._requests[client] >= math.ceil(_SHARE * places):
            problem = f"{self._requests.total()} requests are being answered, {self._requests[client]} of them yours"
            raise Refused(429, problem, hint="try again", retry_after=1)

    def _check_bytes(self, client: str, largest: int) -> None:
        """Raise `Refused` (429) if bodies fill the memory, or the part that one client may fill.

        This part always has room for one body of `largest` bytes.
        """
        most = self._limits.memory_bytes
        if self._bytes.total() > most or self._bytes[client] > max(largest, _SHARE * most):
            raise Refused(429, "the bodies of requests fill the memory for them", hint="try again", retry_after=1)
