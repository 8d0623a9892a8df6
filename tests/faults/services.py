"""Faults of the service: kills and signals under load, a clock that jumps, hostile clients and documents."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx

from tests.faults.harness import (
    ALLOWED,
    LIMIT,
    Found,
    children_of,
    fault,
    kill_group,
    number_case,
    right_answer,
    served,
    under_load,
    until,
    veridical,
)
from tests.processes import is_running

SERVE = ("-d", "overlap:values", "-d", "overlap")


def _ended(found: Found, statuses: list[int]) -> None:
    found.tried += len(statuses)
    unknown = {status: n for status, n in Counter(statuses).items() if status not in ALLOWED}
    found.check(not unknown, f"statuses {unknown}")


@fault("kill -9 of the service under load")
def kill_service(rng: Random, folder: Path) -> Found:
    found = Found()
    broken = 0
    for _ in range(5):
        with served(*SERVE) as service:
            with under_load(service.url) as load:
                until(lambda: len(load.statuses) > 20)
                time.sleep(rng.uniform(0.0, 1.0))
                children = children_of(service.process.pid)
                kill_group(service.process)
            found.check(until(lambda: not any(map(is_running, children)), 20), "a child went on")  # noqa: B023
            _ended(found, load.statuses)
            found.wrong += load.wrong
            broken += load.broken
        with served(*SERVE) as service:  # it starts again, and answers
            found.check(
                right_answer(3, httpx.post(f"{service.url}/v1/check", json={"cases": [number_case(3)]})), "not again"
            )
    found.notes.append(f"{broken} connections ended by the kills")
    return found


@fault("SIGTERM under load")
def terminate(rng: Random, folder: Path) -> Found:
    found = Found()
    for _ in range(5):
        with served(*SERVE) as service, under_load(service.url) as load:
            until(lambda: len(load.statuses) > 20)
            time.sleep(rng.uniform(0.0, 1.0))
            service.process.send_signal(signal.SIGTERM)
            found.check(service.ended(60), "it did not end")
            found.check(service.process.returncode == 0, f"it ended with {service.process.returncode}")
        accepted = sum(b'"request"' in line and b'"status": 200' in line for line in service.log)
        _ended(found, load.statuses)
        found.wrong += load.wrong
        found.lost += max(0, accepted - load.statuses.count(200))
    return found


CLOCK = """
import random, time, datetime
real = time.time
rng = random.Random({seed})
time.time = lambda: real() + rng.choice((-86400.0 * 365, -3600.0, 0.0, 3600.0, 86400.0 * 365))
from veridical.__main__ import main
import sys
sys.argv = ["veridical", "serve", "--port", "0", "-d", "overlap:values"]
main()
"""


@fault("a clock that jumps by up to a year with each look at it")
def clock(rng: Random, folder: Path) -> Found:
    found = Found()
    with served(code=CLOCK.format(seed=rng.randrange(10**6))) as service:
        with under_load(service.url) as load:
            time.sleep(5)
        _ended(found, load.statuses)
        found.wrong += load.wrong + sum(status != 200 for status in load.statuses)
        found.lost += load.broken
        found.check(not service.failures(), f"failures: {service.failures()[:1]}")
    return found


def _raw(url: str, data: bytes, seconds: float) -> bytes:
    """Send bytes and return what comes back until the connection ends, or for so many seconds."""
    host, port = url.removeprefix("http://").split(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=seconds) as connection, suppress(OSError):
        connection.sendall(data)
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


@fault("requests that are cut, mixed up or left alone, and clients that leave")
def hostile_clients(rng: Random, folder: Path) -> Found:
    found = Found()
    body = json.dumps({"cases": [number_case(2)]}).encode()
    with served(*SERVE) as service:
        routes = ("check", "stream", "revise", "report", "salience", "documents")
        for _ in range(400):
            found.tried += 1
            route, kind = (
                rng.choice(routes),
                rng.choice(("application/json", "application/x-ndjson", "multipart/form-data")),
            )
            data = bytearray(body)
            for _ in range(rng.randrange(4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            length = len(data) if rng.random() < 0.7 else rng.choice((0, 5, 10**12, -1))
            host = service.url.removeprefix("http://")
            head = f"POST /v1/{route} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
            origin = rng.choice(("", "", "Origin: http://[\r\n", "Origin: null\r\n", "Origin: \r\n", "Origin: ://\r\n"))
            raw = f"{head}{origin}\r\n".encode() + bytes(data)
            cut = len(raw) if rng.random() < 0.6 else rng.randrange(len(raw))
            answer = _raw(service.url, raw[:cut], rng.choice((0.05, 0.5)))
            if answer.startswith(b"HTTP/1.1 "):
                found.check(int(answer[9:12]) in ALLOWED, f"{route}: {answer[:100]!r}")
        last = httpx.post(f"{service.url}/v1/check", json={"cases": [number_case(1)]}, timeout=LIMIT)
        found.check(last.status_code == 200 and right_answer(1, last), "afterwards a request was not answered")
        found.check(not service.failures(), f"failures: {service.failures()[:1]}")
    return found


def bombs(rng: Random) -> dict[str, bytes]:
    """Return documents that expand, nest or repeat without end, by file name."""
    n = 30_000 + rng.randrange(1000)
    cell = "<table><tr><td>" * (n // 10)
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
    return {
        "nested.html": b"<div>" * n + b"a" + b"</div>" * n,
        "tables.html": cell.encode() + b"a",
        "lists.html": b"<ul><li>" * n + b"a",
        "attributes.html": b"<p " + b"a=1 " * n + b">a",
        "entities.xhtml": f'<!DOCTYPE x [<!ENTITY e0 "aaaaaaaaaa">{entities}]><p>&e9;</p>'.encode(),
        "columns.html": b"<table><tr>" + b"<td colspan=9999>a" * (n // 10),
        "wide.html": b"<pre>" + b"a " * 5_000_000,
        "quotes.md": b"> " * n + b"a",
        "brackets.md": b"[" * n + b"a",
        "links.md": b"[a](" * n,
        "stars.md": b"**a " * n,
        "ticks.md": b"".join(b"`" * (i % 300) + b" a " for i in range(n // 10)),
        "nested.md": b"".join(b" " * (2 * i) + b"- a\n" for i in range(1500)),
        "table.md": b"|" * n + b"\n" + b"|-" * n + b"\n" + b"|a" * n,
        "references.md": b"".join(b"[a%d]: b\n" % i for i in range(n)) + b"[a1]" * n,
        "large.txt": b"The tower is tall. " * 550_000,
        "word.txt": b"a" * 1_000_000,
        "half.txt": "é".encode() * 1000 + b"\xc3",
        "empty.pdf": b"",
        "cut.pdf": b"%PDF-1.4\n" + bytes(rng.randrange(256) for _ in range(10_000)),
    }


@fault("HTML and Markdown bombs, documents of 10 MB, PDF files of noise")
def documents(rng: Random, folder: Path) -> Found:
    found = Found()
    statuses: Counter[int] = Counter()
    with served(*SERVE, "--time-limit", "15") as service:
        for name, data in bombs(rng).items():
            found.tried += 1
            began = time.monotonic()
            answer = httpx.post(f"{service.url}/v1/documents", files={"file": (name, data)}, timeout=LIMIT)
            statuses[answer.status_code] += 1
            found.check(answer.status_code in ALLOWED, f"{name}: {answer.status_code} {answer.text[:100]}")
            found.check(time.monotonic() - began < 60, f"{name} took {time.monotonic() - began:.0f} s")
            if answer.status_code == 200:
                document = answer.json()
                found.check(document["characters"] == len(document["text"]) > 0, f"{name}: no text")
            ready = httpx.get(f"{service.url}/health", timeout=LIMIT)
            found.check(ready.status_code == 200, f"after {name} the service did not answer")
        found.check(until(lambda: not children_of(service.process.pid), 30), "a reader of documents went on")
        found.check(not service.failures(), f"failures: {service.failures()[:1]}")
    found.notes.append(", ".join(f"{count} × {status}" for status, count in sorted(statuses.items())))
    return found


@fault("a source of 10 MB and a word of 1 MB, at the command line")
def large_texts(rng: Random, folder: Path) -> Found:
    found = Found()
    source, response, word = folder / "source.txt", folder / "response.txt", folder / "word.txt"
    source.write_text("".join(f"The tower number {i} is {i} m tall. " for i in range(270_000)))
    response.write_text("The tower number 7 is 7 m tall. Pigs fly.")
    word.write_text("a" * 1_000_000)
    for detector in ("overlap", "default"):
        for text in (response, word):
            found.tried += 1
            code, output = veridical("check", text, source, "-d", detector, "--json")
            found.check(code in (0, 1, 3), f"{detector}, {text.name}: {code} {output[-100:]}")
            if text is response:
                found.check(code == 1, f"{detector} ended with {code} on a wrong sentence")
    return found
