"""Any server with OpenAI's chat-completions interface (hosted, vLLM, llama.cpp, Ollama …) over the official client.

Requests run at once in threads, up to a bound, under a synchronous surface. What a server cannot do is found out from
its answers and remembered; what it answers is read by `veridical.llm.response_parser`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.core.errors import CannotJudgeError, InputError, MissingExtraError
from veridical.core.types import Usage
from veridical.llm.budget import Budget, Prices
from veridical.llm.deadline import Deadline
from veridical.llm.endpoint import Server, find_server, find_url
from veridical.llm.protocol import Failure, Reply, Request
from veridical.llm.rate_limit import Pace, retry_after
from veridical.llm.response_parser import read_completion

if TYPE_CHECKING:
    import openai

__all__ = ["OpenAIChat"]

AGAIN = ("timeout", "connection", "rate_limit", "server", "malformed")  # kinds of failure worth another try
OPTIONAL = ("top_logprobs", "logprobs", "seed", "temperature", "max_tokens")  # what a server may not take
_CONTEXT = re.compile(r"context[ _](length|window|size)|maximum context|prompt is too long|too many tokens", re.I)


class OpenAIChat:
    """The chat model called `model` on an OpenAI-compatible server.

    The key comes from the environment variable `key_env` or the file `key_file` (rules: `veridical.llm.endpoint`).
    `concurrency` requests run at once; `timeout` is the seconds that one call may take as a whole, however its bytes
    come; a failed request is tried `retries` more times where that can help. `per_minute` limits requests; `prices`
    (input, output, per million tokens), `max_cost` and `max_calls` are the budget of this object's life; `budget`,
    in their place, is one that several models share. Nothing is read or sent before the first `chat`.

    `logprobs` is None until a request for log-probabilities was answered, then whether the server gives them; `notes`
    says in words what it does not take.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_env: str | None = None,
        key_file: str | Path | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        retries: int = 4,
        per_minute: float | None = None,
        prices: Prices | None = None,
        max_cost: float | None = None,
        max_calls: int | None = None,
        budget: Budget | None = None,
        pace: Pace | None = None,
    ) -> None:
        if not model.strip():
            raise InputError("no model is named")
        if concurrency < 1 or retries < 0 or not timeout > 0 or (per_minute is not None and not per_minute > 0):
            raise InputError(
                f"concurrency {concurrency}, timeout {timeout}, retries {retries}, per_minute {per_minute}",
                hint="concurrency is at least 1, retries at least 0, timeout and per_minute above 0",
            )
        self.name = model
        self.logprobs: bool | None = None
        self.budget = budget or Budget(prices=prices, max_cost=max_cost, max_calls=max_calls)
        self._place = (base_url and find_url(base_url), key_env, key_file)
        self._concurrency, self._timeout, self._retries = concurrency, timeout, retries
        self._pace = pace or Pace(per_minute=per_minute)
        self._deadline = Deadline(timeout)
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._client: openai.OpenAI | None = None
        self._proven = False  # the server has answered: it is there, and takes the key and the model
        self._dropped: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r}, base_url={self._place[0]!r})"

    @property
    def identity(self) -> str:
        """What besides the request decides the replies: the server's address; caches keep replies apart by it."""
        return find_url(self._place[0])

    @property
    def notes(self) -> tuple[str, ...]:
        """What the server was found not to do, a line each."""
        lines = [f"{self.name}: the server does not take {name}" for name in sorted(self._dropped - {"max_tokens"})]
        if self.logprobs is False:
            lines.append(f"{self.name}: the server gives no log-probabilities")
        return tuple(lines)

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """One reply or failure for each request, in order.

        Raises `CannotJudgeError` where nothing can be asked: no key or a wrong one, an unknown model, no server. The
        first request of all goes alone, so no more than that is sent in vain.
        """
        outcomes = dict(self.each(requests))
        return [outcomes[i] for i in range(len(requests))]

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """(index of the request, its outcome) as they come; raises what `chat` raises."""
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
        """Close the connections; the next `chat` opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _find(self) -> Server:
        if self._server is None:
            self._server = find_server(*self._place)
        return self._server

    def _connect(self) -> openai.OpenAI:
        with self._lock:
            if self._client is None:
                server = self._find()
                try:
                    import openai
                except ImportError as error:
                    raise MissingExtraError("a chat model on a server", "llm") from error
                self._client = openai.OpenAI(
                    api_key=server.key or "none", base_url=server.url, timeout=self._timeout, max_retries=0
                )
                self._deadline.bind(getattr(self._client, "_client", None))
            return self._client

    def _ask(self, request: Request) -> Reply | Failure:
        """The outcome after as many tries as it takes, within budget and pace."""
        failed = 0
        while True:
            reserved = self.budget.reserve(request)
            if reserved is None:
                return Failure("the budget is spent", "budget", False)
            usage: Usage | None = None
            try:
                self._pace.wait()
                outcome, asked = self._try(request)
                usage = outcome.usage
            finally:
                self.budget.settle(reserved, usage)
            if isinstance(outcome, Reply):
                self._notice(request, outcome)
                return outcome
            failed += 1
            limited, last = outcome.kind == "rate_limit", failed > self._retries
            if outcome.kind not in AGAIN or not outcome.retryable or (last and not limited):
                return outcome
            patient = self._pace.back_off(failed - 1, asked, all_wait=limited)
            if last:  # no more tries, but the others still wait as long as the server asked
                return outcome
            if not patient:
                reason = f"{outcome.reason}; it asks to wait for {asked:.0f} s"
                return Failure(reason, outcome.kind, True, outcome.usage)

    def _notice(self, request: Request, reply: Reply) -> None:
        self._proven = True
        if reply.tokens is not None:
            self.logprobs = True
        elif request.top_logprobs is not None and self.logprobs is None:
            self.logprobs = False

    def _try(self, request: Request) -> tuple[Reply | Failure, float | None]:
        """The outcome of one call, made again only without what the server does not take; and the wait it asks for."""
        import openai

        guess: frozenset[str] = frozenset()
        while True:
            sent = self._body(request, self._dropped | guess)
            try:
                # by path, and the body as it came: a third of the client's time per call goes into its types
                client = self._connect()
                with self._deadline.running():
                    body = client.post("/chat/completions", body=sent, cast_to=bytes)
            except openai.APIStatusError as error:
                wrong = self._not_taken(sent, error)
                if wrong:
                    guess |= wrong
                    continue
                return self._refused(error), retry_after(error.response.headers)
            except openai.APITimeoutError:
                return Failure(f"no answer within {self._timeout:g} s", "timeout", True, Usage(1)), None
            except openai.APIConnectionError as error:
                return self._unreachable(error), None
            with self._lock:
                self._dropped |= guess
            return read_completion(body, self.budget.price), None

    def _body(self, request: Request, without: frozenset[str]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
        }
        if request.stop:
            body["stop"] = list(request.stop)
        if request.seed is not None:
            body["seed"] = request.seed
        if request.top_logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if "logprobs" in without:
            body.pop("top_logprobs", None)
        if "max_tokens" in without:  # OpenAI's newer models know it by another name only
            body["max_completion_tokens"] = body["max_tokens"]
        return {name: value for name, value in body.items() if name not in without}

    def _not_taken(self, sent: dict[str, Any], error: openai.APIStatusError) -> frozenset[str]:
        """What of `sent` the server does not take, as far as the error says so; else the likeliest culprit."""
        said = f"{error.param or ''} {error.message}"
        if error.status_code not in (400, 422, 500, 501) or _CONTEXT.search(said):
            return frozenset()
        known = OPTIONAL if error.status_code in (400, 422) else ("top_logprobs", "logprobs")
        named = [name for name in known if name in sent and re.search(rf"\b{name}\b", said)]
        if not named and error.status_code in (400, 422) and "logprobs" in sent and not self.logprobs:
            named = ["logprobs"]
        return frozenset("logprobs" if name == "top_logprobs" else name for name in named[:1])

    def _refused(self, error: openai.APIStatusError) -> Failure:
        """A failure for a status of 4xx or 5xx; raises if the server has not yet taken any request and never will."""
        server, status = self._find(), error.status_code
        said = server.scrub(" ".join(str(error.message).split()))[:300]
        if status in (401, 403):
            if not self._proven:
                how = "the key is not accepted" if server.key else "it wants a key"
                raise CannotJudgeError(f"{server.url}: {how} ({status})", hint="check the key") from None
            return Failure(f"the key is no longer accepted ({status})", "auth", False)
        if status == 404:
            if not self._proven:
                raise CannotJudgeError(
                    f"{server.url}: there is no model {self.name!r}, or no such address (404)",
                    hint="check the model's name and the base URL, which mostly ends in /v1",
                ) from None
            return Failure(f"not found: {said}", "rejected", False)
        if status == 429:
            return Failure(f"too many requests: {said}", "rate_limit", error.code != "insufficient_quota")
        if status == 408 or status == 409 or status >= 500:
            return Failure(f"the server failed ({status}): {said}", "server", True)
        kind = "context" if status == 413 or _CONTEXT.search(said) else "rejected"
        return Failure(f"the server rejects the request ({status}): {said}", kind, False)

    def _unreachable(self, error: openai.APIConnectionError) -> Failure:
        cause = type(error.__cause__).__name__
        if isinstance(error.__cause__, TimeoutError):  # of the deadline, whatever came until then
            return Failure(f"no whole answer within {self._timeout:g} s", "timeout", True, Usage(1))
        if cause == "ConnectError" and not self._proven:
            raise CannotJudgeError(f"{self._find().url}: no server answers there", hint="check the base URL") from None
        if cause in ("RemoteProtocolError", "ReadError"):
            return Failure("the answer was cut off", "connection", True, Usage(1))
        return Failure(f"no connection ({cause})", "connection", True)
