"""Forward chat completions as a proxy, and check each reply against the sources of its request.

A reply that is not streamed is checked before it is forwarded. How a streamed reply is forwarded depends on the action:

* With annotate and header, parts are forwarded at once and checked meanwhile.
* With block, each sentence is forwarded after it was checked.
* With revise, everything is forwarded together at the end.

With block and revise, text may be withheld. Any field of a chunk may contain text that a client shows, so until the
whole reply is checked, only the role and the fields in `_FRAME` are forwarded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response

from veridical.io.serialization import encode
from veridical.records.errors import VeridicalError, WireError
from veridical.records.strings import join_halves
from veridical.records.types import Judgement
from veridical.server.batching import in_thread
from veridical.server.errors import Refused, error_body
from veridical.server.openapi import CHAT, OBJECT, body, documented_responses
from veridical.server.protection import key_of, read_body, request_id_of
from veridical.server.replies import BLOCKED, UNAVAILABLE, CheckedChoice, ReplyChecker, annotation, overall_status
from veridical.server.requests import Keep, parse_body
from veridical.server.service import Service
from veridical.server.sessions import Session, StreamedJudgement, open_session
from veridical.server.settings import ProxySettings
from veridical.server.streaming import EventStream
from veridical.server.upstream import DONE, MOST_CHOICES, Upstream, choices_of, text_of

STATUS_HEADER = "X-Veridical-Status"
_PATH = "/chat/completions"
_REPLY = {**OBJECT, "text/event-stream": {"schema": {"type": "string"}}}
_FORWARDED = ("authorization", "openai-organization", "openai-project")
_FRAME = ("id", "object", "created", "model", "system_fingerprint", "service_tier", "usage")


def add_proxy(
    app: FastAPI, service: Service, settings: ProxySettings, upstream: Upstream, keep: Keep | None = None
) -> None:
    """Add the routes of the chat proxy to `app`.

    Args:
        app: The application.
        service: The service with the detectors.
        settings: The settings of the proxy.
        upstream: The connection to the chat server behind the proxy.
        keep: Called with the checked replies, to store them in the history. Default: they are not stored.
    """

    @app.post(
        "/v1/chat/completions",
        openapi_extra=body("ChatRequest", CHAT),
        responses=documented_responses(
            "The reply of the chat server, with the field `veridical`", _REPLY, error="OpenAIError"
        ),
    )
    async def chat(request: Request) -> Response:
        """Forward a chat completion to the server behind the proxy, and check the reply against its sources.

        The sources are the messages with retrieved texts, such as those of tools, and the field `sources`.
        """
        body = await read_body(request, service.settings.limits)
        document = await in_thread(lambda: parse_body(body, service.settings.limits), size=len(body))
        if isinstance(n := document.get("n"), int) and n > MOST_CHOICES:
            raise WireError(f"n is more than {MOST_CHOICES}", hint="ask for fewer replies at once")
        keep_replies = None if keep is None else partial(keep, "proxy", key_of(request))
        checker = await in_thread(
            lambda: ReplyChecker(service, settings, document, request_id_of(request), keep_replies), size=len(body)
        )
        answer = _streamed if document.get("stream") is True else _whole
        return await answer(checker, upstream, document, _headers_on(request))

    @app.get(
        "/v1/models",
        responses=documented_responses("The answer of the chat server", OBJECT, work=False, error="OpenAIError"),
    )
    async def models(request: Request) -> Response:
        """List the models of the server behind the proxy."""
        return _json(*await upstream.send("/models", None, _headers_on(request)))


def _json(status: int, answer: dict[str, Any], headers: dict[str, str]) -> Response:
    # json.dumps writes ASCII, so that a lone surrogate from the server is forwarded unchanged
    return Response(json.dumps(answer), status, headers, media_type="application/json")


def _headers_on(request: Request) -> dict[str, str]:
    """Choose the headers to forward: those in `_FORWARDED` that contain none of our own keys."""
    with_key = request.scope["state"].get("headers_with_key", ())
    return {name: request.headers[name] for name in _FORWARDED if name in request.headers and name not in with_key}


async def _whole(
    checker: ReplyChecker, upstream: Upstream, document: dict[str, Any], headers: dict[str, str]
) -> Response:
    """Answer a request for a reply that is not streamed."""
    status, answer, headers_back = await upstream.send(_PATH, document, headers)
    if status >= 400:
        return _json(status, answer, headers_back)
    choices = choices_of(answer, "message")
    findings = await checker.check(
        (choice.get("index", i), text_of(choice["message"].get("content"))) for i, choice in enumerate(choices)
    )
    for i, finding in enumerate(findings):
        if checker.blocks(finding):
            notice = {"role": "assistant", "content": BLOCKED}
            choices[i] = {"index": finding.index, "message": notice, "finish_reason": "content_filter"}
            answer = {name: value for name, value in answer.items() if name in (*_FRAME, "choices")}
        elif finding.text is not None:
            choices[i]["message"]["content"] = finding.text
            choices[i].pop("logprobs", None)  # they belong to the original text
    answer.pop("veridical", None)  # this field is ours: the chat server must not set it
    if checker.settings.action != "header":
        answer["veridical"] = await in_thread(lambda: annotation(checker, findings))
    return await in_thread(lambda: _json(200, answer, {STATUS_HEADER: overall_status(findings)}))


async def _streamed(
    checker: ReplyChecker, upstream: Upstream, document: dict[str, Any], headers: dict[str, str]
) -> Response:
    """Answer a request for a stream. If the server behind the proxy sends an error, forward it as JSON."""
    reply = await upstream.stream(_PATH, document, headers)
    if isinstance(reply, tuple):
        return _json(*reply)
    response = EventStream(StreamedReply(checker, upstream.chunks(reply)).events(), reply.aclose)
    response.headers[STATUS_HEADER] = "pending"  # the last event holds the status
    return response


@dataclass(slots=True)
class _Choice:
    """The state of one choice (alternative answer) of a streamed reply.

    The text stays in parts, because chunks may be many and short.
    """

    parts: list[str] = field(default_factory=list)
    half: str = ""
    fed: int = 0  # the number of parts that were given to the session
    waiting: list[str] = field(default_factory=list)  # given to the session, and not forwarded to the client
    released: int = 0  # the number of characters that were forwarded
    session: Session | None = None
    judging: asyncio.Task[StreamedJudgement | None] | None = None
    problem: bool = False
    blocked: bool = False
    held: list[dict[str, Any]] = field(default_factory=list)  # fields that wait for the check of the whole reply
    end: Any = "stop"  # its finish_reason

    def add(self, content: str | None) -> None:
        """Append the text of a chunk. If the text ends in half a character, this half waits for the next chunk."""
        if content:
            text, self.half = join_halves(self.half + content)
            self.parts.append(text)

    def next_text(self) -> str:
        """Take the text that has arrived since the last call."""
        text, self.fed = "".join(self.parts[self.fed :]), len(self.parts)
        return text


@dataclass(slots=True)
class StreamedReply:
    """Checks a streamed reply of the chat server, and decides when to forward which part to the client.

    Attributes:
        checker: The checker for the replies to this request.
        chunks: The chunks of the reply, as the chat server sends them.
        choices: The state of each choice (alternative answer), by index.
        form: The fields that all chunks of the reply share, such as its id and model.
        error: The chat server's error in the stream, if the client may see it.
    """

    checker: ReplyChecker
    chunks: AsyncIterator[dict[str, Any]]
    choices: dict[int, _Choice] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)  # the fields that all chunks of the reply share
    error: Any = None  # of the chat server, if the client may see it

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield the chunks to forward, as server-sent events.

        The last chunk has the result of the check in its field `veridical`, and the end mark [DONE] follows it. If
        something fails, the last event is an error.
        """
        limits = self.checker.service.settings.limits
        try:
            async with asyncio.timeout(limits.stream_timeout):
                async for chunk in self.chunks:
                    for forwarded in await self._forwarded(chunk):
                        yield _event(forwarded)
                for forwarded in await self._end():
                    yield await in_thread(partial(_event, forwarded))
            yield f"data: {DONE}\n\n".encode()
        except (VeridicalError, TimeoutError) as error:
            self.checker.service.metrics.proxied(UNAVAILABLE)
            problem = error if isinstance(error, VeridicalError) else Refused(504, "the reply took too long")
            details = error_body(problem.message, problem.hint, self.checker.request_id)
            openai_error = {"message": str(problem), "type": "upstream_error"}
            yield _event({"error": self.error or openai_error, "veridical": {"status": UNAVAILABLE, **details}})
        finally:
            for choice in self.choices.values():
                if choice.judging is not None:
                    choice.judging.cancel()

    @property
    def _withholds(self) -> bool:
        return self.checker.settings.action in ("block", "revise") or self.checker.settings.blocks_unavailable

    async def _forwarded(self, chunk: dict[str, Any]) -> list[dict[str, Any]]:
        """Collect the chunks that can be forwarded once `chunk` has arrived."""
        chunk.pop("veridical", None)  # this field is ours: the chat server must not set it
        if not self.form:
            self.form = {name: chunk[name] for name in _FRAME if name in chunk and name != "usage"}
        choices = choices_of(chunk, "delta")
        if chunk.get("error") is not None:
            self.error = None if self._withholds else chunk["error"]
            raise Refused(502, "the chat server sent an error in its stream", hint="its reply is not complete")
        if self._withholds:
            return await self._forwarded_before_the_check(chunk, choices)
        verdicts: list[dict[str, Any]] = []
        for choice in choices:
            index = choice.get("index", 0)
            state = self.choices.setdefault(index, _Choice())
            state.add(text_of(choice["delta"].get("content")))
            if (part := self._judged_meanwhile(state)) is not None:
                judgement = await in_thread(partial(_as_json, part.judgement))
                verdicts.append({"index": index, "judgement": judgement, "flagged": part.flagged})
        return [{**chunk, "veridical": {"verdicts": verdicts}} if verdicts else chunk]

    async def _forwarded_before_the_check(
        self, chunk: dict[str, Any], choices: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Collect the sentences that `chunk` completes and that passed, and the fields of `chunk` without text."""
        roles: list[dict[str, Any]] = []
        released: list[dict[str, Any]] = []
        for choice in choices:
            index, delta = choice.pop("index", 0), choice.pop("delta")
            choice.pop("logprobs", None)  # they repeat the text in other portions
            end = choice.pop("finish_reason", None)
            state = self.choices.setdefault(index, _Choice())
            content = delta.pop("content", None)
            state.add(text_of(content))
            if isinstance(content, list) and (others := [part for part in content if "text" not in part]):
                delta["content"] = others
            if (role := delta.pop("role", None)) is not None:
                roles.append({"index": index, "delta": {"role": role}, "finish_reason": None})
            rest, fields = ({name: value for name, value in d.items() if value is not None} for d in (delta, choice))
            if rest or fields:
                state.held.append({**fields, "index": index, "delta": rest, "finish_reason": None})
            if end is not None:
                state.end = end
            else:
                released += await self._released(index, state)
        frame = {name: chunk[name] for name in _FRAME if name in chunk}
        has_frame = roles or not choices or chunk.get("usage")
        return [*([{**frame, "choices": roles}] if has_frame else []), *released]

    def _judged_meanwhile(self, state: _Choice) -> StreamedJudgement | None:
        """Take the judgement that was finished since the last chunk, if any, and start to judge the text so far."""
        part = None
        if state.judging is not None and state.judging.done():
            part, state.judging = self._result_of(state), None
        if (
            state.judging is None
            and not state.problem
            and self.checker.problem is None
            and state.fed < len(state.parts)
        ):
            state.judging = asyncio.ensure_future(self._fed(state, state.next_text()))
        return part

    def _result_of(self, state: _Choice) -> StreamedJudgement | None:
        assert state.judging is not None
        state.problem = state.judging.exception() is not None  # the check of the whole reply reports the reason
        return None if state.problem or self.checker.settings.action == "header" else state.judging.result()

    async def _fed(self, state: _Choice, text: str) -> StreamedJudgement | None:
        if state.session is None:
            batcher = self.checker.service.batcher(self.checker.settings.detector)
            state.session = await open_session(batcher, self.checker.case, None)
        return await state.session.feed(text)

    async def _released(self, index: int, state: _Choice) -> list[dict[str, Any]]:
        """Collect the sentences that were judged and not flagged. The last one waits for the check of the whole."""
        if (
            self.checker.settings.action != "block"
            or state.blocked
            or state.problem
            or self.checker.problem is not None
        ):
            return []
        state.waiting.append(state.next_text())
        state.judging = asyncio.ensure_future(self._fed(state, state.waiting[-1]))
        await asyncio.wait([state.judging])
        part = self._result_of(state)
        if state.problem or part is None or state.session is None:
            return []
        state.blocked = bool(part.flagged)
        if state.blocked:
            return []
        text, size = "".join(state.waiting), state.session.judged_to - state.released
        state.released, state.waiting = state.session.judged_to, [text[size:]]
        return [self._content(index, text[:size])]

    async def _end(self) -> list[dict[str, Any]]:
        """Check the whole reply, and collect the remaining chunks to forward. The last chunk has the annotation."""
        for state in self.choices.values():
            state.parts.append(state.half)  # the check refuses a half without its other half
        findings = await self.checker.check((index, "".join(state.parts)) for index, state in self.choices.items())
        last: list[dict[str, Any]] = []
        for finding in findings if self._withholds else ():
            state = self.choices[finding.index]
            if state.blocked or self.checker.blocks(finding):
                last.append(self._content(finding.index, BLOCKED))
                state.end = "content_filter"
            else:
                text = finding.text if finding.text is not None else "".join(state.waiting) + state.next_text()
                last += [self._content(finding.index, text)] if text else []
                last += [{**self.form, "choices": [held]} for held in state.held]
            end = {"index": finding.index, "delta": {}, "finish_reason": state.end}
            last.append({**self.form, "choices": [end]})
        return [*last, await in_thread(lambda: self._annotated(findings))]

    def _annotated(self, findings: list[CheckedChoice]) -> dict[str, Any]:
        """Build the last chunk. It has an empty choice, for clients that read the first choice of every chunk."""
        result = annotation(self.checker, findings)
        for choice in result["choices"]:
            if self.choices[choice["index"]].blocked:  # a flagged sentence was withheld, even if the whole is clear
                choice.pop("check", None)
                choice["withheld"] = True
                choice["status"] = result["status"] = "flagged"
        if self.checker.settings.action == "header":
            result = {"status": result["status"]}
        empty = {"index": 0, "delta": {}, "finish_reason": None}
        return {**self.form, "choices": [empty], "veridical": result}

    def _content(self, index: int, text: str) -> dict[str, Any]:
        return {**self.form, "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}]}


def _as_json(judgement: Judgement) -> dict[str, Any]:
    return json.loads(encode(judgement))  # type: ignore[no-any-return]


def _event(document: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()
