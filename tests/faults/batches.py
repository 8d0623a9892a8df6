"""Faults of a batch: kills of its processes at random points, and disks that are full or cannot be written."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random

from tests.faults.harness import (
    Found,
    children_of,
    fault,
    files_in,
    kill_group,
    start,
    until,
    veridical,
    write_rows,
)
from tests.processes import is_running

ROWS = 1200
DONE = (0, 1, 3)  # nothing was flagged, something was, or a row could not be judged
Kill = Callable[[subprocess.Popen[bytes], Random], bool]


def _options(rows: Path, out: Path, *more: str) -> list[str]:
    return ["-m", "veridical", "batch", str(rows), str(out), "-d", "overlap:values", "--shard-rows", "40", *more]


def _killed(rng: Random, folder: Path, kill: Kill, times: int, *more: str) -> Found:
    """Kill a batch at random points and let it go on each time; compare its files with those of a run of its own."""
    found = Found()
    rows, whole, out = folder / "rows.jsonl", folder / "whole", folder / "out"
    write_rows(rows, ROWS, broken=range(0, ROWS, 97))
    began = time.monotonic()
    code, output = veridical(*_options(rows, whole, *more)[2:])
    seconds = time.monotonic() - began
    found.check(code in DONE, f"the run without a kill ended with {code}: {output[-150:]}")
    expected = files_in(whole)
    for _ in range(10 * times):  # a kill may miss
        if found.tried == times:
            break
        process = start(*_options(rows, out, *more))
        workers: list[int] = []
        try:
            time.sleep(rng.uniform(0.2, 1.0) * seconds)
            workers = children_of(process.pid)
            found.tried += kill(process, rng)
            process.communicate(timeout=120)
            gone = until(lambda: not any(map(is_running, workers)), 30)  # noqa: B023 - called at once
            found.check(gone, "a worker went on after its parent had ended")
        finally:
            kill_group(process)
        if process.returncode in DONE or rng.random() < 0.2:  # finished before the kill, or begin again
            _empty(out)
    found.check(found.tried == times, f"only {found.tried} of {times} kills hit a process")
    code, output = veridical(*_options(rows, out, *more)[2:])
    found.check(code in DONE, f"the run after the kills ended with {code}: {output[-150:]}")
    files = files_in(out)
    found.lost += sum(max(0, data.count(b"\n") - files.get(name, b"").count(b"\n")) for name, data in expected.items())
    found.check(files == expected, "the files differ from those of a run without a kill")
    return found


def _empty(folder: Path) -> None:
    for file in folder.iterdir() if folder.is_dir() else ():
        file.unlink()


def _parent(process: subprocess.Popen[bytes], rng: Random) -> bool:
    ends = process.poll() is None
    process.kill()
    return ends


def _worker(process: subprocess.Popen[bytes], rng: Random) -> bool:
    workers = [pid for pid in children_of(process.pid) if _is_worker(pid, b"spawn_main")]
    return _kill_one(workers, rng)


def _ray_worker(process: subprocess.Popen[bytes], rng: Random) -> bool:
    until(lambda: any(_is_worker(pid, b"MapWorker") for pid in children_of(process.pid)), 60)
    return _kill_one([pid for pid in children_of(process.pid) if _is_worker(pid, b"MapWorker")], rng)


def _is_worker(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _kill_one(pids: list[int], rng: Random) -> bool:
    if not pids:
        return False
    try:
        os.kill(rng.choice(pids), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@fault("kill -9 of a batch with one process")
def kill_alone(rng: Random, folder: Path) -> Found:
    return _killed(rng, folder, _parent, 5)


@fault("kill -9 of the parent of two workers")
def kill_parent(rng: Random, folder: Path) -> Found:
    return _killed(rng, folder, _parent, 5, "--workers", "2")


@fault("kill -9 of a worker")
def kill_worker(rng: Random, folder: Path) -> Found:
    return _killed(rng, folder, _worker, 4, "--workers", "2")


@fault("kill -9 of a Ray worker")
def kill_ray_worker(rng: Random, folder: Path) -> Found:
    if find_spec("ray") is None:
        return Found(notes=["not tried: Ray is not installed"])
    return _killed(rng, folder, _ray_worker, 2, "--workers", "2", "--engine", "ray")


@contextmanager
def _small_disk(folder: Path, kilobytes: int) -> Iterator[bool]:
    """Make `folder` a file system of so many kB; without the right to do that, yield False."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@fault("a batch on a disk that fills up")
def full_disk(rng: Random, folder: Path) -> Found:
    found = Found()
    rows, whole = folder / "rows.jsonl", folder / "whole"
    write_rows(rows, 400, broken=range(0, 400, 9))
    veridical(*_options(rows, whole)[2:])
    expected = files_in(whole)
    size = sum(map(len, expected.values()))
    for number in range(6):
        found.tried += 1
        kilobytes = rng.randrange(16, size // 1024)
        with _small_disk(folder / f"disk{number}", kilobytes) as mounted:
            out = folder / f"disk{number}" / "out"

            def limited() -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                largest = max(map(len, expected.values()))
                resource.setrlimit(resource.RLIMIT_FSIZE, (rng.randrange(1000, largest),) * 2)

            code, output = veridical(*_options(rows, out)[2:], preexec_fn=None if mounted else limited)
            found.check(code == 2, f"on {kilobytes} kB the run ended with {code}")
            found.check("Traceback" not in output, f"on {kilobytes} kB there was a traceback")
            if mounted:
                command = ["mount", "-o", f"remount,size={size // 256}k", str(folder / f"disk{number}")]
                subprocess.run(command, check=True)
            code, output = veridical(*_options(rows, out)[2:])
            found.check(code in DONE, f"with more space the run ended with {code}: {output[-150:]}")
            found.check(files_in(out) == expected, "the files differ after the disk was full")
            if number == 0 and not mounted:
                found.notes.append("by a limit on the size of files: no right to mount a small disk")
    return found


@fault("folders that cannot be written")
def read_only(rng: Random, folder: Path) -> Found:
    found = Found()
    rows = folder / "rows.jsonl"
    write_rows(rows, 50)
    with _small_disk(folder / "disk", 200) as mounted:
        place = folder / "disk"
        if mounted:
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        else:
            place.chmod(0o555)
        if not mounted and os.access(place, os.W_OK):
            return Found(notes=["not tried: this user may write anywhere"])
        case = folder / "case.jsonl"
        case.write_text(rows.read_text().splitlines()[0] + "\n")
        commands = (
            _options(rows, place / "out")[2:],
            ["check", str(case), "-d", "overlap", "--html", str(place / "page.html")],
            ["check", str(case), "-d", "overlap", "--junit", str(place / "junit.xml")],
            ["serve", "--api-keys", str(place / "keys"), "--new-key", "alice"],
        )
        for command in commands:
            found.tried += 1
            code, output = veridical(*command)
            found.check(code == 2 and "Traceback" not in output, f"{command[0]} ended with {code}: {output[-100:]}")
    return found


@fault("a changed bit in a file of a batch")
def flipped(rng: Random, folder: Path) -> Found:
    found = Found()
    rows, out = folder / "rows.jsonl", folder / "out"
    write_rows(rows, 120, broken=(5, 60))
    veridical(*_options(rows, out)[2:])
    expected = files_in(out)
    for _ in range(12):
        found.tried += 1
        name = rng.choice(sorted(expected))
        data = bytearray(expected[name])
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (out / name).write_bytes(data)
        code, output = veridical(*_options(rows, out)[2:])
        refused = code == 2 and name == "manifest.json" and "Traceback" not in output
        found.check(refused or files_in(out) == expected, f"a changed bit in {name} was not noticed")
        (out / name).write_bytes(expected[name])
    return found


@fault("a CSV cell over the limit")
def large_cell(rng: Random, folder: Path) -> Found:
    found = Found()
    for lines in (1, 40):
        found.tried += 1
        rows, out = folder / f"rows{lines}.csv", folder / f"out{lines}"
        large = "\n".join(["a, " * (400_000 // lines)] * lines)
        cells = [("It rains.", "It rains."), (large, "It rains."), ("It snows.", "It rains."), ("", "")]
        text = "".join(f'"{a}","{b}"\n' for a, b in [("response", "sources"), *cells])
        rows.write_text(text)
        code, output = veridical("batch", rows, out, "-d", "overlap", "--max-mb", "1")
        found.check(code in DONE, f"the run ended with {code}: {output[-150:]}")
        failed = [json.loads(line)["row"] for line in (out / "failed.jsonl").read_text().splitlines()]
        scores = [json.loads(line)["row"] for line in (out / "scores-00000.jsonl").read_text().splitlines()]
        found.lost += max(0, len(cells) - len(failed) - len(scores))
        found.check(failed == [2] and scores == [1, 3, 4], f"rows {failed} failed and {scores} were judged")
    return found
