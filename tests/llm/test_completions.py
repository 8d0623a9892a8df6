"""Base models on /completions: plain prompts, and next-token alternatives."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from tests.llm.loopback import Answer, FakeTime, Loopback, ask, completion, failing, plain_completion, serving
from tests.processes import LIMIT
from veridical.detectors import load_detector
from veridical.llm.budget import Budget
from veridical.llm.connection import Connection
from veridical.llm.openai import OpenAIChat
from veridical.llm.protocol import Failure, Message, Reply, Request, TokenLogprob
from veridical.llm.reply_parser import yes_no_mass
from veridical.records.errors import InputError
from veridical.records.types import Case, Source

pytest.importorskip("openai")

FEW_SHOT = (
    Message("system", "Check claims."),
    Message("user", "It rains. Claim: It is wet.\nSupported:"),
    Message("assistant", "Yes"),
    Message("user", "It rains. Claim: It is dry.\nSupported:"),
)
PROMPT = "Check claims.\n\nIt rains. Claim: It is wet.\nSupported: Yes\n\nIt rains. Claim: It is dry.\nSupported:"


def base_model(server: Loopback, **options: Any) -> OpenAIChat:
    return OpenAIChat(
        "base", base_url=server.url, api="completions", timeout=LIMIT, rate_limiter=FakeTime().rate_limiter(), **options
    )


def test_few_shot_examples_become_one_prompt_and_the_next_token_is_read() -> None:
    logprobs = {
        "tokens": [" Yes"],
        "token_logprobs": [log(0.3)],
        "top_logprobs": [{" Yes": log(0.3), " No": log(0.1), " yes": log(0.1)}],
        "text_offset": [len(PROMPT)],
    }
    with serving(lambda body: plain_completion(" Yes", logprobs)) as server:
        model = base_model(server, budget=Budget(prices=(1.0, 1.0)))
        [reply] = model.chat([Request(FEW_SHOT, max_tokens=1, top_logprobs=3)])
    assert server.paths == ["/v1/completions"]
    sent = {"model": "base", "prompt": PROMPT, "temperature": 0.0, "max_tokens": 1, "stop": ["\n\n"], "logprobs": 3}
    assert server.asked == [sent]
    assert isinstance(reply, Reply)
    assert yes_no_mass(reply) == pytest.approx((0.4, 0.1))
    assert reply.usage.cost == pytest.approx(11e-6)


def test_the_first_token_without_a_log_probability_is_no_certainty() -> None:
    logprobs = {"tokens": ["Yes"], "token_logprobs": [None], "top_logprobs": [None]}
    with serving(lambda body: plain_completion("Yes", logprobs)) as server:
        [reply] = base_model(server).chat([ask("x", top_logprobs=1)])
    assert isinstance(reply, Reply)
    assert reply.tokens is None


def test_a_server_that_takes_fewer_alternatives() -> None:
    def script(body: dict[str, Any]) -> Answer:
        if body["logprobs"] > 5:
            return failing(400, "logprobs must be at most 5")
        return plain_completion(" Yes", {"tokens": [" Yes"], "token_logprobs": [-0.1], "top_logprobs": [{" No": -3.0}]})

    with serving(script) as server:
        replies = base_model(server).chat([ask(str(i), top_logprobs=10) for i in range(2)])
    assert [body["logprobs"] for body in server.asked] == [10, 5, 5]
    assert all(isinstance(r, Reply) and r.tokens == (TokenLogprob(" Yes", -0.1, ((" No", -3.0),)),) for r in replies)


def test_the_chat_interface_says_that_it_cannot_go_on() -> None:
    with serving(lambda body: completion("Yes")) as server:
        [outcome] = OpenAIChat("m", base_url=server.url).chat([ask("x", prefill="Yes")])
    assert isinstance(outcome, Failure)
    assert outcome.kind == "unsupported"
    assert not server.asked


def test_a_base_model_checks_claims_as_a_chat_model_does() -> None:
    def script(body: dict[str, Any]) -> Answer:
        assert body["prompt"].endswith("Supported:")
        top = {" Yes": log(0.2), " No": log(0.6)}
        logprobs = {"tokens": [" No", "\n"], "token_logprobs": [log(0.6), -0.1], "top_logprobs": [top, {}]}
        return plain_completion(" No\nIt", logprobs, finish="length")

    with serving(script) as server:
        detector = load_detector(f"verify:yes_no,splitter=sentences,model=base,base_url={server.url},api=completions")
        [judgement] = detector.judge([Case("1", "It is dry.", (Source("s", "It rains."),))])
    assert server.paths == ["/v1/completions"]
    assert judgement.hallucination == pytest.approx(0.75)


def test_a_connection_reaches_base_models() -> None:
    with serving(lambda body: plain_completion(" Yes")) as server:
        connection = Connection(base_url=server.url).with_options({"model": "base", "api": "completions"})
        [reply] = connection.chat().chat([ask("x")])
    assert isinstance(reply, Reply)
    assert server.paths == ["/v1/completions"]
    assert connection.chat() is not Connection(base_url=server.url).chat("base")
    with pytest.raises(InputError, match="'telnet'"):
        Connection(api="telnet")
    with pytest.raises(InputError, match="not a model on a server"):
        Connection(api="completions").chat("scripted:x.json")
