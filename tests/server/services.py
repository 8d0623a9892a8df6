"""What the tests of the service share: detectors that say what they were given, and a client of an application."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from tests.processes import LIMIT
from veridical.records.detector import DetectorInfo
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement, Verdict
from veridical.server.app import create_app
from veridical.server.settings import Limits, ServerSettings

CASE = {"response": "The tower is 300 m tall.", "sources": ["The tower is 330 m tall."]}


def until(condition: Callable[[], Any], seconds: float = LIMIT) -> None:
    """Wait until `condition` holds; fail after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.001)  # lets threads of this process run


class Echo:
    """Finds each word that holds a digit; its note repeats the response, and `batches` the sizes of its calls.

    `gate` holds it back until it is set, from the start if it is `shut`; "fail" in a response makes it raise.
    """

    name = "echo"
    info = DetectorInfo(needs_sources=False)

    def __init__(self, *, shut: bool = False) -> None:
        self.batches: list[int] = []
        self.gate = threading.Event()
        self.entered = threading.Event()
        if not shut:
            self.gate.set()

    def shut(self) -> None:
        """Hold back what comes from now on."""
        self.gate.clear()
        self.entered.clear()

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.batches.append(len(cases))
        self.entered.set()
        assert self.gate.wait(LIMIT)
        return [self.judgement(case) for case in cases]

    def judgement(self, case: Case) -> Judgement:
        if "fail" in case.response:
            raise RuntimeError("the detector broke")
        verdicts = tuple(Verdict(Span(i, i + 1), 0.9) for i, c in enumerate(case.response) if c.isdigit())
        return Judgement(case.id, self.name, 0.9 if verdicts else 0.1, verdicts=verdicts, notes=(case.response,))


class Endless(Echo):
    """Never comes to an end with what is "slow", but goes on in Python until its gate is open."""

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.batches.append(len(cases))
        self.entered.set()
        while cases[0].response == "slow" and not self.gate.is_set():
            pass
        return [self.judgement(case) for case in cases]


@contextmanager
def client_of(
    *detectors: str, own: dict[str, Any] | None = None, limits: Limits | None = None, **settings: Any
) -> Iterator[TestClient]:
    made = ServerSettings(
        detectors=detectors or (() if own else ("overlap",)),
        own_detectors=own or {},
        limits=limits or Limits(batch_wait=0),
        **settings,
    )
    with TestClient(create_app(made), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


async def leaving(app: Any, path: str, document: Any, left: Callable[[], bool]) -> list[dict[str, Any]]:
    """Send a request whose client has left once `left` says so; return the messages that it got."""
    body = [{"type": "http.request", "body": json.dumps(document).encode(), "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if body:
            return body.pop()
        while not left():
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "state": {}, "http_version": "1.1"}
    await app({**scope, "query_string": b"", "root_path": "", "scheme": "http"}, receive, send)
    return sent
