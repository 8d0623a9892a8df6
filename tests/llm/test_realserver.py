"""Servers that we did not write: llama.cpp's with log-probabilities, `transformers serve` without.

Opt in with `-m realserver`. LLAMA_PYTHON is a Python with llama-cpp-python[server], gguf and tokenizers;
TRANSFORMERS_PYTHON one with transformers, torch, fastapi and uvicorn. Without them the tests skip.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from math import exp
from pathlib import Path
from typing import Any

import pytest

from tests.llm.loopback import ask
from veridical.llm.cache import Cached
from veridical.llm.openai import OpenAIChat
from veridical.llm.protocol import Failure, Reply
from veridical.llm.reply_parser import yes_no_mass

pytest.importorskip("openai")
pytestmark = pytest.mark.realserver

GGUF = Path(__file__).parent / "tiny_gguf.py"


def python(variable: str) -> str:
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} names no Python")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return dict(json.load(response))


@contextmanager
def running(command: list[str], port: int, log: Path) -> Iterator[str]:
    """The base URL of a server, once it takes connections."""
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            for _ in range(600):
                if process.poll() is not None:
                    pytest.fail(f"the server ended: {log.read_text()[-1500:]}")
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("llama")
    run, port, model = python("LLAMA_PYTHON"), free_port(), str(folder / "tiny.gguf")
    subprocess.run([run, str(GGUF), model], check=True, capture_output=True)
    command = [run, "-m", "llama_cpp.server", "--model", model, "--host", "127.0.0.1", "--port", str(port)]
    with running([*command, "--logits_all", "True", "--n_ctx", "512"], port, folder / "log") as url:
        yield url


def test_probabilities_are_those_of_the_raw_log_probabilities(llama: str, tmp_path: Path) -> None:
    questions = [f"Is claim {i} so?" for i in range(20)]
    chat = OpenAIChat("tiny", base_url=llama, concurrency=4)
    replies = Cached(chat, tmp_path / "c.db").chat([ask(q, max_tokens=12, top_logprobs=20) for q in questions])
    assert chat.logprobs is True
    assert not chat.notes
    compared = 0
    for question, reply in zip(questions, replies, strict=True):
        assert isinstance(reply, Reply)
        assert reply.tokens is not None
        raw = post(
            f"{llama}/chat/completions",
            {
                "model": "tiny",
                "messages": [{"role": "user", "content": question}],
                "temperature": 0,
                "max_tokens": 12,
                "logprobs": True,
                "top_logprobs": 20,
            },
        )
        assert raw["choices"][0]["message"]["content"] == reply.text
        first = next(t for t in raw["choices"][0]["logprobs"]["content"] if any(c.isalnum() for c in t["token"]))
        top = {t["token"]: t["logprob"] for t in first["top_logprobs"]}
        words = sorted({t.strip().lower() for t in top if t.isascii() and t.strip().isalnum()})
        if len(words) < 2:
            continue
        yes, no = words[:2]  # a random model says anything; two of its words stand for Yes and No
        mass = [sum(exp(p) for t, p in top.items() if t.strip().lower() == word) for word in (yes, no)]
        assert yes_no_mass(reply, yes=(yes,), no=(no,)) == pytest.approx(mass, abs=1e-6)
        compared += 1
        assert sum(exp(p) for p in top.values()) < 1
        assert reply.usage.prompt_tokens == raw["usage"]["prompt_tokens"] > 0
    assert compared >= 10


def test_a_prompt_beyond_the_context_is_a_failure_of_its_own(llama: str) -> None:
    long, short = OpenAIChat("tiny", base_url=llama, retries=0).chat([ask("It rains. " * 400), ask("x", max_tokens=2)])
    assert isinstance(long, Failure)
    assert long.kind == "context"
    assert isinstance(short, Reply)


def test_a_server_without_log_probabilities_is_noticed(tmp_path: Path) -> None:
    from veridical_lab.models.testing import tiny

    run, port = python("TRANSFORMERS_PYTHON"), free_port()
    folder = tiny("llama", tmp_path / "tiny")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    code = "from transformers.cli.transformers import main; main()"
    command = [run, "-c", code, "serve", str(folder), "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    with running(command, port, tmp_path / "log") as url:
        chat = OpenAIChat(str(folder), base_url=url, retries=2)
        [reply] = chat.chat([ask("Is it so?", max_tokens=4, top_logprobs=3)])
        assert isinstance(reply, Reply), reply
        assert reply.tokens is None
        assert yes_no_mass(reply) is None
        assert chat.logprobs is False
        assert any("log-probabilities" in note or "logprobs" in note for note in chat.notes)
