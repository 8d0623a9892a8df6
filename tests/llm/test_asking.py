"""Models that reason, in whatever way a server hands their reasoning out, and requests as the user wants them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.loopback import Answer, ask, completion, failing, serving
from veridical import check
from veridical.detectors import load_detector
from veridical.llm.asking import ROOM, Asking
from veridical.llm.connection import Connection
from veridical.llm.protocol import Failure, Reply, TokenLogprob
from veridical.llm.reply_parser import strip_reasoning, yes_no, yes_no_mass
from veridical.llm.scripted import Scripted
from veridical.records.errors import CannotJudgeError, InputError

TEXTS = ("It is red.", ["It is grey."])


def logprobs(*tokens: str, last: dict[str, float]) -> dict[str, Any]:
    """The log-probabilities of an answer whose last token has alternatives."""
    entries: list[dict[str, Any]] = [{"token": token, "logprob": -0.1} for token in tokens[:-1]]
    top = [{"token": token, "logprob": logprob} for token, logprob in last.items()]
    return {"content": [*entries, {"token": tokens[-1], "logprob": last[tokens[-1]], "top_logprobs": top}]}


@pytest.mark.parametrize(
    "answer",
    [
        completion("<think>Is it? Yes, perhaps.</think>\n\nNo"),
        completion("Is it? Yes, perhaps.\n</think>\n\nNo"),
        completion("Is it? Yes, perhaps.</think>\nNo"),
        completion("No", reasoning_content="Is it? Yes, perhaps."),
        completion("\n\nNo", reasoning="Is it? Yes, perhaps."),
        completion("No. It is", finish="length"),
    ],
)
def test_an_answer_after_or_beside_reasoning_is_read(answer: Answer) -> None:
    with serving(lambda body: answer) as server:
        result = check(*TEXTS, detector=f"judge:yes_no,model=m,base_url={server.url}")
    assert result.judgements[0].hallucination == 1.0
    assert len([body for body in server.asked if "logprobs" not in body]) <= 1


@pytest.mark.parametrize(
    "cut",
    [
        completion("<think>Let me see", finish="length"),
        completion("Okay, let me see", finish="length"),
        completion(None, finish="length", reasoning_content="Let me see"),
    ],
)
def test_a_reply_that_is_cut_before_its_answer_is_asked_for_once_more_with_room(cut: Answer) -> None:
    whole = completion("<think>Let me see: yes or no?</think> No", usage=(10, 500))
    with serving(lambda body: whole if body["max_tokens"] == ROOM else cut) as server:
        (judgement,) = check(*TEXTS, detector=f"judge:yes_no,model=m,base_url={server.url}").judgements
    assert judgement.hallucination == 1.0
    assert [body["max_tokens"] for body in server.asked] == [16, ROOM]
    assert judgement.usage is not None
    assert (judgement.usage.calls, judgement.usage.completion_tokens) == (2, 502)


def test_a_reply_that_is_cut_again_is_unjudged_and_not_asked_for_a_third_time() -> None:
    with serving(lambda body: completion("<think>Let me see", finish="length")) as server:
        (judgement,) = check(*TEXTS, detector=f"judge:yes_no,model=m,base_url={server.url}").judgements
    assert judgement.hallucination is None
    assert judgement.judged == ()
    assert len(server.asked) == 2


def test_the_users_limit_is_the_only_one() -> None:
    with serving(lambda body: completion(None, finish="length")) as server:
        spec = f"judge:yes_no,model=m,base_url={server.url},max_tokens=900,temperature=0.6"
        (judgement,) = check(*TEXTS, detector=spec).judgements
    assert judgement.notes == ("not judged: the answer is empty (cut at max_tokens before an answer)",)
    assert [(body["max_tokens"], body["temperature"]) for body in server.asked] == [(900, 0.6)]


def test_the_probability_is_that_of_the_answers_token_not_of_a_word_in_the_reasoning() -> None:
    tokens = logprobs("<think>", "Yes", "?", "</think>", "\n\n", "No", last={"No": -0.2, "Yes": -1.8})
    beside = logprobs("Yes", "?", "No", last={"No": -0.2, "Yes": -1.8})
    answers = [completion("<think>Yes?</think>\n\nNo", logprobs=tokens), completion("No", logprobs=beside)]
    for answer in answers:
        with serving(lambda body, answer=answer: answer) as server:
            (judgement,) = check(*TEXTS, detector=f"judge:yes_no,model=m,base_url={server.url}").judgements
        assert judgement.hallucination == pytest.approx(0.832, abs=1e-3)


def test_tokens_whose_place_is_unclear_give_no_probability() -> None:
    garbled = (TokenLogprob("Y", -0.1), TokenLogprob("?", -0.1))
    assert yes_no_mass(Reply("<think>x</think>No", garbled)) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('No. The source says "</think> Yes".', False),  # a quoted tag ends no reasoning
        ("No\n</think>\nYes\n</think>\nNo", None),  # it is unclear which tag ends it
        ("Hm.\n</think>", None),
        ("</think>\nYes", True),
    ],
)
def test_a_tag_ends_reasoning_only_where_that_is_plain(text: str, answer: bool | None) -> None:
    assert yes_no(text) is answer


@given(st.text(alphabet="aYesNo <>/think\n", max_size=60))
def test_what_is_stripped_is_the_beginning(text: str) -> None:
    assert text.endswith(strip_reasoning(text))


def test_samples_keep_their_own_temperature() -> None:
    model = Scripted(["a", "b"])
    asking = Asking(model, max_tokens=7, temperature=0.2)
    asking.chat([ask("x"), ask("y", temperature=1.0)])
    assert [(r.max_tokens, r.temperature) for r in model.requests] == [(7, 0.2), (7, 1.0)]
    assert asking.fingerprint()["max_tokens"] == 7


def test_headers_body_and_retries_are_the_users() -> None:
    answers = iter([failing(500), failing(500)])
    connection = Connection("m", retries=1, headers={"X-Team": "search"}, body={"reasoning_effort": "low", "seed": 5})
    with serving(lambda body: next(answers)) as server:
        options = {"base_url": server.url, "body": '{"top_k": 3, "temperature": 1}', "per_minute": "60000"}
        (outcome,) = connection.with_options(options).chat().chat([ask("x")])
    assert isinstance(outcome, Failure)
    assert len(server.asked) == 2
    assert (server.asked[0]["top_k"], server.asked[0]["temperature"]) == (3, 1)
    assert "reasoning_effort" not in server.asked[0]
    assert {name.lower(): value for name, value in server.headers[0].items()}["x-team"] == "search"


@pytest.mark.parametrize(
    "options",
    [
        {"headers": "x"},
        {"headers": '["a"]'},
        {"headers": '{"a": 1}'},
        {"body": "3"},
        {"max_tokens": "0"},
        {"temperature": "-1"},
    ],
)
def test_wrong_options_are_one_line(options: dict[str, str]) -> None:
    with pytest.raises(InputError):
        Connection("m").with_options(options)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_the_servers_own_words_are_in_the_error_shortened_and_harmless(status: int) -> None:
    words = "Model \x1b[31mtiny is not in your plan. " + "Upgrade now. " * 100
    with serving(lambda body: failing(status, words)) as server, pytest.raises(CannotJudgeError) as caught:
        Connection("tiny", base_url=server.url).chat().chat([ask("x")])
    message = str(caught.value)
    assert "tiny is not in your plan" in message
    assert "\x1b" not in message
    assert len(message) < 600


@pytest.mark.parametrize("name", ["judge:yes_no", "judge:cot", "verify:yes_no"])
def test_a_prompt_of_ones_own_has_its_hash_in_the_result(name: str, tmp_path: Path) -> None:
    placeholder = "response" if name.startswith("judge") else "claim"
    (tmp_path / "mine.txt").write_text(f"Strictly: is this so?\n{{{{{placeholder}}}}}\n")
    (tmp_path / "replies.json").write_text(json.dumps({"Strictly": "No", "": "Yes"}))
    model = f"model=scripted:{tmp_path / 'replies.json'}"
    (judgement,) = check(*TEXTS, detector=f"{name},prompt={tmp_path / 'mine.txt'},{model}").judgements
    hashes = dict(judgement.provenance)
    assert "prompt mine.txt" in hashes
    assert hashes["prompt mine.txt"] not in dict(check(*TEXTS, detector=f"{name},{model}").judgements[0].provenance)
    (tmp_path / "wrong.txt").write_text("Is it so?")
    with pytest.raises(InputError, match=rf"it needs \{{\{{{placeholder}\}}\}}"):
        load_detector(f"{name},prompt={tmp_path / 'wrong.txt'},{model}")
