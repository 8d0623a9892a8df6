"""Faults of the chat server behind the proxy: slow, broken and lying replies, streamed or not."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.faults.harness import Found, fault, served

SOURCE = "The tower is 330 m tall."
FALSE = "Pigs fly over 77 moons."
CHAT = {
    "model": "tiny",
    "messages": [
        {"role": "system", "content": f"<context>\n{SOURCE}\n</context>"},
        {"role": "user", "content": "How tall?"},
    ],
}
OF_PROXY = {200, 400, 429, 502, 503, 504}
Script = Callable[[socket.socket], None]


@contextmanager
def upstream(script: list[Script]) -> Iterator[str]:
    """A server that runs `script[0]` on each connection, once a request has come."""
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(20)
            received = b""
            while b"\r\n\r\n" not in received:
                part = connection.recv(65536)
                if not part:
                    return
                received += part
            script[0](connection)

    def accept() -> None:
        while not ended.is_set():
            with suppress(OSError):
                connection, _ = server.accept()
                threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
    finally:
        ended.set()
        server.close()


def _send(data: bytes, connection: socket.socket) -> None:
    connection.sendall(data)


def reply(stream: bool, text: str) -> bytes:
    """Return the whole HTTP answer of a chat server that says `text`."""
    if stream:
        chunks: list[dict[str, Any]] = [{"delta": {"role": "assistant"}}]
        chunks += [{"delta": {"content": f"{word} "}} for word in text.split()] + [
            {"delta": {}, "finish_reason": "stop"}
        ]
        events = [json.dumps({"id": "1", "choices": [{"index": 0, **chunk}]}) for chunk in chunks]
        body = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode()
        kind = "text/event-stream"
    else:
        message = {"role": "assistant", "content": text}
        body = json.dumps({"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        kind = "application/json"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def damaged(rng: Random, whole: bytes) -> tuple[str, Script]:
    """Return one way to spoil an answer, with its name."""
    head, _, body = whole.partition(b"\r\n\r\n")
    kinds = head.split(b"\r\n")[1]

    def sending(data: bytes, pause: float = 0.0, pieces: int = 1) -> Script:
        def send(connection: socket.socket) -> None:
            size = max(1, len(data) // pieces)
            for i in range(0, len(data), size):
                connection.sendall(data[i : i + size])
                time.sleep(pause)

        return send

    def again(content: bytes, more: bytes = b"") -> bytes:
        length = b"\r\nContent-Length: %d" % len(content)
        return b"HTTP/1.1 200 OK\r\n" + kinds + length + more + b"\r\nConnection: close\r\n\r\n" + content

    changed = bytearray(body)
    for _ in range(rng.randrange(1, 6)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    value = rng.choice(
        [
            b"1e999",
            b"NaN",
            b"-Infinity",
            b"9" * 5000,
            b"[" * 50_000,
            b'{"a": 1, "a": 2}',
            b"null",
            b"true",
            b'"\\ud800"',
        ]
    )
    ways: dict[str, Script] = {
        "cut": sending(whole[: rng.randrange(len(whole))]),
        "noise": sending(bytes(rng.randrange(256) for _ in range(300))),
        "changed": sending(again(bytes(changed))),
        "a value": sending(again(body.replace(b'"1"', value, 1))),
        "an index": sending(again(body.replace(b'"index": 0', b'"index": ' + value, 1))),
        "a text": sending(again(body.replace(b'"assistant"', value, 1))),
        "the length": sending(whole.replace(b"Content-Length: ", b"Content-Length: %d" % rng.randrange(1, 9), 1)),
        "compressed": sending(again(body, b"\r\nContent-Encoding: gzip")),
        "another type": sending(again(body).replace(kinds, b"Content-Type: text/html")),
        "a redirection": sending(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
        "an error": sending(again(b'{"error": {"message": "no"}}').replace(b"200 OK", b"503 No", 1)),
        "an error without JSON": sending(again(b"<html>").replace(b"200 OK", b"500 No", 1)),
        "many heads": sending(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 30_000 + b"\r\n" + body),
        "slow": sending(whole, 0.005, 40),
        "nothing": lambda connection: time.sleep(4),
        "twice": sending(again(body + body)),
        "too large": sending(again(b" " * 9_000_000 + body)),
    }
    name = rng.choice(list(ways))
    return name, ways[name]


def _events(text: str) -> list[Any]:
    return [
        json.loads(line.removeprefix("data: "), parse_constant=_no_constant)
        for line in text.splitlines()
        if line.startswith("data: ") and line != "data: [DONE]"
    ]


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _read(answer: httpx.Response, found: Found, name: str) -> tuple[str, list[str]]:
    """Return the status of a reply and the text of each choice as the client sees them; check that all is JSON."""
    streamed = "event-stream" in answer.headers["content-type"]
    try:
        documents = _events(answer.text) if streamed else [answer.json()]
    except ValueError:
        found.check(False, f"{name}: no JSON: {answer.text[:100]}")
        return "none", []
    texts: defaultdict[int, str] = defaultdict(str)
    for choice in (choice for document in documents for choice in document.get("choices", ())):
        texts[choice.get("index", 0)] += choice["delta" if streamed else "message"].get("content") or ""
    last = documents[-1] if documents else {}
    if answer.status_code != 200 or "error" in last:
        return "error", list(texts.values())
    status = last.get("veridical", {}).get("status", answer.headers.get("x-veridical-status", "none"))
    return str(status), list(texts.values())


SERVICE = """
from veridical.server.running import run_server
from veridical.server.settings import ProxySettings, ServerSettings
proxy = ProxySettings(base_url={url!r}, action={action!r}, timeout=2.0)
settings = ServerSettings(detectors=("overlap:values",), proxy=proxy)
run_server(settings, host="127.0.0.1", port=0, on_start=lambda url: print(url, flush=True))
"""


def _tried(rng: Random, action: str, rounds: int) -> Found:
    found = Found()
    statuses: Counter[str] = Counter()
    script: list[Script] = [lambda connection: None]
    with upstream(script) as url, served(code=SERVICE.format(url=url, action=action)) as service:
        with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:
            for number in range(rounds):
                stream, text = rng.random() < 0.5, rng.choice((SOURCE, FALSE, f"{SOURCE} {FALSE}"))
                name, script[0] = damaged(rng, reply(stream, text))
                if number % 10 == 0:
                    name, script[0] = "as it should be", partial(_send, reply(stream, text))
                found.tried += 1
                answer = client.post("/v1/chat/completions", json={**CHAT, "stream": stream})
                found.check(answer.status_code in OF_PROXY, f"{name}: {answer.status_code} {answer.text[:100]}")
                status, texts = _read(answer, found, name)
                statuses[status] += 1
                if any(FALSE in text for text in texts):
                    found.check(status != "clear", f"{name}: a false reply was called clear")
                    found.check(action != "block", f"{name}: a false reply was shown")
                if name == "as it should be":
                    wanted = "flagged" if FALSE in text else "clear"
                    found.check(status == wanted, f"a whole reply was {status}, not {wanted}")
        found.check(not service.failures(), f"failures: {service.failures()[:1]}")
    found.notes.append(", ".join(f"{count} {status}" for status, count in statuses.most_common()))
    return found


@fault("slow, broken and lying chat servers, --action annotate")
def annotated(rng: Random, folder: Path) -> Found:
    return _tried(rng, "annotate", 150)


@fault("slow, broken and lying chat servers, --action block")
def blocked(rng: Random, folder: Path) -> Found:
    return _tried(rng, "block", 150)
