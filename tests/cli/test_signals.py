"""Ctrl-C and SIGTERM: one line, an exit code of its own, nothing half-written, and the next run ends as usual."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from tests.processes import LIMIT, python, start_python

RIGHT, WRONG = "The tower is 330 m tall.", "The tower is 300 m tall."
ROWS = [
    {"id": str(i), "response": WRONG if i % 2 else RIGHT, "sources": [RIGHT], "question": "How tall?", "label": i % 2}
    for i in range(60)
]
RESULTS = "results.jsonl"
COMMANDS = {
    "check": ("check", "cases.jsonl", "-d", "overlap", "--html", "made"),
    "batch": ("batch", "cases.jsonl", "made", "-d", "overlap", "--shard-rows", "20"),
    "revise": ("revise", "cases.jsonl", "--checker", "overlap", "--reviser", "delete", "--html", "made"),
    "causes": ("causes", RESULTS, "--results", "made"),
    "rate": ("rate", RESULTS, "--sheet", "made.csv", "--count", "5"),
    "calibrate": ("calibrate", "overlap", "rows:cases.jsonl", "--all-data", "--out", "made"),
}
STOPPED = """
import os, signal, sys, time
from veridical.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job inherits as ignored
fsync = os.fsync
def stop(file):  # while a file is written
    os.fsync = fsync
    os.kill(os.getpid(), getattr(signal, os.environ["BY"]))
    time.sleep(600)
os.fsync = stop
sys.exit(main())
"""
WAITING = """
import signal, sys, threading
from veridical.__main__ import main
import veridical.cli
signal.signal(signal.SIGINT, signal.default_int_handler)
def wait():  # as for the answer of a slow server
    threading.Thread(target=threading.Event().wait).start()
    raise KeyboardInterrupt
veridical.cli._run = lambda _: wait()
sys.exit(main())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    done = python("-m", "veridical", "check", "cases.jsonl", "-d", "overlap", "--json", cwd=folder)
    (folder / RESULTS).write_bytes(done.stdout)
    return folder


@pytest.mark.parametrize(("by", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_stopped_leaves_nothing_half_written(
    folder: Path, tmp_path: Path, command: str, by: str, code: int
) -> None:
    for name in ("cases.jsonl", RESULTS):
        (tmp_path / name).symlink_to(folder / name)
    given = set(tmp_path.iterdir())

    def made() -> set[str]:
        files = {file for file in tmp_path.rglob("*") if file.is_file()} - given
        return {str(file.relative_to(tmp_path)) for file in files} - {"made/.lock"}

    environment = {**os.environ, "BY": by}
    done = python("-c", STOPPED, *COMMANDS[command], cwd=tmp_path, env=environment, text=True)
    assert done.returncode == code
    assert done.stderr.splitlines()[-1] == "veridical: interrupted; nothing half-written was left"
    assert "Traceback" not in done.stderr
    assert made() == set()
    if by == "SIGINT":
        return  # what the next run finds is the same
    done = python("-m", "veridical", *COMMANDS[command], cwd=tmp_path, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert {"made", "made.csv", "made/report.json", "made/detector.json"} & made()


@pytest.mark.parametrize(("by", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_further_signal_does_not_wait_for_threads(folder: Path, by: signal.Signals, code: int) -> None:
    process = start_python("-c", WAITING, cwd=folder)
    assert process.stderr is not None
    assert process.stderr.readline() == b"veridical: interrupted; nothing half-written was left\n"
    while process.poll() is None:  # the first one may come before the program has come to its end
        process.send_signal(by)
        with suppress(TimeoutExpired):
            process.wait(timeout=1)
    assert process.communicate(timeout=LIMIT)[1] == b""
    assert process.returncode == code
