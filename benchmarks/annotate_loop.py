"""The annotation loop from end to end with simulated annotators of known error rates.

    python benchmarks/annotate_loop.py wikipedia:FOLDER --plot docs/annotate-loop.svg > rows/annotate-loop.jsonl

Texts are changed by rules (or --method), one change in ten keeping the meaning; a classifier of word features chooses
each round by equation (9) of Liu et al. 2022. One row per round and annotator, and one of the whole.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from veridical.annotate.rounds import loop_rows
from veridical.annotate.simulate import make_pool, simulate, team
from veridical.datasets import load_reader
from veridical.report.annotation import loop_plot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", help="plain texts, as SET:PATH")
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--sizes", default="100,60,80,100")
    parser.add_argument("--method", default="rules")
    parser.add_argument("--consistent", type=float, default=0.13)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="also draw the balance by round (SVG)")
    options = parser.parse_args()
    began = time.process_time()
    kind, _, path = options.texts.partition(":")
    texts = load_reader(kind).read_texts(Path(path))  # type: ignore[attr-defined]
    pool = make_pool(texts, options.items, method=options.method, consistent=options.consistent, seed=options.seed)
    sizes = [int(size) for size in options.sizes.split(",")]
    loop = simulate(pool, team(seed=options.seed), sizes, progress=lambda line: print(line, file=sys.stderr))
    rows = loop_rows(loop, len(pool), options.method, options.consistent)
    rows[-1] |= {"cpu_seconds": round(time.process_time() - began, 1), "date": datetime.now(UTC).date().isoformat()}
    for row in rows:
        print(json.dumps({**row, "seed": options.seed}))
    if options.plot is not None:
        options.plot.write_text(loop_plot(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
