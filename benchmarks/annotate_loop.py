"""The annotation loop from end to end with simulated annotators of known error rates.

    python benchmarks/annotate_loop.py wikipedia:FOLDER --plot docs/annotate-loop.svg > rows/annotate-loop.jsonl

Texts are changed by rules (or --method), one change in ten keeping the meaning; a classifier of word features chooses
each round by equation (9) of Liu et al. 2022. One row per round and annotator, and one of the whole; then one for each
repetition on the same pool with other annotators and other samples.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veridical.datasets import load_reader
from veridical_lab.annotate.rounds import loop_rows
from veridical_lab.annotate.scorer import Scorer
from veridical_lab.annotate.select import SelectOptions
from veridical_lab.annotate.simulate import make_pool, simulate, team
from veridical_lab.report.annotation import loop_plot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", help="plain texts, as SET:PATH")
    parser.add_argument("--items", type=int, default=6000)
    parser.add_argument("--sizes", default="100,100,150,200,250")
    parser.add_argument("--method", default="rules")
    parser.add_argument("--consistent", type=float, default=0.13)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--plot", type=Path, help="also draw the balance by round (SVG)")
    options = parser.parse_args()
    began = time.process_time()
    kind, _, path = options.texts.partition(":")
    texts = load_reader(kind).read_texts(Path(path))  # type: ignore[attr-defined]
    pool = make_pool(texts, options.items, method=options.method, consistent=options.consistent, seed=options.seed)
    sizes = [int(size) for size in options.sizes.split(",")]
    scorer = Scorer(pool)

    def run(seed: int) -> list[dict[str, Any]]:
        loop = simulate(
            pool,
            team(seed=seed),
            sizes,
            options=SelectOptions(seed=seed),
            scorer=scorer,
            progress=lambda line: print(line, file=sys.stderr),
        )
        return [{**row, "seed": seed} for row in loop_rows(loop, len(pool), options.method, options.consistent)]

    rows = run(options.seed)
    rows[-1] |= {"cpu_seconds": round(time.process_time() - began, 1), "date": datetime.now(UTC).date().isoformat()}
    for seed in range(options.seed + 1, options.seed + 1 + options.repeats):
        repeated = run(seed)
        of_round = [row["cumulative"] for row in repeated if row["what"] == "round"]
        rows.append({**repeated[-1], "what": "repetition", "cumulative": of_round})
    for row in rows:
        print(json.dumps(row))
    if options.plot is not None:
        options.plot.write_text(loop_plot(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
