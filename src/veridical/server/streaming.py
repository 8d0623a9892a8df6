"""Serve `POST /v1/stream`: JSON Lines in, server-sent events out, while the response is still being written.

The first line is the request, whose case contains the first part of the response, or no response. Each further line is
`{"text": …}` with the next part. The end of the body is the end of the response.

The events are `start`, then `verdicts` for each newly judged part, and at last `result`, for which the whole response
is judged once more, in one piece. If something fails, the last event is `error`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from veridical.io.serialization import HALF_CHARACTER, encode
from veridical.records.errors import VeridicalError, WireError
from veridical.records.strings import join_halves
from veridical.records.types import Case, Checked
from veridical.server.batching import characters_of, in_thread
from veridical.server.errors import Refused, error_body
from veridical.server.protection import in_time, key_of, lines, read_body, request_id_of
from veridical.server.requests import Keep, StreamRequest, check_size, parse_body, read_cases_of, read_request
from veridical.server.service import Service
from veridical.server.sessions import Session, open_session

_LONG = 20_000  # bytes; a longer line is not parsed in the event loop
LINES = ("application/x-ndjson", "application/jsonl", "application/jsonlines")


class EventStream(Response):
    """An HTTP response that sends server-sent events as soon as they are yielded.

    At the end, `close` is called, even if the client has disconnected. Unlike Starlette's streaming response, this
    response does not consume the request.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], close: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._close = events, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with aclosing(self._events) as events:
                async for event_bytes in events:
                    await send({"type": "http.response.body", "body": event_bytes, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if self._close is not None:
                await self._close()


def event(name: str, data: str) -> bytes:
    """Write a server-sent event as bytes. `data` must be JSON without line breaks."""
    return f"event: {name}\ndata: {data}\n\n".encode()


@dataclass
class Stream:
    """One request to `POST /v1/stream`: a response that arrives in parts and is judged meanwhile.

    Attributes:
        service: The service with the detectors.
        wanted: The request, with the detectors and options.
        case: The case, with the first part of the response.
        parts: The parts of the response as they arrive, including the first part.
        request_id: The id of the request in the log.
        keep: Called with the result, to store it in the history. Default: it is not stored.
    """

    service: Service
    wanted: StreamRequest
    case: Case
    parts: AsyncIterator[str]
    request_id: str
    keep: Callable[[list[Checked]], Awaitable[object]] | None = None

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield the server-sent events: `start`, then `verdicts` for each newly judged part, and at last `result`.

        For `result`, the whole response is judged once more. If something fails, the last event is `error`.
        """
        try:
            async with asyncio.timeout(self.service.settings.limits.stream_timeout):
                async for event_bytes in self._events():
                    yield event_bytes
        except TimeoutError:
            yield event("error", json.dumps(error_body("the stream took too long", None, self.request_id)))
        except VeridicalError as error:
            yield event("error", json.dumps(error_body(error.message, error.hint, self.request_id)))

    async def _events(self) -> AsyncIterator[bytes]:
        yield event("start", json.dumps({"request_id": self.request_id, "case_id": self.case.id}))
        batchers = self.service.batchers_of(self.wanted.detector)
        sessions = await asyncio.gather(*(open_session(b, self.case, self.wanted.threshold) for b in batchers))
        limits, parts = self.service.settings.limits, list[str]()
        size = characters_of(replace(self.case, response=""))
        async for part in self.parts:
            parts.append(part)
            size += len(part)
            if size > limits.characters:
                check_size(replace(self.case, response="".join(parts)), limits)  # raises
            for event_bytes in await self._judged(sessions, part, final=False):
                yield event_bytes
        for event_bytes in await self._judged(sessions, "", final=True):
            yield event_bytes
        ((checked, _),) = await self.service.check_cases([replace(self.case, response="".join(parts))], self.wanted)
        if self.keep is not None:
            await self.keep([checked])
        yield await in_thread(lambda: event("result", encode(checked, sources=self.wanted.with_sources)))

    async def _judged(self, sessions: list[Session], text: str, *, final: bool) -> list[bytes]:
        parts = await asyncio.gather(*(session.feed(text, final=final) for session in sessions))

        def written() -> list[bytes]:
            return [
                event("verdicts", f'{{"judgement": {encode(part.judgement)}, "flagged": {json.dumps(part.flagged)}}}')
                for part in parts
                if part is not None
            ]

        return await in_thread(written) if any(parts) else []


async def open_stream(request: Request, service: Service, keep: Keep | None = None) -> Stream:
    """Parse the first line of a request to `POST /v1/stream`, and return the stream, which has not begun yet.

    `keep` stores the result in the history. Without it, nothing is stored.

    Raises:
        WireError: The line is not JSON or not such a request.
        InputError: The case is not valid, or the server has no such detector.
        Refused: The line or the case exceeds a limit (413), the line does not arrive in time (408), or the body is
            neither JSON nor JSON Lines (415).
    """
    limits = service.settings.limits
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    further_lines: AsyncIterator[bytes] | None = None
    if kind in LINES:
        further_lines = _lines(request, service)
        async with in_time("the first line", limits):
            first = await anext(further_lines, b"")
    else:
        first = await read_body(request, limits)
    stream_request = await in_thread(lambda: read_request(first, StreamRequest, limits), size=len(first))
    if "messages" in stream_request.case:
        raise WireError("the case has messages", hint="a stream is one response; send its sources")
    begun = {"response": "", **stream_request.case}
    half = ""
    if isinstance(begun["response"], str):
        begun["response"], half = join_halves(begun["response"])
    (case,) = await in_thread(lambda: read_cases_of([begun], limits), size=len(first))
    service.batchers_of(stream_request.detector)  # raise for an unknown detector before the answer begins

    async def parts() -> AsyncIterator[str]:
        part, waiting = case.response, half
        if part:
            yield part
        if further_lines is not None:
            async for line in further_lines:
                read = partial(parse_body, line, limits)
                document = await in_thread(read, size=len(line)) if len(line) > _LONG else read()
                if set(document) != {"text"} or not isinstance(document["text"], str):
                    raise WireError("a line after the first is not a text", hint='{"text": "…"}')
                part, waiting = join_halves(waiting + document["text"])
                yield part
        if waiting:
            raise WireError(HALF_CHARACTER)

    keep_results = None if keep is None else partial(keep, "check", key_of(request), stream_request)
    return Stream(service, stream_request, case, parts(), request_id_of(request), keep_results)


async def _lines(request: Request, service: Service) -> AsyncIterator[bytes]:
    """Yield the lines of a body as they arrive. Blank lines are left out."""
    limits = service.settings.limits
    too_large = Refused(413, f"the body is larger than {limits.body_bytes:,} bytes")
    chunks = request.stream()

    async def timed() -> AsyncIterator[bytes]:
        while True:
            async with in_time("the next line", limits):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk

    async for line in lines(timed(), limits.body_bytes, too_large):
        if line.strip():
            yield line
