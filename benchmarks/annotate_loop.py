"""The annotation loop from end to end with simulated annotators of known error rates.

    python benchmarks/annotate_loop.py wikipedia:FOLDER --plot docs/annotate-loop.svg > rows/annotate-loop.jsonl

Texts are changed by rules (or --method), one change in ten keeping the meaning; a classifier of word features chooses
each round by equation (9) of Liu et al. 2022. One row per round and annotator, and one of the whole; then one for each
repetition on the same pool with other annotators and other samples.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

from running import benchmark

from veridical.datasets import load_reader
from veridical_lab.annotate.rounds import loop_rows
from veridical_lab.annotate.scorer import Scorer
from veridical_lab.annotate.select import SelectOptions
from veridical_lab.annotate.simulate import make_pool, simulate, team
from veridical_lab.report.annotation import loop_plot


@benchmark()
def main(
    texts: Annotated[str, "plain texts, as SET:PATH"],
    *,
    items: int = 6000,
    sizes: str = "100,100,150,200,250",
    method: str = "rules",
    consistent: float = 0.13,
    seed: int = 0,
    repeats: int = 4,
    plot: Annotated[Path | None, "also draw the balance by round (SVG)"] = None,
) -> list[dict[str, Any]]:
    began = time.process_time()
    kind, _, path = texts.partition(":")
    read = load_reader(kind).read_texts(Path(path))  # type: ignore[attr-defined]
    pool = make_pool(read, items, method=method, consistent=consistent, seed=seed)
    scorer = Scorer(pool)

    def run(seed: int) -> list[dict[str, Any]]:
        loop = simulate(
            pool,
            team(seed=seed),
            [int(size) for size in sizes.split(",")],
            options=SelectOptions(seed=seed),
            scorer=scorer,
            progress=lambda line: print(line, file=sys.stderr),
        )
        return [{**row, "seed": seed} for row in loop_rows(loop, len(pool), method, consistent)]

    rows = run(seed)
    rows[-1] |= {"cpu_seconds": round(time.process_time() - began, 1)}
    for other in range(seed + 1, seed + 1 + repeats):
        repeated = run(other)
        of_round = [row["cumulative"] for row in repeated if row["what"] == "round"]
        rows.append({**repeated[-1], "what": "repetition", "cumulative": of_round})
    if plot is not None:
        plot.write_text(loop_plot(rows) + "\n", "utf-8")
    return rows


if __name__ == "__main__":
    main()
