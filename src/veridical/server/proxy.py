"""The proxy: chat completions are passed on, and each reply is checked against the sources of its request.

A reply that is not streamed is checked before it goes on. Of a streamed one the parts go on as they come and are
checked meanwhile (annotate, header), or each sentence goes on once it is judged (block), or all at the end (revise).
Where text may be withheld, only the fields in `_FRAME` and the role go on before the check of the whole reply: any
other field of a chunk may hold text that a client shows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from veridical.core.errors import VeridicalError
from veridical.core.serialization import encode
from veridical.server.errors import Refused, error_body
from veridical.server.protection import read_body, request_id_of, while_connected
from veridical.server.replies import BLOCKED, UNAVAILABLE, CheckedChoice, ReplyChecker, annotation, overall_status
from veridical.server.requests import parse_body
from veridical.server.service import Service
from veridical.server.sessions import Session, StreamedJudgement, open_session
from veridical.server.settings import ProxySettings
from veridical.server.streaming import EventStream
from veridical.server.upstream import DONE, Upstream, choices_of

__all__ = ["STATUS_HEADER", "StreamedReply", "add_proxy"]

STATUS_HEADER = "X-Veridical-Status"
_PATH = "/chat/completions"
_FRAME = ("id", "object", "created", "model", "system_fingerprint", "service_tier", "usage")


def add_proxy(app: FastAPI, service: Service, settings: ProxySettings, upstream: Upstream) -> None:
    """Add the proxy's routes to `app`."""

    @app.post("/v1/chat/completions", include_in_schema=False)
    async def chat(request: Request) -> Response:
        """A chat completion of the server behind, checked."""
        document = parse_body(await read_body(request, service.settings.limits))
        checker = ReplyChecker(service, settings, document, request_id_of(request))
        answered = _streamed if document.get("stream") is True else _whole
        return await while_connected(request, answered(checker, upstream, document, _headers_on(request)))

    @app.get("/v1/models", include_in_schema=False)
    async def models(request: Request) -> Response:
        """The models of the server behind."""
        return _json(*await while_connected(request, upstream.send("/models", None, _headers_on(request))))


def _json(status: int, answer: dict[str, Any], headers: dict[str, str]) -> Response:
    # in ASCII: half of a surrogate pair, which a server may send, is passed on as it came
    return Response(json.dumps(answer), status, headers, media_type="application/json")


def _headers_on(request: Request) -> dict[str, str]:
    """The headers of a request that may go on: none with a key of ours."""
    ours = request.scope["state"].get("headers_with_key", ())
    return {name: value for name, value in request.headers.items() if name not in ours}


async def _whole(
    checker: ReplyChecker, upstream: Upstream, document: dict[str, Any], headers: dict[str, str]
) -> Response:
    """The answer to a request for a reply as a whole."""
    status, answer, headers_back = await upstream.send(_PATH, document, headers)
    if status >= 400:
        return _json(status, answer, headers_back)
    choices = choices_of(answer, "message")
    findings = await checker.check(
        (choice.get("index", i), choice["message"].get("content")) for i, choice in enumerate(choices)
    )
    for i, finding in enumerate(findings):
        if checker.blocks(finding):
            notice = {"role": "assistant", "content": BLOCKED}
            choices[i] = {"index": finding.index, "message": notice, "finish_reason": "content_filter"}
            answer = {name: value for name, value in answer.items() if name in (*_FRAME, "choices")}
        elif finding.text is not None:
            choices[i]["message"]["content"] = finding.text
            choices[i].pop("logprobs", None)  # they are of another text
    if checker.settings.action != "header":
        answer["veridical"] = annotation(checker, findings)
    return _json(200, answer, {STATUS_HEADER: overall_status(findings)})


async def _streamed(
    checker: ReplyChecker, upstream: Upstream, document: dict[str, Any], headers: dict[str, str]
) -> Response:
    """The answer to a request for a stream; an error of the server behind is no stream."""
    opened = await upstream.stream(_PATH, document, headers)
    if isinstance(opened, tuple):
        return _json(*opened)
    response = _ReplyStream(StreamedReply(checker, upstream.chunks(opened)).events(), opened.aclose)
    response.headers[STATUS_HEADER] = "pending"  # it is in the last event
    return response


class _ReplyStream(EventStream):
    """Events that end where the client leaves, even while none comes; `close` is called in the end."""

    def __init__(self, events: AsyncGenerator[bytes, None], close: Callable[[], Awaitable[None]]) -> None:
        super().__init__(events)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        try:
            await while_connected(Request(scope, receive), super().__call__(scope, receive, send))
        finally:
            await self._close()


@dataclass(slots=True)
class _Choice:
    """One choice of a streamed reply, as far as it has come."""

    text: str = ""
    fed: int = 0
    released: int = 0
    session: Session | None = None
    judging: asyncio.Task[StreamedJudgement | None] | None = None
    problem: bool = False
    blocked: bool = False
    held: list[dict[str, Any]] = field(default_factory=list)  # fields that wait for the check of the whole reply
    end: Any = "stop"  # the reason for its end


@dataclass(slots=True)
class StreamedReply:
    """A reply that arrives in chunks, and what goes on of it."""

    checker: ReplyChecker
    chunks: AsyncIterator[dict[str, Any]]
    choices: dict[int, _Choice] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)  # what all chunks of the reply have in common

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The events that go on: chunks, the annotation in the last one, and the end; or an error as the last one."""
        limits = self.checker.service.settings.limits
        try:
            async with asyncio.timeout(limits.stream_timeout):
                async for chunk in self.chunks:
                    for each in await self._passed_on(chunk):
                        yield _event(each)
                for each in await self._end():
                    yield _event(each)
            yield f"data: {DONE}\n\n".encode()
        except (VeridicalError, TimeoutError) as error:
            self.checker.service.metrics.proxied(UNAVAILABLE)
            known = error if isinstance(error, VeridicalError) else Refused(504, "the reply took too long")
            said = error_body(known.message, known.hint, self.checker.request_id)
            broken = {"message": known.message, "type": "upstream_error"}
            yield _event({"error": broken, "veridical": {"status": UNAVAILABLE, **said}})
        finally:
            for choice in self.choices.values():
                if choice.judging is not None:
                    choice.judging.cancel()

    @property
    def _withholds(self) -> bool:
        return self.checker.settings.action in ("block", "revise") or self.checker.settings.blocks_unavailable

    async def _passed_on(self, chunk: dict[str, Any]) -> list[dict[str, Any]]:
        """What goes on once `chunk` has come."""
        chunk.pop("veridical", None)  # only we say this
        if not self.form:
            self.form = {name: chunk[name] for name in _FRAME if name in chunk and name != "usage"}
        choices = choices_of(chunk, "delta")
        if self._withholds:
            return await self._passed_before_the_check(chunk, choices)
        found: list[dict[str, Any]] = []
        for one in choices:
            index = one.get("index", 0)
            state = self.choices.setdefault(index, _Choice())
            state.text += one["delta"].get("content") or ""
            if (part := self._judged_meanwhile(state)) is not None:
                judgement = json.loads(encode(part.judgement))
                found.append({"index": index, "judgement": judgement, "flagged": part.flagged})
        return [{**chunk, "veridical": {"verdicts": found}} if found else chunk]

    async def _passed_before_the_check(
        self, chunk: dict[str, Any], choices: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The sentences that `chunk` completes, if they may go on, and what of it is certainly no text."""
        if "error" in chunk:
            raise Refused(502, "the chat server sent an error in its stream", hint="its reply is not complete")
        begun: list[dict[str, Any]] = []
        released: list[dict[str, Any]] = []
        for one in choices:
            index, delta = one.pop("index", 0), one.pop("delta")
            one.pop("logprobs", None)  # they hold the text, which goes on in other portions
            end = one.pop("finish_reason", None)
            state = self.choices.setdefault(index, _Choice())
            state.text += delta.pop("content", None) or ""
            if (role := delta.pop("role", None)) is not None:
                begun.append({"index": index, "delta": {"role": role}, "finish_reason": None})
            rest, fields = ({name: value for name, value in d.items() if value is not None} for d in (delta, one))
            if rest or fields:
                state.held.append({**fields, "index": index, "delta": rest, "finish_reason": None})
            if end is not None:
                state.end = end
            else:
                released += await self._released(index, state)
        frame = {name: chunk[name] for name in _FRAME if name in chunk}
        more = begun or not choices or chunk.get("usage")
        return [*([{**frame, "choices": begun}] if more else []), *released]

    def _judged_meanwhile(self, state: _Choice) -> StreamedJudgement | None:
        """What was found since the last chunk; what has come since then is judged while the next chunks come."""
        part = None
        if state.judging is not None and state.judging.done():
            part, state.judging = self._result_of(state), None
        if state.judging is None and not state.problem and self.checker.problem is None and state.fed < len(state.text):
            text, state.fed = state.text[state.fed :], len(state.text)
            state.judging = asyncio.ensure_future(self._fed(state, text))
        return part

    def _result_of(self, state: _Choice) -> StreamedJudgement | None:
        assert state.judging is not None
        state.problem = state.judging.exception() is not None  # the check of the whole reply will say why
        return None if state.problem or self.checker.settings.action == "header" else state.judging.result()

    async def _fed(self, state: _Choice, text: str) -> StreamedJudgement | None:
        if state.session is None:
            batcher = self.checker.service.batcher(self.checker.settings.detector)
            state.session = await open_session(batcher, self.checker.case, None)
        return await state.session.feed(text)

    async def _released(self, index: int, state: _Choice) -> list[dict[str, Any]]:
        """The sentences that may go on: judged, and not flagged. The last one waits for the check of all."""
        if (
            self.checker.settings.action != "block"
            or state.blocked
            or state.problem
            or self.checker.problem is not None
        ):
            return []
        text, state.fed = state.text[state.fed :], len(state.text)
        state.judging = asyncio.ensure_future(self._fed(state, text))
        await asyncio.wait([state.judging])
        part = self._result_of(state)
        if state.problem or part is None or state.session is None:
            return []
        state.blocked = bool(part.flagged)
        if state.blocked:
            return []
        start, state.released = state.released, state.session.judged_to
        return [self._content(index, state.text[start : state.released])]

    async def _end(self) -> list[dict[str, Any]]:
        """What goes on once the reply has ended, and the annotation of all of it."""
        findings = await self.checker.check((index, state.text) for index, state in self.choices.items())
        last: list[dict[str, Any]] = []
        for finding in findings if self._withholds else ():
            state = self.choices[finding.index]
            if state.blocked or self.checker.blocks(finding):
                last.append(self._content(finding.index, BLOCKED))
                state.end = "content_filter"
            else:
                text = finding.text if finding.text is not None else state.text[state.released :]
                last += [self._content(finding.index, text)] if text else []
                last += [{**self.form, "choices": [held]} for held in state.held]
            end = {"index": finding.index, "delta": {}, "finish_reason": state.end}
            last.append({**self.form, "choices": [end]})
        return [*last, self._annotated(findings)]

    def _annotated(self, findings: list[CheckedChoice]) -> dict[str, Any]:
        """The last chunk; it has a choice without anything in it, for clients that look at the first of every chunk."""
        said = annotation(self.checker, findings)
        for choice in said["choices"]:
            if self.choices[choice["index"]].blocked:  # a sentence of it was flagged, whatever the whole is
                choice.pop("check", None)
                choice["withheld"] = True
                choice["status"] = said["status"] = "flagged"
        if self.checker.settings.action == "header":
            said = {"status": said["status"]}
        nothing = {"index": 0, "delta": {}, "finish_reason": None}
        return {**self.form, "choices": [nothing], "veridical": said}

    def _content(self, index: int, text: str) -> dict[str, Any]:
        return {**self.form, "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}]}


def _event(document: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()
