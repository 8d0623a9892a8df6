"""What our side of a call to a chat server costs: calls against a loopback server with a fixed latency, and with none.

    python benchmarks/llm_throughput.py

Needs the llm extra (the client library is loaded before the clock starts). The server is a process of its own, answers
each request after the latency, and takes any number at once. Prints one JSON row a measurement: `over_ideal` is the
time beyond calls x latency / concurrency, as a share.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from running import emit

from veridical.llm.cache import Cached
from veridical.llm.openai import OpenAIChat
from veridical.llm.protocol import ChatModel, Message, Reply, Request

RESPONSES, CLAIMS, CONCURRENCY = 200, 8, 32
DOCUMENT = "The committee met on Monday and agreed that the river should be cleaned before the summer. " * 40
TOP = [{"token": t, "logprob": p} for t, p in (("Yes", -0.05), ("No", -3.2), ("The", -6.1))]
BODY = json.dumps(
    {
        "id": "1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Yes"},
                "finish_reason": "stop",
                "logprobs": {"content": [{**TOP[0], "top_logprobs": TOP}]},
            }
        ],
        "usage": {"prompt_tokens": 900, "completion_tokens": 1, "total_tokens": 901},
    }
).encode()
WIRE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


async def serve(latency: float) -> None:
    """Answer on a free port of 127.0.0.1, which is printed, until killed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = re.search(rb"(?i)content-length: *(\d+)", head)
                await reader.readexactly(int(size[1]) if size else 0)
                if latency:
                    await asyncio.sleep(latency)
                writer.write(WIRE)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def serving(latency: float) -> Iterator[str]:
    process = subprocess.Popen([sys.executable, __file__, "--serve", str(latency)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.communicate()


def requests() -> list[Request]:
    """One request a claim, the document of its response first."""
    return [
        Request(
            (Message("user", f"{DOCUMENT}\nDocument {r}. Is this claim supported? Claim {c}"),),
            max_tokens=1,
            top_logprobs=5,
        )
        for r in range(RESPONSES)
        for c in range(CLAIMS)
    ]


def measure(name: str, model: ChatModel, *, latency: float, concurrency: int) -> None:
    asked = requests()
    cpu, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    replies = model.chat(asked)
    seconds = time.perf_counter() - begun
    used = resource.getrusage(resource.RUSAGE_SELF)
    assert all(isinstance(reply, Reply) for reply in replies)
    ideal = len(asked) * latency / concurrency
    row = {
        "benchmark": name,
        "calls": len(asked),
        "latency_s": latency,
        "concurrency": concurrency,
        "seconds": round(seconds, 3),
        "over_ideal": round(seconds / ideal - 1, 4) if ideal else None,
        "ms_per_call": round(1e3 * seconds / len(asked), 3),
        "cpu_ms_per_call": round(1e3 * (used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime) / len(asked), 3),
    }
    emit(row)


def main() -> None:
    import openai  # noqa: F401

    with serving(0.2) as url:
        model = OpenAIChat("loopback", base_url=url, concurrency=CONCURRENCY)
        measure("chat, 200 ms", model, latency=0.2, concurrency=CONCURRENCY)
    with serving(0.0) as url:
        for concurrency in (1, CONCURRENCY):
            model = OpenAIChat("loopback", base_url=url, concurrency=concurrency)
            measure("chat, no latency", model, latency=0.0, concurrency=concurrency)
        with tempfile.TemporaryDirectory() as folder:
            cached = Cached(OpenAIChat("loopback", base_url=url, concurrency=CONCURRENCY), Path(folder) / "replies.db")
            measure("chat into the cache, no latency", cached, latency=0.0, concurrency=CONCURRENCY)
            measure("chat from the cache", cached, latency=0.0, concurrency=CONCURRENCY)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(float(sys.argv[2])))
    else:
        main()
