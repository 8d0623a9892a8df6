from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from veridical.inference.chat_template import render_chat
from veridical.inference.template import TEMPLATES, Rendered, Template, get_template, render
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Source, Turn

CASE = Case(
    "1",
    " It is Paris.\n",
    (Source("a", "{question} Paris, then."), Source("b", "then."), Source("c", "")),
    question="Which {source}?",
    history=(Turn("Ann", "Hello"), Turn("Bob", "then.")),
    prompt="<s>Say: then. {question} Paris, then. then.\nAnswer:",
)


class Chat:
    """A tokenizer's chat template that strips the message, as most do."""

    chat_template = "there is one"

    def apply_chat_template(self, messages: list[dict[str, str]], **options: object) -> str:
        assert options == {"tokenize": False, "add_generation_prompt": True}
        return f"<user>{messages[0]['content'].strip()}<assistant>"


def holds(made: Rendered, case: Case) -> None:
    assert made.response.of(made.text) == case.response
    assert made.response.end == len(made.text)
    for place in made.sources:
        assert place.in_text.of(made.text) == place.in_source.of(case.source(place.source_id).text)


def test_what_the_templates_make() -> None:
    case = Case("1", "R", (Source("a", "S"), Source("b", "T")), question="Q")
    assert {
        name: render(case, name).text
        for name in TEMPLATES
        if name not in ("chat", "raw", *SHOTS) and "lettucedetect" not in name
    } == {
        "bare": "Q\nS\n\nT\nR",
        "data-to-text-bare": "Attributes: S, T\nDescription: R",
        "dialogue-bare": "Knowledge: S\n\nT\nReply that keeps to the knowledge: R",
        "general": "S\n\nT\n\nQuestion: Q\nAnswer: R",
        "knowledge": "Knowledge: S\n\nT\nResponse: R",
        "plain": "R",
        "qa": "Source: S\n\nT\nQuestion: Q\nAnswer: R",
        "short": "S\n\nT\n\nIn short: R",
        "tldr": "S\n\nT\nTL;DR: R",
    }


SHOTS = {"data-to-text": 9, "dialogue": 2}


@pytest.mark.parametrize(("name", "count"), SHOTS.items())
def test_worked_examples_stand_before_the_same_prompt(name: str, count: int) -> None:
    made, bare = render(CASE, name), render(CASE, f"{name}-bare")
    before = made.text[: -len(bare.text)]
    assert made.text == before + bare.text
    *shots, rest = before.split("\n\n")
    assert (len(shots), rest) == (count, "")
    label = bare.text.splitlines()[-1].partition(":")[0]
    assert all(shot.splitlines()[-1].startswith(f"{label}: ") for shot in shots)


def test_lines_whose_field_is_lacking_are_left_out() -> None:
    assert render(Case("1", "R"), "general").text == "Answer: R"
    assert render(Case("1", "R", question="Q"), "general").text == "Question: Q\nAnswer: R"
    assert render(Case("1", "R", (Source("a", "S"),)), "qa").text == "Source: S\nAnswer: R"
    assert render(Case("1", "R", history=(Turn("A", "x"), Turn("B", "y"))), "general").text == "A: x\nB: y\n\nAnswer: R"


@pytest.mark.parametrize("name", TEMPLATES)
def test_everything_is_where_it_is_said_to_be(name: str) -> None:
    made = render(CASE, name, tokenizer=Chat())
    holds(made, CASE)
    expected = [] if name == "plain" else ["a", "b"]
    assert sorted(p.source_id for p in made.sources) == expected
    assert made.markup == (name in ("chat", "raw"))


def test_braces_in_a_text_are_text() -> None:
    assert "{question} Paris" in render(CASE, "general").text
    assert "Question: Which {source}?" in render(CASE, "general").text


def test_in_a_raw_prompt_a_source_has_the_first_place_no_other_has() -> None:
    made = render(CASE, "raw")
    assert made.text == (CASE.prompt or "") + CASE.response
    assert [(p.source_id, p.in_text.start) for p in made.sources] == [("b", 8), ("a", 14)]
    assert made.notes == ("source 'c' is not verbatim in the prompt",)


def test_pieces_of_sources() -> None:
    pieces = [("a", Span(11, 16))]
    for name in ("general", "chat", "raw"):
        made = render(CASE, name, tokenizer=Chat(), pieces=pieces)
        holds(made, CASE)
        assert [p.in_text.of(made.text) for p in made.sources] == ["Paris"]
    assert render(CASE, "raw", pieces=pieces).text.startswith("<s>Say:  Paris then.\nAnswer:")


def test_a_chat_template_that_changes_the_message() -> None:
    class Loud(Chat):
        def apply_chat_template(self, messages: list[dict[str, str]], **options: object) -> str:
            return messages[0]["content"].upper()

    made = render(CASE, "chat", tokenizer=Loud())
    assert made.sources == ()
    assert "changed the message" in made.notes[0]


def test_a_conversation() -> None:
    class Turns(Chat):
        def apply_chat_template(self, messages: list[dict[str, str]], **options: object) -> str:
            return "".join(f"[{m['role']}] {m['content'].strip()}\n" for m in messages) + "[assistant]"

    messages = [("system", "  Be brief. "), ("user", "[user] content-of-message-0-"), ("assistant", "")]
    text, places = render_chat(Turns(), messages)
    assert text == "[system] Be brief.\n[user] [user] content-of-message-0-\n[assistant] \n[assistant]"
    assert [(i, span.of(text), cut) for i, span, cut in places] == [(0, "Be brief.", 2), (1, messages[1][1], 0)]


def test_a_short_message_is_found_where_it_is() -> None:
    class Wordy(Chat):
        def apply_chat_template(self, messages: list[dict[str, str]], **options: object) -> str:
            return f"You are a helpful assistant. <user>{messages[0]['content']}<assistant>"

    case = Case("1", "R", (Source("a", "a"),))
    (place,) = render(case, "chat", tokenizer=Wordy()).sources
    assert place.in_text.start == len("You are a helpful assistant. <user>")


def test_a_template_that_changes_messages_gets_none_with_special_tokens() -> None:
    class Token(str):
        special = True

    class Loud(Chat):
        added_tokens_decoder: ClassVar = {0: Token("</s>")}

        def apply_chat_template(self, messages: list[dict[str, str]], **options: object) -> str:
            return messages[0]["content"].upper()

    assert render_chat(Loud(), [("user", "so")]) == ("SO", [])
    with pytest.raises(InputError, match="holds a special token"):
        render_chat(Loud(), [("user", "so </s>")])


def test_messages_that_the_template_refuses() -> None:
    from jinja2 import TemplateError

    class Strict(Chat):
        def apply_chat_template(self, messages: list[dict[str, str]], **options: object) -> str:
            raise TemplateError("System role not supported")

    with pytest.raises(InputError, match="System role not supported"):
        render_chat(Strict(), [("system", "Be brief.")])


@pytest.mark.parametrize("error", [OverflowError("Range too big"), TypeError("no sum of text and None"), MemoryError()])
def test_a_template_that_fails_in_another_way(error: Exception) -> None:
    class Broken(Chat):
        def apply_chat_template(self, messages: list[dict[str, str]], **options: object) -> str:
            raise error

    with pytest.raises(InputError, match=f"chat template does not take these messages: {error or 'MemoryError'}"):
        render_chat(Broken(), [("user", "Is it so?")])


def test_a_template_that_leaves_out_the_question() -> None:
    class Parts(Chat):  # as templates for pictures do, whose messages are lists of parts
        def apply_chat_template(self, messages: list[dict[str, str]], **options: object) -> str:
            return "".join(f"<{m['role']}>" for m in messages)

    with pytest.raises(InputError, match="leaves out what the user says"):
        render_chat(Parts(), [("system", "Be brief."), ("user", "Is it so?")])


def test_refusals() -> None:
    with pytest.raises(UnknownNameError, match="did you mean tldr"):
        get_template("tldrr")
    with pytest.raises(InputError, match="no chat template"):
        render(CASE, "chat")
    with pytest.raises(CannotJudgeError, match="has no prompt"):
        render(Case("1", "R"), "raw")
    for text in ("{source}", "{source}{source}{response}", "{response}."):
        with pytest.raises(InputError, match="ends in"):
            Template("mine", text)


TEXT = st.text(max_size=12)


@given(
    st.lists(TEXT, max_size=3),
    TEXT,
    st.none() | TEXT,
    st.sampled_from([n for n in TEMPLATES if n != "raw"]),
)
@example(["0\r"], "", None, "chat")  # a message that the chat template strips
def test_any_texts(sources: list[str], response: str, question: str | None, name: str) -> None:
    case = Case("1", response, tuple(Source(str(i), t) for i, t in enumerate(sources)), question)
    made = render(case, name, tokenizer=Chat())
    holds(made, case)
    if name not in ("plain", "chat"):
        assert [p.in_source.of(case.source(p.source_id).text) for p in made.sources] == [t for t in sources if t]
