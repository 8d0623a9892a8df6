"""Use chat models on any server with OpenAI's interface (hosted, vLLM, llama.cpp, Ollama …), with the official client.

Calls are synchronous, and the requests of a call run in a limited number of threads. A parameter that the server
rejects is omitted from then on. The HTTP responses are parsed by `veridical.llm.response_parser`.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from veridical.llm.budget import Budget
from veridical.llm.deadline import Deadline, DeadlineTransport
from veridical.llm.endpoint import Endpoint, check_api, resolve_server, resolve_url
from veridical.llm.prompts import plain_prompt
from veridical.llm.protocol import Failure, Reply, Request
from veridical.llm.rate_limit import RateLimiter, retry_after
from veridical.llm.response_parser import read_response
from veridical.records.detector import digest_of
from veridical.records.errors import CannotJudgeError, InputError, MissingExtraError
from veridical.records.strings import shorten, visible
from veridical.records.types import Usage

if TYPE_CHECKING:
    import openai

RETRIED = ("timeout", "connection", "rate_limit", "server", "malformed")  # kinds of failure worth another try
OPTIONAL = ("top_logprobs", "logprobs", "seed", "temperature", "max_tokens")  # parameters that some servers reject
FEWER_ALTERNATIVES = (5, 1, 0)  # tried in turn where a server rejects more
_CONTEXT = re.compile(r"context[ _](length|window|size)|maximum context|prompt is too long|too many tokens", re.I)


@dataclass(frozen=True, slots=True)
class _Accepted:
    """Records what a server accepts: all parameters except `without`, and up to `alternatives` as `top_logprobs`."""

    without: frozenset[str] = frozenset()
    alternatives: int = 20


class OpenAIChat:
    """A chat model on an OpenAI-compatible server, such as OpenAI's own, vLLM or Ollama.

    The API key is looked up and the connection opened at the first `chat`. Use `api="completions"` for base models.
    Messages are then joined into one text (`prompts.plain_prompt`). If they contain few-shot examples, an answer ends
    at a blank line unless the request has a `stop`.

    Args:
        model: The name of the model on the server.
        base_url: The base URL of the server. Default: $OPENAI_BASE_URL, or OpenAI's server.
        key_env: The name of the environment variable with the API key. Default: OPENAI_API_KEY, which is sent only to
            OpenAI's server or to $OPENAI_BASE_URL.
        api: "chat" (/chat/completions) or "completions" (/completions).
        concurrency: The number of requests to send at once.
        timeout: The maximum number of seconds from sending a request to the end of its response.
        retries: The number of times to repeat a failed request, if repeating can help.
        headers: Additional headers for each request.
        body: Additional JSON fields for each request. They replace fields of the same name that this class sets.
        budget: Limits the calls and their cost. Several models can share it. Default: no limits.
        rate_limiter: Limits the requests per minute. Several models can share it. Default: no limit.

    Attributes:
        logprobs: True if the server returns log-probabilities, False if it does not. None until it has answered a
            request for them.

    Raises:
        InputError: The model has no name, or a value is out of its range.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_env: str | None = None,
        api: str = "chat",
        concurrency: int = 8,
        timeout: float = 120.0,
        retries: int = 4,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        rate_limiter: RateLimiter | None = None,
    ) -> None:
        if not model.strip():
            raise InputError("no model is named")
        check_api(api)
        if concurrency < 1 or retries < 0 or not timeout > 0:
            raise InputError(
                f"concurrency {concurrency}, timeout {timeout}, retries {retries}",
                hint="concurrency is at least 1, retries at least 0, timeout above 0",
            )
        self.name = model
        self.logprobs: bool | None = None
        self.budget = budget or Budget()
        self._api = api
        self._address = (base_url and resolve_url(base_url), key_env)
        self._headers, self._extra_body = dict(headers or {}), dict(body or {})
        self._concurrency, self._timeout, self._retries = concurrency, timeout, retries
        self._rate_limiter = rate_limiter or RateLimiter()
        self._deadline = Deadline(timeout)
        self._lock = threading.Lock()
        self._server: Endpoint | None = None
        self._client: openai.OpenAI | None = None
        self._proven = False  # the server has answered: it exists and accepts the key and the model
        self._accepted = _Accepted()

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r}, base_url={self._address[0]!r})"

    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies the model for the reply cache, as JSON.

        Models with the same fingerprint share stored replies. It contains the model's name, the URL of the server, the
        interface ("chat" or "completions"), and the additional JSON fields.
        """
        facts: dict[str, Any] = {"model": self.name, "server": resolve_url(self._address[0]), "api": self._api}
        return {**facts, "body": self._extra_body} if self._extra_body else facts

    def access(self) -> str | None:
        """Return a hash of the API key and the additional headers, or None if there is neither.

        The reply cache uses it, so that only users with the same key get a stored reply.

        Raises:
            CannotJudgeError: A key is needed, but there is none.
        """
        with self._lock:
            key = self._resolved().key
        headers = {name.lower(): value for name, value in self._headers.items()}
        return digest_of([key, headers]) if key or headers else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user: a line for each request parameter that the server has rejected or ignored so far."""
        without, alternatives = self._accepted.without, self._accepted.alternatives
        lines = [f"{self.name}: the server does not accept {name}" for name in sorted(without - {"max_tokens"})]
        if alternatives < _Accepted().alternatives and "logprobs" not in without:
            lines.append(f"{self.name}: the server gives at most {alternatives} alternatives per token")
        if self.logprobs is False:
            lines.append(f"{self.name}: the server gives no log-probabilities")
        return tuple(lines)

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer each request with one reply or failure, in order.

        The very first request is sent alone, so that a wrong configuration costs only that request.

        Raises:
            CannotJudgeError: No request can succeed, because the key is missing or wrong, the model is unknown, or no
                server answers.
        """
        outcomes = dict(self.each(requests))
        return [outcomes[i] for i in range(len(requests))]

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield the index and the reply or failure of each request as soon as it is ready, in any order.

        Raises:
            CannotJudgeError: No request can succeed, because the key is missing or wrong, the model is unknown, or no
                server answers.
        """
        self._connect()
        first = 0 if self._proven else 1
        yield from ((i, self._ask(request)) for i, request in enumerate(requests[:first]))
        if len(requests) <= first:
            return
        pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="veridical-llm")
        try:
            futures = {pool.submit(self._ask, request): i for i, request in enumerate(requests[first:], first)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Close the connections. The next `chat` opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _resolved(self) -> Endpoint:
        if self._server is None:
            self._server = resolve_server(*self._address)
        return self._server

    def _connect(self) -> tuple[openai.OpenAI, Endpoint]:
        """Return the client and the server. The first call makes the client and looks up the key.

        Raises:
            MissingExtraError: If the client's library is not installed.
            CannotJudgeError: If there is no key, or the library's version does not allow a deadline.
        """
        with self._lock:
            server = self._resolved()
            if self._client is None:
                try:
                    import openai
                except ImportError as error:
                    raise MissingExtraError("a chat model on a server", "llm") from error
                url, key = server.url, server.key or "none"
                try:
                    base: Any = openai.DefaultHttpxClient.__base__  # httpx.Client; from openai 3 on httpx2.Client
                    library = base.__module__.partition(".")[0]
                    httpx, httpcore = import_module(library), import_module(library.replace("httpx", "httpcore"))
                    transport: Any = DeadlineTransport(self._deadline, url, httpx, httpcore)
                    http_client = openai.DefaultHttpxClient(transport=transport)
                    self._client = openai.OpenAI(
                        api_key=key,
                        base_url=url,
                        timeout=self._timeout,
                        max_retries=0,
                        default_headers={"Accept-Encoding": "identity", **self._headers},
                        http_client=http_client,
                    )
                    weakref.finalize(self, http_client.close)
                except (ImportError, AttributeError, TypeError) as error:
                    raise CannotJudgeError(
                        f"a call with openai {openai.__version__} cannot be given a time limit: {error}",
                        hint="pip install 'openai>=1.60,<4'",
                    ) from error
            return self._client, server

    def _ask(self, request: Request) -> Reply | Failure:
        """Send a request as often as needed, within retries, budget and rate limit, and return its outcome."""
        if request.prefill:
            return Failure("the interface cannot continue a given text", "unsupported", False)
        failures = 0
        while True:
            reserved = self.budget.reserve(request)
            if reserved is None:
                return Failure("the budget is spent", "budget", False)
            usage: Usage | None = None
            try:
                self._rate_limiter.wait()
                outcome, requested_wait = self._try(request)
                usage = outcome.usage
            finally:
                self.budget.settle(reserved, usage)
            if isinstance(outcome, Reply):
                self._proven = True
                if outcome.tokens is not None:
                    self.logprobs = True
                elif request.top_logprobs is not None and self.logprobs is None:
                    self.logprobs = False
                return outcome
            failures += 1
            rate_limited, last_try = outcome.kind == "rate_limit", failures > self._retries
            if outcome.kind not in RETRIED or not outcome.retryable or (last_try and not rate_limited):
                return outcome
            waited = self._rate_limiter.back_off(failures - 1, requested_wait, all_wait=rate_limited)
            if last_try:  # this request gives up, but the others still wait as long as the server asked
                return outcome
            if not waited:
                return replace(outcome, reason=f"{outcome.reason}; it asks to wait for {requested_wait:.0f} s")

    def _try(self, request: Request) -> tuple[Reply | Failure, float | None]:
        """Send a request once. Return its outcome, and how many seconds the server asks to wait (None if it does not).

        The request is sent again only if the server rejects a parameter that can be left out.
        """
        import openai

        client, server = self._connect()
        path = "/chat/completions" if self._api == "chat" else "/completions"
        accepted = self._accepted
        while True:
            sent = self._body(request, accepted)
            try:
                # post by path and take the raw bytes: the client spends a third of its time per call on its own types
                with self._deadline.running():
                    body = client.post(path, body=sent, cast_to=bytes)
            except openai.APIStatusError as error:
                fewer = self._without_rejected(accepted, sent, error)
                if fewer is None:
                    return self._refused(server, error), retry_after(error.response.headers)
                accepted = fewer
                continue
            except (openai.APITimeoutError, TimeoutError):
                return Failure(f"timed out after {self._timeout:g} s", "timeout", True, Usage(1)), None
            except openai.APIConnectionError as error:
                cause = type(error.__cause__).__name__
                if cause == "DecodingError":
                    return Failure(str(error.__cause__), "malformed", False, Usage(1)), None
                if cause == "ConnectError" and not self._proven:
                    raise CannotJudgeError(
                        f"{server.url}: no server answers there", hint="check the base URL"
                    ) from None
                if cause in ("RemoteProtocolError", "ReadError"):
                    return Failure("the answer was cut off", "connection", True, Usage(1)), None
                return Failure(f"no connection ({cause})", "connection", True), None
            with self._lock:
                self._accepted = _Accepted(
                    self._accepted.without | accepted.without,
                    min(self._accepted.alternatives, accepted.alternatives),
                )
            return read_response(body, api=self._api, cost_of=self.budget.cost_of, scrub=server.scrub), None

    def _body(self, request: Request, accepted: _Accepted) -> dict[str, Any]:
        """Build the JSON body for `request`, with only the parameters that the server accepts."""
        alternatives = None if request.top_logprobs is None else min(request.top_logprobs, accepted.alternatives)
        body: dict[str, Any] = {"model": self.name}
        if self._api == "chat":
            body["messages"] = [{"role": m.role, "content": m.content} for m in request.messages]
        else:
            body["prompt"] = plain_prompt(request.messages)
        body |= {"temperature": request.temperature, "max_tokens": request.max_tokens}
        stop = request.stop
        if self._api == "completions" and any(m.role == "assistant" for m in request.messages):
            stop = stop or ("\n\n",)  # as in the examples; otherwise a base model invents further questions
        if stop:
            body["stop"] = list(stop)
        if request.seed is not None:
            body["seed"] = request.seed
        if alternatives is not None and self._api == "completions":
            body["logprobs"] = alternatives
        elif alternatives is not None:
            body["logprobs"] = True
            if alternatives:
                body["top_logprobs"] = alternatives
        if "logprobs" in accepted.without:
            body.pop("top_logprobs", None)
        if "max_tokens" in accepted.without:  # OpenAI's newer models accept only the other name
            body["max_completion_tokens"] = body["max_tokens"]
        return {name: value for name, value in body.items() if name not in accepted.without} | self._extra_body

    def _without_rejected(
        self, accepted: _Accepted, sent: dict[str, Any], error: openai.APIStatusError
    ) -> _Accepted | None:
        """Choose what to leave out after an error: the parameter that the error names, or else the likeliest culprit.

        For log-probabilities, fewer alternatives are tried first. Return None if leaving out a parameter cannot help.
        """
        text = f"{error.param or ''} {error.message}"
        if error.status_code not in (400, 422, 500, 501) or _CONTEXT.search(text):
            return None
        client_error = error.status_code in (400, 422)
        suspects = OPTIONAL if client_error else ("top_logprobs", "logprobs")
        rejected = next((name for name in suspects if name in sent and re.search(rf"\b{name}\b", text)), None)
        if rejected is None and client_error and "logprobs" in sent and not self.logprobs:
            rejected = "logprobs"
        if rejected in ("top_logprobs", "logprobs"):
            alternatives = int(sent.get("top_logprobs", sent["logprobs"] if self._api == "completions" else 0))
            for fewer in FEWER_ALTERNATIVES:
                if fewer < alternatives:
                    return replace(accepted, alternatives=fewer)
            rejected = "logprobs"
        return None if rejected is None else replace(accepted, without=accepted.without | {rejected})

    def _refused(self, server: Endpoint, error: openai.APIStatusError) -> Failure:
        """Turn a status of 4xx or 5xx into a failure.

        Raises:
            CannotJudgeError: No request has succeeded yet, and with this status (401, 403 or 404), none will.
        """
        status = error.status_code
        text = shorten(visible(server.scrub(_words_of(error))), 300)
        if status in (401, 403):
            if status == 403:
                problem = "access is denied"
            else:
                problem = "the key is not accepted" if server.key else "it requires a key"
            if not self._proven:
                raise CannotJudgeError(f"{server.url}: {problem} ({status}): {text}", hint="check the key") from None
            return Failure(f"{problem} ({status}): {text}", "auth", False)
        if status == 404:
            if not self._proven:
                raise CannotJudgeError(
                    f"{server.url}: there is no model {self.name!r}, or no such address (404): {text}",
                    hint="check the model's name and the base URL, which usually ends in /v1",
                ) from None
            return Failure(f"not found: {text}", "rejected", False)
        if status == 429:
            return Failure(f"too many requests: {text}", "rate_limit", error.code != "insufficient_quota")
        if status == 408 or status == 409 or status >= 500:
            return Failure(f"the server failed ({status}): {text}", "server", True)
        kind = "context" if status == 413 or _CONTEXT.search(text) else "rejected"
        return Failure(f"the server rejects the request ({status}): {text}", kind, False)


def _words_of(error: openai.APIStatusError) -> str:
    """Return what the server says about an error: the message in its JSON, or else the whole body."""
    body = error.body
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    return str(body or error.response.text or error.message)
