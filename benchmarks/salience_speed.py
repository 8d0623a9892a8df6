"""Gradient salience against captum and inseq: the same model, text and targets, on the same machine, in one run.

    python benchmarks/salience_speed.py --inseq-python ENV/bin/python --rows rows.jsonl --plot cost.svg

The model is GPT-2 small in size with seeded random weights; the text is random tokens. captum's gradient attribution
for language models (LayerGradientXActivation of the input embeddings) explains log-probabilities and gives rows for
the prompt only; inseq's input_x_gradient is asked for logits. Ours is compared with each by its own score. inseq runs
in its own environment. Prints a JSON row a measurement, the best of `--repeat` runs: `seconds` of the clock, and
`cpu_seconds` of the process, which are the ones to compare on a machine with other load (with one thread).
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from running import emit

WORDS = 50257
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def model(dtype: str, device: str) -> Any:
    torch.manual_seed(0)
    made = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    return made.eval().requires_grad_(False).to(device, DTYPES[dtype])


def text(prompt: int, response: int) -> list[int]:
    return np.random.RandomState(0).randint(3, WORDS - 2, prompt + response).tolist()


def tokenizer() -> Any:
    """One token a word: "w7" is token 7."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = {"<pad>": 0, "<s>": 1, "</s>": 2}
    raw = Tokenizer(models.WordLevel({**special, **{f"w{i}": i for i in range(3, WORDS)}}, unk_token="<pad>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<pad>", pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


Seconds = tuple[float, float]  # of the clock, of the processor


def timed(do: Any, repeat: int, device: str) -> tuple[Seconds, Any]:
    runs, out = [], None
    for _ in range(repeat):
        start = time.perf_counter(), time.process_time()
        out = do()
        if device != "cpu":
            torch.cuda.synchronize()
        runs.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return min(runs), out


def ours(net: Any, ids: list[int], targets: list[int], score: str) -> np.ndarray:
    from veridical_lab.models.gradients import salience

    notes: list[str] = []
    found = salience(net, ids, targets, score=score, notes=notes)
    for note in notes:
        print(note, file=sys.stderr)
    return found


def captum(net: Any, ids: list[int], prompt: int) -> np.ndarray:
    """*Shape:* (prompt, response)."""
    from captum.attr import LayerGradientXActivation, LLMGradientAttribution, TextTokenInput

    words = tokenizer()
    method = LayerGradientXActivation(net, net.transformer.wte)
    given = TextTokenInput(" ".join(f"w{i}" for i in ids[:prompt]), words)
    with torch.enable_grad():
        net.requires_grad_(True)  # a layer's gradient needs a graph, which captum starts at the parameters
        found = LLMGradientAttribution(method, words).attribute(given, target=torch.tensor(ids[prompt:]))
        net.requires_grad_(False)
    return found.token_attr.float().cpu().numpy().T


def inseq_child(arguments: argparse.Namespace) -> None:
    """What runs in inseq's environment: seconds, and the map as a file. *Shape:* (prompt + response, response)."""
    import inseq

    torch.set_num_threads(arguments.threads)
    ids = text(arguments.prompt, arguments.response)
    prompt, whole = (" ".join(f"w{i}" for i in part) for part in (ids[: arguments.prompt], ids))
    net = model(arguments.inseq_dtype, arguments.device).requires_grad_(True)
    reader = inseq.load_model(net, "input_x_gradient", tokenizer=tokenizer(), device=arguments.device)

    def do() -> Any:
        return reader.attribute(prompt, whole, attributed_fn="logit", show_progress=False)

    seconds, out = timed(do, arguments.repeat, arguments.device)
    found = out.sequence_attributions[0].target_attributions
    np.save(arguments.inseq_child, np.nan_to_num(found.float().sum(-1).cpu().numpy()))
    print(json.dumps(seconds))


def inseq(arguments: argparse.Namespace, dtype: str) -> tuple[Seconds, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "map.npy"
        command = [arguments.inseq_python, __file__, "--inseq-child", str(out), "--inseq-dtype", dtype]
        for name in ("prompt", "response", "threads", "repeat", "device"):
            command += [f"--{name}", str(getattr(arguments, name))]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            sys.exit(run.stderr)
        clock, processor = json.loads(run.stdout.splitlines()[-1])
        return (clock, processor), np.load(out)


def error(a: np.ndarray, b: np.ndarray) -> float:
    """The greatest difference, as a share of the greatest value."""
    rows = min(len(a), len(b))
    return float(np.abs(a[:rows] - b[:rows]).max() / np.abs(b).max())


def compare(arguments: argparse.Namespace, add: Any) -> None:
    ids = text(arguments.prompt, arguments.response)
    targets = list(range(arguments.prompt, len(ids)))
    nets = {dtype: model(dtype, arguments.device) for dtype in DTYPES}
    mine: dict[tuple[str, str], tuple[Seconds, np.ndarray]] = {}
    for dtype, net in nets.items():
        for score in ("logit", "logprob"):
            ours(net, ids[:8], [7], score)  # what is looked at once for each model
            run = timed(lambda n=net, s=score: ours(n, ids, targets, s), arguments.repeat, arguments.device)  # type: ignore[misc]
            mine[dtype, score] = run
            add(what="ours", dtype=dtype, score=score, seconds=run[0][0], cpu_seconds=run[0][1])
    half = targets[::2]
    for dtype, net in [("bf16", nets["bf16"])]:
        seconds, _ = timed(lambda n=net: ours(n, ids, half, "logit"), arguments.repeat, arguments.device)  # type: ignore[misc]
        add(
            what="ours, every second token (about the share of content words)",
            dtype=dtype,
            seconds=seconds[0],
            cpu_seconds=seconds[1],
        )
    others = {
        "captum": (
            "logprob",
            lambda d: timed(lambda: captum(nets[d], ids, arguments.prompt), arguments.repeat, arguments.device),
        )
    }
    if arguments.inseq_python:
        others["inseq"] = ("logit", lambda d: inseq(arguments, d))
    for name, (score, measure) in others.items():
        for theirs in arguments.their_dtypes:
            seconds, found = measure(theirs)
            add(what=name, dtype=theirs, score=score, seconds=seconds[0], cpu_seconds=seconds[1])
            for dtype in DTYPES:
                clock, processor = (a / b for a, b in zip(seconds, mine[dtype, score][0], strict=True))
                off = error(mine[dtype, score][1][: len(found)], found)
                add(
                    what=f"ours {dtype} against {name} {theirs}",
                    times_as_fast=clock,
                    cpu_times_as_fast=processor,
                    error=off,
                )


def costs(arguments: argparse.Namespace, add: Any) -> None:
    net = model("bf16", arguments.device)
    rows = []
    for prompt in (64, 128, 256, 512):
        for words in (5, 10, 20):
            ids = text(prompt, 2 * words)
            targets = list(range(prompt, len(ids), 2))
            seconds, _ = timed(lambda i=ids, t=targets: ours(net, i, t, "logit"), arguments.repeat, arguments.device)  # type: ignore[misc]
            rows.append((prompt, words, seconds[1] if arguments.device == "cpu" else seconds[0]))
            add(
                what="cost",
                dtype="bf16",
                prompt=prompt,
                content_words=words,
                seconds=seconds[0],
                cpu_seconds=seconds[1],
            )
    if arguments.plot:
        plot(rows, arguments.plot, arguments.device)


def plot(rows: list[tuple[int, int, float]], path: Path, device: str) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    for mark, prompt in zip("o^sD", sorted({row[0] for row in rows}), strict=True):
        points = [(prompt * words / 1000, seconds) for p, words, seconds in rows if p == prompt]
        axes.plot(*zip(*points, strict=True), marker=mark, linewidth=1, label=f"{prompt} prompt tokens")
    axes.set(
        xlabel="prompt tokens x content words (thousands)",
        ylabel="seconds" if device != "cpu" else "processor seconds",
        xlim=(0, None),
        ylim=(0, None),
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    with rc_context({"svg.hashsalt": "veridical", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--response", type=int, default=100)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--their-dtypes", nargs="+", choices=sorted(DTYPES), default=["fp32"])
    parser.add_argument("--inseq-python", help="an interpreter that has inseq")
    parser.add_argument("--rows", type=Path, help="write the rows here, too")
    parser.add_argument("--plot", type=Path, help="write the plot of costs here (SVG)")
    parser.add_argument("--only", choices=("compare", "costs"))
    parser.add_argument("--inseq-child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--inseq-dtype", default="fp32", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    if arguments.inseq_child:
        inseq_child(arguments)
        return
    torch.set_num_threads(arguments.threads)
    machine = (
        torch.cuda.get_device_name()
        if arguments.device != "cpu"
        else f"{platform.machine()}, {arguments.threads} threads"
    )
    common = {
        "machine": machine,
        "model": "gpt2-small, random",
        "prompt": arguments.prompt,
        "response": arguments.response,
    }

    def add(**row: Any) -> None:
        rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
        emit({**common, **rounded}, arguments.rows)

    if arguments.only != "costs":
        compare(arguments, add)
    if arguments.only != "compare":
        costs(arguments, add)


if __name__ == "__main__":
    main()
