"""Base models on /completions: plain prompts, next-token alternatives, and given texts scored with echo."""

from __future__ import annotations

import re
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from tests.llm.loopback import Answer, FakeTime, Loopback, ask, completion, failing, plain_completion, serving
from tests.processes import LIMIT
from veridical.detectors import load_detector
from veridical.llm.budget import Budget, most_tokens
from veridical.llm.cache import Cached
from veridical.llm.connection import Connection
from veridical.llm.openai import OpenAIChat
from veridical.llm.protocol import Failure, Message, Reply, Request, TokenLogprob
from veridical.llm.reply_parser import continuation_probability, yes_probability
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


class Echo:
    """A server that scores what it is given: every token but the first has the log-probability -1, " Yes" -0.5.

    `start`: a token before the prompt; `bare`: tokens are decoded one by one, and lose their blanks; `shifted`: the
    generated token is not in the list.
    """

    def __init__(self, *, start: str = "", bare: bool = False, generated: str = " Yes", shifted: bool = False) -> None:
        self.start, self.bare, self.generated, self.shifted = start, bare, generated, shifted

    def __call__(self, body: dict[str, Any]) -> Answer:
        assert body["echo"]
        assert body["max_tokens"] == 1, "some servers take 0 for no limit"
        whole = body["prompt"] + self.generated
        tokens = [self.start] * bool(self.start) + re.findall(r"\s?\w+|\s|[^\w\s]", whole)
        if self.shifted:
            tokens.pop()
        values = [None, *(-0.5 if token == " Yes" else -1.0 for token in tokens[1:])]
        texts = [token.strip() or token for token in tokens] if self.bare else tokens
        tops = [None, *({text: value} for text, value in zip(texts[1:], values[1:], strict=True))]
        logprobs = {"tokens": texts, "token_logprobs": values, "top_logprobs": tops, "text_offset": [0] * len(texts)}
        return plain_completion(whole, logprobs, finish="length")


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
    assert yes_probability(reply) == pytest.approx(0.8)
    assert reply.usage.cost == pytest.approx(11e-6)


@pytest.mark.parametrize("start", ["", "<s>"])
@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("generated", [" Yes", "\n", ".", " No"])
def test_a_given_text_is_scored_whatever_the_server_lists(start: str, bare: bool, generated: str) -> None:
    with serving(Echo(start=start, bare=bare, generated=generated)) as server:
        yes, no = base_model(server).chat([Request(FEW_SHOT, continuation=text) for text in (" Yes", " No way")])
    assert server.asked[0]["prompt"] == f"{PROMPT} Yes"
    assert isinstance(yes, Reply)
    assert isinstance(no, Reply)
    assert [token.logprob for token in yes.tokens or ()] == [-0.5]
    assert continuation_probability(yes, " Yes") == pytest.approx(exp(-0.5))
    assert continuation_probability(no, " No way") == pytest.approx(exp(-2))


@pytest.mark.parametrize("generated", [" Yes", "\n", ".", " No"])
def test_log_probabilities_that_are_shifted_by_one_are_refused(generated: str) -> None:
    with serving(Echo(generated=generated, shifted=True)) as server:
        [outcome] = base_model(server).chat([Request(FEW_SHOT, continuation=" Yes")])
    assert isinstance(outcome, Failure)
    assert outcome.kind == "unsupported"
    assert "shifted by one" in outcome.reason


def test_a_blank_that_is_a_token_of_its_own_counts() -> None:
    tokens = [*PROMPT.split(" "), " ", "Yes", "."]
    values = [None, *[-1.0] * (len(tokens) - 2), -7.0]
    logprobs = {"tokens": tokens, "token_logprobs": values, "top_logprobs": None}
    with serving(lambda body: plain_completion(f"{PROMPT} Yes.", logprobs)) as server:
        [reply] = base_model(server).chat([Request(FEW_SHOT, continuation=" Yes")])
    assert isinstance(reply, Reply)
    assert reply.tokens == (TokenLogprob(" ", -1.0), TokenLogprob("Yes", -1.0))


STRANGE: dict[str, tuple[Answer, str]] = {
    "echo ignored": (plain_completion(" Yes"), "cannot score"),
    "no list": (plain_completion(f"{PROMPT} Yes."), "cannot score"),
    "a token across the border": (
        plain_completion(
            f"{PROMPT} Yes.", {"tokens": ["Supported", ": Yes", "."], "token_logprobs": [None, -1.0, -1.0]}
        ),
        "does not begin and end with tokens",
    ),
    "rejected": (failing(400, "echo is not supported with logprobs"), "echo is not supported"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_text_that_is_not_scored_is_a_failure_that_says_why(name: str) -> None:
    answer, why = STRANGE[name]
    with serving(lambda body: answer) as server:
        [outcome] = base_model(server).chat([Request(FEW_SHOT, continuation=" Yes")])
    assert isinstance(outcome, Failure)
    assert outcome.kind in ("unsupported", "rejected")
    assert why in outcome.reason


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


@pytest.mark.parametrize("given", [{"continuation": " Yes"}, {"prefill": "Yes"}])
def test_the_chat_interface_says_that_it_cannot_score_or_go_on(given: dict[str, str]) -> None:
    with serving(lambda body: completion("Yes")) as server:
        [outcome] = OpenAIChat("m", base_url=server.url).chat([ask("x", **given)])
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


def test_scored_texts_are_cached_apart_and_budgeted(tmp_path: Path) -> None:
    requests = [Request(FEW_SHOT, continuation=" Yes"), Request(FEW_SHOT, continuation=" No"), Request(FEW_SHOT)]
    assert most_tokens(requests[0]) == (most_tokens(requests[2])[0] + len(" Yes"), 1)
    with serving(Echo()) as server:
        chat = Cached(base_model(server), tmp_path / "c.db")
        assert chat.chat(requests[:2]) != chat.chat([requests[1], requests[0]])
        assert len(server.asked) == 2
        assert all(isinstance(reply, Reply) and reply.cached for reply in chat.chat(requests[:2]))


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
