"""The double is a chat model, and says what it was told in every form of script."""

from __future__ import annotations

from tests.llm.loopback import ask
from veridical.llm.protocol import ChatModel, Failure, Reply
from veridical.llm.scripted import Scripted, yes_no_reply


def test_every_script_answers_and_every_request_is_kept() -> None:
    reply = yes_no_reply(0.9)
    for script in (
        ["a", reply, Failure("no", "server", True)],
        {"one": "a", "two": reply},
        lambda r: None,
    ):
        model = Scripted(script)
        assert isinstance(model, ChatModel)
        assert len(model.chat([ask("one"), ask("two"), ask("three"), ask("four")])) == 4
        assert [r.messages[0].content for r in model.requests] == ["one", "two", "three", "four"]


def test_where_the_script_is_silent_it_is_a_failure() -> None:
    outcomes = Scripted(["a"]).chat([ask("x y"), ask("x")])
    assert isinstance(outcomes[0], Reply)
    assert (outcomes[0].usage.prompt_tokens, outcomes[0].usage.completion_tokens) == (2, 1)
    assert isinstance(outcomes[1], Failure)
    assert outcomes[1].kind == "script"


def test_certainty_has_one_token_only() -> None:
    sure = yes_no_reply(0.0)
    assert sure.text == "No"
    assert sure.tokens is not None
    assert sure.tokens[0].top == (("No", 0.0),)
