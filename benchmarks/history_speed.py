"""The history of `veridical serve` with many cases: importing, and how long lists, filters, counts and pages take.

    python benchmarks/history_speed.py --data ../shared/data
    python benchmarks/history_speed.py --data ../shared/data --place postgresql://user@/name?host=/tmp/socket

The cases are those of xsum_token, wice and bump over and over, each time under another id, with the results of the
detector "overlap" (one for each distinct case). They are stored as an import stores them: first all as cases that wait,
then their results in batches. Each request goes through the HTTP routes, without a network, `--rounds` times; given
are its median and its longest time. Prints one JSON row and appends it to --out.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar

from running import benchmark
from starlette.testclient import TestClient

from veridical.datasets import read
from veridical.detectors import load_detector
from veridical.history.records import NewRun, Row
from veridical.history.store import History
from veridical.history.writing import search_text
from veridical.io.serialization import encode
from veridical.records.types import Checked
from veridical.server.app import create_app
from veridical.server.settings import HistorySettings, ServerSettings
from veridical.workflows.checking import check_cases

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
SETS = {"xsum_token": None, "wice": "tokens/dev", "bump": None}
REQUESTS = {
    "first page": {},
    "page by score": {"sort": "score", "descending": True},
    "page by cause": {"sort": "cause"},
    "page by name": {"sort": "name"},
    "filter by outcome": {"outcome": "flagged"},
    "filter by score": {"score_min": 0.5, "score_max": 0.8, "sort": "score"},
    "filter by kind": {"kind": "value", "sort": "score"},
    "filter by detector and outcome": {"detector": "overlap", "outcome": "flagged", "decided": False},
    "search a rare word": {"search": "Xylophone"},
    "search a common word": {"search": "the"},
    "search a begun word": {"search": "po"},
    "search two words, by score": {"search": "police officer", "sort": "score", "descending": True},
}


def results(data: Path) -> list[Checked]:
    """The results of distinct cases."""
    cases = [ex.case for name, split in SETS.items() for ex in read(f"{name}:{data / name}", split=split)]
    cases = [replace(case, id=str(i)) for i, case in enumerate(cases)]
    return list(check_cases(cases, [load_detector("overlap")], explain=True))


def renamed(checked: Checked, number: int) -> Checked:
    id = f"case {number}"
    judgements = tuple(replace(judgement, case_id=id) for judgement in checked.judgements)
    return replace(checked, case=replace(checked.case, id=id), judgements=judgements)


def fill(history: History, distinct: Sequence[Checked], count: int) -> dict[str, Any]:
    """Store so many cases, and say how fast."""
    run = history.begin_import(NewRun(origin="import", name="benchmark.jsonl"), "benchmark.jsonl", b"")
    begin = time.perf_counter()
    numbered = enumerate(islice(cycle(distinct), count), 1)
    for part in batched(numbered, 500):
        history.add_rows(run, [row_of(renamed(checked, number), number) for number, checked in part])
    history.all_read(run)
    read_at = time.perf_counter()
    numbered = enumerate(islice(cycle(distinct), count), 1)
    for part in batched(numbered, 32):
        waiting = history.waiting(run, 32)
        pairs = zip(waiting, part, strict=True)
        history.store(run, [(key, renamed(checked, number)) for (key, _), (number, checked) in pairs])
    history.set_state(run, "done")
    end = time.perf_counter()
    return {
        "run": run,
        "rows_a_second": round(count / (read_at - begin)),
        "results_a_second": round(count / (end - read_at)),
    }


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def row_of(checked: Checked, number: int) -> Row:
    case = checked.case
    return Row(row=number, name=case.id, body=encode(case), text=case.response, search=search_text(case))


def requests(client: TestClient, run: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The requests, as name, path and parameters; the last is a page far into the list."""
    path = f"/v1/runs/{run}/cases"
    yield from ((name, path, parameters) for name, parameters in REQUESTS.items())
    cursor = None
    for _ in range(20):
        here = {} if cursor is None else {"cursor": cursor}
        cursor = client.get(path, params={"sort": "score", "limit": 200, **here}).json()["next"]
    yield "a page after 4,000 cases, by score", path, {"sort": "score", "limit": 200, "cursor": cursor}
    yield "the runs with their counts", "/v1/runs", {}
    yield "the values to filter by", f"/v1/runs/{run}/facets", {}


def measure(client: TestClient, run: str, rounds: int) -> dict[str, Any]:
    times = {}
    for name, path, parameters in requests(client, run):
        seconds = []
        for _ in range(rounds):
            begin = time.perf_counter()
            answer = client.get(path, params=parameters)
            seconds.append(time.perf_counter() - begin)
            assert answer.status_code == 200, answer.text
        total = answer.json().get("total")
        times[name] = {"median_ms": ms(statistics.median(seconds)), "longest_ms": ms(max(seconds)), "cases": total}
    return times


def deleting(client: TestClient, run: str) -> list[float]:
    """Delete a run; the seconds that checks take meanwhile, each of which is stored."""
    waits: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        deletion = pool.submit(client.delete, f"/v1/runs/{run}")
        while not deletion.done():
            begin = time.perf_counter()
            answer = client.post("/v1/check", json={"response": "It is 3 m.", "sources": ["It is 4 m."]})
            waits.append(time.perf_counter() - begin)
            assert "run" in answer.json(), answer.text
    assert deletion.result().status_code == 200
    return waits


def ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


@benchmark("history-speed.jsonl")
def main(
    *,
    data: Path,
    cases: int = 100_000,
    rounds: int = 9,
    place: Annotated[str | None, "the URL of an empty database; default: a file of SQLite"] = None,
) -> Iterator[dict[str, object]]:
    distinct = results(data)
    with TemporaryDirectory() as folder:
        url = place or f"{folder}/history.db"
        history = History(url)
        filled = fill(history, distinct, cases)
        history.close()
        settings = ServerSettings(detectors=("overlap",), history=HistorySettings(place=url))
        with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
            run = filled.pop("run")
            times = measure(client, run, rounds)
            begin = time.perf_counter()
            assert client.delete(f"/v1/runs/{run}/cases/7").status_code == 200
            deleted_case = time.perf_counter()
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            waits = deleting(client, run)
            deleted = time.perf_counter()
    yield {
        "benchmark": "history",
        "database": "postgresql" if place else "sqlite",
        "cases": cases,
        "distinct_cases": len(distinct),
        **filled,
        "file_mb": None if place else round(size / 1e6),
        "requests": times,
        "slowest_median_ms": max(each["median_ms"] for each in times.values()),
        "delete_case_seconds": round(deleted_case - begin, 2),
        "delete_run_seconds": round(deleted - deleted_case, 2),
        "longest_check_while_deleting_ms": ms(max(waits)),
        "rounds": rounds,
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    main()
