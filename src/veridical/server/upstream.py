"""Connect the proxy to the chat server behind it (the upstream server).

Everything that the chat server sends is treated as hostile input. Size, time and form are limited, and if the answer
contains the operator's key, the key is masked.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from veridical.io.strict_json import most_values, parse
from veridical.llm.endpoint import Endpoint, resolve_server, resolve_url
from veridical.records.errors import WireError
from veridical.records.strings import visible
from veridical.server.batching import in_thread
from veridical.server.errors import Refused
from veridical.server.protection import lines
from veridical.server.settings import Limits, ProxySettings

DONE = "[DONE]"
MOST_CHOICES = 128
_LONGEST = 2000  # characters of a text in an error
_SECONDS = re.compile(r"\d{1,5}(\.\d{1,3})?", re.ASCII)


class Upstream:
    """Sends the proxy's requests to the chat server behind it. Call `start` and `close` in the event loop that sends.

    Without `key_env` in the settings, the keys of clients are forwarded. The proxy then sends no key of its own, not
    even $OPENAI_API_KEY to OpenAI.

    Raises:
        InputError: The base URL in the settings is not valid.
        CannotJudgeError: The environment variable `key_env` is not set, or its value is not a valid key.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        key_env, url = settings.key_env, settings.base_url
        self._server = Endpoint(resolve_url(url), None) if key_env is None else resolve_server(url, key_env)
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        """Create the HTTP client."""
        timeout = httpx.Timeout(self._settings.timeout, connect=10, pool=10)
        # do not reuse connections: bytes after the end of a reply would become the reply to another client
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # all clients would share them
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False, cookies=no_cookies)

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()

    async def send(
        self, path: str, document: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Send a request to the chat server, and return its complete response.

        If the server answers with an error, the status and the message of the error are kept, in whatever form the
        server gives the message.

        Args:
            path: The path after the base URL, such as "/models".
            document: The JSON document to send with POST. None sends a GET request.
            headers: The headers to send.

        Returns:
            The status and the JSON object of the HTTP response, and the headers to forward.

        Raises:
            Refused: The HTTP response is missing, too large, or not a JSON object (502), or it is late (504).
        """
        async with self._in_time():
            return await self._whole(await self._request(path, document, headers))

    async def stream(
        self, path: str, document: Mapping[str, Any], headers: Mapping[str, str]
    ) -> httpx.Response | tuple[int, dict[str, Any], dict[str, str]]:
        """Send a JSON document to the chat server, and open its response, so that you can read it with `chunks`.

        You have to close the response. If the server answers with an error, a tuple is returned instead: the status,
        the JSON object with the error, and the headers to forward.

        Raises:
            Refused: The HTTP response is missing or not a stream, or the error cannot be read (502), or it is late
                (504).
        """
        async with self._in_time():
            response = await self._request(path, document, headers)
            if response.status_code >= 400:
                return await self._whole(response)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            await response.aclose()
            raise _bad("an answer that is not a stream")
        return response

    async def chunks(self, response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
        """Yield the JSON objects (chunks) in the server-sent events of a response, up to the end mark `DONE`.

        Without an end mark, the stream counts as complete if every choice has its `finish_reason`.

        Raises:
            Refused: The stream contains anything else, is too large or is not complete (502), or it is late (504).
        """
        finished: dict[int, bool] = {}
        most = self._settings.reply_bytes
        too_large = _bad(f"more than {most:,} bytes")
        with _translated():
            async for name, data in _events(lines(_with_line_feeds(response.aiter_raw()), most, too_large)):
                if data.strip() == DONE.encode():
                    return
                chunk = _object_in(data.strip(), self._server, "an event that is")
                if name == b"error" and chunk.get("error") is None:
                    chunk = {"error": chunk}
                for choice in choices_of(chunk, "delta"):
                    index = choice.get("index", 0)
                    finished[index] = finished.get(index, False) or choice.get("finish_reason") is not None
                yield chunk
        if not finished or not all(finished.values()):
            raise _bad("a stream without an end")

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        with _translated():
            async with asyncio.timeout(self._settings.timeout):
                yield

    async def _request(
        self, path: str, document: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        """Send a request, and return the HTTP response before its body is read."""
        assert self._client is not None
        request_headers = {"accept-encoding": "identity", "user-agent": "veridical", **headers}
        if self._server.key is not None:
            request_headers["authorization"] = f"Bearer {self._server.key}"
        content = None if document is None else json.dumps(document).encode()
        if content is not None:
            request_headers["content-type"] = "application/json"
        method, url = "GET" if document is None else "POST", self._server.url + path
        request = self._client.build_request(method, url, content=content, headers=request_headers)
        response = await self._client.send(request, stream=True)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise _bad("a compressed body, which was not asked for")
        if 300 <= response.status_code < 400:
            await response.aclose()
            raise _bad("a redirection, which is not followed")
        return response

    async def _whole(self, response: httpx.Response) -> tuple[int, dict[str, Any], dict[str, str]]:
        size, received = 0, []
        try:
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > self._settings.reply_bytes:
                    raise _bad(f"more than {self._settings.reply_bytes:,} bytes")
                received.append(chunk)
        finally:
            await response.aclose()
        status, body = response.status_code, b"".join(received)
        retry_after = response.headers.get("retry-after", "")
        headers = {"Retry-After": retry_after} if _SECONDS.fullmatch(retry_after) else {}
        read = _error_in if status >= 400 else _answer_in
        return status, await in_thread(lambda: read(body, status, self._server)), headers


async def _with_line_feeds(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield `chunks` with line feeds in place of other line ends (CR LF or CR)."""
    after_return = False
    async for chunk in chunks:
        if chunk:
            text = chunk.removeprefix(b"\n") if after_return else chunk
            after_return = chunk.endswith(b"\r")
            yield text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


async def _events(event_lines: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield the name and the data of each server-sent event. The data may come in several lines."""
    name, data = b"", list[bytes]()
    async for line in event_lines:
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.strip()
        elif not line:
            if data:
                yield name, b"\n".join(data)
            name, data = b"", []
    if data:  # the last event lacks its blank line
        yield name, b"\n".join(data)


def _object_in(text: bytes, server: Endpoint, what: str) -> dict[str, Any]:
    """Parse the JSON object in `text`, and mask the server's key in it.

    Raise `Refused` (502) if `text` is not a JSON object. `what` begins the error message.
    """
    if most_values(text) > Limits().values:
        raise _bad(f"more than {Limits().values:,} values")
    try:
        document = parse(text.decode())
    except (WireError, UnicodeDecodeError):
        raise _bad(f"{what} not a JSON object") from None
    server.scrub_document(document)
    return document


def _answer_in(body: bytes, status: int, server: Endpoint) -> dict[str, Any]:
    return _object_in(body, server, f"status {status} and")


def _error_in(body: bytes, status: int, server: Endpoint) -> dict[str, Any]:
    """Convert an error of the chat server, in whatever form, to the form of OpenAI's API. Its texts are safe to show.

    An error that is not JSON gets a general message. If its status is 500 or more, `Refused` (502) is raised instead.
    """
    try:
        answer = _answer_in(b'{"error": %b}' % body, status, server)["error"]
    except Refused:
        if status >= 500:
            raise
        answer = None
    if isinstance(answer, list) and len(answer) == 1:  # Gemini
        (answer,) = answer
    error = answer.get("error") or answer if isinstance(answer, dict) else answer
    fields = error if isinstance(error, dict) else {"message": error}
    message = fields.get("message") or fields.get("detail") or f"the chat server answered with status {status}"
    fields = {
        "type": "upstream_error",
        **fields,
        "message": message if isinstance(message, str) else json.dumps(message),
    }
    fields.pop("detail", None)
    return {"error": {n: visible(v[:_LONGEST]) if isinstance(v, str) else v for n, v in fields.items()}}


@contextmanager
def _translated() -> Iterator[None]:
    """Turn errors of the HTTP library into `Refused`."""
    try:
        yield
    except (httpx.TimeoutException, TimeoutError):
        raise Refused(504, "the chat server took too long", hint="it may answer later", retry_after=5) from None
    except httpx.HTTPError as error:
        problem = f"the chat server cannot be reached or broke off ({type(error).__name__})"
        hint = "its operator can check that it runs, and the address in --proxy"
        raise Refused(502, problem, hint=hint) from None


def choices_of(answer: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the choices (alternative answers) of a chat reply, or of a chunk of a streamed reply, after validation.

    Args:
        answer: The JSON object of the reply or chunk.
        field: The field of a choice that contains its message: "message" in a reply, "delta" in a chunk.

    Raises:
        Refused: The choices are malformed (502).
    """
    choices = answer.get("choices")
    if choices is None:
        return []
    if not isinstance(choices, list) or len(choices) > MOST_CHOICES:
        raise _bad("choices that are not a short list")
    for choice in choices:
        if isinstance(choice, dict) and choice.get(field) is None and field == "delta":
            choice[field] = {}
        if not isinstance(choice, dict) or not isinstance(choice.get(field), dict):
            raise _bad(f"a choice without a {field}")
        index, content = choice.get("index", 0), choice[field].get("content")
        if type(index) is not int or not 0 <= index < MOST_CHOICES:
            raise _bad("a choice whose index is not a small number")
        parts = content if isinstance(content, list) else [{"text": "" if content is None else content}]
        if not all(isinstance(part, dict) and isinstance(part.get("text", ""), str) for part in parts):
            raise _bad("a content that is neither a text nor parts")
    return choices


def text_of(content: str | list[dict[str, Any]] | None) -> str | None:
    """Return the text of a message's content. If the content is a list of parts, their texts are joined.

    None stays None, and a part without a text, such as an image, is left out.

    >>> text_of([{"type": "text", "text": "It is "}, {"type": "reference"}, {"type": "text", "text": "red."}])
    'It is red.'
    """
    return "".join(part.get("text", "") for part in content) if isinstance(content, list) else content


def _bad(what: str) -> Refused:
    return Refused(502, f"the chat server sent {what}", hint="it is not used as an answer")
