"""What stands between a client and the service: request ids, keys, origins, headers of every answer, bodies in time."""

from __future__ import annotations

import asyncio
import re
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veridical.server.errors import Refused, error_response
from veridical.server.keys import find_key
from veridical.server.settings import Limits, ServerSettings

__all__ = ["SECURITY_HEADERS", "Protection", "read_body", "request_id_of"]

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_OPEN = ("/health", "/ready")  # for whoever watches the process; the page itself holds no secret either
_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)


def request_id_of(request: Request) -> str:
    """The id of a request, which is in its answer, its errors and its line of the log."""
    return str(request.scope.get("state", {}).get("request_id", ""))


async def read_body(
    request: Request, limits: Limits, *, kind: str = "application/json", most: int | None = None
) -> bytes:
    """The whole body, kept in the request for whoever reads it again.

    Raises `Refused` for another content type than `kind` (415), more than `most` bytes (413; default
    `limits.body_bytes`), or one that does not arrive in `limits.body_timeout` seconds (408).
    """
    most = most or limits.body_bytes
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found != kind:
        raise Refused(
            415, f"the content type is {found!r}" if found else "no content type", hint=f"it has to be {kind}"
        )
    declared = request.headers.get("content-length", "")
    too_large = Refused(413, f"the body is larger than {most:,} bytes", hint="send less at once")
    if declared.isdecimal() and int(declared) > most:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_timeout):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive in {limits.body_timeout:g} s", hint="send it faster") from None
    request._body = b"".join(chunks)  # where `Request.form` looks
    return request._body


class Protection:
    """ASGI middleware around the whole service."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer["X-Request-ID"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    answer.setdefault(name, value)
            await send(message)

        try:
            self._check(scope, headers)
        except Refused as error:
            await error_response(error, request_id)(scope, receive, send_protected)
            return
        await self.app(scope, receive, send_protected)

    def _check(self, scope: Scope, headers: Headers) -> None:
        settings = self.settings
        host = headers.get("host", "")
        if settings.hosts and re.sub(r":\d+$", "", host).lower() not in settings.hosts:
            names = ", ".join(settings.hosts)
            raise Refused(421, f"the host {host!r} is not this server", hint=f"it is called {names}")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host and not {origin, "*"} & set(settings.cors):
            raise Refused(403, "a page of another origin may not use this server", hint="veridical serve --cors ORIGIN")
        path = scope["path"]
        if settings.keys and path not in _OPEN and (path.startswith("/v1/") or path == "/metrics"):
            scheme, _, token = headers.get("authorization", "").partition(" ")
            presented = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
            if not presented:
                raise Refused(401, "no key", hint="Authorization: Bearer KEY, or X-API-Key: KEY")
            key = find_key(settings.keys, presented)
            if key is None:
                raise Refused(401, "the key is not known", hint="ask whoever runs this server for one")
            scope["state"]["key"] = key.name
