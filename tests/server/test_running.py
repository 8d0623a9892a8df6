"""The real server on 127.0.0.1: slow and greedy clients, and an end that finishes what was accepted."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes import LIMIT, start_python
from tests.server.services import CASE, Echo, client_of, until
from veridical.cli import main
from veridical.server.keys import make_key
from veridical.server.running import make_server
from veridical.server.settings import Limits, ServerSettings


@contextmanager
def running(settings: ServerSettings) -> Iterator[str]:
    """The URL of a server in a thread of this process."""
    urls: list[str] = []
    up = threading.Event()

    def on_start(url: str) -> None:
        urls.append(url)
        up.set()

    server = make_server(settings, host="127.0.0.1", port=0, on_start=on_start)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert up.wait(LIMIT)
        yield urls[0].rstrip("/")
    finally:
        server.should_exit = True
        thread.join(LIMIT)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    limits = Limits(body_timeout=LIMIT, body_bytes=100_000, document_bytes=200_000, connections=20)
    with running(ServerSettings(detectors=("overlap",), limits=limits)) as url:
        yield url


_FREEZING = """
import re
from veridical.server.running import run_server
from veridical.server.settings import Limits, ServerSettings

class Freezing:
    name = "freezing"

    def judge(self, cases):
        if cases[0].response == "freeze":
            print("frozen", flush=True)
            re.match("(?:a|a)*b", "a" * 99)  # with the interpreter's lock, and without an end
        return []

settings = ServerSettings(detectors=(), own_detectors={"freezing": Freezing()}, limits=Limits(timeout=3))
run_server(settings, host="127.0.0.1", port=0, on_start=lambda url: print(url, flush=True))
"""


def test_a_frozen_service_ends_and_says_where_it_was() -> None:
    with start_python("-c", _FREEZING, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with pytest.raises(httpx.HTTPError):
            httpx.post(f"{url}v1/check", json={"cases": [{"response": "freeze", "sources": ["a"]}]}, timeout=LIMIT)
        stdout, stderr = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout) == (1, "frozen\n"), stderr
    assert 'File "<string>", line 12 in judge' in stderr


def test_nothing_behind_a_body_of_two_lengths_is_a_request(url: str) -> None:
    body = json.dumps({"cases": [CASE]}).encode()
    fields = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n"
    answer = raw(url, b"POST /v1/check HTTP/1.1\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n%b" % (fields, len(body), body, HEALTH))
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200"]


def test_health_tells_that_a_detector_is_stuck() -> None:
    detector = Echo()  # waits for its gate in a lock, as an inference library does in its own code
    with client_of(own={"echo": detector}, limits=Limits(timeout=0.01, wait=0.01)) as client:
        until(lambda: client.get("/ready").status_code == 200)
        detector.gate.clear()
        assert client.post("/v1/check", json={"cases": [CASE]}).status_code == 504
        until(lambda: client.get("/health").json()["status"] == "degraded")
        assert client.post("/v1/check", json={"cases": [CASE]}).status_code == 503
        detector.gate.set()
        until(lambda: client.get("/health").json()["status"] == "ok")


@pytest.fixture(scope="module")
def impatient() -> Iterator[str]:
    """A server that soon gives up on what a client does not finish; a client that finishes may be too slow for it."""
    limits = Limits(body_timeout=1.0, body_bytes=100_000, document_bytes=200_000, connections=20)
    with running(ServerSettings(detectors=("overlap",), limits=limits)) as url:
        yield url


def connected(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT)


def rest_of(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def raw(url: str, *parts: bytes) -> bytes:
    """What the server sends until it closes the connection, after each of `parts` was sent."""
    with connected(url) as connection:
        for part in parts:
            connection.sendall(part)
        return rest_of(connection)


HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def head(length: int | str, more: str = "") -> bytes:
    fields = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}"
    return f"POST /v1/check HTTP/1.1\r\n{fields}\r\n".encode()


def test_a_check_over_the_wire(url: str) -> None:
    answer = httpx.post(f"{url}/v1/check", json={"cases": [CASE]}, timeout=LIMIT)
    assert answer.json()["results"][0]["outcome"] == "flagged"
    assert "uvicorn" not in answer.headers.get("server", "")


def test_a_head_that_does_not_end(impatient: str) -> None:
    assert raw(impatient) == b""
    assert raw(impatient, b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\n") == b""
    # the second request of a connection is held to the same limit
    assert raw(impatient, HEALTH, b"GET /health HT").count(b"HTTP/1.1") == 1


def connection_of(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(url.removeprefix("http://"), timeout=LIMIT)


def ask(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/health")
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


def test_a_connection_outlasts_the_time_for_a_request_without_one(impatient: str) -> None:
    with closing(connection_of(impatient)) as connection:
        assert ask(connection) == 200
        used = connection.sock
        assert raw(impatient) == b""  # another one, opened later, has run out of that time
        assert ask(connection) == 200
        assert connection.sock is used


def test_a_connection_is_kept_where_the_rest_of_a_body_comes_after_its_answer(impatient: str) -> None:
    with connected(impatient) as connection:
        connection.sendall(head(120_000))
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
        connection.sendall(b" " * 120_000)
        assert raw(impatient) == b""  # another one, opened later, has run out of the time for a request
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert b"HTTP/1.1 200" in rest_of(connection)


def test_connections_without_a_request_end_some_time_and_make_room_before() -> None:
    limits = Limits(idle=0.3, connections=4, body_bytes=1000)
    with running(ServerSettings(detectors=("overlap",), limits=limits)) as url, ExitStack() as stack:
        for _ in range(12):
            assert ask(stack.enter_context(closing(connection_of(url)))) == 200
        assert raw(url, HEALTH).startswith(b"HTTP/1.1 200")  # and then it is closed
        with connected(url) as connection:
            connection.sendall(head(2000))
            assert connection.recv(65536).startswith(b"HTTP/1.1 413")
            connection.sendall(b" " * 2000)
            rest_of(connection)


def test_connections_of_one_client_are_limited() -> None:
    limits = Limits(client_connections=3)
    with running(ServerSettings(detectors=("overlap",), limits=limits)) as url, ExitStack() as stack:
        for _ in range(3):
            busy = stack.enter_context(connected(url))
            busy.sendall(head(10))  # and no body
        assert raw(url, HEALTH).startswith(b"HTTP/1.1 503")
        busy.close()
        until(lambda: ask(stack.enter_context(closing(connection_of(url)))) == 200)


STREAM = head(99).replace(b"/v1/check", b"/v1/stream").replace(b"json", b"x-ndjson")
UNFINISHED = {  # what a client sends, and what it gets
    "the first line of a stream": ([STREAM + b"{"], b"408.*first line"),
    "a head that is too large": ([head(2, "X-Padding: " + "." * 70_000 + "\r\n")], b"4"),
    "a body that does not end": ([head(1000, "Connection: close\r\n"), b'{"cases": ['], b"408.*did not arrive"),
    "a body that is too large": ([head(50_000_000, "Connection: close\r\n")], b"413"),
    "no HTTP": ([b"\x16\x03\x01\x02\x00nonsense\r\n\r\n"], b"400"),
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_what_does_not_end_or_is_no_request_is_refused(impatient: str, name: str) -> None:
    parts, expected = UNFINISHED[name]
    answer = raw(impatient, *parts)
    assert re.match(rb"HTTP/1\.1 " + expected, answer, re.DOTALL), answer[:1000]


def test_what_is_left_of_a_body_after_the_answer_does_not_hold_the_connection(impatient: str) -> None:
    assert raw(impatient, head(50_000_000)).startswith(b"HTTP/1.1 413")
    assert raw(impatient, head(50_000_000), b" ", b" ").startswith(b"HTTP/1.1 413")


def test_slow_bodies_of_one_client_take_no_place_from_others() -> None:
    limits = Limits(queue=2, cases=2, batch_cases=1, body_timeout=LIMIT)
    with running(ServerSettings(detectors=("overlap",), limits=limits)) as url, ExitStack() as stack:
        for _ in range(8):
            slow = stack.enter_context(connected(url))
            slow.sendall(head(1000) + b'{"cases"')
        assert [ask_check(url) for _ in range(4)] == [200] * 4


def ask_check(url: str) -> int:
    return httpx.post(f"{url}/v1/check", json={"cases": [CASE]}, timeout=LIMIT).status_code


@pytest.mark.parametrize("reads", [False, True])
def test_an_answer_that_nobody_reads_is_dropped_and_one_that_is_read_slowly_is_not(reads: bool) -> None:
    limits = Limits(body_timeout=1.0)
    case = {"response": "é" * 1_900_000}  # more than the buffers of the system hold
    body = json.dumps({"cases": [case]}, ensure_ascii=False).encode()
    settings = ServerSettings(detectors=(), own_detectors={"echo": Echo()}, limits=limits)
    with running(settings) as url, ExitStack() as stack:
        other = stack.enter_context(closing(connection_of(url)))
        with connected(url) as connection:
            connection.sendall(head(len(body)) + body)
            answer = connection.recv(65536)
            size = len(answer.partition(b"\r\n\r\n")[0]) + 4 + int(re.findall(rb"content-length: (\d+)", answer)[0])
            received = len(answer)
            for _ in range(0 if reads else 3):
                assert raw(url) == b""  # another connection, opened later, has run out of the time for a request
            while received < size and (part := connection.recv(16384)):
                received += len(part)
                assert not reads or ask(other) == 200  # takes a moment
    assert answer.startswith(b"HTTP/1.1 200")
    assert (received == size) == reads


def test_answers_that_are_read_too_slowly_take_only_so_much_memory() -> None:
    limits = Limits(body_timeout=LIMIT, body_bytes=4_000_000, document_bytes=4_000_000, memory_bytes=8_000_000)
    body = json.dumps({"cases": [{"response": "é" * 1_900_000}]}, ensure_ascii=False).encode()
    settings = ServerSettings(detectors=(), own_detectors={"echo": Echo()}, limits=limits)
    whole = 0
    with running(settings) as url, ExitStack() as stack:
        slow = [stack.enter_context(connected(url)) for _ in range(6)]
        for connection in slow:
            connection.sendall(head(len(body), "Connection: close\r\n") + body)
            connection.recv(1)
        for connection in slow:
            with suppress(ConnectionError):
                whole += sum(map(len, iter(lambda: connection.recv(1 << 20), b""))) > len(body)  # noqa: B023
    assert 1 <= whole <= 3


def test_a_body_of_unknown_length_is_cut_off(url: str) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(50):
            yield b" " * 1_000_000

    try:
        status = httpx.post(
            f"{url}/v1/check", content=chunks(), headers={"Content-Type": "application/json"}, timeout=LIMIT
        ).status_code
    except httpx.TransportError:  # it closed before all was sent
        status = 413
    assert status == 413
    assert httpx.get(f"{url}/health", timeout=LIMIT).status_code == 200


def test_a_stream_over_the_wire_answers_before_the_response_has_ended(url: str) -> None:

    def chunk(document: dict[str, Any]) -> bytes:
        line = json.dumps(document).encode() + b"\n"
        return b"%x\r\n%s\r\n" % (len(line), line)

    with connected(url) as connection:
        fields = "Host: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n"
        connection.sendall(f"POST /v1/stream HTTP/1.1\r\n{fields}Connection: close\r\n\r\n".encode())
        connection.sendall(chunk({"case": {"sources": CASE["sources"]}}))
        connection.sendall(chunk({"text": "The tower is 300 m tall. It"}))
        found = b""
        while b"event: verdicts" not in found:
            part = connection.recv(65536)
            assert part, found
            found += part
        assert b"event: result" not in found
        connection.sendall(chunk({"text": " is red."}) + b"0\r\n\r\n")
        found += rest_of(connection)
    assert b"It is red." in found.partition(b"event: result")[2]


def test_the_end_of_the_process_finishes_what_has_begun() -> None:
    process = start_python("-m", "veridical", "serve", "-d", "overlap", "--port", "0")
    try:
        line = process.stderr.readline().decode()
        match = re.search(r"http://[\d.]+:\d+/", line)
        assert match, line
        body = json.dumps({"cases": [CASE]}).encode()
        with connected(match[0]) as connection:
            connection.sendall(head(len(body)) + body[:10])
            assert httpx.get(f"{match[0]}health", timeout=LIMIT).status_code == 200  # so the head above was read, too
            process.send_signal(signal.SIGTERM)
            with suppress(httpx.TransportError):
                until(lambda: not httpx.get(f"{match[0]}health", timeout=LIMIT))  # it takes no more
            connection.sendall(body[10:])
            answer = rest_of(connection)
        assert b" 200 " in answer.partition(b"\r\n")[0]
        assert b'"outcome": "flagged"' in answer
        _, errors = process.communicate(timeout=LIMIT)
        assert process.returncode == 0
        assert [json.loads(line)["status"] for line in errors.decode().splitlines() if '"/v1/check"' in line] == [200]
    finally:
        process.kill()
        process.wait(LIMIT)


@contextmanager
def server_process(*options: str) -> Iterator[str]:
    """The URL of `veridical serve` as a process of its own, which is killed at the end."""
    with start_python("-m", "veridical", "serve", "--port", "0", *options, stderr=subprocess.STDOUT) as process:
        drain = threading.Thread(target=process.stdout.read)  # its log must not fill the pipe
        try:
            line = process.stdout.readline().decode()
            match = re.search(r"http://[\d.]+:\d+", line)
            assert match, line
            drain.start()
            yield match[0]
        finally:
            process.kill()
            if drain.ident:
                drain.join(LIMIT)


def test_a_server_that_is_killed_under_load_leaves_nothing_broken(tmp_path: Path) -> None:
    keys, replies, script = tmp_path / "keys", tmp_path / "replies.db", tmp_path / "model.json"
    key = make_key(keys, "alice")
    hashes = keys.read_bytes()
    script.write_text(json.dumps({"claim to check": "No"}))
    options = ("-d", "verify", "--model", f"scripted:{script}", "--cache", str(replies), "--api-keys", str(keys))
    answers: dict[int, Any] = {}
    enough = threading.Event()

    def ask_for(url: str, i: int) -> Any:
        case = {"response": f"The tower is {i} m tall. It has {i} steps.", "sources": ["The tower is 330 m tall."]}
        answer = httpx.post(f"{url}/v1/check", json={"cases": [case]}, headers={"X-API-Key": key}, timeout=LIMIT)
        assert answer.status_code == 200
        return answer.json()["results"][0]

    def load(url: str, first: int) -> None:
        with suppress(httpx.TransportError):  # it was killed
            for i in range(first, 100_000, 4):
                answers[i] = ask_for(url, i)
                if len(answers) >= 20:
                    enough.set()

    def replies_kept() -> int:
        with closing(sqlite3.connect(replies)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return int(database.execute("SELECT COUNT(*) FROM replies").fetchone()[0])

    # the server is killed at the end of the block, while all four ask
    with ThreadPoolExecutor(4) as pool, server_process(*options) as url:
        asking = [pool.submit(load, url, first) for first in range(4)]
        assert enough.wait(LIMIT)
    assert [asked.result() for asked in asking] == [None] * 4
    assert keys.read_bytes() == hashes
    kept = replies_kept()
    assert kept >= len(answers)
    with server_process(*options) as url:
        assert [ask_for(url, i)["outcome"] for i in answers] == ["flagged"] * len(answers)
        assert replies_kept() == kept  # none of these was asked for again
        ask_for(url, 200_000)
    assert replies_kept() > kept


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--host", "0.0.0.0"], "no keys are given"),
        (["--host", "0.0.0.0", "--api-keys", "nowhere/keys"], "no such file"),
        (["-d", "nonsense"], "unknown detector"),
        (["--new-key", "alice"], "--api-keys"),
        (["-d", "overlap", "--action", "block"], "no chat server is named"),
        (["-d", "overlap", "--unavailable", "pass"], "--proxy URL"),
        (["-d", "overlap", "--cors", "http://localhost:3000/"], "is not an origin"),
        (["-d", "overlap", "--cors", "example.org"], "without a path"),
        (["--proxy", "nonsense"], "not an address"),
        (["--proxy", "http://127.0.0.1:1/v1", "--action", "drop"], "annotate, block, header, revise"),
        (["-d", "overlap", "--reviser", "rewrite"], "unknown reviser"),
        (["-d", "overlap", "--reviser", "factored"], "asks a language model"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(options: list[str], part: str, capsys: Any) -> None:
    assert main(["serve", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert part in line


def test_a_new_key_is_printed_once(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "keys"
    assert main(["serve", "--api-keys", str(file), "--new-key", "alice"]) == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("vk-")
    assert key not in file.read_text()


def test_an_address_that_is_taken(capsys: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", "-d", "overlap", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot bind" in capsys.readouterr().err
