"""A server on 127.0.0.1, for chat completions and completions, that answers or fails as a test tells it to."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from veridical.llm.protocol import Message, Request
from veridical.llm.rate_limit import RateLimiter


@dataclass
class Answer:
    """What goes over the wire; `cut` = the connection closes after half of the body; `hang` = it never comes;
    `drip` = its "body" or all from the "head" on comes byte after byte, for seconds; `after` = bytes behind its end."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False
    drip: str = ""
    after: bytes = b""


def completion(
    text: str | None, *, finish: str = "stop", usage: tuple[int, int] | None = (10, 2), **more: Any
) -> Answer:
    logprobs = more.pop("logprobs", None)
    message = {"role": "assistant", "content": text, **more}
    document: dict[str, Any] = {
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs}]
    }
    if usage:
        document["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return Answer(json.dumps(document).encode())


def plain_completion(
    text: str, logprobs: dict[str, Any] | None = None, *, finish: str = "stop", usage: tuple[int, int] = (10, 1)
) -> Answer:
    """What /completions answers."""
    choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": logprobs}
    counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return Answer(json.dumps({"choices": [choice], "usage": counts}).encode())


def failing(status: int, message: str = "no", **headers: str) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps({"error": {"message": message}}).encode(), status, headers)


class Loopback:
    """`script` gets the request's JSON and gives an `Answer`; `asked`, `paths` and `headers` keep what came."""

    def __init__(self, script: Callable[[dict[str, Any]], Answer]) -> None:
        self.script = script
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.lock = threading.Lock()
        self.under_way = self.most_under_way = 0
        self.over = threading.Event()
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                raw = self.rfile.read(length)
                if len(raw) < length:  # the client gave up
                    return
                body = json.loads(raw)
                with loopback.lock:
                    loopback.paths.append(self.path)
                answer = loopback.answer(body, {name.lower(): value for name, value in self.headers.items()})
                if answer.hang:
                    loopback.over.wait(5)
                    self.close_connection = True
                    return
                if answer.drip:
                    self.drip(answer)
                    return
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body[: len(answer.body) // 2] if answer.cut else answer.body + answer.after)
                self.close_connection = answer.cut

            def drip(self, answer: Answer) -> None:
                self.close_connection = True
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d" % len(answer.body)
                padding = b"\r\nX-Padding: " + b"." * 200 if answer.drip == "head" else b""
                whole = head + padding + b"\r\n\r\n" + answer.body
                with suppress(OSError):  # the other side may have gone
                    if answer.drip == "body":
                        self.wfile.write(whole[: -len(answer.body)])
                        whole = answer.body
                    for at in range(len(whole)):
                        self.wfile.write(whole[at : at + 1])
                        self.wfile.flush()
                        if loopback.over.wait(0.02):
                            return

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                if not isinstance(sys.exception(), OSError):  # the other side may have gone
                    raise

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        with self.lock:
            self.asked.append(body)
            self.headers.append(headers)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return self.script(body)
        finally:
            with self.lock:
                self.under_way -= 1


@contextmanager
def serving(script: Callable[[dict[str, Any]], Answer]) -> Iterator[Loopback]:
    loopback = Loopback(script)
    thread = threading.Thread(target=loopback.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield loopback
    finally:
        loopback.over.set()
        loopback.server.shutdown()
        loopback.server.server_close()
        thread.join()


class FakeTime:
    """A clock that moves only when somebody sleeps, and remembers for how long."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []
        self.lock = threading.Lock()

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.time += seconds
            self.slept.append(seconds)

    def rate_limiter(self, **options: Any) -> RateLimiter:
        return RateLimiter(now=self.now, sleep=self.sleep, jitter=lambda: 1.0, **options)


def ask(text: str, **options: Any) -> Request:
    return Request((Message("user", text),), **options)
