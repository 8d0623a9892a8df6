"""Faults of memory and turns: small requests that grow, answers that nobody reads, and bodies that never end."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.faults.harness import (
    ALLOWED,
    LIMIT,
    Found,
    Served,
    children_of,
    fault,
    number_case,
    right_answer,
    served,
    until,
)
from tests.io.test_documents import bombs
from veridical.server.settings import Limits

MOST_MEMORY = 1_500_000  # kB, of the service and its children together
SERVE = ("-d", "default", "-d", "overlap", "-d", "overlap:values")
MOST_SECONDS = 1.0  # of an answer to /health
_VALUES = (b"{},", b"[],", b'{"a":1},', b'"ab",', b"1.5,")
_MB = 1024 * 1024


@dataclass
class Watched:
    """The most memory of a service and its children in kB, and its slowest answer to /health in seconds."""

    memory: int = 0
    slowest: float = 0.0


@contextmanager
def watched(service: Served) -> Iterator[Watched]:
    """Watch a service while the block runs."""
    seen, ended = Watched(), threading.Event()

    def watch() -> None:
        with httpx.Client(timeout=LIMIT, trust_env=False) as client:
            while not ended.wait(0.02):
                began = time.monotonic()
                client.get(f"{service.url}/health")
                seen.slowest = max(seen.slowest, time.monotonic() - began)
                seen.memory = max(seen.memory, sum(map(_resident, (service.process.pid, *_children(service)))))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join(LIMIT)


def _children(service: Served) -> list[int]:
    return children_of(service.process.pid)


def _resident(pid: int) -> int:
    with suppress(OSError, IndexError):  # it has ended
        return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])
    return 0


def _connection(service: Served) -> socket.socket:
    host, port = service.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT)


def _head(service: Served, length: int) -> bytes:
    fields = f"Content-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"POST /v1/check HTTP/1.1\r\nHost: {service.url.removeprefix('http://')}\r\n{fields}\r\n".encode()


def objects(service: Served, held: ExitStack) -> list[int]:
    """Send 15 bodies of 8 MB at once that would grow 25-fold as objects."""
    bodies = [b'{"cases": [%b1]}' % (value * (8 * _MB // len(value) - 10)) for value in _VALUES]
    return _posted(service, bodies * 3)


def just_allowed(service: Served, held: ExitStack) -> list[int]:
    """Send 18 bodies at once with just as many values as a request may have."""
    most = Limits().values - 10
    bodies = [b'{"cases": [%b1]}' % (value * (most // sum(map(value.count, b",[{")))) for value in _VALUES]
    bodies.append(b'{"cases": [{%b"a":1}]}' % b"".join(b'"%d":1,' % i for i in range(most)))
    return _posted(service, bodies * 3)


def _posted(service: Served, bodies: list[bytes]) -> list[int]:
    headers = {"Content-Type": "application/json"}
    with ThreadPoolExecutor(len(bodies)) as pool:
        post = partial(httpx.post, f"{service.url}/v1/check", headers=headers, timeout=LIMIT)
        return [answer.status_code for answer in pool.map(lambda body: post(content=body), bodies)]


def documents(service: Served, held: ExitStack) -> list[int]:
    """Upload eight small office files of millions of characters at once."""
    files: list[Any] = [{"file": each} for each in bombs().items()] * 4
    with ThreadPoolExecutor(len(files)) as pool:
        post = partial(httpx.post, f"{service.url}/v1/documents", timeout=LIMIT)
        return [answer.status_code for answer in pool.map(lambda each: post(files=each), files)]


def unread(service: Served, held: ExitStack) -> list[int]:
    """Ask for 12 answers of several megabytes and read none."""
    case = {"response": "It rains. ", "sources": ["é" * 1_900_000]}
    body = json.dumps(
        {"cases": [case], "detector": "overlap:values", "include": ["sources"]}, ensure_ascii=False
    ).encode()
    for _ in range(12):
        connection = held.enter_context(_connection(service))
        connection.sendall(_head(service, len(body)) + body)
    return []


def imports(service: Served, held: ExitStack) -> list[int]:
    """Import small files of one row that would take gigabytes; their runs say what is wrong."""
    expanded = {
        "a.csv.gz": b'response,sources\n"%b",a\n' % (b"a" * 400 * _MB),
        "a.jsonl.gz": b'{"response": "a", "sources": [%b{}]}\n' % (b"{}," * (60 * _MB)),
    }
    for name, content in expanded.items():
        post = httpx.post(
            f"{service.url}/v1/runs",
            params={"name": name, "detector": "overlap"},
            content=gzip.compress(content, 6),
            headers={"Content-Type": "application/octet-stream"},
            timeout=LIMIT,
        )
        run = f"{service.url}/v1/runs/{post.json()['id']}"
        until(lambda: httpx.get(run, timeout=LIMIT).json()["state"] == "done")  # noqa: B023 - it is called at once
    return []


def trickled(service: Served, held: ExitStack) -> list[int]:
    """Leave 400 bodies without their end."""
    for _ in range(400):
        held.enter_context(_connection(service)).sendall(_head(service, 1000) + b"{")
    return []


SHAPES: tuple[Callable[[Served, ExitStack], list[int]], ...] = (
    objects,
    just_allowed,
    documents,
    imports,
    unread,
    trickled,
)


@fault("requests that grow in memory, answers that nobody reads, bodies without an end")
def memory(rng: Random, folder: Path) -> Found:
    found = Found()
    statuses: Counter[int] = Counter()
    with (
        served(*SERVE, "--history", str(folder / "history.db")) as service,
        ExitStack() as held,
    ):
        until(lambda: httpx.get(f"{service.url}/ready", timeout=LIMIT).status_code == 200)
        seen = held.enter_context(watched(service))
        for shape in rng.sample(SHAPES, len(SHAPES)):
            statuses.update(shape(service, held))
            for i in (2, 3):  # another client is served meanwhile
                found.tried += 1
                case = {"cases": [number_case(i)], "detector": "overlap"}
                answer = httpx.post(f"{service.url}/v1/check", json=case, timeout=LIMIT)
                found.check(answer.status_code == 200 and right_answer(i, answer), f"after {shape.__name__}: {answer}")
    found.tried += statuses.total()
    found.check(set(statuses) <= ALLOWED - {200}, f"statuses {dict(statuses)}")
    found.check(seen.memory < MOST_MEMORY, f"{seen.memory // 1000} MB")
    found.check(seen.slowest < MOST_SECONDS, f"/health in {seen.slowest:.2f} s")
    found.check(not service.failures(), f"failures: {service.failures()[:1]}")
    found.notes.append(f"at most {seen.memory // 1000:,} MB; /health in {seen.slowest:.2f} s at most")
    return found
