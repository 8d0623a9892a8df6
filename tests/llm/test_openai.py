"""The backend for OpenAI-compatible servers, against a real socket on which everything goes wrong on purpose."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections import Counter
from dataclasses import replace
from gzip import compress
from math import log
from pathlib import Path
from typing import Any

import pytest

from tests.llm.loopback import Answer, FakeTime, Loopback, ask, completion, failing, serving
from tests.processes import LIMIT
from veridical.llm.budget import Budget
from veridical.llm.cache import Cached
from veridical.llm.openai import OpenAIChat
from veridical.llm.protocol import Failure, Reply, TokenLogprob
from veridical.llm.reply_parser import yes_no_mass
from veridical.records.errors import CannotJudgeError, InputError

pytest.importorskip("openai")

KEY = "sk-secret-0123456789"


def model(server: Loopback, **options: Any) -> OpenAIChat:
    options.setdefault("rate_limiter", FakeTime().rate_limiter())
    return OpenAIChat("tiny", base_url=server.url, timeout=options.pop("timeout", LIMIT), **options)


def question(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def echo(body: dict[str, Any]) -> Answer:
    return completion(f"re: {question(body)}")


def one(script: Any, **options: Any) -> Reply | Failure:
    with serving(script) as server:
        return model(server, retries=0, **options).chat([ask("hello")])[0]


def reply_of(outcome: Reply | Failure) -> Reply:
    assert isinstance(outcome, Reply), outcome
    return outcome


def failure_of(outcome: Reply | Failure) -> Failure:
    assert isinstance(outcome, Failure), outcome
    return outcome


def test_replies_come_in_order_with_usage_and_cost() -> None:
    with serving(echo) as server:
        replies = model(server, budget=Budget(prices=(1.0, 5.0))).chat([ask(str(i)) for i in range(50)])
    assert [reply_of(r).text for r in replies] == [f"re: {i}" for i in range(50)]
    usage = replies[7].usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (1, 10, 2)
    assert usage.cost == pytest.approx((10 * 1 + 2 * 5) / 1e6)


def test_bytes_behind_the_end_of_a_reply_are_no_reply() -> None:
    planted = completion("planted").body
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(planted)
    with serving(lambda body: replace(echo(body), after=head + planted)) as server:
        replies = model(server, concurrency=1).chat([ask("a"), ask("b"), ask("c")])
    assert [reply_of(r).text for r in replies] == ["re: a", "re: b", "re: c"]


def test_what_is_sent_is_the_request_and_nothing_of_ours() -> None:
    with serving(echo) as server:
        request = ask("x", temperature=0.5, max_tokens=7, stop=("\n",), seed=3, top_logprobs=5, stage="s", prompt="p")
        model(server).chat([request])
    assert server.asked[0] == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "x"}],
        "temperature": 0.5,
        "max_tokens": 7,
        "stop": ["\n"],
        "seed": 3,
        "logprobs": True,
        "top_logprobs": 5,
    }


NO_MONEY = Answer(b'{"error": {"message": "pay", "code": "insufficient_quota"}}', 429)
GZIP = Answer(compress(completion("Yes").body), headers={"Content-Encoding": "gzip"})
FAILING: dict[str, tuple[Answer, str, str]] = {
    "500": (failing(500, "boom"), "server", "500"),
    "html": (Answer(b"<html><body>Bad gateway</body></html>"), "malformed", "HTML"),
    "truncated": (Answer(completion("Yes").body[:-20]), "malformed", "breaks off"),
    "no body": (Answer(b""), "malformed", "no body"),
    "an array": (Answer(b"[]"), "malformed", "not an object"),
    "deep": (Answer(b"[" * 100_000), "malformed", "breaks off"),
    "cut": (Answer(completion("Yes").body, cut=True), "connection", "cut off"),
    "hang": (Answer(b"", hang=True), "timeout", "after 0.05 s"),
    "drip": (Answer(b" " * 100 + completion("Yes").body, drip="body"), "timeout", "after 0.1 s"),
    "drip of the head": (Answer(completion("Yes").body, drip="head"), "timeout", "after 0.1 s"),
    "large": (Answer(b" " * (16 * 2**20 + 1)), "malformed", "more than 16,777,216 bytes"),
    "compressed": (GZIP, "malformed", "compressed"),
    "no choices": (Answer(b'{"choices": []}'), "empty", "no choices"),
    "null choices": (Answer(b'{"choices": null}'), "empty", "no choices"),
    "no message": (Answer(b'{"choices": [{}]}'), "malformed", "no message"),
    "null content": (completion(None), "empty", "empty"),
    "blank content": (completion("  \n"), "empty", "empty"),
    "cut before an answer": (completion("", finish="length"), "cut", "max_tokens"),
    "odd content": (completion(7), "malformed", "not a text"),  # type: ignore[arg-type]
    "half a surrogate": (completion("\ud800"), "malformed", "not a text"),
    "refusal": (completion(None, refusal="I cannot help with that."), "refusal", "cannot help"),
    "filtered": (completion("Y", finish="content_filter"), "refusal", "filter"),
    "error in 200": (Answer(b'{"error": {"message": "overloaded"}}'), "server", "overloaded"),
    "too long": (failing(400, "This model's maximum context length is 8192 tokens"), "context", "8192"),
    "rejected": (failing(400, "messages must alternate"), "rejected", "alternate"),
    "quota": (NO_MONEY, "rate_limit", "too many"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_strange_answer_is_a_failure_that_says_why(name: str) -> None:
    answer, kind, why = FAILING[name]
    failure = failure_of(one(lambda body: answer, timeout=0.05 if answer.hang else 0.1 if answer.drip else LIMIT))
    assert (failure.kind, why in failure.reason, "\n" in failure.reason) == (kind, True, False), failure.reason


@pytest.mark.parametrize("operations", range(6))
def test_time_that_is_up_between_two_operations_is_an_ordinary_failure(operations: int) -> None:
    times = iter([0.0] * (1 + operations))  # the start; then the connection, writes and reads, until it is late
    with serving(echo) as server:
        chat = model(server, retries=0, timeout=7.0)
        chat._deadline._now = lambda: next(times, 8.0)
        [outcome] = chat.chat([ask("x")])
    if isinstance(outcome, Failure) or operations < 3:
        assert (failure_of(outcome).kind, failure_of(outcome).reason) == ("timeout", "timed out after 7 s")


def test_a_client_that_takes_no_deadline_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import openai

    monkeypatch.setattr(openai, "DefaultHttpxClient", type("Other", (), {}))
    with serving(echo) as server, pytest.raises(CannotJudgeError, match="cannot be given a time limit"):
        model(server).chat([ask("x")])
    assert not server.asked


def test_the_proxy_of_the_environment_is_used_and_keeps_to_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    drip = Answer(completion("Yes").body, drip="head")
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with serving(lambda body: drip if question(body) == "slow" else echo(body)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        chat = OpenAIChat("tiny", base_url="http://elsewhere.invalid/v1", timeout=LIMIT)
        [reply] = chat.chat([ask("x")])
        slow = OpenAIChat("tiny", base_url="http://elsewhere.invalid/v1", timeout=0.1, retries=0)
        [late] = slow.chat([ask("slow")])
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        reply_of(model(proxy).chat([ask("x")])[0])
    assert reply_of(reply).text == "re: x"
    assert failure_of(late).kind == "timeout"
    assert proxy.paths == [*["http://elsewhere.invalid/v1/chat/completions"] * 2, "/v1/chat/completions"]


def test_an_answer_cut_at_max_tokens_says_so() -> None:
    assert reply_of(one(lambda body: completion("Ye", finish="length"))).finish == "length"


def test_content_in_parts_is_one_text() -> None:
    parts: Any = [{"type": "text", "text": "Y"}, {"type": "text", "text": "es"}]
    assert reply_of(one(lambda body: completion(parts))).text == "Yes"


def test_what_may_pass_is_tried_again_with_growing_waits() -> None:
    time, left = FakeTime(), [failing(500), Answer(b"<html>"), failing(503)]
    with serving(lambda body: left.pop(0) if left else echo(body)) as server:
        [outcome] = model(server, rate_limiter=time.rate_limiter(base_wait=0.5)).chat([ask("x")])
    reply_of(outcome)
    assert time.slept == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("answer", [completion(None, refusal="no"), NO_MONEY], ids=["refusal", "no money"])
def test_what_will_not_pass_is_not_tried_again(answer: Answer) -> None:
    with serving(lambda body: answer) as server:
        model(server).chat([ask("x")])
    assert len(server.asked) == 1


def test_one_that_is_told_to_wait_holds_the_others_back() -> None:
    time, seen = FakeTime(), []

    def script(body: dict[str, Any]) -> Answer:
        seen.append(time.time)
        return failing(429, Retry_After="17") if len(seen) == 2 else echo(body)

    with serving(script) as server:
        chat = model(server, rate_limiter=time.rate_limiter(), concurrency=1, retries=0)
        kinds = [getattr(r, "kind", "reply") for r in chat.chat([ask(str(i)) for i in range(3)])]
    assert kinds == ["reply", "rate_limit", "reply"]
    assert seen[2] >= 17


def test_tries_end() -> None:
    with serving(lambda body: failing(500)) as server:
        [outcome] = model(server, retries=2).chat([ask("x")])
    assert len(server.asked) == 3
    assert failure_of(outcome).retryable


def test_retry_after_is_honoured() -> None:
    time, left = FakeTime(), [failing(429, Retry_After="17")]
    with serving(lambda body: left.pop() if left else echo(body)) as server:
        [outcome] = model(server, rate_limiter=time.rate_limiter()).chat([ask("x")])
    reply_of(outcome)
    assert sum(time.slept) == pytest.approx(17)


def test_a_wait_beyond_all_patience_is_a_failure_at_once() -> None:
    time = FakeTime()
    with serving(lambda body: failing(429, Retry_After="86400")) as server:
        [outcome] = model(server, rate_limiter=time.rate_limiter(max_wait=60)).chat([ask("x")])
    assert "86400 s" in failure_of(outcome).reason
    assert not time.slept
    assert len(server.asked) == 1


def test_requests_a_minute_are_limited() -> None:
    time = FakeTime()
    with serving(echo) as server:
        model(server, rate_limiter=time.rate_limiter(per_minute=60), concurrency=4).chat(
            [ask(str(i)) for i in range(13)]
        )
    assert time.time >= 12


def test_a_thousand_requests_none_lost_none_invented(tmp_path: Path) -> None:
    tries: Counter[str] = Counter()
    lock = threading.Lock()
    passing = [
        failing(429, Retry_After="1"),
        failing(500),
        Answer(completion("Yes").body, cut=True),
        Answer(b"<html>busy</html>"),
        Answer(completion("Yes").body[:-9]),
    ]
    lasting = [Answer(b'{"choices": []}'), completion(None), completion(None, refusal="no"), failing(400, "bad")]
    kinds = ["empty", "empty", "refusal", "rejected"]

    def script(body: dict[str, Any]) -> Answer:
        with lock:
            tries[question(body)] += 1
            first = tries[question(body)] == 1
        i = int(question(body))
        if i % 13 == 5:
            return lasting[i % 4]
        return passing[i % 5] if i % 3 == 0 and first else echo(body)

    requests = [ask(str(i)) for i in range(1000)]
    with serving(script) as server:
        first = model(server, concurrency=16, budget=Budget(max_calls=500))
        cut = Cached(first, tmp_path / "replies.db").chat(requests)
        paid = {i for i, r in enumerate(cut) if isinstance(r, Reply)}
        assert len(server.asked) == 500
        assert {r.kind for r in cut if isinstance(r, Failure)} >= {"budget"}
        before = Counter(tries)
        outcomes = Cached(model(server, concurrency=16), tmp_path / "replies.db").chat(requests)
    assert len(outcomes) == 1000
    for i, outcome in enumerate(outcomes):
        if i % 13 == 5:
            assert failure_of(outcome).kind == kinds[i % 4]
        else:
            assert (reply_of(outcome).text, reply_of(outcome).cached) == (f"re: {i}", i in paid)
    assert paid
    assert all(tries[str(i)] == before[str(i)] for i in paid), "a paid call was made again"


def test_as_many_at_once_as_allowed_and_never_more() -> None:
    together = threading.Barrier(4, timeout=LIMIT)

    def script(body: dict[str, Any]) -> Answer:
        if question(body) != "0":  # the first goes alone
            together.wait()
        return echo(body)

    with serving(script) as server:
        outcomes = model(server, concurrency=4).chat([ask(str(i)) for i in range(13)])
    assert all(isinstance(r, Reply) for r in outcomes)
    assert server.most_under_way == 4


# --- what the server cannot do


def logprobs_of(*tokens: tuple[str, float]) -> dict[str, Any]:
    top = [{"token": t, "logprob": p} for t, p in tokens]
    return {"content": [{**top[0], "top_logprobs": top}]}


def test_log_probabilities_come_through_as_they_are() -> None:
    with serving(lambda body: completion("Yes", logprobs=logprobs_of(("Yes", -0.1), ("No", -2.5)))) as server:
        chat = model(server)
        [reply] = chat.chat([ask("x", top_logprobs=2)])
    assert reply_of(reply).tokens == (TokenLogprob("Yes", -0.1, (("Yes", -0.1), ("No", -2.5))),)
    assert chat.logprobs is True
    assert not chat.notes


def test_a_server_that_ignores_log_probabilities_is_noticed() -> None:
    with serving(lambda body: completion("Yes")) as server:
        chat = model(server)
        assert chat.logprobs is None
        [reply] = chat.chat([ask("x", top_logprobs=2)])
    assert reply_of(reply).tokens is None
    assert chat.logprobs is False
    assert "no log-probabilities" in chat.notes[0]


@pytest.mark.parametrize("content", [[{"token": "Yes"}], [{"token": "Yes", "logprob": float("nan")}], [7], [], 7, None])
def test_log_probabilities_that_are_none_are_dropped_whole(content: object) -> None:
    logprobs = 7 if content is None else {"content": content}
    assert reply_of(one(lambda body: completion("Yes", logprobs=logprobs))).tokens is None


@pytest.mark.parametrize("message", ["unknown field top_logprobs", "bad request"])
def test_a_server_that_rejects_log_probabilities_is_asked_without_and_that_is_remembered(message: str) -> None:
    with serving(lambda body: failing(400, message) if "logprobs" in body else completion("Yes")) as server:
        chat = model(server)
        replies = chat.chat([ask(str(i), top_logprobs=2) for i in range(5)])
    assert all(isinstance(r, Reply) and r.tokens is None for r in replies)
    assert chat.logprobs is False
    assert [body.get("top_logprobs") for body in server.asked[:4]] == [2, 1, None, None]
    assert len(server.asked) == 8, "it was rejected in the first request only"


@pytest.mark.parametrize("message", ["top_logprobs must be at most 5", "bad request", "logprobs of 10 is too many"])
def test_a_server_that_gives_fewer_alternatives_is_asked_for_fewer_and_that_is_remembered(message: str) -> None:
    def script(body: dict[str, Any]) -> Answer:
        if body["top_logprobs"] > 5:
            return failing(400, message)
        return completion("Yes", logprobs=logprobs_of(("Yes", -0.1), ("No", -2.5)))

    with serving(script) as server:
        chat = model(server)
        replies = chat.chat([ask(str(i), top_logprobs=10) for i in range(3)])
    assert all(isinstance(r, Reply) and r.tokens is not None and len(r.tokens[0].top) == 2 for r in replies)
    assert [body["top_logprobs"] for body in server.asked] == [10, 5, 5, 5]
    assert chat.logprobs is True
    assert chat.notes == ("tiny: the server gives at most 5 alternatives per token",)


def test_a_server_that_knows_no_alternatives_still_gives_log_probabilities() -> None:
    def script(body: dict[str, Any]) -> Answer:
        if "top_logprobs" in body:
            return failing(400, "unknown field top_logprobs")
        return completion("Yes", logprobs={"content": [{"token": "Yes", "logprob": log(0.6)}]})

    with serving(script) as server:
        [reply] = model(server).chat([ask("x", top_logprobs=10)])
    assert yes_no_mass(reply_of(reply)) == pytest.approx((0.6, 0.4))


def test_a_request_that_is_wrong_anyway_does_not_cost_the_log_probabilities() -> None:
    def script(body: dict[str, Any]) -> Answer:
        if question(body) == "bad":
            return failing(400, "bad request")
        return completion("Yes", logprobs=logprobs_of(("Yes", -0.1)) if "logprobs" in body else None)

    with serving(script) as server:
        bad, good = model(server).chat([ask("bad", top_logprobs=1), ask("good", top_logprobs=1)])
    failure_of(bad)
    assert reply_of(good).tokens is not None


def test_a_model_that_knows_max_tokens_by_another_name() -> None:
    message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    with serving(lambda body: failing(400, message) if "max_tokens" in body else completion("Yes")) as server:
        replies = model(server).chat([ask("a", max_tokens=9), ask("b", max_tokens=9)])
    assert all(isinstance(r, Reply) for r in replies)
    assert server.asked[-1]["max_completion_tokens"] == 9
    assert len(server.asked) == 3


# --- nothing can be asked


@pytest.mark.parametrize(("status", "says"), [(401, "key"), (403, "key"), (404, "no model 'tiny'")])
def test_wrong_key_or_model_is_one_line_after_one_request(status: int, says: str) -> None:
    with serving(lambda body: failing(status)) as server, pytest.raises(CannotJudgeError, match=says) as caught:
        model(server).chat([ask(str(i)) for i in range(20)])
    assert len(server.asked) == 1
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def test_a_key_refused_later_is_a_failure() -> None:
    with serving(lambda body: echo(body) if question(body) == "0" else failing(401)) as server:
        outcomes = model(server).chat([ask(str(i)) for i in range(5)])
    assert [getattr(r, "kind", "reply") for r in outcomes] == ["reply"] + ["auth"] * 4


def test_no_server_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(CannotJudgeError, match="no server answers"):
            OpenAIChat("tiny", base_url=url, rate_limiter=FakeTime().rate_limiter()).chat([ask("x")])


def test_no_key_is_one_line_and_nothing_is_sent() -> None:
    with pytest.raises(CannotJudgeError, match="OPENAI_API_KEY"):
        OpenAIChat("gpt").chat([ask("x")])
    with pytest.raises(CannotJudgeError, match=r"\$MY_KEY is not set"):
        OpenAIChat("gpt", key_env="MY_KEY").chat([ask("x")])


def test_a_local_server_needs_no_key_and_never_gets_openais(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(echo) as server:
        model(server).chat([ask("x")])
    assert KEY not in str(server.headers)


def test_the_key_opens_the_server_and_shows_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    shown = []
    answers = [failing(500, f"your key {KEY}"), failing(400, f"your key {KEY}"), failing(401, f"your key {KEY}")]
    with caplog.at_level(logging.DEBUG), serving(lambda body: answers[int(question(body))]) as server:
        for i in range(3):
            chat = model(server, retries=0, key_env="MY_KEY")
            try:
                shown.append(repr(chat.chat([ask(str(i))])))
            except CannotJudgeError as error:
                shown += [repr(error), str(error), str(error.__cause__)]
            shown += [repr(chat), repr(vars(chat)), repr(chat._server), repr(Cached(chat, tmp_path / "c"))]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert len(server.asked) == 3
    assert KEY not in "".join(shown) + caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        Answer(json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()),
        Answer(json.dumps({"error": "x" * 190 + KEY}).encode()),  # shortened only after the key is out
        completion(None, refusal=f"not with {KEY}"),
        completion(f"You sent {KEY}"),
        completion("Yes", finish=KEY),
        failing(400, "x" * 290 + KEY),
        failing(429, KEY),
    ],
)
def test_the_key_is_removed_from_whatever_the_server_says(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    outcome = one(lambda body: answer, key_env="MY_KEY")
    assert KEY[:9] not in repr(outcome)
    assert "***" in repr(outcome) or "x" * 190 in repr(outcome)


@pytest.mark.parametrize("key", ["", "two words", "näh", "a\nb"])
def test_a_key_that_is_none_is_refused_unseen(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(CannotJudgeError, match=r"holds no key|is not set") as caught:
        OpenAIChat("gpt", key_env="MY_KEY").chat([ask("x")])
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://a/v1", "http://", "http://me:pass@a/v1", "http://a/v1?key=b"])
def test_a_base_url_that_is_none_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="base URL") as caught:
        OpenAIChat("tiny", base_url=url)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"timeout": 0}, {"retries": -1}])
def test_unusable_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        OpenAIChat("tiny", **options)


# --- budget


def test_a_budget_of_nothing_sends_nothing() -> None:
    with serving(echo) as server:
        outcomes = model(server, budget=Budget(prices=(1, 1), max_cost=0)).chat([ask(str(i)) for i in range(5)])
    assert [r.kind for r in outcomes if isinstance(r, Failure)] == ["budget"] * 5
    assert not server.asked


def test_cost_stops_cleanly_and_is_never_overstepped() -> None:
    with serving(echo) as server:
        chat = model(server, budget=Budget(prices=(1000.0, 1000.0), max_cost=0.5), concurrency=8)  # 0.012 a call
        outcomes = chat.chat([ask(str(i), max_tokens=8) for i in range(100)])
    replies = [r for r in outcomes if isinstance(r, Reply)]
    assert {r.kind for r in outcomes if isinstance(r, Failure)} == {"budget"}
    assert len(replies) == len(server.asked)
    assert 0.5 - 0.06 < chat.budget.cost <= 0.5
    assert sum(r.usage.cost or 0 for r in replies) == pytest.approx(chat.budget.cost)


def test_what_may_have_been_paid_counts() -> None:
    with serving(lambda body: Answer(completion("Yes").body, cut=True)) as server:
        chat = model(server, budget=Budget(prices=(1000.0, 1000.0), max_cost=0.1), retries=50)
        [outcome] = chat.chat([ask("x", max_tokens=8)])  # at most 0.041 a call
    assert failure_of(outcome).kind == "budget"
    assert len(server.asked) == 2
