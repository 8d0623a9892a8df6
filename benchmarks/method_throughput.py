"""Tokens per second of each method that reads a language model, and of generation, on one real model and real data.

    python benchmarks/method_throughput.py MODEL SET:PATH --llama-python ENV/bin/python --rows rows.jsonl

The cases are from the test part. Of each method: the tokens of prompt and response (template tldr; the same for all
methods) per second, and how many times as long it takes as a bare `model(**batch)` over the same tokens in padded
batches of 8. The probe is a linear one on all sublayers, trained on cases of the other parts, by response; salience
judges the first `--salience` cases. Of generation: new tokens per second, the prompt's reading included, and the time
next to transformers' own `generate()`: greedy, the same prompts and number of tokens. llama.cpp runs `model.gguf` of
MODEL (other weights: quantised) in its own environment. All ways take turns in each round; times are processor time of
one thread, which other load changes less than the clock; on a GPU they are of the clock.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Annotated, Any

import torch
from running import benchmark, without_folders

from veridical.datasets import read
from veridical.datasets.split import content_hash, split_by_document
from veridical.detectors import load_detector
from veridical.inference.local_model import LocalModel
from veridical.llm.connection import Connection
from veridical.models.generation import generate
from veridical.models.load import load
from veridical.models.sampling import Sampler
from veridical.records.types import Case, Example
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.models.encode import encode
from veridical_lab.models.stepwise import prompt_of
from veridical_lab.probes.options import ProbeOptions, TrainingConfig
from veridical_lab.probes.training import train_probe

TEMPLATE = "tldr"
BATCH = 8
LLAMA = """
import json, sys, time
from llama_cpp import Llama

model = Llama(sys.argv[1], n_ctx=4096, n_threads=1, n_threads_batch=1, verbose=False)
print("ready", flush=True)
for line in sys.stdin:
    prompts, count = json.loads(line)
    begun, tokens = time.process_time(), 0
    for prompt in prompts:
        model.reset()
        for token in model.generate(prompt, temp=0.0):
            tokens += 1
            if tokens % count == 0:
                break
    print(json.dumps([time.process_time() - begun, tokens]), flush=True)
"""


def drawn(examples: Iterable[Example], count: int) -> list[Example]:
    """The first labelled example of each document that has sources, `count` of them."""
    first: dict[str | None, Example] = {}
    for example in examples:
        if example.case.sources and example.gold.hallucination is not None:
            first.setdefault(example.document, example)
    return list(first.values())[:count]


def padded(model: LocalModel, texts: Sequence[Sequence[int]]) -> list[dict[str, torch.Tensor]]:
    """Batches of 8, the longest texts first."""
    ordered = sorted(texts, key=len, reverse=True)
    made = []
    for start in range(0, len(ordered), BATCH):
        batch = [torch.tensor(ids) for ids in ordered[start : start + BATCH]]
        ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in batch], batch_first=True)
        made.append({"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)})
    return made


class LlamaCpp:
    """A model.gguf that llama.cpp runs in another process, on one thread."""

    def __init__(self, interpreter: str, file: Path) -> None:
        self.process = subprocess.Popen(
            [interpreter, "-c", LLAMA, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.line()

    def line(self) -> str:
        found = self.process.stdout.readline() if self.process.stdout else ""
        if not found:
            raise SystemExit("llama.cpp ended: is llama-cpp-python in that environment?")
        return found

    def seconds(self, prompts: Sequence[Sequence[int]], tokens: int) -> tuple[float, int]:
        assert self.process.stdin
        self.process.stdin.write(json.dumps([[list(p) for p in prompts], tokens]) + "\n")
        self.process.stdin.flush()
        seconds, written = json.loads(self.line())
        return seconds, written

    def close(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait(timeout=60)


def probe_of(model: LocalModel, given: SimpleNamespace, examples: Sequence[Example], folder: str) -> Probe:
    """A linear probe on every sublayer; how well it judges does not matter here."""
    options = ProbeOptions(kind="linear", max_epochs=1)
    config = TrainingConfig(options=options, objectives=("response",), template=TEMPLATE)
    train_probe(model, examples, config, out=folder)
    return Probe(folder, model=given.model)


def reading(
    model: LocalModel, given: SimpleNamespace, parts: dict[str, list[Example]], folder: str
) -> list[dict[str, Any]]:
    """A row per method that judges given responses."""
    cases = [example.case for example in drawn(parts["test"], given.cases)]
    few = cases[: given.salience]
    encoded = {case.id: encode(model, case, TEMPLATE, max_windows=1)[0].ids for case in cases}
    tokens = {len(group): sum(len(encoded[case.id]) for case in group) for group in (cases, few)}
    batches = {len(group): padded(model, [encoded[case.id] for case in group]) for group in (cases, few)}
    connection = Connection(model=given.model, device=given.device, dtype=given.dtype)
    options = f"device={given.device},dtype={given.dtype}"
    labelled = [e for part in parts.values() for e in part if e.case.sources and e.gold.hallucination is not None]
    probe = probe_of(model, given, labelled[:: max(1, len(labelled) // given.training)], folder)
    torch.set_num_threads(1)

    def bare(group: Sequence[Case]) -> None:
        with torch.inference_mode():
            for batch in batches[len(group)]:
                model.model(**batch, use_cache=False)

    ways: dict[str, tuple[Callable[[Sequence[Case]], object], list[Case]]] = {
        "model(**batch)": (bare, cases),
        "logprob": (load_detector(f"logprob:{given.model},template={TEMPLATE},{options}").judge, cases),
        "probe": (probe.judge, cases),
        "judge:yes_no": (load_detector("judge:yes_no", connection).judge, cases),
        "verify:yes_no": (load_detector("verify:yes_no", connection).judge, cases),
        "model(**batch), few": (bare, few),
        "salience": (load_detector(f"salience:{given.model},template={TEMPLATE},{options}").judge, few),
    }
    for way in ("model(**batch)", "logprob", "judge:yes_no"):
        call, group = ways[way]
        call(group[:1] if call is not bare else group)
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(given.rounds):
        for way, (call, group) in ways.items():
            begun = now(model)
            call(group)
            taken[way].append(now(model) - begun)
    rows = []
    for way, (_, group) in ways.items():
        if way == "model(**batch), few":
            continue
        base = taken["model(**batch), few" if group is few else "model(**batch)"]
        rows.append(
            {
                "benchmark": "method_throughput/reading",
                "way": way,
                "n": len(group),
                "tokens": tokens[len(group)],
                "seconds_per_response": round(median(taken[way]) / len(group), 3),
                "tokens_per_s": round(tokens[len(group)] / median(taken[way]), 1),
                "times": round(median(a / b for a, b in zip(taken[way], base, strict=True)), 3),
            }
        )
    return rows


def writing(model: LocalModel, given: SimpleNamespace, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """A row per way of generation."""
    cases = [example.case for example in drawn(examples, given.cases)]
    prompts = [list(prompt_of(model, case, TEMPLATE, given.tokens).ids) for case in cases]
    llama = LlamaCpp(given.llama_python, Path(given.model) / "model.gguf") if given.llama_python else None

    def theirs() -> int:
        written = 0
        for prompt in prompts:
            ids = torch.tensor([prompt], device=model.device)
            done = model.model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=given.tokens
            )
            written += done.shape[1] - len(prompt)
        return written

    def ours(size: int) -> int:
        written = 0
        for start in range(0, len(prompts), size):
            batch = prompts[start : start + size]
            sampler = Sampler(range(len(batch)), temperature=0.0, device=model.device)
            written += sum(len(text.ids) for text in generate(model, batch, sampler, max_tokens=given.tokens))
        return written

    ways: dict[str, Callable[[], int]] = {
        "generate() of transformers": theirs,
        "one by one": lambda: ours(1),
        f"batches of {BATCH}": lambda: ours(BATCH),
    }
    taken: dict[str, list[float]] = {way: [] for way in ways}
    tokens: dict[str, int] = {}
    theirs()
    for _ in range(given.rounds):
        for way, call in ways.items():
            begun = now(model)
            tokens[way] = call()
            taken[way].append(now(model) - begun)
        if llama:
            seconds, tokens["llama.cpp, model.gguf"] = llama.seconds(prompts, given.tokens)
            taken.setdefault("llama.cpp, model.gguf", []).append(seconds)
    if llama:
        llama.close()
    base = [seconds / tokens["generate() of transformers"] for seconds in taken["generate() of transformers"]]
    return [
        {
            "benchmark": "method_throughput/writing",
            "way": way,
            "n": len(prompts),
            "prompt_tokens": sum(map(len, prompts)),
            "tokens": tokens[way],
            "tokens_per_s": round(tokens[way] / median(seconds), 2),
            "times": round(median(a / tokens[way] / b for a, b in zip(seconds, base, strict=True)), 3),
        }
        for way, seconds in taken.items()
    ]


def now(model: LocalModel) -> float:
    """Seconds of this process' processor time; with a GPU, of the clock once it has finished."""
    if model.device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


@benchmark()
def main(
    model: str,
    data: str,
    *,
    cases: int = 8,
    salience: Annotated[int, "how many of them salience judges"] = 2,
    training: Annotated[int, "cases that the probe is made of"] = 60,
    tokens: Annotated[int, "how many are written after each prompt"] = 32,
    rounds: int = 3,
    device: str = "auto",
    dtype: str = "auto",
    llama_python: Annotated[str | None, "an interpreter with llama-cpp-python"] = None,
) -> Iterator[dict[str, Any]]:
    given = SimpleNamespace(**locals())
    loaded = load(model, device=device, dtype=dtype)
    examples = list(read(data))
    parts = split_by_document(examples)
    with tempfile.TemporaryDirectory() as folder:
        found = reading(loaded, given, parts, folder) + writing(loaded, given, parts["test"])
    about = {
        "model": Path(model).name,
        "parameters": sum(p.numel() for p in loaded.model.parameters()),
        "dtype": loaded.dtype_name,
        "data": f"{without_folders(data)}, test part, {content_hash(parts['test'])[:16]}",
        "rounds": rounds,
        "device": torch.cuda.get_device_name() if loaded.device.type == "cuda" else platform.machine(),
        "machine": f"1 of {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1),
    }
    yield from ({**row, **about} for row in found)


if __name__ == "__main__":
    main()
