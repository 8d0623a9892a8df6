"""Probes of all sublayers at once, beside a loop over sublayers and scikit-learn; and what live detection costs.

    python benchmarks/probe_training.py train [--sublayers 24] [--width 768] [--responses 1000] [--tokens 60]
                                              [--batch-size 50] [--kind linear|pooling] [--epochs 10] [--rounds 3]
    python benchmarks/probe_training.py train --model FOLDER --data SET:PATH --store FOLDER [--max-tokens 512] …
    python benchmarks/probe_training.py live [--model FOLDER] [--tokens 64] [--rounds 7]

`train`: the activations of a real model on labelled data (the store is made if it is not there), or seeded ones (bf16)
whose labels a direction in every sublayer shows, more or less. All ways read the same store and the same division, and
are timed from the store to the probes:
"all-at-once" is `veridical_lab.probes.fitting.fit`; "torch-loop" trains one sublayer after another, as one would
write it with torch: its states read once into memory, the same batches of responses (padded, pooled states built by
matrix products), autograd, torch.optim.Adam, the same epochs, learning rate and standardisation; "sklearn" (linear
only) is StandardScaler and LogisticRegression without penalty on each sublayer. `f1` is the mean over sublayers of
token F1 on the validation part at its best threshold. `live`: `generate()` with a seeded model of GPT-2 small's size
(124 million weights), with pooling and response probes on all 24 sublayers attached, and without; the two take turns.
Prints one JSON row a way; a figure is the median over rounds, a ratio the median of the rounds' ratios.
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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from veridical.datasets import read
from veridical.datasets.split import split_by_document
from veridical.metrics.confusion import Confusion
from veridical.metrics.thresholding import threshold_for_f1
from veridical.models.load import load
from veridical_lab.detectors.local.probe import Head
from veridical_lab.models.monitor import ProbeMonitor
from veridical_lab.models.probe_heads import Probes
from veridical_lab.models.testing import tiny
from veridical_lab.probes.activation_store import INDEX, ActivationStore, write_store
from veridical_lab.probes.fitting import fit, scores_of
from veridical_lab.probes.labelled_sequences import ProbeLabels, encode_examples, labels_of
from veridical_lab.probes.options import ProbeOptions


def synthetic(
    folder: Path, sublayers: int, width: int, responses: int, tokens: int
) -> tuple[ActivationStore, ProbeLabels]:
    """A store on disk, and labels whose direction grows clearer with depth."""
    from safetensors.torch import save_file

    random = np.random.default_rng(0)
    lengths = random.integers(tokens // 2, tokens * 3 // 2, responses)
    total = int(lengths.sum())
    gold = (random.random(total) < 0.2).astype(np.float32)
    generator = torch.Generator().manual_seed(0)
    states = torch.empty(sublayers, total, width, dtype=torch.bfloat16)
    for s in range(sublayers):
        made = torch.randn(total, width, generator=generator)
        direction = torch.randn(width, generator=generator) / width**0.5
        made += torch.from_numpy(gold)[:, None] * direction * (1.0 + s / sublayers)
        states[s] = made
    save_file({"states": states}, folder / "shard-00000-of-00001.safetensors")
    index = {
        "veridical": "store/1", "base": {"width": width}, "data": "", "sublayers": list(range(sublayers)),
        "dtype": "bf16", "lengths": lengths.tolist(), "shards": [responses],
    }  # fmt: skip
    (folder / INDEX).write_text(json.dumps(index))
    split = np.split(gold, np.cumsum(lengths)[:-1])
    weights = [np.ones_like(part) for part in split]
    whole = np.array([part.max() for part in split], dtype=np.float32)
    return ActivationStore(folder, memory=1 << 40), ProbeLabels(
        split, weights, whole, np.ones(responses, dtype=np.float32)
    )


def real(given: argparse.Namespace) -> tuple[ActivationStore, ProbeLabels, Any, Any]:
    """A store of a model's activations, labels, and which sequences are for training and validation."""
    model = load(given.model, dtype="bf16")
    parts = split_by_document(read(given.data))
    used = [*parts["train"], *parts["valid"]]
    encoded = encode_examples(model, used, "tldr", max_tokens=given.max_tokens)
    write_store(given.store, model, encoded)
    count = len(parts["train"])
    train, valid = encoded.sequences_of(range(count)), encoded.sequences_of(range(count, len(used)))
    return ActivationStore(given.store, memory=1 << 40), labels_of(encoded), train, valid


def at_once(store: ActivationStore, labels: ProbeLabels, train: Any, valid: Any, options: ProbeOptions) -> Probes:
    return fit(store, labels, train, valid, options).probes


def loop(store: ActivationStore, labels: ProbeLabels, train: Any, valid: Any, options: ProbeOptions) -> Probes:
    projections, offsets = [], []
    for s in store.sublayers:
        x = store.read(train, [s])[0]
        mean, scale = x.mean(0), x.std(0)
        x = (x - mean) / scale
        parts = x.split(store.lengths[train].tolist())
        gold = [torch.from_numpy(labels.tokens[i]) for i in train]
        weight = torch.zeros(store.width, requires_grad=True)
        query = torch.zeros(store.width, requires_grad=True)
        bias = torch.zeros((), requires_grad=True)
        adam = torch.optim.Adam([weight, query, bias], lr=options.learning_rates[0])
        random = np.random.default_rng(0)
        for _ in range(options.max_epochs):
            order = random.permutation(len(train))
            for at in range(0, len(order), options.batch_sizes[0]):
                picked = order[at : at + options.batch_sizes[0]]
                h = torch.nn.utils.rnn.pad_sequence([parts[i] for i in picked], batch_first=True)
                y = torch.nn.utils.rnn.pad_sequence([gold[i] for i in picked], batch_first=True)
                mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(gold[i]) for i in picked], batch_first=True)
                if options.kind == "pooling":
                    attention = (h @ query)[:, None, :].expand(-1, h.shape[1], -1)
                    future = torch.ones(h.shape[1], h.shape[1]).triu(1).bool()
                    h = attention.masked_fill(future, -torch.inf).softmax(-1) @ h
                losses = torch.nn.functional.binary_cross_entropy_with_logits(h @ weight + bias, y, reduction="none")
                loss = (losses * mask).sum() / mask.sum()
                adam.zero_grad()
                loss.backward()
                adam.step()
        rows = [weight, query] if options.kind == "pooling" else [weight]
        raw = torch.stack(rows).detach() / scale
        projections.append(raw.numpy())
        offsets.append((bias.detach() - raw[0] @ mean).expand(len(rows)).numpy())
    return Probes(options.kind, "token", store.sublayers, np.stack(projections), np.stack(offsets))


def sklearn(
    store: ActivationStore, labels: ProbeLabels, train: Any, valid: Any, options: ProbeOptions, penalty: float = np.inf
) -> Probes:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    y = np.concatenate([labels.tokens[i] for i in train])
    projections, offsets = [], []
    for s in store.sublayers:
        x = store.read(train, [s])[0].numpy()
        scaler = StandardScaler().fit(x)
        model = LogisticRegression(C=penalty, max_iter=1000).fit(scaler.transform(x), y)
        raw = model.coef_[0] / scaler.scale_
        projections.append(raw[None])
        offsets.append(model.intercept_ - raw @ scaler.mean_)
    return Probes("linear", "token", store.sublayers, np.stack(projections), np.stack(offsets))


def mean_f1(store: ActivationStore, labels: ProbeLabels, valid: Any, probes: Probes) -> float:
    gold = np.concatenate([labels.tokens[i] for i in valid]) > 0
    each = scores_of(store, valid, probes)
    scores = np.concatenate([each[int(i)] for i in valid], 1)
    kept = np.concatenate([labels.token_weights[i] for i in valid]) > 0
    gold, scores = gold[kept], scores[:, kept]
    return float(np.mean([Confusion.of(gold, row >= threshold_for_f1(gold, row)).f1() for row in scores]))


def train_rows(given: argparse.Namespace) -> list[dict[str, Any]]:
    options = ProbeOptions(
        given.kind, "token", (given.learning_rate,), (given.batch_size,), max_epochs=given.epochs, patience=given.epochs
    )
    ways: dict[str, Callable[..., Probes]] = {"all-at-once": at_once, "torch-loop": loop}
    if given.kind == "linear" and not given.no_sklearn:
        ways["sklearn"] = sklearn
        ways["sklearn, C=1"] = partial(sklearn, penalty=1.0)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    quality: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        if given.store:
            store, labels, train, valid = real(given)
        else:
            store, labels = synthetic(Path(folder), given.sublayers, given.width, given.responses, given.tokens)
            cut = given.responses * 7 // 8
            train, valid = np.arange(cut), np.arange(cut, given.responses)
        for _ in range(given.rounds):
            for way, run in ways.items():
                begun = time.perf_counter()
                probes = run(store, labels, train, valid, options)
                seconds[way].append(time.perf_counter() - begun)
                quality[way] = mean_f1(store, labels, valid, probes)
        tokens = int(store.lengths.sum())
    about = {
        "kind": given.kind, "sublayers": len(store.sublayers), "width": store.width, "responses": len(store.lengths),
        "tokens": tokens, "batch_size": given.batch_size, "epochs": given.epochs, "learning_rate": given.learning_rate,
    }  # fmt: skip
    return [
        {
            "benchmark": f"probe_training/{way}",
            **about,
            "seconds": round(statistics.median(found), 3),
            "f1": round(quality[way], 4),
            "times_as_long_as_all_at_once": round(
                statistics.median(a / b for a, b in zip(found, seconds["all-at-once"], strict=True)), 2
            ),
        }
        for way, found in seconds.items()
    ]


def heads(sublayers: int, width: int) -> dict[str, Head]:
    random = np.random.default_rng(0)
    made = {}
    for objective in ("token", "response"):
        projection = random.normal(size=(sublayers, 2, width)).astype(np.float32) / width
        mix = random.normal(size=sublayers).astype(np.float32)
        offset = np.zeros((sublayers, 2), dtype=np.float32)
        probes = Probes("pooling", objective, tuple(range(sublayers)), projection, offset, mix=mix)
        made[objective] = Head(probes, 0.5)
    return made


def live_rows(given: argparse.Namespace) -> list[dict[str, Any]]:
    sizes = {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    with tempfile.TemporaryDirectory() as folder:
        model = load(given.model or tiny("gpt2", Path(folder), **sizes), dtype=given.dtype)
        layers = model.model.config.get_text_config().num_hidden_layers
        probes = heads(2 * layers, model.model.config.get_text_config().hidden_size)
        ids = torch.randint(4, 8000, (1, 128), generator=torch.Generator().manual_seed(0)).to(model.device)

        def run() -> float:
            begun = time.perf_counter()
            model.model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=given.tokens, do_sample=False,
                min_new_tokens=given.tokens, pad_token_id=0,
            )  # fmt: skip
            return time.perf_counter() - begun

        def watched() -> float:
            monitor = ProbeMonitor(probes, device=model.device)
            with monitor.attached(model):
                spent = run()
            assert len(monitor) == given.tokens - 1
            return spent

        run(), watched()
        bare, listening = [], []
        for i in range(given.rounds):
            pair = (run, watched) if i % 2 else (watched, run)
            times = {way: way() for way in pair}
            bare.append(times[run])
            listening.append(times[watched])
        size = sum(p.numel() for p in model.model.parameters())
        step = probe_step(probes, model, given.tokens)
    ratio = statistics.median(a / b for a, b in zip(listening, bare, strict=True))
    about = {"parameters": size, "dtype": str(model.dtype), "device": str(model.device), "new_tokens": given.tokens}
    per_token = {"bare": bare, "with_probes": listening}
    rows = [
        {"benchmark": f"probe_live/{way}", **about, "ms_per_token": round(1e3 * statistics.median(t) / given.tokens, 3)}
        for way, t in per_token.items()
    ]
    rows[1] |= {"over_bare": round(ratio, 4), "probes_ms_per_token": round(1e3 * step, 4)}
    return rows


def probe_step(probes: dict[str, Head], model: Any, count: int) -> float:
    """Seconds for a token, of what the probes do beside the model: keep states, project, pool, mix."""
    monitor = ProbeMonitor(probes, device=model.device)
    width = next(iter(probes.values())).probes.width
    states = [torch.randn(1, 1, width, device=model.device, dtype=model.dtype) for _ in monitor.sublayers]
    begun = time.perf_counter()
    for _ in range(count):
        monitor.step(torch.stack([state.detach().clone()[:, 0] for state in states]))
    return (time.perf_counter() - begun) / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "live"])
    parser.add_argument("--kind", default="linear", choices=["linear", "pooling"])
    for name, default in (("sublayers", 24), ("width", 768), ("responses", 1000), ("tokens", 60), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--no-sklearn", action="store_true")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--model")
    parser.add_argument("--data")
    parser.add_argument("--store")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--dtype", default="fp32")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for row in train_rows(given) if given.what == "train" else live_rows(given):
        row |= {
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "load": round(os.getloadavg()[0], 1),
            "machine": platform.machine(),
            "rounds": given.rounds,
            "torch": torch.__version__,
            "command": " ".join(["python", "benchmarks/probe_training.py", *sys.argv[1:]]),
            "date": date.today().isoformat(),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
