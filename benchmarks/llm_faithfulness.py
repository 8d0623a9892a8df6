"""RAGAS's and DeepEval's faithfulness against Veridical's ways to judge: the same answers, the same local chat model.

    python -m venv ENV && ENV/bin/pip install ragas==0.4.3 deepeval==4.3.1 'instructor>=1.14' langchain-community==0.4.1
    python benchmarks/llm_faithfulness.py ../shared/data --url http://127.0.0.1:8080/v1 --model NAME \\
        --peers-python ENV/bin/python

Draws questions of `written_rag` (dev) with a right and a wrong answer each. Every tool judges them one after the other.
Appends a row for each tool to benchmarks/rows/llm-faithfulness.jsonl: the ROC AUC of its score with a 95% interval
(bootstrap over questions), how many answers it could not judge, and seconds per answer. A tool that ends early leaves
its scores in --state and goes on from there.
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
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

ROWS = Path(__file__).parent / "rows" / "llm-faithfulness.jsonl"
PEERS = ("ragas", "deepeval")
OURS = {
    "default": "default",
    "judge": "judge:yes_no,model={model},base_url={url}",
    "verify": "verify:model={model},base_url={url}",
}
QUIET = {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true", "DEEPEVAL_DISABLE_DOTENV": "1"}
Score = Callable[[dict[str, Any]], float | None]  # of a case: the higher, the less it is supported; None: not judged


def ragas(url: str, model: str) -> Score:
    """RAGAS's faithfulness."""
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory
    from ragas.metrics.collections import Faithfulness

    async def one(case: dict[str, Any]) -> float:
        async with AsyncOpenAI(base_url=url, api_key="none", timeout=600) as client:
            metric = Faithfulness(llm=llm_factory(model, client=client))
            asked = {"user_input": case["question"], "response": case["response"]}
            return 1 - float((await metric.ascore(**asked, retrieved_contexts=case["sources"])).value)

    return lambda case: asyncio.run(one(case))


def deepeval(url: str, model: str) -> Score:
    """DeepEval's faithfulness, without the reason that it can write."""
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.models import LocalModel
    from deepeval.test_case import LLMTestCase

    def one(case: dict[str, Any]) -> float:
        metric = FaithfulnessMetric(
            model=LocalModel(model=model, api_key="none", base_url=url), async_mode=False, include_reason=False
        )
        given = LLMTestCase(
            input=case["question"], actual_output=case["response"], retrieval_context=list(case["sources"])
        )
        return 1 - float(metric.measure(given, _show_indicator=False))

    return one


def ours(spec: str, url: str, model: str) -> Score:
    """The response's score of a detector of Veridical."""
    import veridical
    from veridical.detectors import load_detector

    detector = load_detector(spec.format(url=url, model=model))

    def one(case: dict[str, Any]) -> float | None:
        result = veridical.check(case["response"], case["sources"], question=case["question"], detector=detector)
        return result.judgements[0].hallucination

    return one


def client(tool: str, state: Path, url: str, model: str) -> None:
    """Judge the cases that have no score of the tool yet."""
    cases = json.loads((state / "cases.json").read_text("utf-8"))
    file = state / f"{tool}.jsonl"
    done = len(file.read_text("utf-8").splitlines()) if file.exists() else 0
    score = {"ragas": ragas, "deepeval": deepeval}[tool](url, model) if tool in PEERS else ours(OURS[tool], url, model)
    for case in cases[done:]:
        start, why = time.perf_counter(), None
        try:
            found = score(case)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises: the answer is not judged
            found, why = None, f"{type(error).__name__}: {error}"[:200]
        found = None if found is None or math.isnan(found) else found
        row = {"id": case["id"], "score": found, "why": why, "seconds": round(time.perf_counter() - start, 2)}
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")
        print(tool, row, flush=True)


def drawn(data: Path, questions: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return a right and a wrong answer to each of some questions, in random order."""
    from veridical.datasets import read

    by_question: dict[str, list[Any]] = {}
    for example in read(f"written_rag:{data / 'written'}", "dev"):
        by_question.setdefault(str(example.document), []).append(example)
    draw = random.Random(seed)
    cases = []
    for name in draw.sample(sorted(by_question), min(questions, len(by_question))):
        for wrong in (False, True):
            example = draw.choice([e for e in by_question[name] if bool(e.gold.hallucination) is wrong])
            case = example.case
            texts = [source.text for source in case.sources]
            given = {"id": case.id, "document": name, "wrong": wrong, "question": case.question or ""}
            cases.append({**given, "response": case.response, "sources": texts})
    draw.shuffle(cases)
    return cases


def row_of(tool: str, cases: list[dict[str, Any]], state: Path) -> dict[str, Any]:
    """Return the figures of a tool."""
    import numpy as np

    from veridical.metrics.ranking import roc_auc

    lines = [json.loads(line) for line in (state / f"{tool}.jsonl").read_text("utf-8").splitlines()]
    judged = [(c, line["score"]) for c, line in zip(cases, lines, strict=True) if line["score"] is not None]
    documents = sorted({case["document"] for case, _ in judged})
    draw, values = np.random.default_rng(0), []
    for _ in range(1000):
        taken = [
            pair for name in draw.choice(documents, len(documents)) for pair in judged if pair[0]["document"] == name
        ]
        labels = np.array([case["wrong"] for case, _ in taken])
        if labels.any() and not labels.all():
            values.append(roc_auc(labels, np.array([score for _, score in taken])))
    labels, scores = np.array([case["wrong"] for case, _ in judged]), np.array([score for _, score in judged])
    low, high = np.percentile(values, [2.5, 97.5])
    value = float(roc_auc(labels, scores))
    return {
        "tool": tool,
        "n": len(cases),
        "not_judged": len(cases) - len(judged),
        "roc_auc": {"value": round(value, 3), "low": round(float(low), 3), "high": round(float(high), 3)},
        "seconds": round(float(np.median([line["seconds"] for line in lines])), 2),
    }


def main() -> None:
    """Run every tool as a process of its own, and append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--url", required=True, help="the chat server, with /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--peers-python", required=True, help="an interpreter that has ragas and deepeval")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--state", type=Path, default=Path("build/llm-faithfulness"))
    parser.add_argument("--tools", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--client", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        client(options.client, options.state, options.url, options.model)
        return
    from running import command

    options.state.mkdir(parents=True, exist_ok=True)
    cases = drawn(options.data, options.questions)
    (options.state / "cases.json").write_text(json.dumps(cases), "utf-8")
    for tool in options.tools:
        python = options.peers_python if tool in PEERS else sys.executable
        arguments = [*sys.argv[1:], "--client", tool]
        subprocess.run([python, __file__, *arguments], check=True, env={**os.environ, **QUIET})
        row = {**row_of(tool, cases, options.state), "model": options.model, "command": command()}
        with ROWS.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "date": date.today().isoformat()}) + "\n")
        print(row, flush=True)


if __name__ == "__main__":
    main()
