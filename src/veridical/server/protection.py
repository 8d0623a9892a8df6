"""Protect the service with request ids, keys, origins, security headers, and limits on bodies and slow clients."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veridical.server.errors import Refused, error_body, error_response
from veridical.server.intake import Intake
from veridical.server.keys import find_key
from veridical.server.observation import Metrics, log
from veridical.server.settings import Limits, ServerSettings

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_OPEN = ("/health", "/ready")  # without a key, for programs that monitor the process
_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)


def request_id_of(request: Request) -> str:
    """Return the id of a request, which also appears in the response, in errors and in the log."""
    return str(request.scope.get("state", {}).get("request_id", ""))


def role_of(request: Request) -> str:
    """Return what the API key of a request may do: "check", "review" or "admin" (`keys.ROLES`).

    If the service has no keys, the role is "admin", which may do everything.
    """
    return str(request.scope["state"].get("role", "admin"))


def key_of(request: Request) -> str:
    """Return the name of a request's key, or "" if the service has no keys."""
    return str(request.scope["state"].get("key", ""))


async def read_body(
    request: Request, limits: Limits, *, kind: str = "application/json", most: int | None = None
) -> bytes:
    """Read the whole body of a request.

    Raises:
        Refused: The content type is not `kind` (415), the body has more than `most` bytes (413, `most` is by default
            `limits.body_bytes`), or the body does not arrive within `limits.body_timeout` seconds (408).
    """
    most = most or limits.body_bytes
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != kind:
        problem = f"the content type is {content_type!r}" if content_type else "no content type"
        raise Refused(415, problem, hint=f"it has to be {kind}")
    declared = request.headers.get("content-length", "")
    too_large = Refused(413, f"the body is larger than {most:,} bytes", hint="send less at once")
    if declared.isdecimal() and int(declared) > most:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    async with in_time("the body", limits):
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                raise too_large
            chunks.append(chunk)
    return b"".join(chunks)


@asynccontextmanager
async def in_time(what: str, limits: Limits) -> AsyncIterator[None]:
    """Limit the time that the block takes to receive `what`, such as "the body", to `limits.body_timeout` seconds.

    Raises:
        Refused: The block takes longer (408).
    """
    try:
        async with asyncio.timeout(limits.body_timeout):
            yield
    except TimeoutError:
        raise Refused(408, f"{what} did not arrive in {limits.body_timeout:g} s", hint="send it faster") from None


async def lines(chunks: AsyncIterator[bytes], most: int, too_large: Refused) -> AsyncIterator[bytes]:
    """Split a stream of bytes into lines, and yield each line without its line feed as soon as it is complete.

    The last line may be empty. If the stream has more than `most` bytes, raise the error `too_large`.
    """
    size, pieces = 0, list[bytes]()  # of the current line; joined only once, to stay linear
    async for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise too_large
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        for other in others:
            yield b"".join(pieces)
            pieces = [other]
    yield b"".join(pieces)


class _SlowReaderError(Exception):
    """Raised if a client does not read its answer in time."""


class Protection:
    """ASGI middleware that protects the service, and counts and logs every request.

    It checks host, origin and API key, limits bodies and slow clients, adds security headers, and gives each request an
    id.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._intake = Intake(settings.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer a request, or reject it. Then count and log it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        client_id = headers.get("x-request-id", "")
        request_id = client_id if _REQUEST_ID.fullmatch(client_id) else secrets.token_hex(8)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        started, status = time.perf_counter(), 0

        async def send_protected(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer = MutableHeaders(scope=message)
                answer["X-Request-ID"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    answer.setdefault(name, value)
                if "content-length" in headers and "transfer-encoding" in headers:
                    answer["Connection"] = "close"  # a proxy may disagree on where the body ends (RFC 9112, 6.1)
            try:
                async with asyncio.timeout(self.settings.limits.body_timeout):
                    await send(message)
            except TimeoutError:
                raise _SlowReaderError from None

        try:
            self._check(scope, headers)
            await self._intake.run(self.app, scope, receive, send_protected)
        except Refused as error:
            if status:  # part of the answer is sent, so it can only be cut off
                raise
            await error_response(error, request_id, scope["path"])(scope, receive, send_protected)
        except (ClientDisconnect, _SlowReaderError):  # the client is gone, so there is no answer
            status = status or 499
        except Exception as error:
            log("failure", logging.ERROR, error, request_id=request_id)
            if status:  # part of the answer is sent, so it can only be cut off
                raise
            hint = "the log has more under this request id"
            body = error_body("the server failed at this", hint, request_id, scope["path"])
            await JSONResponse(body, 500)(scope, receive, send_protected)
        finally:
            seconds = time.perf_counter() - started
            # never log or count the path itself, which may hold any text
            route = getattr(scope.get("route"), "path", None) or "other"
            self.metrics.request(route, status, seconds)
            log(
                "request",
                request_id=request_id,
                method=scope["method"],
                route=route,
                status=status,
                ms=round(1000 * seconds, 1),
                key=state.get("key"),
                **state.get("log", {}),
            )

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Raise `Refused` if the host or the origin is foreign, or the key is missing or unknown."""
        settings = self.settings
        host = headers.get("host", "")
        if settings.hosts and re.sub(r":\d+$", "", host).lower() not in settings.hosts:
            hint = f"it is called {', '.join(settings.hosts)}; with --api-keys, any name will do"
            raise Refused(421, f"the host {host!r} is not this server", hint=hint)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host and not {origin, "*"} & set(settings.cors):
            raise Refused(
                403, "a page of another origin may not use this server", hint="its operator can allow the origin"
            )
        path = scope["path"]
        if settings.keys and path not in _OPEN and (path.startswith("/v1/") or path == "/metrics"):
            scheme, _, token = headers.get("authorization", "").partition(" ")
            presented = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
            if not presented:
                raise Refused(401, "no key", hint="Authorization: Bearer KEY, or X-API-Key: KEY")
            key = find_key(settings.keys, presented)
            if key is None:
                raise Refused(401, "the key is not known", hint="ask whoever runs this server for one")
            scope["state"]["key"], scope["state"]["role"] = key.name, key.role
            scope["state"]["headers_with_key"] = {
                name
                for name, value in headers.items()
                if presented in value or any(find_key(settings.keys, word) for word in value.split())
            }
