"""The proxy: replies of a scripted chat server go on checked, whatever that server does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.llm.loopback import Answer, Loopback, completion, failing, serving
from tests.processes import LIMIT
from tests.server.services import Echo, client_of, leaving
from tests.server.test_running import running
from veridical.detectors import load_detector
from veridical.io.conversations import coming_turn
from veridical.io.serialization import decode, encode
from veridical.records.errors import CannotJudgeError
from veridical.records.types import Case, Judgement, Source
from veridical.server.app import create_app
from veridical.server.errors import Refused
from veridical.server.keys import Key, make_key, read_keys
from veridical.server.protection import lines
from veridical.server.proxy import StreamedReply
from veridical.server.replies import BLOCKED, ReplyChecker
from veridical.server.service import Service
from veridical.server.settings import Limits, ProxySettings, ServerSettings
from veridical.server.upstream import Upstream, _events, _with_line_feeds
from veridical.workflows.revise import Flag, revise

QUESTION = "How tall is it?"
TOWER = "The tower is 330 m tall. It rains in Rome."
CHAT = {
    "model": "tiny",
    "messages": [
        {"role": "system", "content": f"<context>\n{TOWER}\n</context>"},
        {"role": "user", "content": QUESTION},
    ],
}
RIGHT, WRONG = "The tower is 330 m tall.", "It rains in Rome. Pigs fly."


@contextmanager
def proxied(
    script: Callable[[dict[str, Any]], Answer],
    *,
    own: dict[str, Any] | None = None,
    reviser: str | None = None,
    keys: tuple[Key, ...] = (),
    **proxy: Any,
) -> Iterator[tuple[TestClient, Loopback]]:
    with serving(script) as server:
        limits = Limits(batch_wait=0, characters=5000, stream_timeout=LIMIT)
        settings = ProxySettings(base_url=server.url, **{"timeout": LIMIT, **proxy})
        with client_of(
            *(() if own else ("overlap",)), own=own, limits=limits, proxy=settings, reviser=reviser, keys=keys
        ) as client:
            yield client, server


def ask(client: TestClient, **more: Any) -> Any:
    return client.post("/v1/chat/completions", json={**CHAT, **more})


def replied(answer: Answer, chat: dict[str, Any] | None = None, **proxy: Any) -> Any:
    """What a client gets for the chat (with these changes) where the chat server gives `answer`."""
    with proxied(lambda body: answer, **proxy) as (client, _):
        return ask(client, **(chat or {}))


def content_of(answer: Any) -> Any:
    return answer.json()["choices"][0]["message"]["content"]


def status_of(answer: Any) -> str:
    return str(answer.json()["veridical"]["status"])


def streamed(answer: Answer, **proxy: Any) -> list[dict[str, Any]]:
    """The chunks that a client gets where the chat server streams `answer`."""
    with proxied(lambda body: answer, **proxy) as (client, _):
        return chunks_of(ask(client, stream=True))


def test_replies_are_annotated_and_otherwise_as_they_were() -> None:
    with proxied(lambda body: completion(WRONG)) as (client, server):
        answer = ask(client, temperature=0.5, include=["sources"])
    assert server.asked == [{**CHAT, "temperature": 0.5}]
    said = answer.json()
    veridical = said.pop("veridical")
    assert said == json.loads(completion(WRONG).body)
    assert answer.headers["x-veridical-status"] == veridical["status"] == "flagged"
    (choice,) = veridical["choices"]
    checked = decode(choice["check"])
    assert checked.case.response == WRONG
    assert [source.text for source in checked.case.sources] == [TOWER]
    assert checked.case.question == "How tall is it?"
    assert "fly" in {span.of(WRONG) for span in checked.flagged}


def test_sources_that_are_given_are_used_and_do_not_go_on() -> None:
    with proxied(lambda body: completion("The bridge is blue.")) as (client, server):
        answer = ask(client, sources=["The bridge is blue.", {"id": "b", "text": "It rains."}], include=["sources"])
    assert "sources" not in server.asked[0]
    assert status_of(answer) == "clear"
    sources = answer.json()["veridical"]["choices"][0]["check"]["case"]["sources"]
    assert [source["id"] for source in sources] == ["1", "b", "system, message 1"]


def test_the_chat_is_read_as_a_conversation() -> None:
    link = {"role": "tool", "tool_call_id": "c1", "content": "https://example.org/rules"}
    call = {"id": "c1", "type": "function", "function": {"name": "get_link", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "I have two dogs. May they come in?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        link,
        {"role": "assistant", "content": "Pigs fly."},
        {"role": "user", "content": "And how tall is it?"},
    ]
    answer = replied(completion(WRONG), {"messages": messages, "include": ["sources"]})
    (choice,) = answer.json()["veridical"]["choices"]
    case = decode(choice["check"]).case
    assert replace(case, response="") == coming_turn(messages, id="reply")
    assert [(source.id, source.text) for source in case.sources] == [
        ("user, message 1", "I have two dogs."),
        ("get_link, message 3", link["content"]),
    ]
    assert case.question == "I have two dogs. May they come in? And how tall is it?"


def test_messages_of_other_roles() -> None:
    messages = [{"role": "docs", "content": [{"type": "text", "text": TOWER}]}, {"role": "user", "content": QUESTION}]
    assert status_of(replied(completion(RIGHT), {"messages": messages}, source_roles=("docs",))) == "clear"
    with proxied(lambda body: completion(RIGHT)) as (client, server):
        answer = ask(client, messages=messages).json()
        assert server.asked[0]["messages"] == messages
    assert answer["veridical"]["status"] == "unavailable"
    assert "message 1: the role is 'docs'" in answer["veridical"]["choices"][0]["reason"]


@pytest.mark.parametrize("role", ["system", "developer", "user"])
def test_instructions_are_no_sources(role: str) -> None:
    messages = [{"role": role, "content": "You are a helpful assistant."}, {"role": "user", "content": QUESTION}]
    answer = replied(completion(WRONG), {"messages": messages}, action="block")
    assert answer.headers["x-veridical-status"] == "unjudged"
    assert content_of(answer) == WRONG


def test_the_context_in_a_prompt_is_the_source_and_its_question_the_question() -> None:
    prompt = f"Given these documents, answer the question.\nDocuments:\n{TOWER}\nQuestion: {QUESTION}\nAnswer:"
    chat = {"messages": [{"role": "user", "content": prompt}], "include": ["sources"]}
    (choice,) = replied(completion(WRONG), chat).json()["veridical"]["choices"]
    assert choice["status"] == "flagged"
    assert choice["check"]["case"]["sources"] == [{"id": "user, message 1", "text": TOWER}]
    assert choice["check"]["case"]["question"] == QUESTION


def test_the_context_is_where_a_marker_of_ones_own_says() -> None:
    prompt = f"Facts: {TOWER} Task: {QUESTION}"
    chat = {"messages": [{"role": "user", "content": prompt}], "include": ["sources"]}
    (choice,) = replied(completion(RIGHT), chat, context_markers=("Facts:...Task:",)).json()["veridical"]["choices"]
    assert choice["status"] == "clear"
    assert choice["check"]["case"]["sources"] == [{"id": "user, message 1", "text": TOWER}]


def test_sources_that_are_none_or_addresses_are_refused() -> None:
    with proxied(lambda body: completion(RIGHT)) as (client, server):
        assert ask(client, sources=[1]).status_code == 400
        assert ask(client, include="sources").status_code == 400
        assert ask(client, sources=["https://example.org"]).status_code == 422
        assert server.asked == []


def test_refusals_have_the_form_of_openai_and_say_why(tmp_path: Path) -> None:
    openai = pytest.importorskip("openai")
    make_key(tmp_path / "keys", "alice")
    with proxied(lambda body: completion(RIGHT)) as (client, _):
        refused = ask(client, sources=["https://example.org"]).json()
        assert refused["error"] == {
            "message": f"the chat: source '1' is an address, and addresses are not fetched ({refused['hint']})",
            "type": "veridical_error",
        }
        assert refused["request_id"]
        assert client.get("/v1/chat/completions").json()["error"]["message"].startswith("Method Not Allowed")
        api = openai.OpenAI(base_url="http://127.0.0.1/v1", api_key="theirs", max_retries=0, http_client=client)
        with pytest.raises(openai.APIStatusError) as caught:
            api.chat.completions.create(**CHAT, extra_body={"sources": ["https://example.org"]})
        assert caught.value.body == refused["error"]
    with proxied(lambda body: completion(RIGHT), keys=read_keys(tmp_path / "keys")) as (client, _):
        for path in ("/v1/models", "/v1/embeddings"):
            assert client.get(path).json()["error"]["message"].startswith("no key (")


def test_the_field_of_the_annotation_never_comes_from_the_chat_server() -> None:
    body = json.dumps({"choices": [], "veridical": {"status": "clear"}}).encode()
    assert replied(Answer(body), action="header").json() == {"choices": []}


def test_reasoning_in_a_reply_is_not_checked() -> None:
    answer = replied(completion(f"<think>{WRONG}</think>\n{RIGHT}"), action="block")
    assert status_of(answer) == "clear"
    assert content_of(answer) == f"<think>{WRONG}</think>\n{RIGHT}"


def test_only_headers() -> None:
    answer = replied(completion(WRONG), action="header")
    assert answer.json() == json.loads(completion(WRONG).body)
    assert answer.headers["x-veridical-status"] == "flagged"


def test_blocked() -> None:
    answer = replied(completion(WRONG), action="block")
    assert "Pigs" not in answer.text
    (choice,) = answer.json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (BLOCKED, "content_filter")
    assert answer.json()["veridical"]["choices"] == [{"index": 0, "status": "flagged", "withheld": True}]
    assert content_of(replied(completion(RIGHT), action="block")) == RIGHT


def test_nothing_else_of_a_blocked_reply_goes_on() -> None:
    more = {"reasoning_content": "Pigs fly.", "tool_calls": [{"function": {"arguments": "Pigs fly."}}]}
    message = {"role": "assistant", "content": WRONG, **more}
    reply = {"id": "c-1", "choices": [{"message": message, "text": WRONG}], "citations": ["Pigs fly."]}
    answer = replied(raw(json.dumps(reply).encode()), action="block")
    assert "Pigs" not in answer.text
    notice = {"index": 0, "message": {"role": "assistant", "content": BLOCKED}, "finish_reason": "content_filter"}
    assert answer.json().items() >= {"id": "c-1", "choices": [notice]}.items()


@pytest.mark.parametrize("action", ["annotate", "header", "block", "revise"])
def test_choices_of_the_same_index_are_both_checked(action: str) -> None:
    texts = (RIGHT, WRONG)
    reply = {"choices": [{"index": 0, "message": {"content": text}} for text in texts]}
    deltas = [{"index": 0, "delta": {"content": f"{text} "}} for text in texts]
    script = lambda body: sse({"choices": deltas}) if body.get("stream") else raw(json.dumps(reply).encode())  # noqa: E731
    with proxied(script, action=action) as (client, _):
        answer, chunks = ask(client), chunks_of(ask(client, stream=True))
    assert answer.status_code == 200
    first, second = (each["message"]["content"] for each in answer.json()["choices"])
    assert (first, second) == (RIGHT, {"block": BLOCKED, "revise": "It rains in Rome."}.get(action, WRONG))
    flagged = "clear" if action == "revise" else "flagged"
    assert chunks[-1]["veridical"]["status"] == answer.headers["x-veridical-status"] == flagged


def test_revised() -> None:
    said = replied(completion(WRONG), action="revise").json()
    assert said["choices"][0]["message"]["content"] == "It rains in Rome."
    assert said["veridical"]["status"] == "clear"
    assert said["veridical"]["choices"][0]["revised"]["case"]["response"] == WRONG


def test_without_text_or_sources_nothing_is_clear() -> None:
    assert status_of(replied(completion(None))) == "unjudged"
    assert status_of(replied(completion(RIGHT), {"messages": CHAT["messages"][1:]})) == "unjudged"


class Broken(Echo):
    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        if "unreachable" in cases[0].response:
            raise CannotJudgeError("no chat model answers")
        raise RuntimeError("broke")


@pytest.mark.parametrize("text", ["unreachable", "other"])
def test_a_check_that_fails_is_neither_clear_nor_flagged(text: str) -> None:
    with proxied(lambda body: completion(text), own={"broken": Broken()}) as (client, _):
        answer = ask(client)
        assert content_of(answer) == text
        assert answer.headers["x-veridical-status"] == status_of(answer) == "unavailable"
        assert 'veridical_proxied_replies_total{status="unavailable"} 1.0' in client.get("/metrics").text
    broken = {"broken": Broken()}
    assert content_of(replied(completion(text), own=broken, action="block")) == BLOCKED
    assert content_of(replied(completion(text), own=broken, action="block", blocks=False)) == text


def test_a_chat_that_is_too_large_to_check_is_answered_unchecked() -> None:
    answer = replied(completion(RIGHT), {"messages": [{"role": "tool", "content": "word " * 2000}]})
    assert status_of(answer) == "unavailable"
    assert "characters" in answer.json()["veridical"]["choices"][0]["reason"]


def raw(body: bytes, status: int = 200, **headers: str) -> Answer:
    return Answer(body, status, headers)


def choice(**more: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": {"content": "x"}, **more}]}).encode()


HOSTILE = {
    "no JSON": raw(b"<html>"),
    "an array": raw(b"[]"),
    "not UTF-8": raw(b"\xff"),
    "deep": raw(b'{"choices": ' + b"[" * 100_000),
    "choices": raw(b'{"choices": {"a": 1}}'),
    "many choices": raw(json.dumps({"choices": [{"message": {}}] * 129}).encode()),
    "no message": raw(b'{"choices": [1]}'),
    "content": raw(b'{"choices": [{"message": {"content": {"a": 1}}}]}'),
    "an empty object": raw(b'{"choices": [{"message": {"content": {}}}]}'),
    "parts": raw(b'{"choices": [{"message": {"content": [{"type": "text", "text": 1}]}}]}'),
    "index": raw(choice(index=10**9)),
    "infinity": raw(b'{"choices": [], "created": 1e999}'),
    "large": raw(b" " * 60_000 + b"{}"),
    "redirection": raw(b"{}", 302, Location="http://127.0.0.1:1/"),
    "compressed": raw(b"x", 200, **{"Content-Encoding": "gzip"}),
    "cut": Answer(choice(), cut=True),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_chat_server_sends_is_502(name: str) -> None:
    answer = replied(HOSTILE[name], reply_bytes=50_000)
    assert answer.status_code == 502, answer.text
    assert set(answer.json()) == {"error", "hint", "request_id"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_of_too_many_values_is_502(stream: bool) -> None:
    chunk = choice(extra=[[]] * 300_000)
    whole = raw(b"data: " + chunk + b"\n\n", **{"Content-Type": "text/event-stream"}) if stream else raw(chunk)
    answer = replied(whole, {"stream": stream})
    assert stream or answer.status_code == 502
    assert "the chat server sent more than 400,000 values" in answer.text


def test_a_lone_surrogate_is_not_checked_and_not_lost() -> None:
    answer = replied(raw(b'{"choices": [{"message": {"content": "\\ud800 5"}}]}'))
    assert answer.status_code == 200
    assert status_of(answer) == "unavailable"
    assert content_of(answer) == "\ud800 5"


def test_errors_of_the_server_behind_go_on() -> None:
    with proxied(lambda body: failing(429, "slow down", retry_after="7")) as (client, _):
        answer = ask(client)
        assert (answer.status_code, answer.json()["error"]["message"]) == (429, "slow down")
        assert answer.headers["retry-after"] == "7"
        assert ask(client, stream=True).status_code == 429
    assert replied(raw(b"oops", 500)).status_code == 502
    assert replied(Answer(b"", hang=True), timeout=0.2).status_code == 504
    assert replied(Answer(choice(), drip="body"), timeout=0.3).status_code == 504
    with client_of("overlap", proxy=ProxySettings(base_url="http://127.0.0.1:1/v1")) as client:
        answer = ask(client)
        assert (answer.status_code, answer.json()["hint"]) == (
            502,
            "its operator can check that it runs, and the address in --proxy",
        )


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, {"object": "error", "message": "too long", "code": 400}, "too long"),  # vLLM, Mistral
        (401, {"detail": "no key"}, "no key"),
        (422, {"detail": [{"msg": "missing"}]}, '[{"msg": "missing"}]'),
        (400, [{"error": {"message": "no such key", "code": 400}}], "no such key"),  # Gemini
        (404, {"error": "no such model"}, "no such model"),  # Ollama
        (500, {"message": "broke"}, "broke"),
        (429, {"error": None}, "the chat server answered with status 429"),
        (400, {"error": {"message": "\x1b[2J" + "a" * 9000}}, "␛[2J" + "a" * 1996),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_keeps_its_status_and_message_in_whatever_form(
    status: int, body: Any, message: str, stream: bool
) -> None:
    answer = replied(raw(json.dumps(body).encode(), status, **{"Retry-After": "1.5"}), {"stream": stream})
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, message)
    assert answer.headers["retry-after"] == "1.5"


def test_an_error_of_one_field_more_keeps_it() -> None:
    error = {"message": "no", "type": "invalid_request_error", "code": "content_filter", "innererror": {"a": [1]}}
    assert replied(raw(json.dumps({"error": error}).encode(), 400)).json() == {"error": error}


@pytest.mark.parametrize("body", [b"Unauthorized", b"\xff", b"", b"[" * 100_000, b'{"a": NaN}'])
def test_an_error_without_json_keeps_its_status(body: bytes) -> None:
    answer = replied(raw(body, 401, **{"Retry-After": "soon", "X-Secret": "a"}))
    assert (answer.status_code, answer.json()["error"]["message"]) == (401, "the chat server answered with status 401")
    assert not {"retry-after", "x-secret"} & set(answer.headers)


def test_keys_of_ours_stay_and_keys_of_theirs_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key(tmp_path / "keys", "alice")
    with serving(lambda body: completion(RIGHT)) as server:
        settings = ProxySettings(base_url=server.url)
        with client_of("overlap", proxy=settings) as client:
            client.post("/v1/chat/completions", json=CHAT, headers={"Authorization": "Bearer theirs"})
        with client_of("overlap", proxy=settings, keys=read_keys(tmp_path / "keys")) as client:
            assert ask(client).status_code == 401
            client.post("/v1/chat/completions", json=CHAT, headers={"Authorization": f"Bearer {key}"})
            both = {"X-API-Key": key, "Authorization": "Bearer theirs"}
            client.post("/v1/chat/completions", json=CHAT, headers=both)
        monkeypatch.setenv("BEHIND", "from-environment")
        with client_of("overlap", proxy=ProxySettings(base_url=server.url, key_env="BEHIND")) as client:
            ask(client)
        sent = [headers.get("authorization") for headers in server.headers]
        assert sent == ["Bearer theirs", None, "Bearer theirs", "Bearer from-environment"]
        assert not [headers for headers in server.headers if key in str(headers)]


def test_without_a_key_of_ours_clients_of_openai_need_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "operators")
    with serving(lambda body: completion(RIGHT)) as server:
        monkeypatch.setattr("veridical.llm.endpoint.OPENAI", server.url)
        with client_of("overlap", proxy=ProxySettings(base_url=server.url)) as client:
            ask(client)
            client.post("/v1/chat/completions", json=CHAT, headers={"Authorization": "Bearer theirs"})
        assert [headers.get("authorization") for headers in server.headers] == [None, "Bearer theirs"]


@pytest.mark.parametrize("stream", [False, True])
def test_the_key_of_the_operator_never_reaches_a_client(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-secret"
    monkeypatch.setenv("BEHIND", key)
    escaped = json.dumps({"error": {"message": f"wrong key: {key}", key: [key]}}).replace("s", "\\u0073").encode()
    for answer in (
        raw(escaped, 400),
        raw(f'"{"a" * 1995} {key}"'.encode(), 401),  # shortened behind the key
        completion(f"{RIGHT} {key}", debug=[{key: {"sent": f"Bearer {key}"}}]),
        sse(RIGHT, {"choices": [], "headers": {"authorization": f"Bearer {key}"}}, {"error": {"message": key}}),
    ):
        with proxied(lambda body, answer=answer: answer, key_env="BEHIND") as (client, server):  # type: ignore[misc]
            text = ask(client, stream=stream).text
        assert server.headers[0]["authorization"] == f"Bearer {key}"
        assert key not in text.replace("\\u0073", "s")
        assert key[:5] not in text.replace("\\u0073", "s")


def test_no_header_with_a_key_of_ours_goes_on(tmp_path: Path) -> None:
    key, other = make_key(tmp_path / "keys", "alice"), make_key(tmp_path / "keys", "bob")
    ways = [
        {"X-API-Key": "", "Authorization": f"Bearer {key}"},
        {"X-API-Key": key, "Authorization": f"Bearer {key}"},
        {"X-API-Key": key, "Authorization": f"Basic x,{key}"},
        {"X-API-Key": key, "Authorization": f"Bearer {other}"},
        {"X-API-Key": key, "OpenAI-Organization": key, "OpenAI-Project": f"p {other}"},
        {"Authorization": f"bearer   {key} ", "OpenAI-Project": "theirs"},
    ]
    with serving(lambda body: completion(RIGHT)) as server:
        settings = ProxySettings(base_url=server.url)
        with client_of("overlap", proxy=settings, keys=read_keys(tmp_path / "keys")) as client:
            for headers in ways:
                assert client.post("/v1/chat/completions", json=CHAT, headers=headers).status_code == 200
    assert len(server.headers) == len(ways)
    assert not [headers for headers in server.headers if key in str(headers) or other in str(headers)]
    assert server.headers[-1]["openai-project"] == "theirs"


def test_cookies_go_neither_way_and_are_not_kept() -> None:
    cookie = Answer(completion(RIGHT).body, headers={"Set-Cookie": "session=a; Path=/"})
    with proxied(lambda body: cookie) as (client, server):
        for _ in range(2):
            answer = client.post("/v1/chat/completions", json=CHAT, headers={"Cookie": "own=b"})
            assert "set-cookie" not in answer.headers
    assert [headers.get("cookie") for headers in server.headers] == [None, None]


@pytest.mark.parametrize("stream", [False, True])
def test_bytes_behind_a_reply_are_no_reply_to_another_client(stream: bool) -> None:
    planted = completion("Pigs fly.").body
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(planted)

    def script(body: dict[str, Any]) -> Answer:
        return replace(sse(RIGHT) if body.get("stream") else completion(RIGHT), after=head + planted)

    with proxied(script) as (client, server):
        for _ in range(3):
            assert ask(client, stream=stream).status_code == 200
            assert ask(client).json()["choices"][0]["message"]["content"] == RIGHT
    assert len(server.asked) == 6


def sse(*parts: str | dict[str, Any], end: str | None = "stop", done: bool = True) -> Answer:
    """A streamed completion; a part is text, or a chunk as it is."""
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]}]
    for part in parts:
        delta = {"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]}
        chunks.append(delta if isinstance(part, str) else part)
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
    common = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    lines = [f"data: {json.dumps({**common, **chunk})}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"] * done
    return Answer("".join([": hello\n\n", *lines]).encode(), headers={"Content-Type": "text/event-stream"})


def chunks_of(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n") if line]
    assert lines[-1] == "[DONE]" or "error" in json.loads(lines[-1])
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk.get("choices", ()))


def ends_of(chunks: list[dict[str, Any]]) -> list[str]:
    return [c["finish_reason"] for chunk in chunks for c in chunk["choices"] if c["finish_reason"]]


PARTS = ["It rains", " in Rome. ", "Pigs fly", ". It is", " 330 m", " tall."]


def test_nothing_that_may_be_long_is_encoded_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = []

    def guarded(record: Any, **options: Any) -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        encoded.append(type(record).__name__)
        return encode(record, **options)

    for module in ("app", "streaming", "proxy", "replies"):
        monkeypatch.setattr(f"veridical.server.{module}.encode", guarded)
    with proxied(lambda body: sse(*PARTS) if body.get("stream") else completion(WRONG)) as (client, _):
        assert ask(client, stream=True).status_code == ask(client).status_code == 200
        lines = b'{"case": {"sources": ["%b"]}}\n{"text": "Pigs fly. It rains. "}\n' % TOWER.encode()
        answer = client.post("/v1/stream", content=lines, headers={"Content-Type": "application/jsonl"})
        assert "event: verdicts" in answer.text
        assert "event: result" in answer.text
    assert {"Judgement", "Checked"} <= set(encoded)


@pytest.mark.parametrize("action", ["annotate", "header"])
def test_a_stream_goes_on_and_is_annotated_at_its_end(action: str) -> None:
    with proxied(lambda body: sse(*PARTS), action=action) as (client, server):
        answer = ask(client, stream=True, sources=[TOWER])
    assert server.asked[0]["stream"] is True
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-veridical-status"] == "pending"
    chunks = chunks_of(answer)
    assert text_of(chunks) == "".join(PARTS)
    assert ends_of(chunks) == ["stop"]
    assert all(chunk["choices"] and chunk["id"] == "c-1" for chunk in chunks)
    said = chunks[-1]["veridical"]
    assert said["status"] == "flagged"
    if action == "annotate":
        assert said["choices"][0]["check"]["case"] == {"id": "reply", "response": "".join(PARTS), "question": QUESTION}
    else:
        assert said == {"status": "flagged"}


def test_a_stream_is_withheld_from_the_first_flagged_sentence_on() -> None:
    answer = replied(sse(*PARTS), {"stream": True}, action="block")
    chunks = chunks_of(answer)
    assert text_of(chunks) == "It rains in Rome." + BLOCKED
    assert "Pigs" not in answer.text
    assert ends_of(chunks) == ["content_filter"]
    assert chunks[-1]["veridical"]["status"] == "flagged"


@pytest.mark.parametrize("action", ["annotate", "block"])
def test_a_character_that_is_cut_in_two_chunks_is_joined(action: str) -> None:
    chunks = streamed(sse("It rains \ud83d", "\ude00 in Rome."), action=action)
    assert chunks[-1]["veridical"]["status"] == "clear"
    text = text_of(chunks).encode("utf-16", "surrogatepass").decode("utf-16")
    assert text == "It rains \U0001f600 in Rome."


@pytest.mark.parametrize("action", ["annotate", "block"])
def test_reasoning_in_a_stream_is_not_checked(action: str) -> None:
    parts = ["<think>", *(WRONG + "\n" for _ in range(170)), "</think>", RIGHT]
    chunks = streamed(sse(*parts), action=action)
    assert text_of(chunks) == "".join(parts)
    assert chunks[-1]["veridical"]["status"] == "clear"


def test_a_stream_of_supported_sentences_is_not_withheld() -> None:
    calls = {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "t"}]}, "finish_reason": None}]}
    usage = {"choices": [], "usage": {"total_tokens": 3}}
    chunks = streamed(sse("It rains in Rome. The tower", calls, " is 330 m tall.", usage), action="block")
    assert text_of(chunks) == "It rains in Rome. The tower is 330 m tall."
    assert ends_of(chunks) == ["stop"]
    assert chunks[-1]["veridical"]["status"] == "clear"
    assert any("tool_calls" in c["delta"] for chunk in chunks for c in chunk["choices"])
    assert any(chunk.get("usage") for chunk in chunks)


SHOWN = [
    {"delta": {"reasoning_content": "Pigs fly."}},
    {"delta": {"reasoning": "Pigs fly.", "content": None}},
    {"delta": {"refusal": "Pigs fly."}},
    {"delta": {"role": "assistant"}, "text": "Pigs fly."},
    {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "Pigs fly."}}]}},
    {"delta": {"unheard_of": "Pigs fly."}, "logprobs": {"content": [{"token": "Pigs fly."}]}},
]


@pytest.mark.parametrize("part", SHOWN)
@pytest.mark.parametrize("action", ["block", "revise"])
def test_no_text_in_another_field_passes_before_the_check(part: dict[str, Any], action: str) -> None:
    hidden = {"choices": [{"index": 0, **part, "finish_reason": None}], "citations": ["Pigs fly."]}
    chunks = streamed(sse(hidden, *PARTS), action=action)
    withheld = [i for i, chunk in enumerate(chunks) if "Pigs" in json.dumps(chunk)]
    if action == "block":
        assert withheld == []
    else:  # it goes on with the revised text
        first_text = next(i for i, chunk in enumerate(chunks) if text_of([chunk]))
        assert all(i > first_text for i in withheld)
    chunks = streamed(sse(hidden, RIGHT), action=action)
    assert text_of(chunks) == RIGHT
    fields = {name: value for name, value in part["delta"].items() if value is not None}
    assert not fields or fields in [c["delta"] for chunk in chunks for c in chunk["choices"]]
    assert ends_of(chunks) == ["stop"]


def test_an_error_in_a_withheld_stream_is_an_error() -> None:
    answer = replied(sse(RIGHT, {"error": {"message": "Pigs fly."}}), {"stream": True}, action="block")
    assert "Pigs" not in answer.text
    assert chunks_of(answer)[-1]["veridical"]["status"] == "unavailable"


@pytest.mark.parametrize("action", ["annotate", "header"])
@pytest.mark.parametrize("named", [False, True])
def test_a_stream_with_an_error_is_never_clear(action: str, named: bool) -> None:
    error = {"message": "overloaded", "code": 7}
    answer = sse(RIGHT, {"error": error})
    if named:
        answer = sse(RIGHT, "NEXT")
        start = answer.body.index(b"data: ", answer.body.index(b"NEXT") - 150)
        end = answer.body.index(b"\n\n", start)
        answer.body = answer.body[:start] + b"event: error\ndata: %b" % json.dumps(error).encode() + answer.body[end:]
    chunks = streamed(answer, action=action)
    assert text_of(chunks[:-1]) == RIGHT
    assert chunks[-1]["error"] == error
    assert [chunk["veridical"]["status"] for chunk in chunks if "status" in chunk.get("veridical", {})] == [
        "unavailable"
    ]


def test_a_client_that_left_is_noticed_before_the_chat_server_answers() -> None:
    async def run(server: Loopback) -> list[dict[str, Any]]:
        left = asyncio.Event()
        loop = asyncio.get_running_loop()
        asked.append(lambda: loop.call_soon_threadsafe(left.set))
        app = create_app(ServerSettings(detectors=("overlap",), proxy=ProxySettings(base_url=server.url)))
        async with app.router.lifespan_context(app):
            return await leaving(app, "/v1/chat/completions", CHAT, left.is_set)

    asked: list[Callable[[], Any]] = []

    def script(body: dict[str, Any]) -> Answer:
        asked[0]()
        return Answer(b"", hang=True)

    with serving(script) as server:
        assert asyncio.run(run(server)) == []  # not even an error: nobody is there


@pytest.mark.parametrize("action", ["annotate", "block"])
def test_a_client_that_left_is_noticed_while_no_chunk_comes(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    class Opened:
        async def aclose(self) -> None:
            ended.append("connection")

    async def run() -> list[dict[str, Any]]:
        left = asyncio.Event()

        async def stream(*_: object) -> Opened:
            return Opened()

        async def chunks(*_: object) -> AsyncIterator[dict[str, Any]]:
            try:
                yield {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}
                left.set()
                await asyncio.Event().wait()
            finally:
                ended.append("chunks")

        monkeypatch.setattr(Upstream, "stream", stream)
        monkeypatch.setattr(Upstream, "chunks", chunks)
        proxy = ProxySettings(base_url="http://127.0.0.1:1/v1", action=action)
        app = create_app(ServerSettings(detectors=("overlap",), proxy=proxy, limits=Limits(stream_timeout=5)))
        async with app.router.lifespan_context(app):
            return await leaving(app, "/v1/chat/completions", {**CHAT, "stream": True}, left.is_set)

    sent = asyncio.run(run())
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert ended == ["chunks", "connection"]


def test_the_reviser_of_the_server_is_that_of_the_proxy() -> None:
    case = Case("reply", WRONG, (Source("1", TOWER),))
    (wanted,) = revise([case], load_detector("overlap"), Flag())
    answer = replied(completion(WRONG), action="revise", reviser="flag").json()
    assert answer["choices"][0]["message"]["content"] == wanted.revision.text != WRONG


def test_a_stream_is_revised_at_its_end() -> None:
    chunks = streamed(sse("It rains in Rome.", " Pigs fly."), action="revise")
    assert text_of(chunks) == "It rains in Rome."
    assert chunks[-1]["veridical"]["status"] == "clear"


@pytest.mark.parametrize("action", ["annotate", "block", "revise"])
def test_a_stream_that_cannot_be_checked_is_marked(action: str) -> None:
    chunks = streamed(sse("One. Two. ", "Three."), own={"broken": Broken()}, action=action)
    assert chunks[-1]["veridical"]["status"] == "unavailable"
    assert text_of(chunks) == (BLOCKED if action == "block" else "One. Two. Three.")


BAD_STREAMS = {
    "no end": sse("It rains.", end=None, done=False),
    "no end of a choice": sse({"choices": [{"index": 1, "delta": {"content": "It rains."}}]}, done=False),
    "no JSON": Answer(b"data: {\n\n", headers={"Content-Type": "text/event-stream"}),
    "choices": sse({"choices": 1}),
    "content": sse({"choices": [{"index": 0, "delta": {"content": 1}}]}),
    "index": sse({"choices": [{"index": -1, "delta": {}}]}),
    "infinity": Answer(b'data: {"choices": [], "created": -1e999}\n\n', headers={"Content-Type": "text/event-stream"}),
    "large": sse("word " * 20_000),
    "cut": Answer(sse("It rains.").body, headers={"Content-Type": "text/event-stream"}, cut=True),
}


@pytest.mark.parametrize("name", BAD_STREAMS)
def test_a_stream_that_breaks_ends_in_an_error_that_is_not_clear(name: str) -> None:
    last = streamed(BAD_STREAMS[name], reply_bytes=50_000)[-1]
    assert last["error"]["message"]
    assert last["veridical"]["status"] == "unavailable"


UNUSUAL_STREAMS = {
    "no delta": sse(RIGHT, {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]}),  # Azure
    "null": sse(RIGHT, {"choices": [{"index": 0, "delta": None}]}, {"choices": None, "usage": {"total_tokens": 3}}),
    "no end mark": sse(RIGHT, done=False),
    "parts": sse({"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": RIGHT}]}}]}),  # Mistral
    "error: null": sse(RIGHT, {"error": None, "choices": []}),
    "returns": replace(sse(RIGHT), body=sse(RIGHT).body.replace(b"\n", b"\r")),
    "returns and line feeds": replace(sse(RIGHT), body=sse(RIGHT).body.replace(b"\n", b"\r\n")),
    "lines of data": replace(sse(RIGHT), body=sse(RIGHT).body.replace(b', "', b',\ndata:"')),
    "no last blank line": replace(sse(RIGHT), body=sse(RIGHT).body.rstrip(b"\n")),
}


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_events_are_the_same_however_they_are_cut(size: int) -> None:
    body = b"event: a\rdata: 1\r\n\r\n: no\n\rdata:2\rdata: 3\r\rdata: 4\n\ndata: 5"

    async def events() -> list[tuple[bytes, bytes]]:
        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(body), size):
                yield body[start : start + size]
                yield b""

        cut = lines(_with_line_feeds(chunks()), 1000, Refused(502, "too large"))
        return [event async for event in _events(cut)]

    assert asyncio.run(events()) == [(b"a", b" 1"), (b"", b"2\n 3"), (b"", b" 4"), (b"", b" 5")]


@pytest.mark.parametrize("name", UNUSUAL_STREAMS)
@pytest.mark.parametrize("action", ["annotate", "header", "block", "revise"])
def test_unusual_streams_that_clients_accept_are_checked(name: str, action: str) -> None:
    chunks = streamed(UNUSUAL_STREAMS[name], action=action)
    assert chunks[-1]["veridical"]["status"] == "clear"
    assert RIGHT in json.dumps(chunks)


PARTS_OF_A_REPLY = [{"type": "thinking", "thinking": []}, *({"type": "text", "text": f"{w} "} for w in WRONG.split())]


@pytest.mark.parametrize("action", ["annotate", "header", "block", "revise"])
def test_a_reply_in_parts_is_checked_as_one_text(action: str) -> None:
    answer = replied(completion(PARTS_OF_A_REPLY), action=action)  # type: ignore[arg-type]
    content = {"block": BLOCKED, "revise": "It rains in Rome. "}.get(action, PARTS_OF_A_REPLY)
    assert content_of(answer) == content
    assert answer.headers["x-veridical-status"] == ("clear" if action == "revise" else "flagged")


def test_parts_that_are_no_text_wait_for_the_check() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Pigs fly."}]}
    part = {"choices": [{"index": 0, "delta": {"content": [thinking, {"type": "text", "text": RIGHT}]}}]}
    deltas = [c["delta"] for chunk in streamed(sse(part), action="block") for c in chunk["choices"]]
    assert [delta["content"] for delta in deltas if "content" in delta] == [RIGHT, [thinking]]


def test_too_many_replies_at_once_are_refused_before_the_chat_server_is_asked() -> None:
    reply = {"choices": [{"index": i, "message": {"content": RIGHT}} for i in range(20)]}
    with proxied(lambda body: raw(json.dumps(reply).encode())) as (client, server):
        assert ask(client, n=129).status_code == 400
        assert server.asked == []
        assert ask(client, n=20).json()["veridical"]["status"] == "clear"


@pytest.mark.parametrize("status", [200, 201])
def test_no_stream_where_one_was_asked_for_is_502(status: int) -> None:
    assert replied(replace(completion(WRONG), status=status), {"stream": True}, action="block").status_code == 502


def test_the_openai_client_talks_through_it() -> None:
    openai = pytest.importorskip("openai")

    def script(body: dict[str, Any]) -> Answer:
        return sse(*PARTS) if body.get("stream") else completion(WRONG, role="assistant")

    with serving(script) as server:
        settings = ServerSettings(detectors=("overlap",), proxy=ProxySettings(base_url=server.url))
        with running(settings) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="theirs", max_retries=0) as client:
            sources = {"sources": [TOWER]}
            reply = client.chat.completions.create(**CHAT, extra_body=sources)
            assert reply.choices[0].message.content == WRONG
            assert reply.model_extra["veridical"]["status"] == "flagged"
            streamed = list(client.chat.completions.create(**CHAT, stream=True, extra_body=sources))
            assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == "".join(PARTS)
            assert streamed[-1].model_extra["veridical"]["status"] == "flagged"
        assert {headers["authorization"] for headers in server.headers} == {"Bearer theirs"}


def test_chunks_carry_what_was_found_meanwhile() -> None:
    async def run() -> list[dict[str, Any]]:
        proxy = ProxySettings(base_url="http://127.0.0.1:1/v1")
        service = Service(ServerSettings(detectors=("overlap",), proxy=proxy))
        await service.start()

        async def chunks() -> AsyncIterator[dict[str, Any]]:
            for part in PARTS:
                yield {"choices": [{"index": 0, "delta": {"content": part}}]}
                judging = reply.choices[0].judging
                if judging is not None:
                    await asyncio.wait([judging])

        reply = StreamedReply(ReplyChecker(service, proxy, json.loads(json.dumps(CHAT)), "r"), chunks())
        lines = [json.loads(line.removeprefix(b"data: ")) async for line in reply.events() if b"[DONE]" not in line]
        await service.close()
        return lines

    found = [each for chunk in asyncio.run(run())[:-1] for each in chunk.get("veridical", {}).get("verdicts", ())]
    text = "".join(PARTS)
    judged = [decode({**each["judgement"]}) for each in found]
    assert [span.of(text) for judgement in judged for span in judgement.judged or ()] == [
        "It rains in Rome.",
        " Pigs fly.",
    ]
    flagged = [
        judgement.verdicts[i].span.of(text)
        for judgement, each in zip(judged, found, strict=True)
        for i in each["flagged"]
    ]
    assert flagged == ["Pigs", "fly"]
