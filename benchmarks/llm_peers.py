"""Factored verification against RAGAS's and DeepEval's faithfulness: one loopback server, the same responses, one run.

    python -m venv ENV && ENV/bin/pip install ragas==0.4.3 deepeval==4.3.1 'instructor>=1.14' langchain-community==0.4.1
    python benchmarks/llm_peers.py --peers-python ENV/bin/python --rows rows.jsonl

The server is a process of its own and answers each tool in the form that its prompts ask for: eight claims a response,
one of them wrong. Each tool is a process of its own, too, which loads, connects and is tried once on all responses
before the clock starts; rounds of all tools alternate. Every tool has at most `--concurrency` calls under way. A call's
own cost is the processor time of the client's process (on a machine with other load the one to compare) and the time of
the clock, over the number of calls. `prompt_words` are words and single marks of all messages, a stand-in for tokens.
"deepeval, one client" is DeepEval with the HTTP client kept between calls, which its model class takes as an option; as
it is, it makes a new one for each call. Prints one JSON row a tool and latency, and one a comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from llm_peers_server import CLAIMS, SAID, document, response
from running import emit, exchange, spread

TOOLS = {  # what one response gives back
    "veridical": "a verdict a claim: place in the response, P(supported), reason; score; calls and tokens",
    "veridical, 8 claims a call": "the same with 0 or 1 for P(supported)",
    "ragas": "the share of supported statements",
    "deepeval": "score, a reason for it; yes, no or borderline a claim, with a reason where it is not yes; no places",
    "deepeval, one client": "as deepeval",
}
PACKAGES = {"veridical": ("openai",), "ragas": ("ragas", "instructor", "openai"), "deepeval": ("deepeval", "openai")}
SERVER = Path(__file__).with_name("llm_peers_server.py")

Row = dict[str, Any]
Run = Callable[[], Any]
Made = Callable[[str, int, int], tuple[Run, Callable[[Any], bool]]]  # what to do, and whether what it gave is right


def veridical(per_call: int) -> Made:
    def make(url: str, n: int, concurrency: int) -> tuple[Run, Callable[[Any], bool]]:
        from veridical.detectors.claims.llm_checker import LLMChecker
        from veridical.detectors.claims.verify import Verify
        from veridical.llm.openai import OpenAIChat
        from veridical.records.types import Case, Source

        model = OpenAIChat("loopback", base_url=url, concurrency=concurrency)
        detector = Verify(LLMChecker(model, claims_per_call=per_call), model=model, splitter="model")
        cases = [Case(str(r), response(r), (Source("1", document(r)),)) for r in range(n)]

        def right(judgements: Any) -> bool:
            return len(judgements) == n and all(
                len(j.verdicts) == CLAIMS
                and [v.score > 0.5 for v in j.verdicts] == [said[1].startswith("seven") for said in SAID]
                and j.judged is None
                for j in judgements
            )

        return lambda: detector.judge(cases), right

    return make


def ragas(url: str, n: int, concurrency: int) -> tuple[Run, Callable[[Any], bool]]:
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory
    from ragas.metrics.collections import Faithfulness

    async def all_of_them() -> list[float]:
        gate = asyncio.Semaphore(concurrency)  # the calls for one response come one after the other
        async with AsyncOpenAI(base_url=url, api_key="none") as kept:
            metric = Faithfulness(llm=llm_factory("loopback", client=kept))

            async def one(r: int) -> float:
                asked = {"user_input": "What is said of the station?", "response": response(r)}
                async with gate:
                    return float((await metric.ascore(**asked, retrieved_contexts=[document(r)])).value)

            return await asyncio.gather(*(one(r) for r in range(n)))

    return lambda: asyncio.run(all_of_them()), lambda found: found == [(CLAIMS - 1) / CLAIMS] * n


def deepeval(one_client: bool) -> Made:
    def make(url: str, n: int, concurrency: int) -> tuple[Run, Callable[[Any], bool]]:
        from deepeval.metrics import FaithfulnessMetric
        from deepeval.models import LocalModel, OpenAIModel
        from deepeval.test_case import LLMTestCase
        from openai import DefaultAsyncHttpxClient

        def gated(model: Any, gate: asyncio.Semaphore) -> Any:
            """At most so many calls at once: two of the metric's four for a response run side by side."""
            generate = model.a_generate

            async def a_generate(*args: Any, **options: Any) -> Any:
                async with gate:
                    return await generate(*args, **options)

            model.a_generate = a_generate
            return model

        async def all_of_them() -> list[float]:
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # of connections that nobody closed
            async with DefaultAsyncHttpxClient() as kept:
                given = {"model": "loopback", "api_key": "none", "base_url": url}
                prices = {"cost_per_input_token": 1e-6, "cost_per_output_token": 1e-6}
                made = OpenAIModel(**given, **prices, async_http_client=kept) if one_client else LocalModel(**given)
                model = gated(made, asyncio.Semaphore(concurrency))

                async def one(r: int) -> float:
                    case = LLMTestCase(
                        input="What is said of the station?", actual_output=response(r), retrieval_context=[document(r)]
                    )
                    metric = FaithfulnessMetric(model=model)
                    await metric.a_measure(case, _show_indicator=False)
                    assert len(metric.verdicts) == CLAIMS
                    return float(metric.score)

                return await asyncio.gather(*(one(r) for r in range(n)))

        return lambda: asyncio.run(all_of_them()), lambda found: found == [(CLAIMS - 1) / CLAIMS] * n

    return make


MAKE: dict[str, Made] = {
    "veridical": veridical(1),
    "veridical, 8 claims a call": veridical(CLAIMS),
    "ragas": ragas,
    "deepeval": deepeval(one_client=False),
    "deepeval, one client": deepeval(one_client=True),
}


def client(tool: str, arguments: argparse.Namespace) -> None:
    """Run the tool once for each address on stdin, and say how long it took."""
    for line in sys.stdin:
        run, right = MAKE[tool](line.strip(), arguments.responses, arguments.concurrency)
        cpu, begun = time.process_time(), time.perf_counter()
        found = run()
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        assert right(found), f"{tool}: {found!r:.500}"
        versions = {name: version(name) for name in PACKAGES[tool.split(",")[0]]}
        print(json.dumps({"seconds": seconds, "cpu": cpu, "versions": versions}), file=sys.__stdout__, flush=True)


@contextmanager
def processes(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, subprocess.Popen[str]]]]:
    """The server's address, and a process for each tool."""
    quiet = {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true", "DEEPEVAL_DISABLE_DOTENV": "1"}
    options = ["--responses", str(arguments.responses), "--concurrency", str(arguments.concurrency)]
    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    running = {}
    for tool in arguments.tools:
        python = sys.executable if tool.startswith("veridical") else arguments.peers_python
        command = [python, __file__, "--client", tool, *options]
        running[tool] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **quiet}
        )
    try:
        assert server.stdout
        yield f"http://127.0.0.1:{int(server.stdout.readline())}", running
    finally:
        for process in (server, *running.values()):
            process.kill()
            process.communicate()


def once(process: subprocess.Popen[str], base: str, path: str) -> Row:
    """One run of a tool over all responses: its seconds and processor seconds, and what the server saw."""
    urlopen(f"{base}/stats").read()
    answer = exchange(process, f"{base}/{path}/v1")
    seen = json.loads(urlopen(f"{base}/stats").read())
    return {**answer, **{f"server_{name}": value for name, value in seen.items()}}


def per_call(runs: list[Row], name: str) -> list[float]:
    return [1e3 * run[name] / run["server_calls"] for run in runs]


def report(tool: str, runs: list[Row], words: int, latency: int, concurrency: int) -> Row:
    calls = runs[0]["server_calls"]
    row = {
        "what": tool,
        "latency_ms": latency,
        "calls": calls,
        "prompt_words": words,
        "seconds": spread([run["seconds"] for run in runs]),
        "ms_per_call": spread(per_call(runs, "seconds")),
        "cpu_ms_per_call": spread(per_call(runs, "cpu")),
        "server_cpu_ms_per_call": spread(per_call(runs, "server_cpu")),
        "comes_back": TOOLS[tool],
        "versions": runs[0]["versions"],
    }
    if latency:
        ideal = calls * latency / 1000 / concurrency
        row["at_once"] = max(run["server_at_once"] for run in runs)
        row["over_ideal"] = spread([run["seconds"] / ideal - 1 for run in runs])
    return row


def ratios(runs: dict[str, list[Row]]) -> Iterator[Row]:
    """Theirs over ours, round by round: [median, least, greatest]."""
    for ours in (tool for tool in runs if tool.startswith("veridical")):
        for theirs in (tool for tool in runs if not tool.startswith("veridical")):
            row: Row = {"what": f"{theirs} / {ours}"}
            for name, key in (("cpu", "cpu_per_call"), ("seconds", "seconds_per_call")):
                pairs = zip(per_call(runs[theirs], name), per_call(runs[ours], name), strict=True)
                row[key] = spread([a / b for a, b in pairs])
            both = zip(runs[theirs], runs[ours], strict=True)
            row["seconds_in_all"] = spread([a["seconds"] / b["seconds"] for a, b in both])
            yield row


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", help="an interpreter that has ragas and deepeval")
    parser.add_argument("--responses", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5, help="with latency 0")
    parser.add_argument("--slow-rounds", type=int, default=1, help="with 200 ms")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--rows", type=Path, help="write the rows here, too")
    parser.add_argument("--client", choices=TOOLS, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(arguments: argparse.Namespace, emit: Callable[[Row], None]) -> None:
    with processes(arguments) as (base, running):
        counted = {tool: once(process, base, "0/count") for tool, process in running.items()}
        for latency, rounds in ((0, arguments.rounds), (200, arguments.slow_rounds)):
            runs: dict[str, list[Row]] = {tool: [] for tool in running}
            for nth in range(rounds):
                for tool in list(running)[:: 1 if nth % 2 == 0 else -1]:
                    runs[tool].append(once(running[tool], base, str(latency)))
            for tool in running if rounds else ():
                emit(report(tool, runs[tool], counted[tool]["server_words"], latency, arguments.concurrency))
            if not latency and rounds:
                for row in ratios(runs):
                    emit(row)


def main() -> None:
    arguments = parsed()
    if arguments.client:
        client(arguments.client, arguments)
        return
    if not arguments.peers_python and any(not tool.startswith("veridical") for tool in arguments.tools):
        sys.exit("name the interpreter of the peers: --peers-python, or leave them out: --tools veridical")
    common = {
        "command": "python benchmarks/llm_peers.py --peers-python ENV/bin/python",
        "responses": arguments.responses,
        "claims": CLAIMS,
        "concurrency": arguments.concurrency,
    }

    compare(arguments, lambda row: emit({**common, **row}, arguments.rows))


if __name__ == "__main__":
    main()
