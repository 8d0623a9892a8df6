"""Fifty responses to one source of 30,000 words: alignment beside a cross-encoder of the same weights.

    python benchmarks/align_speed.py ENCODER [--words 30000] [--responses 50] [--measured 2] [--dtype fp32]

Alignment reads the source once. The cross-encoder reads each response together with every window of the source (512
tokens, a quarter shared), as token classifiers do; only its forward pass is timed, on pairs sorted by length as the
runner batches them. `--measured` responses are run and the time is scaled to all of them: the passes are the same for
each. Both run in this process, one after the other, with as many threads as OMP_NUM_THREADS says. Prints one JSON row a
way. Texts are sentences of seeded random words of the encoder's vocabulary.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import tempfile
import time
from datetime import date

import torch
from commands import command

from veridical.core.types import Case, Source
from veridical.models.artifact import identity
from veridical.models.encode import encode
from veridical.models.load import load
from veridical_lab.detectors.align.detector import Align
from veridical_lab.models.runner import RequestedOutputs, Runner


def texts(vocabulary: list[str], words: int, responses: int) -> tuple[str, list[str]]:
    """A source of so many words, and responses of 60 words each, of which a third are sentences of the source."""
    chosen = random.Random(0)
    sentences = [" ".join(chosen.choices(vocabulary, k=20)).capitalize() + "." for _ in range(-(-words // 20))]
    made = []
    for _ in range(responses):
        own = [" ".join(chosen.choices(vocabulary, k=20)).capitalize() + "." for _ in range(2)]
        made.append(" ".join([*own, chosen.choice(sentences)]))
    return " ".join(sentences), made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("encoder")
    parser.add_argument("--words", type=int, default=30_000)
    parser.add_argument("--responses", type=int, default=50)
    parser.add_argument("--measured", type=int, default=2)
    parser.add_argument("--dtype", default="fp32")
    arguments = parser.parse_args()
    model = load(arguments.encoder, dtype=arguments.dtype, kinds=("encoder",))
    tokens = model.tokenizer.get_vocab()
    vocabulary = sorted(token for token in tokens if token.isascii() and token.isalpha() and len(token) > 3)
    text, responses = texts(vocabulary, arguments.words, arguments.responses)
    cases = [Case(str(i), response, (Source("a", text),)) for i, response in enumerate(responses)]
    common = {
        "benchmark": "align speed",
        "command": command(),
        "encoder": identity(model),
        "dtype": model.dtype_name,
        "device": str(model.device),
        "words": arguments.words,
        "responses": len(cases),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "date": date.today().isoformat(),
    }

    def row(way: str, seconds: float, **more: object) -> None:
        peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        print(json.dumps({"way": way, "seconds": round(seconds, 2), **more, "peak_rss_mb": peak, **common}), flush=True)

    with tempfile.TemporaryDirectory() as store:
        detector = Align(arguments.encoder, dtype=arguments.dtype, store=store)
        assert detector.scorer.baseline  # loads the model before the clock starts
        start = time.perf_counter()
        detector.judge(cases)
        first = time.perf_counter() - start
        row("align", first)
        again = Align(arguments.encoder, dtype=arguments.dtype, store=store)
        assert again.scorer.baseline
        start = time.perf_counter()
        again.judge(cases)
        row("align, source stored", time.perf_counter() - start)
    runner = Runner(model)
    wanted = RequestedOutputs(logprobs=False, layers=(int(model.model.config.get_text_config().num_hidden_layers),))
    taken, windows = 0.0, 0
    for case in cases[: arguments.measured]:
        encoded = encode(model, case, "bare", max_tokens=512)
        windows += len(encoded)
        start = time.perf_counter()
        for _ in runner.run(encoded, wanted):
            pass
        taken += time.perf_counter() - start
    total = taken / arguments.measured * len(cases)
    row("cross-encoder", total, measured=arguments.measured, windows_each=windows // arguments.measured)
    print(json.dumps({"way": "cross-encoder / align", "ratio": round(total / first, 1), **common}))


if __name__ == "__main__":
    main()
