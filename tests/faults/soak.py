"""A long load at twice the rate that the service can serve: memory, answers, and the time to them.

python -m tests.faults.soak --minutes 60
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import httpx

from tests.faults.harness import ALLOWED, Found, Served, fault, number_case, right_answer, served

DETECTOR = "overlap:values"
WAIT = 15.0  # seconds: the longest expected wait that the service accepts
MOST_REQUESTS = 500_000
DIFFERENT = 1_000  # cases: the caches of the service are full early, so that a leak shows


@dataclass
class Run:
    """What came of the requests so far."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # of accepted requests
    lost: int = 0
    wrong: int = 0


async def _ask(client: httpx.AsyncClient, i: int, run: Run) -> None:
    began, i = time.monotonic(), i % DIFFERENT
    try:
        answer = await client.post("/v1/check", json={"cases": [number_case(i)]})
    except httpx.TransportError:
        run.lost += 1
        return
    run.statuses[answer.status_code] += 1
    if answer.status_code == 200:
        run.seconds.append(time.monotonic() - began)
        run.wrong += not right_answer(i, answer)


async def _capacity(client: httpx.AsyncClient, run: Run, seconds: float) -> float:
    """Return how many requests a second 16 clients get answered that each wait for their answer."""
    end = time.monotonic() + seconds
    count = 0

    async def one(first: int) -> None:
        nonlocal count
        i = first
        while time.monotonic() < end:
            await _ask(client, i, run)
            count, i = count + 1, i + 16

    await asyncio.gather(*(one(k) for k in range(16)))
    return count / seconds


async def soaked(service: Served, minutes: float, rng: Random) -> Found:
    """Send requests at random times, at twice the capacity, for so many minutes."""
    found, run = Found(), Run()
    limits = httpx.Limits(max_connections=400)
    async with httpx.AsyncClient(base_url=service.url, timeout=120, limits=limits, trust_env=False) as client:
        await _capacity(client, run, 2.0)
        rate = 2 * await _capacity(client, run, 5.0)
        run = Run()
        first = 0  # memory after 1,000 requests
        tenths = [service.memory()]  # a plateau of full caches and a leak differ by its last values
        tasks: set[asyncio.Task[None]] = set()
        begin, i = time.monotonic(), 0
        end = begin + 60 * minutes
        while time.monotonic() < end and i < MOST_REQUESTS:
            await asyncio.sleep(rng.expovariate(rate))
            if len(tasks) < 390:  # as many clients as there are; the service must not see more connections than these
                task = asyncio.create_task(_ask(client, i, run))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                i += 1
                if i == 1000:
                    first = service.memory()
            if time.monotonic() > begin + 6 * minutes * len(tenths):
                tenths.append(service.memory())
        await asyncio.gather(*tasks)
    last = service.memory()
    first = first or last
    found.tried, found.lost, found.wrong = i, run.lost, run.wrong
    unknown = {status: n for status, n in run.statuses.items() if status not in ALLOWED}
    found.check(not unknown, f"statuses {unknown}")
    found.check(last <= 1.05 * first, f"memory grew from {first:,} kB to {last:,} kB")
    run.seconds.sort()
    slowest = run.seconds[-1] if run.seconds else 0.0
    found.check(slowest < 2 * WAIT, f"an accepted request took {slowest:.1f} s")
    found.check(not service.failures(), f"failures: {service.failures()[:1]}")
    middle = run.seconds[len(run.seconds) // 2] if run.seconds else 0.0
    statuses = ", ".join(f"{n:,} × {status}" for status, n in sorted(run.statuses.items()))
    found.notes.append(f"{rate:.0f} requests a second for {minutes:g} min: {statuses}")
    found.notes.append(f"answers {middle:.2f} s (median), {slowest:.2f} s (slowest)")
    found.notes.append(
        f"memory {tenths[0]:,} kB at the start, {first:,} kB after 1,000 requests, after each tenth of the time "
        f"{' '.join(f'{kb:,}' for kb in tenths[1:])} kB, {last:,} kB at the end"
    )
    return found


@fault("twice the load that the service can serve")
def soak(rng: Random, folder: Path) -> Found:
    return soak_for(1.0, rng)


def soak_for(minutes: float, rng: Random) -> Found:
    with served("-d", DETECTOR) as service:
        return asyncio.run(soaked(service, minutes, rng))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    result = soak_for(given.minutes, Random(given.seed))
    print(f"tried {result.tried:,}, lost {result.lost}, wrong {result.wrong}", *result.notes, sep="\n")
    raise SystemExit(1 if result.lost or result.wrong else 0)
