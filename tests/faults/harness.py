"""What all injected faults share: what each of them found, child processes, and a service in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

LIMIT = 300.0  # seconds; what takes longer has hung
ALLOWED = frozenset({200, 400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 502, 503, 504})


@dataclass
class Found:
    """What one kind of fault led to: times tried, rows, answers or files lost, and those that were wrong."""

    tried: int = 0
    lost: int = 0
    wrong: int = 0
    notes: list[str] = field(default_factory=list)

    def check(self, right: bool, what: str) -> None:
        """Count something wrong, with a note, unless it is `right`."""
        if not right:
            self.wrong += 1
            self.notes.append(what[:200])


Fault = Callable[[Random, Path], Found]
FAULTS: dict[str, Fault] = {}


def fault(about: str) -> Callable[[Fault], Fault]:
    """Register a function that injects one kind of fault, seeded by its argument, in an empty folder."""

    def register(function: Fault) -> Fault:
        FAULTS[about] = function
        return function

    return register


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `python ARGUMENTS` in a process group of its own."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([sys.executable, *arguments], **{**pipes, "start_new_session": True, **options})


def veridical(*arguments: str | Path, **options: Any) -> tuple[int, str]:
    """Run a command to its end; return its exit code and what it printed."""
    process = start("-m", "veridical", *map(str, arguments), **options)
    try:
        output = process.communicate(timeout=LIMIT)[0].decode(errors="replace")
    finally:
        kill_group(process)
    return process.returncode, output


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill what is left of a process and its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(LIMIT)


def children_of(pid: int) -> list[int]:
    """Return the processes that descend from one, deepest last."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, task.read_text().split())
    return [each for child in children for each in (child, *children_of(child))]


def until(condition: Callable[[], Any], seconds: float = LIMIT) -> bool:
    """Wait until `condition` holds; return whether it did in so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Served:
    """A service in a process of its own, with its log."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        self.log: list[bytes] = []
        for line in process.stdout:
            self.log.append(line)
            if match := re.search(rb"http://127[\d.]+:\d+", line):
                break
        else:
            raise RuntimeError(b"".join(self.log).decode())
        self.url = match[0].decode()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.log.append(line)
                del self.log[:-5000]

    def ended(self, seconds: float) -> bool:
        """Return whether the process ends within so many seconds; its log is complete then."""
        self._reading.join(seconds)
        return until(lambda: self.process.poll() is not None, 1)

    def failures(self) -> list[str]:
        """Return the lines of the log about errors inside the server."""
        return [line.decode().strip() for line in self.log if b'"failure"' in line or b"Traceback" in line]

    def memory(self) -> int:
        """Return the resident memory in kB."""
        return int(Path(f"/proc/{self.process.pid}/status").read_text().partition("VmRSS:")[2].split()[0])


@contextmanager
def served(*options: str | Path, code: str | None = None, **more: Any) -> Iterator[Served]:
    """Run `veridical serve` on a free port (or `code`, which must print its URL); kill it at the end."""
    arguments = ("-c", code) if code else ("-m", "veridical", "serve", "--port", "0", *map(str, options))
    process = start(*arguments, **more)
    try:
        service = Served(process)
        yield service
    finally:
        kill_group(process)
    service.ended(LIMIT)


def number_case(i: int) -> dict[str, Any]:
    """Return a case whose right outcome is known: a number is in the source, or it is not."""
    height = 330 if i % 2 else i + 1000
    return {"id": f"case {i}", "response": f"The tower is {height} m tall.", "sources": ["The tower is 330 m tall."]}


def right_answer(i: int, answer: httpx.Response) -> bool:
    """Return whether an answer is that of `number_case(i)`."""
    (result,) = answer.json()["results"]
    case = number_case(i)
    same = (result["case"]["id"], result["case"]["response"]) == (case["id"], case["response"])
    return same and result["outcome"] == ("clear" if i % 2 else "flagged")


@dataclass
class Load:
    """Clients that send `number_case` requests one after another until `stop`; safe for threads."""

    url: str
    stop: threading.Event = field(default_factory=threading.Event)
    statuses: list[int] = field(default_factory=list)
    broken: int = 0  # the connection ended before the whole answer
    wrong: int = 0

    def run(self, first: int, step: int) -> None:
        with httpx.Client(timeout=LIMIT, trust_env=False) as client:
            i = first
            while not self.stop.is_set():
                try:
                    answer = client.post(f"{self.url}/v1/check", json={"cases": [number_case(i)]})
                except httpx.TransportError:
                    self.broken += 1
                    if self.stop.wait(0.01):
                        return
                    continue
                self.statuses.append(answer.status_code)
                self.wrong += answer.status_code == 200 and not right_answer(i, answer)
                i += step


@contextmanager
def under_load(url: str, clients: int = 8) -> Iterator[Load]:
    """Keep so many clients sending while the block runs."""
    load = Load(url)
    with ThreadPoolExecutor(clients) as pool:
        futures = [pool.submit(load.run, k, clients) for k in range(clients)]
        try:
            yield load
        finally:
            load.stop.set()
            for future in futures:
                future.result(LIMIT)


def write_rows(path: Path, count: int, broken: Sequence[int] = ()) -> None:
    """Write rows of which `broken` cannot be read."""
    lines = ["{" if i in broken else json.dumps(number_case(i)) for i in range(count)]
    path.write_text("".join(line + "\n" for line in lines))


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the content of each file of a folder of results, without the page and temporary files."""
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file() and f.name not in (".lock", "report.html")}
