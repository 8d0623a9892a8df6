"""`veridical batch` on many rows: rows a second, memory over time, two kills, and Ray Data next to it.

    python benchmarks/batch_rows.py --data ../shared/data --detector overlap --workers 2
    python benchmarks/batch_rows.py --data ../shared/data --detector default --texts pairs --measure whole --folder F
    python benchmarks/batch_rows.py --data ../shared/data --detector overlap --ray-python ENV/bin/python --measure ray

The rows are public data over and over, each time under another id: with `--texts articles` the cases of xsum_token,
wice and bump (sources of hundreds of words), with `pairs` sentence pairs of four sets. Measured are

- whole: one run as a process of its own; its rows a second (start, hashing and report included), and its resident
  memory, worker processes included, in each tenth of the time.
- killed: the same, ended by SIGKILL twice, each time up to two seconds after a shard that is sampled at random, and
  started again until it is done. "equal" says that its folder has the same bytes as that of the whole run.
- ray: with --ray-python, which has the `ray` extra: rows a second of the engine on this machine with one worker and
  with two, each process on one thread, next to one local process. The efficiency is the time of one worker over twice
  that of two; the overhead what one worker takes longer than the local process. Starting Ray is included, and given by
  itself as the time of a batch of one row. In a further run one of two workers is killed.

With --folder the rows and results stay there, so that "killed" can be measured by a later command. Prints one JSON row
per measurement and appends it to --out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from running import emit

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "benchmarks" / "rows" / "batch-rows.jsonl"
TEXTS = {
    "articles": ("xsum_token", "wice", "bump"),
    "pairs": ("entailment/snli", "entailment/med", "entailment/pawsx_en", "entailment/taxinli"),
}
SPLITS = {"wice": "tokens/dev"}
EVERY = 0.2  # seconds between two looks at the memory


def write_rows(path: Path, data: Path, texts: str, count: int, seed: int) -> dict[str, Any]:
    """Write `count` rows, and say what they are."""
    from veridical.datasets import read

    cases = [
        {
            "response": example.case.response,
            "sources": [source.text for source in example.case.sources],
            "system": dict(example.group).get("system", name),
        }
        for name in TEXTS[texts]
        for example in read(f"{Path(name).name}:{data / name}", split=SPLITS.get(name))
    ]
    random.Random(seed).shuffle(cases)
    with path.open("w", encoding="utf-8") as file:
        for i, case in enumerate(islice(cycle(cases), count)):
            file.write(json.dumps({"id": f"{i}", **case}, ensure_ascii=False) + "\n")
    return {"rows": count, "distinct_rows": min(count, len(cases)), "input_mb": round(path.stat().st_size / 1e6, 1)}


def tree(pid: int) -> list[int]:
    """The process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def resident_mb(pid: int) -> float:
    """The resident memory of a process and those below it."""
    pages = 0
    for each in tree(pid):
        try:
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass
class Run:
    """A run of `veridical batch` that has ended, by itself or by a signal."""

    seconds: float
    code: int
    memory_mb: list[float]

    @property
    def memory(self) -> dict[str, Any]:
        """The greatest memory in each tenth of the run, and of all of it."""
        n = len(self.memory_mb)
        tenths = [self.memory_mb[i * n // 10 : max((i + 1) * n // 10, i * n // 10 + 1)] for i in range(10)]
        return {"peak_mb_by_tenth": [round(max(part), 1) for part in tenths], "peak_mb": round(max(self.memory_mb), 1)}


def batch(
    arguments: list[str],
    *,
    python: str = sys.executable,
    kill_when: Callable[[], bool] | None = None,
    one_thread: bool = False,
) -> Run:
    """Run `veridical batch ARGUMENTS`, and end it by SIGKILL once `kill_when` says so."""
    environment = {**os.environ, **({"OMP_NUM_THREADS": "1"} if one_thread else {})}
    started = time.perf_counter()
    command = [python, "-m", "veridical", "batch", *arguments]
    with subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True) as run:
        said: list[str] = []
        reading = threading.Thread(target=lambda: said.append(run.stderr.read() if run.stderr else ""), daemon=True)
        reading.start()
        memory: list[float] = []
        try:
            while run.poll() is None:
                memory.append(resident_mb(run.pid))
                if kill_when is not None and kill_when():
                    os.killpg(run.pid, signal.SIGKILL)
                with suppress(subprocess.TimeoutExpired):
                    run.wait(EVERY)
        finally:
            if run.poll() is None:  # this process is to end: nothing of it goes on
                os.killpg(run.pid, signal.SIGKILL)
        seconds = time.perf_counter() - started
        reading.join()
    if run.returncode not in (0, -signal.SIGKILL):
        raise SystemExit("".join(said))
    return Run(seconds, run.returncode, memory)


def digest(folder: Path) -> str:
    """A hash of all that is in a folder of results."""
    whole = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.name != ".lock":
            whole.update(file.name.encode())
            whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def whole(detector: str, path: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One run without an interruption."""
    out = new(folder / "whole")
    run = batch([str(path), str(out), *options_of(detector, options), "--workers", str(options.workers)])
    return {
        "what": "whole",
        "workers": options.workers,
        "seconds": round(run.seconds, 2),
        "rows_per_second": round(options.rows / run.seconds, 1),
        **run.memory,
    }


def killed(detector: str, path: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The same, killed some times; compared with the whole run in `folder`."""
    from veridical.workflows.batch.folder import read_shards

    if not (folder / "whole" / "report.json").is_file():
        raise SystemExit("no finished whole run to compare with: measure it first, in the same --folder")
    out = new(folder / "killed")
    arguments = [str(path), str(out), *options_of(detector, options), "--workers", str(options.workers)]
    draw = random.Random(options.seed)
    shards = range(1, -(-options.rows // options.shard_rows))
    runs, rows_done = [], []
    for shard in sorted(draw.sample(shards, options.kills)):
        runs.append(batch(arguments, kill_when=Delayed(out / f"results-{shard - 1:05}.jsonl", draw.uniform(0, 2))))
        if runs[-1].code == -signal.SIGKILL:
            rows_done.append(sum(shard.rows for shard in read_shards(out)))
    runs.append(batch(arguments))
    return {
        "what": "killed",
        "workers": options.workers,
        "killed_after_rows": rows_done,
        "seconds": round(sum(run.seconds for run in runs), 2),
        "peak_mb": max(run.memory["peak_mb"] for run in runs),
        "equal": digest(out) == digest(folder / "whole"),
    }


def new(folder: Path) -> Path:
    """The same path, with nothing left there of an earlier measurement."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def options_of(detector: str, options: argparse.Namespace) -> list[str]:
    """The options of all runs."""
    return ["-d", detector, "--group", "system", "--shard-rows", str(options.shard_rows)]


class Delayed:
    """True some seconds after a file is there."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        self.since: float | None = None

    def __call__(self) -> bool:
        """Whether it is so far."""
        if self.since is None and self.path.exists():
            self.since = time.perf_counter()
        return self.since is not None and time.perf_counter() >= self.since + self.seconds


def kill_a_worker(folder: Path, actors: list[int]) -> None:
    """Kill one of the actors below this process once the first shard is there; its process id goes into `actors`."""
    while not any(folder.glob("results-*.jsonl")):
        time.sleep(EVERY)
    for pid in tree(os.getpid()):
        try:
            name = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if name.startswith("ray::") and "ShardActor" in name:
            actors.append(pid)
    if actors:
        os.kill(actors[0], signal.SIGKILL)


def on_ray(detector: str, path: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One local process, then Ray with one and with two workers, and with two of which one is killed."""
    more = options_of(detector, options)
    python = options.ray_python
    single = path.with_name("one.jsonl")
    with path.open(encoding="utf-8") as lines:
        single.write_text(next(lines), encoding="utf-8")

    def timed(source: Path, name: str, *arguments: str) -> float:
        out = new(folder / name)
        return batch([str(source), str(out), *more, *arguments], python=python, one_thread=True).seconds

    timed(single, "first", "--engine", "ray", "--workers", "2")  # its files are read from the disk for the first time
    start = timed(single, "start", "--engine", "ray", "--workers", "2") - timed(single, "start-local")
    alone = timed(path, "local")
    one = timed(path, "ray-1", "--engine", "ray", "--workers", "1")
    two = timed(path, "ray-2", "--engine", "ray", "--workers", "2")
    actors: list[int] = []
    new(folder / "ray-killed")
    killing = threading.Thread(target=kill_a_worker, args=(folder / "ray-killed", actors), daemon=True)
    killing.start()
    with_a_kill = timed(path, "ray-killed", "--engine", "ray", "--workers", "2")
    folders = {digest(folder / name) for name in ("local", "ray-1", "ray-2", "ray-killed")}
    return {
        "what": "ray",
        "start_seconds": round(start, 2),
        "seconds": {"local": round(alone, 2), "ray 1": round(one, 2), "ray 2": round(two, 2)},
        "rows_per_second": {
            name: round(options.ray_rows / seconds, 1)
            for name, seconds in (("local", alone), ("ray 1", one), ("ray 2", two))
        },
        "efficiency_of_two": round(one / (2 * two), 3),
        "efficiency_of_two_without_start": round((one - start) / (2 * (two - start)), 3),
        "overhead_of_one": round(one / alone - 1, 3),
        "workers_killed": min(1, len(actors)),
        "seconds_with_a_killed_worker": round(with_a_kill, 2),
        "equal": len(folders) == 1,
    }


MEASURES = {"whole": whole, "killed": killed, "ray": on_ray}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the public data sets")
    parser.add_argument("--detector", required=True)
    parser.add_argument("--texts", choices=TEXTS, default="articles")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--shard-rows", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--measure", action="append", choices=MEASURES, help="repeatable; default: whole and killed")
    parser.add_argument("--ray-python", help="an interpreter with the `ray` extra")
    parser.add_argument("--ray-rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where rows and results stay; default: a temporary folder")
    parser.add_argument("--out", type=Path, default=ROWS, help="append the rows to this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    measures = options.measure or ["whole", "killed"]
    if "ray" in measures and options.ray_python is None:
        parser.error("--measure ray needs --ray-python")
    from veridical import __version__

    named = ("detector", "texts", "rows", "shard_rows", "workers", "kills", "ray_rows", "seed")
    flags = [f"--{name.replace('_', '-')} {getattr(options, name)}" for name in named]
    flags += [f"--measure {name}" for name in measures]
    flags += ["--ray-python ENV/bin/python"] if options.ray_python else []
    common = {
        "shard_rows": options.shard_rows,
        "command": f"python benchmarks/batch_rows.py --data DATA {' '.join(flags)}",
        "versions": {"veridical": __version__, "python": platform.python_version()},
    }
    with TemporaryDirectory() if options.folder is None else nullcontext(options.folder) as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for measure in measures:
            count = options.ray_rows if measure == "ray" else options.rows
            path = folder / f"{options.texts}-{count}.jsonl"
            about = write_rows(path, options.data, options.texts, count, options.seed)
            row = MEASURES[measure](options.detector, path, folder, options)
            named_row = {"benchmark": "batch", "detector": options.detector, "texts": options.texts}
            emit({**named_row, **about, **row, **common}, options.out)


if __name__ == "__main__":
    main()
