"""Inject all faults, print a table of what was tried and lost, and write it as rows for the docs.

    python -m tests.faults [--seed N] [--only TEXT] [--write]

Ends with 1 if anything was lost or wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.faults import (  # noqa: F401 - they register
    batches,
    cache,
    growth,
    memory,
    openapi,
    replies,
    services,
    soak,
    texts,
    upstreams,
)
from tests.faults.harness import FAULTS

ROWS = Path(__file__).parents[2] / "benchmarks" / "rows" / "faults.jsonl"


def injected(seed: int, only: str) -> list[dict[str, Any]]:
    """Inject each fault, print its line, and return its row."""
    rows = []
    for about, function in FAULTS.items():
        if only not in about:
            continue
        began = time.monotonic()
        with TemporaryDirectory() as folder:
            found = function(Random(f"{seed} {about}"), Path(folder))
        row = {"fault": about, "tried": found.tried, "lost": found.lost, "wrong": found.wrong, "seed": seed}
        row |= {"notes": found.notes[:4], "seconds": round(time.monotonic() - began)}
        rows.append(row)
        print(f"{about:<66} tried {found.tried:>5} lost {found.lost:>3} wrong {found.wrong:>3} {row['seconds']:>4} s")
        for note in found.notes[:8]:
            print(f"    {note}")
        sys.stdout.flush()
    return rows


def grown(only: str) -> list[dict[str, Any]]:
    """Measure the growth of each path, print its line, and return its row."""
    rows = []
    for row in growth.rows() if not only or only == "growth" else ():
        one, two, four = row["seconds"]
        rows.append({"growth": row.pop("path"), **row})
        ratio = four / max(two, 1e-4)
        print(f"{rows[-1]['growth']:<28} {row['n']:>9,} {one:>8.3f} {two:>8.3f} {four:>8.3f} s   4n/2n {ratio:.2f}")
        sys.stdout.flush()
    return rows


def _name(row: dict[str, Any]) -> str:
    return str(row.get("fault") or row["growth"])


def main() -> int:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all random choices; default: the time")
    parser.add_argument("--only", default="", help='faults whose name holds this text, or "growth"')
    parser.add_argument("--write", action="store_true", help=f"write the rows to {ROWS.name}; other rows stay")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    rows = [*injected(given.seed, given.only), *grown(given.only)]
    if given.write:
        machine = {
            "machine": f"{platform.machine()}, {os.cpu_count()} processors",
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        earlier = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()] if given.only else []
        latest = {_name(row): row for row in [*earlier, *({**row, **machine} for row in rows)]}
        ROWS.write_text("".join(json.dumps(row) + "\n" for row in latest.values()), "utf-8")
    bad = [row for row in rows if row.get("lost") or row.get("wrong")]
    bad += [row for row in rows if "growth" in row and row["seconds"][2] > growth.MOST * row["seconds"][1]]
    print(f"{len(rows)} kinds, {len(bad)} with something lost or wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
