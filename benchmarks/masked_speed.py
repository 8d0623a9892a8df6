"""What corrupting texts with masked words takes: `veridical data corrupt --method masked`, the whole process.

    python benchmarks/masked_speed.py OUT [--texts 10000] [--again 200] -- DATA --fill-model FOLDER --rank-model FOLDER

What follows `--` goes to `data corrupt`. Prints one JSON row: the report of what was made, seconds, texts and words a
second, and the peak memory of the process; the same of a tenth of the texts, which shows whether memory grows with
their number; and whether some of the texts, corrupted again with batch sizes of 1 and 7, give the same file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from running import benchmark

from veridical.datasets import read
from veridical.text.segment import words


def corrupt(how: list[str], texts: int, out: Path, batch_size: int = 32) -> dict[str, object]:
    """Corrupt so many texts in a process of their own."""
    command = [sys.executable, "-m", "veridical", "data", "corrupt", *how, "--method", "masked", "--share", "1"]
    command += ["--first", str(texts), "--batch-size", str(batch_size), "--out", str(out), "--json"]
    out.with_name(f"{out.name}.part.json").unlink(missing_ok=True)  # what was interrupted is measured anew
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    if status:
        raise SystemExit(f"this failed, its message is above: {' '.join(command)}")
    report = json.loads(printed)
    del report["veridical"]
    counted = sum(len(words(example.case.response)) for example in read(f"jsonl:{out}"))
    return {
        "texts": texts,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "texts_per_second": round(report["inputs"] / seconds, 2),
        "words_per_second": round(counted / seconds, 1),
        "peak_rss_mb": round(usage.ru_maxrss / 1024),
        "report": report,
    }


@benchmark()
def main(out: Path, how: Sequence[str], *, texts: int = 10_000, again: int = 200) -> Iterator[dict[str, object]]:
    import torch

    models = {option: Path(value).name for option, value in pairwise(how) if option.endswith("-model")}
    data, hashed = Path(how[0].partition(":")[2]), hashlib.sha256()
    for file in [data] if data.is_file() else sorted(each for each in data.rglob("*") if each.is_file()):
        hashed.update(file.read_bytes())
    few = min(again, texts)
    files = [out.with_name(f"batches-of-{size}-{out.name}") for size in (32, 7, 1)]
    for file, size in zip(files, (32, 7, 1), strict=True):
        corrupt(how, few, file, size)
    yield {
        "what": "masked words",
        "command": shlex.join(["python", "benchmarks/masked_speed.py", *sys.argv[1:]]),
        "data_hash": hashed.hexdigest(),
        "fill_model": models["--fill-model"],
        "rank_model": models.get("--rank-model"),
        "same_in_batches_of_32_7_1": len({file.read_bytes() for file in files}) == 1,
        "compared": few,
        "tenth": corrupt(how, max(1, texts // 10), out.with_name(f"tenth-{out.name}")),
        **corrupt(how, texts, out),
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    main()
