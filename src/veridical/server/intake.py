"""The intake of requests: how many are answered at once, how much of them is in memory, whether their clients wait."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veridical.server.errors import Refused
from veridical.server.settings import Limits

__all__ = ["Intake"]


class Intake:
    """All requests that are being answered by one application."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests = 0  # with a body: GET and HEAD do not count
        self._bytes = 0  # of their bodies

    async def run(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let `app` answer a request, and cancel it once its client has left.

        The body is read as fast as it comes, because the server reports a client that left only after all of its body.

        Raises:
            Refused: 429 if as many requests are being answered as queue and batch hold cases (one more would only be
                read and then refused) or their bodies fill `limits.memory_bytes`, 413 for a body that no route takes,
                504 after `limits.stream_timeout` and `limits.body_timeout` seconds.
            ClientDisconnect: The client has left.
        """
        limits = self._limits
        counts = int(scope["method"] not in ("GET", "HEAD"))
        if counts and self._requests >= limits.queue + limits.batch_cases:
            raise Refused(429, f"{self._requests} requests are being answered", hint="try again", retry_after=1)
        received: asyncio.Queue[Message | Refused] = asyncio.Queue()
        most = max(limits.body_bytes, limits.document_bytes)
        size, answered = 0, False

        async def read() -> None:
            nonlocal size
            while (message := await receive())["type"] != "http.disconnect":
                length = len(message.get("body", b""))
                size += length
                self._bytes += length
                if size > most:
                    received.put_nowait(Refused(413, f"the body is larger than {most:,} bytes"))
                elif self._bytes > limits.memory_bytes:
                    problem = f"the bodies of {self._requests} requests fill the memory for them"
                    received.put_nowait(Refused(429, problem, hint="try again", retry_after=1))
                else:
                    received.put_nowait(message)
                    continue
                await asyncio.Event().wait()  # take no more of it, until the refusal is sent

        async def next_message() -> Message:
            message = await received.get()
            if isinstance(message, Refused):
                raise message
            return message

        async def send_watched(message: Message) -> None:
            nonlocal answered
            answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        self._requests += counts
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
            self._requests -= counts
            self._bytes -= size
