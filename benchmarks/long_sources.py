"""What a long source costs a detector with a small encoder, and what further responses to it and a cold start cost.

    python benchmarks/long_sources.py ../shared/data SPEC

SPEC is a detector such as tokens:FOLDER,onnx=int8. One JSON row per length of the source, in a process of its own: the
processor time of the first response of five sentences, of each of 20 more, and of the encoder alone, in the median of
three sources; and one row for `veridical check examples/demo.jsonl`. Processor time, because machines are shared; on
two cores that are free the encoder takes half of its time. To compare two versions, run it with PYTHONPATH on each, in
turn.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import veridical
from veridical.core.segment import sentences
from veridical.core.types import Case, Source
from veridical.detectors import load_detector

LENGTHS = (300, 5_000, 50_000, 500_000)
SOURCES = 3
MORE = 20


def row(name: str, **figures: object) -> None:
    about = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "command": "python benchmarks/long_sources.py DATA SPEC",
        "commit": commit(),
        "date": str(date.today()),
    }
    print(json.dumps({"benchmark": name, **figures, **about}), flush=True)


def commit() -> str:
    folder = Path(veridical.__file__).parent
    done = subprocess.run(["git", "-C", folder, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def response_to(text: str) -> str:
    """Five sentences of it, from all over."""
    found = [each.of(text) for each in sentences(text) if 60 < len(each) < 200]
    return " ".join(found[int(len(found) * share)] for share in (0.05, 0.25, 0.5, 0.75, 0.95))


def length(data: Path, spec: str, count: int) -> None:
    text = (data / "wikipedia" / "articles.txt").read_text("utf-8")
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    detector = load_detector(spec)
    warm_up = "The tower, which opened in May 1889, is 300 m tall, says Anna Berg."
    detector.judge([Case("0", f"{warm_up} Éclairs cost 2.5 pounds.", (Source("a", f"{warm_up} Naïve!"),))])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    firsts, others, encoders = [], [], []
    scorer = getattr(detector, "encoder", detector).scorer
    for i in range(SOURCES):
        source = text[ends[i * count] : ends[(i + 1) * count]].strip()
        response = response_to(source)
        cases = [Case(str(n), f"{response} It was in {1900 + n}.", (Source("a", source),)) for n in range(MORE + 1)]
        firsts.append(seconds(lambda cases=cases: detector.judge(cases[:1])))
        others.append(seconds(lambda cases=cases: detector.judge(cases[1:])) / MORE)
        windows = [window for each in scorer.encoder.encode(cases[:1]) for window in each.windows]
        encoders.append(seconds(lambda windows=windows: scorer.runner.run(windows)))
    first, other, alone = (statistics.median(each) for each in (firsts, others, encoders))
    row(
        "a response of six sentences to one source",
        detector=spec.partition(":")[0] + (":onnx=int8" if "int8" in spec else ""),
        source_words=count,
        first_seconds=round(first, 3),
        each_of_20_more_seconds=round(other, 3),
        encoder_alone_seconds=round(alone, 3),
        first_without_encoder_seconds=round(first - alone, 3),
        peak_rss_mb_before=round(before / 1024),
        peak_rss_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        data=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def cold_start(spec: str) -> None:
    demo = Path(__file__).parents[1] / "examples" / "demo.jsonl"
    command = [sys.executable, "-m", "veridical", "check", str(demo), "--detector", spec]
    times = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.PIPE, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    row(
        "veridical check examples/demo.jsonl, cold",
        detector=spec.partition(":")[0] + (":onnx=int8" if "int8" in spec else ""),
        seconds=round(statistics.median(times[1:]), 3),  # the first one compiles
    )


def main(data: str, spec: str, count: str | None = None) -> None:
    if count is not None:
        length(Path(data), spec, int(count))
        return
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    for words in LENGTHS:
        subprocess.run([sys.executable, __file__, data, spec, str(words)], check=True, env=environment)
    for each in ("overlap", spec):
        cold_start(each)


if __name__ == "__main__":
    main(*sys.argv[1:])
