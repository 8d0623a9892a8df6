"""Tokens per second of a local model that answers questions about one document, one by one and in one batch.

    python benchmarks/generation_batches.py MODEL [--dtype fp32] [--batch 8] [--document 256] [--tokens 32] [--rounds 1]

The prompts are a document of so many tokens and a question each; texts are sampled at temperature 1, each with its own
seed. "one by one" and "batch" take turns in each round; "unshared" is the batch in which each row reads the document by
itself. Reading the prompts counts. `cpu_s` is the processor's time, which other load on the machine changes little;
ratios are of it, except on a GPU. `equal` is the share of texts that are the same one by one. Prints one JSON row each.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from running import benchmark

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


@benchmark()
def main(
    model: str,
    *,
    dtype: str = "fp32",
    device: str = "auto",
    batch: int = 8,
    document: int = 256,
    tokens: int = 32,
    rounds: int = 1,
) -> Iterator[dict[str, Any]]:
    loaded = load(model, dtype=dtype, device=device)
    asked = prompts(loaded, batch, document)
    seeds = range(batch)

    def unshared() -> list[Generated]:
        with patch.object(cached_forward, "shared_beginnings", lambda prompts: [([i], 0) for i in range(len(prompts))]):
            return texts(loaded, asked, seeds, tokens)

    ways: dict[str, Callable[[], list[Generated]]] = {
        "one by one": lambda: [texts(loaded, [asked[i]], [i], tokens)[0] for i in seeds],
        "batch": lambda: texts(loaded, asked, seeds, tokens),
        "unshared": unshared,
    }
    texts(loaded, asked[:1], [0], 2)  # warm
    wall: dict[str, list[float]] = {way: [] for way in ways}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    written: dict[str, list[Generated]] = {}
    for _ in range(rounds):
        for way, run in ways.items():
            begun, begun_cpu = time.perf_counter(), time.process_time()
            written[way] = run()
            wall[way].append(time.perf_counter() - begun)
            cpu[way].append(time.process_time() - begun_cpu)
    on_gpu = loaded.device.type == "cuda"
    for way, found in written.items():
        times = (wall if on_gpu else cpu)[way]
        count = sum(len(text.ids) for text in found)
        alone = (wall if on_gpu else cpu)["one by one"]
        yield {
            "benchmark": f"generation_batches/{way}",
            "model": Path(model).name,
            "parameters": sum(p.numel() for p in loaded.model.parameters()),
            "dtype": loaded.dtype_name,
            "device": torch.cuda.get_device_name() if on_gpu else platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "rows": batch,
            "prompt_tokens": sum(map(len, asked)),
            "tokens": count,
            "wall_s": round(statistics.median(wall[way]), 2),
            "cpu_s": round(statistics.median(cpu[way]), 2),
            "tokens_per_s": round(count / statistics.median(times), 2),
            "times_one_by_one": round(statistics.median(a / b for a, b in zip(alone, times, strict=True)), 2),
            "equal": sum(a.ids == b.ids for a, b in zip(found, written["one by one"], strict=True)) / batch,
            "rounds": rounds,
            "load": round(os.getloadavg()[0], 1),
        }


if __name__ == "__main__":
    main()
