"""RAGAS's and DeepEval's faithfulness against Veridical's ways to judge: the same answers, the same local chat model.

    python -m venv ENV && ENV/bin/pip install ragas==0.4.3 deepeval==4.3.1 'instructor>=1.14' langchain-community==0.4.1
    python benchmarks/llm_faithfulness.py ../shared/data --url http://127.0.0.1:8080/v1 --model NAME \\
        --peers-python ENV/bin/python

Draws questions about test documents of XQuAD and TyDi QA, each with a right and a wrong answer as a sentence, before
anything is judged; no detector of Veridical has seen these documents. All tools judge one answer before the next
begins, so a run that stops early compares them on the same answers; run it again and it goes on. A proxy between tools
and model counts the tokens. Appends a row for each tool to benchmarks/rows/llm-faithfulness.jsonl: ROC AUC, false
alarms and recall with 95% intervals, answers that were not judged, and the median seconds, calls and tokens per answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ROWS = Path(__file__).parent / "rows" / "llm-faithfulness.jsonl"
FILES = ("languages/xquad.en.json.gz", "plain/qa_passages/tydiqa.goldp.en.train.json.gz")
PEERS = ("ragas", "deepeval")
OURS = {
    "default": "default",
    "judge": "judge:yes_no,model={model},base_url={url},timeout=3600",
    "verify": "verify:model={model},base_url={url},timeout=3600",
}
PATIENCE = "3600"  # seconds: a slow model is no failure of a tool
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "RAGAS_DO_NOT_TRACK": "true",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_PER_ATTEMPT_TIMEOUT_SECONDS_OVERRIDE": PATIENCE,
    "DEEPEVAL_PER_TASK_TIMEOUT_SECONDS_OVERRIDE": PATIENCE,
}
Row = dict[str, Any]
Score = Callable[[Row], tuple[float | None, bool | None]]
"""Of a case: the score (the higher, the less it is supported) and whether the tool flags it; None: not judged."""


def ragas(url: str, model: str) -> Score:
    """RAGAS's faithfulness. It has no threshold: an unsupported statement flags an answer."""
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory
    from ragas.metrics.collections import Faithfulness

    async def one(case: Row) -> float:
        async with AsyncOpenAI(base_url=url, api_key="none", timeout=float(PATIENCE)) as client:
            metric = Faithfulness(llm=llm_factory(model, client=client))
            asked = {"user_input": case["question"], "response": case["response"]}
            return 1 - float((await metric.ascore(**asked, retrieved_contexts=case["sources"])).value)

    def score(case: Row) -> tuple[float | None, bool | None]:
        value = asyncio.run(one(case))
        return (None, None) if math.isnan(value) else (value, value > 0)

    return score


def deepeval(url: str, model: str) -> Score:
    """DeepEval's faithfulness, without the reason that it can write. An unsupported claim flags an answer."""
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.models import LocalModel
    from deepeval.test_case import LLMTestCase

    def score(case: Row) -> tuple[float | None, bool | None]:
        metric = FaithfulnessMetric(
            model=LocalModel(model=model, api_key="none", base_url=url), async_mode=False, include_reason=False
        )
        given = LLMTestCase(
            input=case["question"], actual_output=case["response"], retrieval_context=list(case["sources"])
        )
        value = 1 - float(metric.measure(given, _show_indicator=False))
        return value, value > 0

    return score


def ours(spec: str, url: str, model: str) -> Score:
    """The response's score of a detector of Veridical, flagged as `veridical check` does."""
    import veridical
    from veridical.detectors import load_detector

    detector = load_detector(spec.format(url=url, model=model))

    def score(case: Row) -> tuple[float | None, bool | None]:
        result = veridical.check(case["response"], case["sources"], question=case["question"], detector=detector)
        value = result.judgements[0].hallucination
        return value, None if value is None else result.outcome is veridical.Outcome.FLAGGED

    return score


def client(tool: str, url: str, model: str) -> None:
    """Judge each case that standard input gives, one JSON line each, and print a line with the result."""
    answers, sys.stdout = sys.stdout, sys.stderr
    score = {"ragas": ragas, "deepeval": deepeval}[tool](url, model) if tool in PEERS else ours(OURS[tool], url, model)
    for line in sys.stdin:
        case = json.loads(line)
        start, why = time.perf_counter(), None
        try:
            value, flagged = score(case)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises: the answer is not judged
            value, flagged, why = None, None, f"{type(error).__name__}: {error}"[:200]
        seconds = round(time.perf_counter() - start, 2)
        result = {"score": value, "flagged": flagged, "why": why, "seconds": seconds}
        print(json.dumps(result), file=answers, flush=True)


class Counting(BaseHTTPRequestHandler):
    """Passes requests on to the model's server and adds up the tokens that its replies report."""

    url = ""
    counts: ClassVar[dict[str, int]] = {}
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(self.url + self.path.removeprefix("/v1"), body, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=float(PATIENCE)) as reply:
                status, text = reply.status, reply.read()
        except HTTPError as error:
            status, text = error.code, error.read()
        usage = json.loads(text).get("usage") or {} if status == 200 else {}
        with self.lock:
            self.counts["calls"] += 1
            for name in ("prompt_tokens", "completion_tokens"):
                self.counts[name] += usage.get(name, 0)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


def drawn(data: Path, questions: int, seed: int = 0) -> list[Row]:
    """Return a right and a wrong answer to each of some questions, in random order within the question."""
    from veridical.datasets import read
    from veridical.datasets.split import split_by_document

    examples = [each for file in FILES for each in read(f"short_answer_statements:{data / file}")]
    examples = split_by_document(examples)["test"]
    questions_asked = list(zip(examples[::2], examples[1::2], strict=True))
    draw = random.Random(seed)
    cases = []
    for number, pair in enumerate(draw.sample(questions_asked, min(questions, len(questions_asked)))):
        for example in draw.sample(pair, 2):
            case = example.case
            texts = [source.text for source in case.sources]
            given = {"id": case.id, "document": str(number), "wrong": bool(example.gold.hallucination)}
            cases.append({**given, "question": case.question or "", "response": case.response, "sources": texts})
    return cases


def row_of(lines: list[Row], resamples: int = 1000) -> Row:
    """Return the figures of one tool: those of answers that it judged, and how many it did not judge."""
    import numpy as np

    from veridical.metrics.ranking import roc_auc
    from veridical.metrics.significance import wilson_interval

    judged = [line for line in lines if line["score"] is not None]
    row: Row = {"n": len(lines), "not_judged": len(lines) - len(judged)}

    def auc(some: list[Row]) -> float | None:
        labels = np.array([line["wrong"] for line in some], dtype=bool)
        scores = np.array([line["score"] for line in some], dtype=float)
        return float(roc_auc(labels, scores)) if labels.any() and not labels.all() else None

    documents = sorted({line["document"] for line in judged})
    draw, values = np.random.default_rng(0), []
    for _ in range(resamples if documents else 0):
        names = draw.choice(documents, len(documents))
        values.append(auc([line for name in names for line in judged if line["document"] == name]))
    defined = [value for value in values if value is not None]
    value = auc(judged)
    low, high = np.percentile(defined, [2.5, 97.5]) if value is not None else (None, None)
    row["roc_auc"] = {"value": value, "low": low, "high": high}
    for name, wrong in (("false_alarms", False), ("recall", True)):
        flags = [line["flagged"] for line in judged if line["wrong"] is wrong]
        low, high = wilson_interval(sum(flags), len(flags)) if flags else (None, None)
        row[name] = {"value": sum(flags) / len(flags) if flags else None, "low": low, "high": high, "n": len(flags)}
    for name in ("roc_auc", "false_alarms", "recall"):
        row[name] = {k: round(float(v), 3) if isinstance(v, float) else v for k, v in row[name].items()}
    for name in ("seconds", "calls", "prompt_tokens", "completion_tokens"):
        row[name] = round(float(np.median([line[name] for line in lines])), 2)
    return row


def judge_all(options: argparse.Namespace, cases: list[Row]) -> dict[str, list[Row]]:
    """Judge every case with every tool, and return the lines of each tool for the cases that all of them have seen."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    Counting.url = options.url.rstrip("/")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    clients: dict[str, subprocess.Popen[str]] = {}
    results: dict[str, list[Row]] = {}
    files = {tool: options.state / f"{tool}.jsonl" for tool in options.tools}
    for tool, file in files.items():
        results[tool] = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    until = time.monotonic() + 60 * options.minutes
    for i, case in enumerate(cases):
        if i % 2 == 0 and time.monotonic() > until:  # never between the two answers to a question
            break
        for tool in options.tools:
            if len(results[tool]) > i:
                continue
            if tool not in clients:
                python = options.peers_python if tool in PEERS else sys.executable
                url = f"http://127.0.0.1:{server.server_port}/v1"
                arguments = [python, __file__, str(options.data), "--url", url, "--model", options.model]
                clients[tool] = subprocess.Popen(
                    [*arguments, "--peers-python", "", "--client", tool],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, **QUIET},
                )
            Counting.counts = dict.fromkeys(("calls", "prompt_tokens", "completion_tokens"), 0)
            process = clients[tool]
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                sys.exit(f"{tool} ended without an answer to {case['id']}")
            about = {name: case[name] for name in ("id", "document", "wrong")}
            line = {**about, **json.loads(answer), **Counting.counts}
            results[tool].append(line)
            with files[tool].open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(tool, line, flush=True)
    for process in clients.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    seen = min(map(len, results.values()))
    return {tool: lines[: seen - seen % 2] for tool, lines in results.items()}


def main() -> None:
    """Let every tool judge the cases, and append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--url", required=True, help="the chat server, with /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--peers-python", required=True, help="an interpreter that has ragas and deepeval")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=600, help="begin no question after so many minutes")
    parser.add_argument("--state", type=Path, default=Path("build/llm-faithfulness"))
    parser.add_argument("--tools", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--client", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        client(options.client, options.url, options.model)
        return
    from running import emit

    options.state.mkdir(parents=True, exist_ok=True)
    cases = drawn(options.data, options.questions)
    ids = [case["id"] for case in cases]
    file = options.state / "cases.json"
    if file.exists() and json.loads(file.read_text("utf-8")) != ids:
        sys.exit(f"{options.state} holds results of other cases: name another --state")
    file.write_text(json.dumps(ids), "utf-8")
    for tool, lines in judge_all(options, cases).items():
        row = {"tool": tool, "data": "short_answer_statements", "split": "test", **row_of(lines)}
        emit({**row, "model": options.model}, ROWS)


if __name__ == "__main__":
    main()
