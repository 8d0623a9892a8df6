"""Tokens per second of a local model that answers questions about one document, one by one and in one batch.

    python benchmarks/generation_batches.py MODEL [--dtype fp32] [--rows 8] [--document 256] [--tokens 32] [--rounds 1]

The prompts are a document of so many tokens and a question each; texts are sampled at temperature 1, each with its own
seed. "one by one" and "batch" take turns in each round; "unshared" is the batch in which each row reads the document by
itself. Reading the prompts counts. `cpu_s` is the processor's time, which other load on the machine changes little;
ratios are of it, except on a GPU. `equal` is the share of texts that are the same one by one. Prints one JSON row each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from unittest.mock import patch

import torch

from veridical.inference.local_model import LocalModel
from veridical.models import cached_forward
from veridical.models.generation import Generated, generate
from veridical.models.load import load
from veridical.models.sampling import Sampler

TEXT = """The Kingsley Bridge over the river Orlan was opened on 4 May 1931 by the mayor, Helen Marsh. It is 330 metres
long and was designed by the engineer Peter Alwyn. In 1987 it was closed for two years while its cables were replaced.
About 12,000 cars cross it every day, and some 900 people on foot. The toll was abolished in 1964. """
QUESTIONS = (
    "Who opened the bridge?",
    "How long is it?",
    "Who designed the bridge, and when was it opened?",
    "Why was it closed?",
    "How many cars cross it every day?",
    "Is there a toll?",
    "Which river does it cross?",
    "How many people cross it on foot?",
)


def prompts(model: LocalModel, rows: int, size: int) -> list[list[int]]:
    document = model.tokenizer(TEXT * (1 + size // 60))["input_ids"][:size]
    ends = [f"\nQuestion: {QUESTIONS[i % len(QUESTIONS)]}\nAnswer:" for i in range(rows)]
    return [document + model.tokenizer(end, add_special_tokens=False)["input_ids"] for end in ends]


def texts(model: LocalModel, given: Sequence[list[int]], seeds: Sequence[int], tokens: int) -> list[Generated]:
    return generate(model, given, Sampler(seeds, temperature=1.0, device=model.device), max_tokens=tokens)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--document", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    model = load(given.model, dtype=given.dtype, device=given.device)
    asked = prompts(model, given.rows, given.document)
    seeds = range(given.rows)

    def unshared() -> list[Generated]:
        with patch.object(cached_forward, "shared_beginnings", lambda prompts: [([i], 0) for i in range(len(prompts))]):
            return texts(model, asked, seeds, given.tokens)

    ways: dict[str, Callable[[], list[Generated]]] = {
        "one by one": lambda: [texts(model, [asked[i]], [i], given.tokens)[0] for i in seeds],
        "batch": lambda: texts(model, asked, seeds, given.tokens),
        "unshared": unshared,
    }
    texts(model, asked[:1], [0], 2)  # warm
    wall: dict[str, list[float]] = {way: [] for way in ways}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    written: dict[str, list[Generated]] = {}
    for _ in range(given.rounds):
        for way, run in ways.items():
            begun, begun_cpu = time.perf_counter(), time.process_time()
            written[way] = run()
            wall[way].append(time.perf_counter() - begun)
            cpu[way].append(time.process_time() - begun_cpu)
    on_gpu = model.device.type == "cuda"
    arguments = [Path(a).name if a == given.model else a for a in sys.argv[1:]]
    for way, found in written.items():
        times = (wall if on_gpu else cpu)[way]
        tokens = sum(len(text.ids) for text in found)
        alone = (wall if on_gpu else cpu)["one by one"]
        row = {
            "benchmark": f"generation_batches/{way}",
            "model": Path(given.model).name,
            "parameters": sum(p.numel() for p in model.model.parameters()),
            "dtype": model.dtype_name,
            "device": torch.cuda.get_device_name() if on_gpu else platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "rows": given.rows,
            "prompt_tokens": sum(map(len, asked)),
            "tokens": tokens,
            "wall_s": round(statistics.median(wall[way]), 2),
            "cpu_s": round(statistics.median(cpu[way]), 2),
            "tokens_per_s": round(tokens / statistics.median(times), 2),
            "times_one_by_one": round(statistics.median(a / b for a, b in zip(alone, times, strict=True)), 2),
            "equal": sum(a.ids == b.ids for a, b in zip(found, written["one by one"], strict=True)) / given.rows,
            "rounds": given.rounds,
            "load": round(os.getloadavg()[0], 1),
            "torch": torch.__version__,
            "command": " ".join(["python", "benchmarks/generation_batches.py", *arguments]),
            "date": date.today().isoformat(),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
