"""What the runner costs beside a bare `model(**batch)` on the same padded batches.

    python benchmarks/runner_overhead.py [MODEL_FOLDER] [--dtype fp32] [--device auto] [--sequences 16] [--rounds 5]

Without a folder: a seeded model of GPT-2 small's size. Sequences have 224 to 288 prompt and 68 to 132 response tokens.
"bare" is the whole model with its head on every position, "trunk" the same without the head, "logprobs" the runner with
hooks off, "sublayers" the runner with all sublayers' outputs kept for the response's tokens, and log-probabilities.
All take turns in each round; a figure is the median over rounds, a ratio the median of the rounds' ratios.
Prints one JSON row each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical_lab.models.encode import Encoded
from veridical_lab.models.runner import RequestedOutputs, Runner
from veridical_lab.models.testing import tiny


def gpt2_small(folder: Path) -> Path:
    sizes = {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    return tiny("gpt2", folder, **sizes)


def sequences(model: LocalModel, count: int) -> list[Encoded]:
    random = np.random.default_rng(0)
    vocabulary = model.model.config.vocab_size
    made = []
    for _ in range(count):
        prompt, response = int(random.integers(224, 289)), int(random.integers(68, 133))
        ids = tuple(int(i) for i in random.integers(4, vocabulary, prompt + response))
        made.append(Encoded(ids, prompt, (None,) * response))
    return made


def batches(runner: Runner, encoded: list[Encoded]) -> list[dict[str, torch.Tensor]]:
    """The very batches that the runner makes."""
    made: list[dict[str, torch.Tensor]] = []
    states = runner._states

    def keep(inputs: dict[str, torch.Tensor], want: RequestedOutputs) -> torch.Tensor:
        made.append(inputs)
        return states(inputs, want)

    runner._states = keep  # type: ignore[method-assign]
    list(runner.run(encoded))
    runner._states = states  # type: ignore[method-assign]
    return made


def timed(model: LocalModel, run: Callable[[], Any]) -> float:
    wait = torch.cuda.synchronize if model.device.type == "cuda" else lambda: None
    wait()
    begun = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - begun


def bare(model: LocalModel, module: Any, inputs: list[dict[str, torch.Tensor]]) -> Callable[[], None]:
    def run() -> None:
        with torch.inference_mode():
            for batch in inputs:
                module(**batch, use_cache=False)

    return run


def measure(model: LocalModel, encoded: list[Encoded], rounds: int) -> dict[str, list[float]]:
    runner = Runner(model)
    inputs = batches(runner, encoded)
    ways: dict[str, Callable[[], Any]] = {
        "bare": bare(model, model.model, inputs),
        "trunk": bare(model, model.model.base_model, inputs),
        "logprobs": lambda: list(runner.run(encoded)),
        "sublayers": lambda: list(runner.run(encoded, RequestedOutputs(sublayers="all"))),
    }
    for run in ways.values():
        run()  # warm
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            seconds[way].append(timed(model, run))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = given.model or gpt2_small(Path(folder))
        model = load(place, dtype=given.dtype, device=given.device)
        encoded = sequences(model, given.sequences)
        seconds = measure(model, encoded, given.rounds)
    tokens = sum(len(e.ids) for e in encoded)
    for way, found in seconds.items():
        ratios = {
            f"over_{base}": round(statistics.median(a / b for a, b in zip(found, seconds[base], strict=True)), 3)
            for base in ("bare", "trunk")
        }
        figures = {
            "benchmark": f"runner_overhead/{way}",
            "model": Path(given.model).name if given.model else "seeded GPT-2 small",
            "parameters": sum(p.numel() for p in model.model.parameters()),
            "dtype": str(model.dtype),
            "device": torch.cuda.get_device_name() if model.device.type == "cuda" else platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "seconds": round(statistics.median(found), 4),
            "tokens_per_s": round(tokens / statistics.median(found)),
            **ratios,
            "rounds": given.rounds,
            "torch": torch.__version__,
            "command": " ".join(["python", "benchmarks/runner_overhead.py", *sys.argv[1:]]),
            "date": date.today().isoformat(),
        }
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
