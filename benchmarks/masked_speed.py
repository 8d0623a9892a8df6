"""What corrupting texts with masked words takes: `veridical data corrupt --method masked`, the whole process.

    python benchmarks/masked_speed.py DATA FILL_MODEL RANK_MODEL OUT [--texts 10000] [--candidates 8] [--batch-size 32]

DATA is SET:PATH of plain texts; passages of five to eight sentences of them are corrupted, all of them. Prints one JSON
row: the report of what was made, seconds, texts and words a second, and the peak memory of the process; the same of a
tenth of the texts shows whether memory grows with their number.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from veridical.core.segment import words
from veridical.datasets import read


def corrupt(arguments: argparse.Namespace, texts: int, out: Path) -> dict[str, object]:
    """Corrupt so many texts in a process of their own."""
    command = [
        sys.executable,
        "-m",
        "veridical",
        "data",
        "corrupt",
        arguments.data,
        "--method",
        "masked",
        "--share",
        "1",
    ]
    command += ["--passages", "2", "--first", str(texts), "--candidates", str(arguments.candidates)]
    command += [
        "--fill-model",
        arguments.fill_model,
        "--rank-model",
        arguments.rank_model,
        "--device",
        arguments.device,
    ]
    command += ["--batch-size", str(arguments.batch_size), "--out", str(out), "--json"]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    report = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    assert status == 0
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


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("data", "fill_model", "rank_model", "out"):
        parser.add_argument(name)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    import torch
    import transformers

    out = Path(arguments.out)
    row: dict[str, object] = {
        "what": "masked words",
        "fill_model": Path(arguments.fill_model).name,
        "rank_model": Path(arguments.rank_model).name,
        "candidates": arguments.candidates,
        "batch_size": arguments.batch_size,
        "tenth": corrupt(arguments, max(1, arguments.texts // 10), out.with_name(f"tenth-{out.name}")),
        **corrupt(arguments, arguments.texts, out),
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "date": date.today().isoformat(),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
